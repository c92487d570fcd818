"""Which server answered, and whether it is new enough."""

import pytest

from mayfly.db.dialects import dialect_named
from mayfly.db.dialects.base import DatabaseServer
from mayfly.errors import ServerTooOld


def test_a_server_without_skip_locked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both versions in the sentence: the one that is there, and the one that is needed."""
    mysql = dialect_named("mysql")
    monkeypatch.setattr(type(mysql), "server", lambda *_: DatabaseServer("MySQL", (5, 7, 44)))

    with pytest.raises(ServerTooOld, match=r"^MySQL 5\.7\.44 has no .* Mayfly needs MySQL 8\.0\.1 or newer"):
        mysql.require_skip_locked(None)
