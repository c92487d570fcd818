"""DATABASE_URL: accepted and refused values, and that its password is never shown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlalchemy import make_url

from mayfly.errors import SettingsError
from mayfly.settings import load
from mayfly.settings.model import SettingsModel
from mayfly.settings.values import host_urls, mask_password
from tests.unit.settings.factories import load_in, origin_of, problem_in, settings_in


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("mysql://u:p@h:3306/d", "mysql+pymysql://u:p@h:3306/d"),
        ("mariadb://u:p@h/d", "mysql+pymysql://u:p@h/d"),
        ("mysql+pymysql://u:p@h/d?charset=utf8mb4", "mysql+pymysql://u:p@h/d?charset=utf8mb4"),
        ("mariadb+pymysql://u@[::1]:3306/d", "mysql+pymysql://u@[::1]:3306/d"),
        ("mariadb://u:p,q@a,b:3307,[::1]:3308/d", "mysql+pymysql://u:p,q@a,b:3307,[::1]:3308/d"),
        ("postgresql://a:5432,b:5433/d?sslmode=require", "postgresql+psycopg://a:5432,b:5433/d?sslmode=require"),
        ("mysql://u:p@/d?unix_socket=/run/my.sock", "mysql+pymysql://u:p@/d?unix_socket=/run/my.sock"),
        ("mysql://u:a/b?c#d:e@h/d", "mysql+pymysql://u:a/b?c#d:e@h/d"),
        ("postgres://u:p%40@h/d", "postgresql+psycopg://u:p%40@h/d"),
        ("PostgreSQL://h/d", "postgresql+psycopg://h/d"),
        ("postgresql+psycopg:///d", "postgresql+psycopg:///d"),
        ("sqlite:////var/lib/m.db?timeout=5", "sqlite:////var/lib/m.db?timeout=5"),
        (" sqlite+pysqlite:////m.db\n", "sqlite:////m.db"),
    ],
)
def test_the_driver_is_added(tmp_path: Path, written: str, meant: str) -> None:
    """Users write the name of the database; Mayfly chooses the driver."""
    url = settings_in(tmp_path, {"DATABASE_URL": written}).database_url.get_secret_value()

    assert url == meant
    assert {make_url(each).drivername for each in host_urls(url)} == {meant.partition(":")[0]}


OTHER_DRIVER = "names a driver that Mayfly does not use"


@pytest.mark.parametrize(
    ("written", "clause"),
    [
        ("hunter2", "must be a URL that begins with sqlite:///, mysql://"),
        ("oracle://u:hunter2@h/d", "must be a URL that begins with"),
        ("mysql+mysqldb://u:hunter2@h/d", f"{OTHER_DRIVER}: write mysql:// instead of mysql+mysqldb://"),
        ("MySQL+aiomysql://u:hunter2@h/d", f"{OTHER_DRIVER}: write mysql:// instead of mysql+aiomysql://"),
        ("postgresql+psycopg2://u:hunter2@h/d", f"{OTHER_DRIVER}: write postgresql:// instead of"),
        ("sqlite+aiosqlite:///hunter2.db", f"{OTHER_DRIVER}: write sqlite:// instead of sqlite+aiosqlite://"),
        ("oracle+mysqldb://u:hunter2@h/d", "must be a URL that begins with"),
        ("mysql+u:hunter2@h://d", "must be a URL that begins with"),
        ("mysql://u:hunter2\n@h/d", "must be a URL that begins with"),
        ("mysql:u:hunter2@h/d", "must be a URL that begins with"),
        ("mysql://u:hunter2@h", "must look like mysql://user:password@host:port/database"),
        ("mysql://u:hunter2@h/", "must look like mysql://"),
        ("postgres://u:hunter2@h:port/d", "must look like postgres://"),
        ("postgres://u:hunter2@h:99999/d", "must look like postgres://"),
        ("postgres://h:1/d?password=hunter2@", "must look like postgres://"),
        ("mysql://u:hunter2@hunter2@h/d", "has more than one @"),
        ("mysql://u:hunter2@a,,b/d", "has an empty name in its list of hosts: write host1:port,host2:port"),
        ("mysql://u:hunter2@a,b:0/d", "must look like mysql://"),
        ("postgres://u:hunter2@a:port,b/d", "must look like postgres://"),
        ("sqlite://", "must name a file"),
        ("sqlite:///:memory:", "must name a file"),
        ("sqlite:///file:hunter2?mode=memory&uri=true", "must name a file"),
        ("sqlite://hunter2.db", "needs three slashes"),
        ("sqlite:///hunter2%20.db", "must be a path without % and ?"),
    ],
)
def test_an_invalid_url_is_refused_without_being_shown(tmp_path: Path, written: str, clause: str) -> None:
    """The sentence names the expected form; any part of the value may be a password."""
    problem = problem_in(tmp_path, {"DATABASE_URL": written})

    assert problem.startswith(f"DATABASE_URL (environment): {clause}")
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        (
            "mysql+pymysql://u:p,q/r@a,b:3307/d?x=1,2",
            ["mysql+pymysql://u:p,q/r@a/d?x=1,2", "mysql+pymysql://u:p,q/r@b:3307/d?x=1,2"],
        ),
        ("postgresql+psycopg://[::1]:1,b/d", ["postgresql+psycopg://[::1]:1/d", "postgresql+psycopg://b/d"]),
        ("postgresql+psycopg:///d", ["postgresql+psycopg:///d"]),
        ("sqlite:////a@b,c/d.db", ["sqlite:////a@b,c/d.db"]),
    ],
)
def test_each_host_has_a_url(url: str, hosts: list[str]) -> None:
    """With the account, database and options of all; a comma elsewhere divides nothing."""
    assert host_urls(url) == hosts


def test_a_home_that_an_sqlite_url_cannot_contain_is_refused(tmp_path: Path) -> None:
    """SQLAlchemy 2.0 and 2.1 would open two different files."""
    home = tmp_path / "100%25"
    home.mkdir()

    assert "without % and ?, including that of MAYFLY_HOME" in problem_in(home)


def test_two_spellings_of_one_sqlite_file_are_one_url(tmp_path: Path) -> None:
    """The host lock is named after the database."""
    one = settings_in(tmp_path, {"DATABASE_URL": "sqlite:///mayfly.db"})
    other = settings_in(tmp_path, {"DATABASE_URL": f"sqlite:///{tmp_path}/x/../mayfly.db"})

    assert one.database_url == other.database_url


def test_settings_can_be_built_from_settings(tmp_path: Path) -> None:
    """A parsed URL is parsed to itself."""
    url = settings_in(tmp_path).database_url

    again = SettingsModel(home=tmp_path, database_url=url.get_secret_value())

    assert again.as_plain().database_url == url


def test_a_url_in_the_place_of_a_file_name_is_masked(tmp_path: Path) -> None:
    """DATABASE_URL_FILE=mysql://… is an easy mistake."""
    problem = problem_in(tmp_path, {"DATABASE_URL_FILE": "mysql://u:hunter2@h/d"})

    assert "DATABASE_URL_FILE=mysql://u:***@h/d" in problem


def test_a_url_in_another_setting_is_masked(tmp_path: Path) -> None:
    """It may have slipped into the wrong line."""
    problem = problem_in(tmp_path, {"HANDLERS": "mysql://u:hunter2@h/d"})

    assert "HANDLERS=mysql://u:***@h/d" in problem


def test_errors_of_pydantic_do_not_show_the_url(tmp_path: Path) -> None:
    """Nor does the repr of the settings."""
    with pytest.raises(ValidationError) as caught:
        SettingsModel(home=tmp_path, database_url="oracle://u:hunter2@h/d")

    assert "hunter2" not in f"{caught.value}{caught.value!r}"
    model = SettingsModel(home=tmp_path, database_url="mysql://u:hunter2@h/d")
    assert "hunter2" not in f"{model!r}{model.as_plain()!r}{model.as_plain()}"


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("mysql://u:hunter2@h/d", "mysql://u:***@h/d"),
        ("mysql://u:hun@ter/2@h/d", "mysql://u:***@h/d"),
        ("mysql://u:hun\nter2@h/d", "mysql://u:***@h/d"),
        ("postgresql://h/d?user=u&password=hunter2&x=1", "postgresql://h/d?user=u&password=***&x=1"),
        ("postgresql://h/d?SSLPassword=hunter2", "postgresql://h/d?SSLPassword=***"),
        ("mysql://u@h/d", "mysql://u@h/d"),
        ("sqlite:////var/mayfly.db", "sqlite:////var/mayfly.db"),
    ],
)
def test_masking_replaces_only_the_password(url: str, masked: str) -> None:
    """User, host and database stay visible for the operator."""
    assert mask_password(url) == masked


def test_the_origin_shows_the_url_masked(tmp_path: Path) -> None:
    """`mayfly config` can be pasted into a ticket."""
    origin = origin_of(load_in(tmp_path, {"DATABASE_URL": "mysql://u:hunter2@h/d"}), "DATABASE_URL")

    assert origin.value == "mysql+pymysql://u:***@h/d"


@given(password=st.text(min_size=1, max_size=12), where=st.sampled_from(["mysql", "postgres", "oracle", "x"]))
def test_no_password_is_ever_shown(tmp_path: Path, password: str, where: str) -> None:
    """Neither in accepted nor in refused values, with any characters."""
    environ = {"MAYFLY_HOME": str(tmp_path), "DATABASE_URL": f"{where}://u:{password}hunter2@h/d"}

    try:
        shown = str(load(environ).origins)
    except SettingsError as error:
        shown = str(error)

    assert "hunter2" not in shown
