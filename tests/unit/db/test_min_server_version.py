"""Detection of the server, and of a version that is too old."""

import pytest

from mayfly.db.dialects import DatabaseServer, dialect_named
from mayfly.errors import ServerTooOld


def test_a_server_without_skip_locked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has both versions: that of the server and the required one."""
    mysql = dialect_named("mysql")
    monkeypatch.setattr(type(mysql), "server", lambda *_: DatabaseServer("MySQL", (5, 7, 44)))

    with pytest.raises(ServerTooOld, match=r"^MySQL 5\.7\.44 has no .* Mayfly needs MySQL 8\.0\.1 or newer"):
        mysql.require_skip_locked(None)
