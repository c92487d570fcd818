"""The precedence of the sources of settings, and errors of sources that cannot be read."""

from pathlib import Path

import pytest

from mayfly.settings import load_settings
from mayfly.settings.model import SettingsModel
from tests.unit.settings.factories import load_in, origin_of, problem_in, settings_in


def test_the_environment_overrides_dotenv_and_dotenv_overrides_toml(tmp_path: Path) -> None:
    """Each setting comes from the source of the highest precedence that has it."""
    settings = settings_in(
        tmp_path,
        {"BATCH_SIZE": "7"},
        dotenv="BATCH_SIZE=8\nMAX_WORKERS=9\n",
        toml="batch_size = 10\nmax_workers = 11\nmax_attempts = 12\n",
    )

    assert (settings.batch_size, settings.max_workers, settings.max_attempts) == (7, 9, 12)


def test_settings_of_a_lane_come_from_all_sources(tmp_path: Path) -> None:
    """One source can set a lane's rank and another its workers."""
    settings = settings_in(
        tmp_path,
        {"LANES__MAIL__MAX_WORKERS": "8"},
        dotenv="LANES__MAIL__BATCH_SIZE=3\n",
        toml="[lanes.mail]\nrank = 2\nmax_workers = 1\n",
    )

    lane = settings.lane("mail")
    assert (lane.max_workers, lane.batch_size, lane.rank) == (8, 3, 2)


@pytest.mark.parametrize(
    ("environ", "dotenv", "winner"),
    [
        ({"DATABASE_URL": "mysql://h/plain", "DATABASE_URL_FILE": "secret"}, "", "plain"),
        ({"DATABASE_URL_FILE": "secret"}, "DATABASE_URL=mysql://h/dotenv", "file"),
        ({"DATABASE_URL": "mysql://h/plain"}, "DATABASE_URL_FILE=secret", "plain"),
        ({}, "DATABASE_URL_FILE=secret\nDATABASE_URL=mysql://h/dotenv", "dotenv"),
        ({}, "DATABASE_URL_FILE=secret", "file"),
        ({}, "", "toml"),
    ],
)
def test_a_secret_file_ranks_below_the_plain_name_in_its_source(
    tmp_path: Path, environ: dict[str, str], dotenv: str, winner: str
) -> None:
    """In one source NAME overrides NAME_FILE; NAME_FILE in the environment overrides everything in .env."""
    (tmp_path / "secret").write_text("mysql://h/file\n")

    settings = settings_in(tmp_path, environ, dotenv=dotenv, toml='database_url = "mysql://h/toml"')

    assert settings.database_url.get_secret_value() == f"mysql+pymysql://h/{winner}"


def test_a_secret_file_that_is_overridden_is_not_opened(tmp_path: Path) -> None:
    """A file whose content is not used may be missing."""
    settings = settings_in(tmp_path, {"DATABASE_URL": "mysql://h/plain", "DATABASE_URL_FILE": "/missing"})

    assert settings.database_url.get_secret_value() == "mysql+pymysql://h/plain"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "cannot be read: No such file"), (b" \n", "is an empty file"), (b"\xff", "is not UTF-8 text")],
)
def test_an_invalid_secret_file_is_named(tmp_path: Path, content: bytes | None, reason: str) -> None:
    """The sentence has the variable, the path and the reason."""
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)

    problem = problem_in(tmp_path, {"DATABASE_URL_FILE": str(file)})

    assert problem.startswith(f"DATABASE_URL_FILE={file} (environment): ")
    assert reason in problem


def test_an_empty_path_of_a_secret_file_is_refused(tmp_path: Path) -> None:
    """Like any other empty value; the sentence asks for a path, not a URL."""
    problem = problem_in(tmp_path, {"DATABASE_URL_FILE": ""})

    assert problem == "DATABASE_URL_FILE= (environment): is empty; set it to the path of a file, or unset it"


def test_only_secrets_are_read_from_files(tmp_path: Path) -> None:
    """NAME_FILE has no meaning for a setting that is not secret."""
    (tmp_path / "size").write_text("9")

    assert settings_in(tmp_path, {"BATCH_SIZE_FILE": "size"}).batch_size == 5


def test_a_dollar_in_dotenv_is_a_dollar(tmp_path: Path) -> None:
    """Nothing in .env is expanded: passwords can contain dollars."""
    settings = settings_in(tmp_path, dotenv="DATABASE_URL=mysql://u:a$HOME${HOME}b@h/d\n")

    assert settings.database_url.get_secret_value() == "mysql+pymysql://u:a$HOME${HOME}b@h/d"


def test_an_invalid_line_of_dotenv_is_named_and_not_shown(tmp_path: Path) -> None:
    """The sentence has file and line number; the line itself may hold a password."""
    problem = problem_in(tmp_path, dotenv='# mine\nBATCH_SIZE=3\nDATABASE_URL="mysql://u:hunter2@h/d\n')

    assert problem == f"{tmp_path}/.env, line 3: must have the form NAME=value"


def test_invalid_toml_is_named_with_its_line(tmp_path: Path) -> None:
    """The sentence has file and line number."""
    problem = problem_in(tmp_path, toml="batch_size = 3\nmax_workers 4\n")

    assert problem.startswith(f"{tmp_path}/mayfly.toml: is not valid TOML: ")
    assert "line 2" in problem


@pytest.mark.parametrize("name", [".env", "mayfly.toml"])
def test_a_file_that_is_not_utf8_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    """A Latin-1 file gives a sentence, not a traceback."""
    (tmp_path / name).write_bytes(b"# ok\n# \xe4\n")

    assert problem_in(tmp_path) == f"{tmp_path / name}, line 2: is not UTF-8 text"


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """An unreadable file is not treated as a missing one."""
    (tmp_path / ".env").symlink_to(".env")  # a symlink loop, which root cannot open either

    assert problem_in(tmp_path).startswith(f"{tmp_path}/.env: cannot be read: ")


def test_a_directory_called_dotenv_is_ignored(tmp_path: Path) -> None:
    """Some virtual environments are called .env."""
    (tmp_path / ".env").mkdir()

    assert settings_in(tmp_path).batch_size == 5


def test_the_settings_model_reads_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only load() reads the environment, so a SettingsModel in a test has the values of the test."""
    monkeypatch.setenv("BATCH_SIZE", "9")

    assert SettingsModel(home=tmp_path).batch_size == 5


def test_the_environment_of_the_process_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """load_settings() reads the variables with which the process was started."""
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.setenv("BATCH_SIZE", "9")

    assert load_settings().batch_size == 9


def test_every_value_has_its_origin(tmp_path: Path) -> None:
    """The default, the environment, a file by its path, a secret file by its variable."""
    (tmp_path / "secret").write_text("postgres://u:hunter2@h/d")
    loaded = load_in(
        tmp_path,
        {"BATCH_SIZE": "7", "DATABASE_URL_FILE": "secret", "LANES__MAIL__RANK": "1"},
        dotenv="MAX_LOAD=2.5",
        toml='log_dir = "/var/log/mayfly"\nmin_free_memory = "1.5G"\nlanes.mail.external = true\npools.a = 3\n'
        'lanes.mail.worker_memory = "1.5G"',
    )

    origins = {(origin.name, origin.value, origin.source) for origin in loaded.origins}
    toml = f"{tmp_path}/mayfly.toml"
    assert origins > {
        ("MAYFLY_HOME", str(tmp_path), "environment"),
        ("MAX_WORKERS", "5", "default"),
        ("BATCH_SIZE", "7", "environment"),
        ("DATABASE_URL", "postgresql+psycopg://u:***@h/d", "environment (DATABASE_URL_FILE)"),
        ("MAX_LOAD", "2.5", f"{tmp_path}/.env"),
        ("LOG_DIR", "/var/log/mayfly", toml),
        ("MIN_FREE_MEMORY", "1536M", toml),
        ("LANES__MAIL__RANK", "1", "environment"),
        ("lanes.mail.external", "true", toml),
        ("lanes.mail.worker_memory", "1536M", toml),
        ("pools.a", "3", toml),
        ("WORKER_MEMORY", "none", "default"),
    }


def test_every_plain_setting_has_one_origin(tmp_path: Path) -> None:
    """`mayfly config` lists every setting exactly once."""
    names = [origin.name for origin in load_in(tmp_path).origins]

    fields = [
        name.upper()
        for name in SettingsModel.model_fields
        if name not in ("home", "console_accounts", "lanes", "pools", "sources", "launchers")
    ]
    assert names == ["MAYFLY_HOME", *fields]


def test_an_origin_is_found_by_its_name(tmp_path: Path) -> None:
    """Handlers are shown in the environment's spelling."""
    origin = origin_of(load_in(tmp_path, {"HANDLERS": "a, b.c"}), "HANDLERS")

    assert origin.value == "a,b.c"
