"""The state directory's name: the same for one database, another for another, and without secrets."""

from pathlib import Path

import pytest

from mayfly.process.state_dir import state_dir
from mayfly.settings import load


def name_for(url: str, home: Path = Path("/srv"), host: str = "web-1") -> str:
    return state_dir(load({"MAYFLY_HOME": str(home), "DATABASE_URL": url, "HOST_NAME": host}).settings).name


def test_it_can_be_read() -> None:
    """Who finds it in /dev/shm sees whose it is."""
    assert name_for("sqlite:///mayfly.db") == "web-1%20sqlite:%2F%2F%2F%2Fsrv%2Fmayfly.db"
    assert name_for("mysql://mayfly:xyzzy@db/app") == "web-1%20mysql+pymysql:%2F%2Fmayfly@db%2Fapp"


def test_a_new_password_does_not_move_it() -> None:
    """A second dispatcher with the new one must meet the first one's lock. Nor is it shown."""
    assert name_for("mysql://mayfly:one@db/app") == name_for("mysql://mayfly:two@db/app")
    assert "xyzzy" not in name_for("postgres://db/app?user=mayfly&password=xyzzy")


@pytest.mark.parametrize("url", ["mysql://mayfly@db/other", "mysql://mayfly@db2/app", "postgres://mayfly@db/app"])
def test_two_databases_never_meet(url: str) -> None:
    """Nor do two hosts that share a directory."""
    assert name_for(url) != name_for("mysql://mayfly@db/app")
    assert name_for(url, host="web-2") != name_for(url)


def test_a_long_path_still_fits() -> None:
    """File systems take 255 bytes; two long ones are two all the same."""
    one, other = (name_for(f"sqlite:////{'deep/' * 50}{name}.db") for name in ("one", "other"))

    assert len(one) <= 200
    assert one != other
