"""The name of the state directory: one per database, without secrets."""

from pathlib import Path

import pytest

from mayfly.process.state_dir import state_dir
from mayfly.settings import load


def name_for(url: str, home: Path = Path("/srv"), host: str = "web-1") -> str:
    return state_dir(load({"MAYFLY_HOME": str(home), "DATABASE_URL": url, "HOST_NAME": host}).settings).name


def test_the_name_is_readable() -> None:
    """It shows in /dev/shm which installation the directory belongs to."""
    assert name_for("sqlite:///mayfly.db") == "web-1%20sqlite:%2F%2F%2F%2Fsrv%2Fmayfly.db"
    assert name_for("mysql://mayfly:xyzzy@db/app") == "web-1%20mysql+pymysql:%2F%2Fmayfly@db%2Fapp"


def test_a_new_password_keeps_the_directory() -> None:
    """Dispatchers with the old and the new password share a lock; the name contains neither."""
    assert name_for("mysql://mayfly:one@db/app") == name_for("mysql://mayfly:two@db/app")
    assert "xyzzy" not in name_for("postgres://db/app?user=mayfly&password=xyzzy")


@pytest.mark.parametrize("url", ["mysql://mayfly@db/other", "mysql://mayfly@db2/app", "postgres://mayfly@db/app"])
def test_two_databases_have_two_directories(url: str) -> None:
    """Two hosts that share a file system have two as well."""
    assert name_for(url) != name_for("mysql://mayfly@db/app")
    assert name_for(url, host="web-2") != name_for(url)


def test_the_name_of_a_long_path_is_shortened() -> None:
    """It fits the 255 bytes of a file name, and two long paths have different names."""
    one, other = (name_for(f"sqlite:////{'deep/' * 50}{name}.db") for name in ("one", "other"))

    assert len(one) <= 200
    assert one != other
