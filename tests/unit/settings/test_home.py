"""The home directory never depends on cron's current directory."""

from pathlib import Path

import pytest

import mayfly
from mayfly.errors import SettingsError
from mayfly.settings import load, sources
from mayfly.settings.sources import find_home
from tests.unit.settings.factories import problem_in, settings_in


def test_mayfly_home_sets_the_home(tmp_path: Path) -> None:
    """Symlinks in it are resolved."""
    (tmp_path / "releases").mkdir()
    (tmp_path / "current").symlink_to("releases")

    assert find_home({"MAYFLY_HOME": f"{tmp_path}/current"}) == tmp_path / "releases"


def test_the_default_home_is_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory that contains the package, in any current directory."""
    monkeypatch.chdir(tmp_path)

    assert find_home({}) == Path(mayfly.__file__).parent.parent


@pytest.mark.parametrize("packages", ["site-packages", "dist-packages"])
def test_the_home_of_an_installed_mayfly_is_the_parent_of_its_virtualenv(
    monkeypatch: pytest.MonkeyPatch, packages: str
) -> None:
    """/srv/app/.venv belongs to /srv/app."""
    venv = Path("/srv/app/.venv")
    monkeypatch.setattr(sources, "_PACKAGE", venv / "lib/python3.11" / packages / "mayfly")
    monkeypatch.setattr(sources, "_VIRTUALENV", venv)

    assert find_home({}) == Path("/srv/app")


def test_a_system_wide_installation_needs_mayfly_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a virtual environment there is no good default."""
    monkeypatch.setattr(sources, "_PACKAGE", Path("/usr/lib/python3/dist-packages/mayfly"))
    monkeypatch.setattr(sources, "_VIRTUALENV", None)

    with pytest.raises(SettingsError, match="set MAYFLY_HOME to the directory"):
        find_home({})


@pytest.mark.parametrize("stated", ["relative", ".", "/no/such/directory", "/etc/passwd", "~"])
def test_a_home_that_is_not_an_absolute_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    """A relative one would depend on the current directory; a missing one would be created empty."""
    (tmp_path / "relative").mkdir()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SettingsError, match=r"must be the absolute path of an existing directory"):
        load({"MAYFLY_HOME": stated})


def test_an_empty_home_is_refused() -> None:
    """MAYFLY_HOME= does not mean the default."""
    with pytest.raises(SettingsError, match=r"^MAYFLY_HOME= \(environment\): is empty; set it to .*, or unset it$"):
        load({"MAYFLY_HOME": ""})


def test_relative_paths_are_relative_to_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any current directory, defaults included."""
    monkeypatch.chdir("/")

    settings = settings_in(tmp_path, {"STATE_DIR": "../state"})

    assert settings.home == tmp_path
    assert settings.log_dir == tmp_path / "logs"
    assert settings.state_dir == tmp_path.parent / "state"
    assert settings.database_url.get_secret_value() == f"sqlite:///{tmp_path}/mayfly.db"


def test_absolute_paths_are_unchanged(tmp_path: Path) -> None:
    """/var/log is not under home."""
    assert settings_in(tmp_path, {"LOG_DIR": "/var/log/mayfly"}).log_dir == Path("/var/log/mayfly")


@pytest.mark.parametrize(
    "environ", [{"LOG_DIR": "~/logs"}, {"STATE_DIR": "~bob"}, {"DATABASE_URL": "sqlite:///~/mayfly.db"}]
)
def test_a_tilde_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    """It would be expanded differently for the developer and for cron's user."""
    assert "must be written without ~" in problem_in(tmp_path, environ)


def test_dotenv_cannot_change_its_own_home(tmp_path: Path) -> None:
    """It is an error, instead of a second, empty database."""
    problem = problem_in(tmp_path, dotenv="MAYFLY_HOME=/srv/elsewhere")

    assert problem.startswith(f"MAYFLY_HOME ({tmp_path}/.env): can only be set in the environment")


def test_dotenv_can_repeat_its_own_home(tmp_path: Path) -> None:
    """A .env that a shell reads too may contain it."""
    assert settings_in(tmp_path, dotenv=f"MAYFLY_HOME={tmp_path}/").home == tmp_path


def test_toml_cannot_change_its_own_home(tmp_path: Path) -> None:
    """As for .env."""
    problem = problem_in(tmp_path, toml='home = "/srv/elsewhere"')

    assert problem == f"home ({tmp_path}/mayfly.toml): can only be set in the environment, as MAYFLY_HOME"
