"""Where Mayfly lives: never in the directory that cron happens to start in."""

from pathlib import Path

import pytest

import mayfly
from mayfly.errors import SettingsError
from mayfly.settings import load
from mayfly.settings.sources import Home, find_home
from tests.unit.settings.factories import problem_in, settings_in


def test_home_is_what_the_environment_says(tmp_path: Path) -> None:
    """MAYFLY_HOME wins, and links in it are followed."""
    (tmp_path / "releases").mkdir()
    (tmp_path / "current").symlink_to("releases")

    assert find_home({"MAYFLY_HOME": f"{tmp_path}/current"}) == Home(tmp_path / "releases", "environment")


def test_home_is_the_checkout_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory that contains the package, whatever the current directory is."""
    monkeypatch.chdir(tmp_path)

    assert find_home({}) == Home(Path(mayfly.__file__).parent.parent, "default")


@pytest.mark.parametrize("packages", ["site-packages", "dist-packages"])
def test_home_of_an_installed_mayfly_is_where_its_virtualenv_lies(packages: str) -> None:
    """/srv/app/.venv belongs to /srv/app."""
    venv = Path("/srv/app/.venv")

    home = find_home({}, package=venv / "lib/python3.11" / packages / "mayfly", virtualenv=venv)

    assert home == Home(Path("/srv/app"), "default")


def test_home_of_a_mayfly_installed_for_the_whole_system_must_be_said() -> None:
    """Without a virtual environment there is no place to guess, / least of all."""
    with pytest.raises(SettingsError, match="set MAYFLY_HOME to the directory"):
        find_home({}, package=Path("/usr/lib/python3/dist-packages/mayfly"), virtualenv=None)


@pytest.mark.parametrize("stated", ["relative", ".", "/no/such/directory", "/etc/passwd", "~"])
def test_a_home_that_is_no_absolute_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    """A relative one would depend on the current directory, a missing one would be made anew and empty."""
    (tmp_path / "relative").mkdir()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SettingsError, match=r"must be the absolute path of an existing directory"):
        load({"MAYFLY_HOME": stated})


def test_an_empty_home_is_refused() -> None:
    """MAYFLY_HOME= is a mistake, not a wish for the default."""
    with pytest.raises(SettingsError, match=r"^MAYFLY_HOME= \(environment\): is empty; give .*, or unset it$"):
        load({"MAYFLY_HOME": ""})


def test_relative_paths_belong_to_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the current directory is, defaults included."""
    monkeypatch.chdir("/")

    settings = settings_in(tmp_path, {"STATE_DIR": "../state"})

    assert settings.home == tmp_path
    assert settings.log_dir == tmp_path / "logs"
    assert settings.state_dir == tmp_path.parent / "state"
    assert settings.database_url.get_secret_value() == f"sqlite:///{tmp_path}/mayfly.db"


def test_absolute_paths_stay_as_they_are(tmp_path: Path) -> None:
    """/var/log is not under home."""
    assert settings_in(tmp_path, {"LOG_DIR": "/var/log/mayfly"}).log_dir == Path("/var/log/mayfly")


@pytest.mark.parametrize(
    "environ", [{"LOG_DIR": "~/logs"}, {"STATE_DIR": "~bob"}, {"DATABASE_URL": "sqlite:///~/mayfly.db"}]
)
def test_a_tilde_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    """It would be one directory for the developer and another for cron's user."""
    assert "must be written without ~" in problem_in(tmp_path, environ)


def test_dotenv_cannot_move_the_home_it_lies_in(tmp_path: Path) -> None:
    """Whoever tries is told, and does not go on with a second, empty database."""
    problem = problem_in(tmp_path, dotenv="MAYFLY_HOME=/srv/elsewhere")

    assert problem.startswith(f"MAYFLY_HOME ({tmp_path}/.env): can only be set in the environment")


def test_dotenv_may_repeat_its_own_home(tmp_path: Path) -> None:
    """A .env that a shell reads too is fine as long as it says the same."""
    assert settings_in(tmp_path, dotenv=f"MAYFLY_HOME={tmp_path}/").home == tmp_path


def test_toml_cannot_move_the_home_it_lies_in(tmp_path: Path) -> None:
    """As for .env."""
    problem = problem_in(tmp_path, toml='home = "/srv/elsewhere"')

    assert problem == f"home ({tmp_path}/mayfly.toml): can only be set in the environment, as MAYFLY_HOME"
