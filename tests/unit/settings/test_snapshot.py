"""The snapshot of the settings: used only if everything that it was made from is unchanged, and without secrets."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mayfly
from mayfly.errors import SettingsError
from mayfly.process import state_dir
from mayfly.settings import Settings, load, load_settings, load_with_warnings, snapshot
from mayfly.settings.snapshot import read_snapshot, write_snapshot
from tests.unit.settings.factories import HASH, WHSEC

CHECKOUT = Path(__file__).parents[3]


class Place:
    """A home, an environment, and the private directory of the user."""

    def __init__(self, home: Path, memory: Path) -> None:
        self.home = home
        self.private = memory / f"mayfly-{os.getuid()}"
        self.environ = {"MAYFLY_HOME": str(home), "PATH": "/usr/bin", "BATCH_SIZE": "7"}

    def write(self) -> Settings:
        loaded = load(self.environ)
        write_snapshot(loaded, self.environ)
        return loaded.settings

    def read(self) -> Settings | None:
        return read_snapshot(self.environ)

    @property
    def file(self) -> Path:
        (file,) = self.private.iterdir()
        return file


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    (tmp_path / "home").mkdir()
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(state_dir, "SHARED_MEMORY", tmp_path / "memory")
    return Place(tmp_path / "home", tmp_path / "memory")


def in_environment(place: Place) -> None:
    place.environ |= {
        "DATABASE_URL": "mysql://mayfly:hunter2@db/app",
        "HEARTBEAT_URL": "https://hc-ping.com/hunter2",
        "ALERT_SMTP_URL": "smtps://ann:hunter2@mail.example.com",
        "CONSOLE_ACCOUNTS__ANN__ROLE": "operator",
        "CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH": HASH,
    }


def in_dotenv(place: Place) -> None:
    secrets = ["DATABASE_URL='mysql://mayfly:hunter2@db/app'", f"CONSOLE_PASSWORD_HASH='{HASH}'", "MAX_WORKERS=9"]
    (place.home / ".env").write_text("\r\n".join(secrets), newline="")


def in_toml(place: Place) -> None:
    (place.home / "mayfly.toml").write_text(
        'database_url = "postgres://mayfly:hunter2@db/app"\n'
        'alert_webhook_url = "https://example.com/hunter2"\n'
        f'alert_webhook_secret = "{WHSEC}"\n'
        f'[console_accounts.bob]\nrole = "viewer"\npassword_hash = "{HASH}"\n'
        '[lanes.mail]\nrank = 3\nworker_timeout = "3h"\n[lanes.web]\n[pools]\nemail = 2\n'
    )


def in_file(place: Place) -> None:
    (place.home / "secret").write_text("  mysql://mayfly:hunter2@db/ä \n")
    place.environ["DATABASE_URL_FILE"] = "secret"


def of_every_type(place: Place) -> None:
    place.environ |= {
        "SCHEDULE_FILES": "mine,/etc/mayfly/schedule", "METRICS_TEXTFILE": "mayfly.prom", "HANDLERS": "a,b.c",
        "WORKER_MEMORY": "512M", "MAX_LOAD": "0.5", "CONSOLE_TLS_PROXY": "true", "LANES__MAIL__EXTERNAL": "true",
        "LOG_DIR": "/var/log/mayfly", "REDACT": "iban", "KEEP_DEAD_DAYS": "3", "CONSOLE_ENVIRONMENT": "Übung",
    }  # fmt: skip


def nothing(_place: Place) -> None:
    """All defaults."""


@pytest.mark.parametrize("arrange", [nothing, in_environment, in_dotenv, in_toml, in_file, of_every_type])
def test_a_snapshot_gives_what_was_loaded(place: Place, arrange: Callable[[Place], None]) -> None:
    """Every value with its type, the secrets from where they are written."""
    arrange(place)
    loaded = place.write()

    read = place.read()

    assert read is not None
    assert read == loaded
    assert {name: repr(value) for name, value in vars(read).items()} == {
        name: repr(value) for name, value in vars(loaded).items()
    }  # 5 is not 5.0
    assert read.lane("mail") == loaded.lane("mail")


@pytest.mark.parametrize("arrange", [in_environment, in_dotenv, in_toml, in_file])
def test_no_secret_is_in_the_file(place: Place, arrange: Callable[[Place], None]) -> None:
    """Neither a password nor a hash, wherever it is written; and only its owner can read the file."""
    arrange(place)
    place.write()

    content = place.file.read_bytes()
    assert b"hunter2" not in content
    assert HASH.encode() not in content
    assert WHSEC.removeprefix("whsec_").encode() not in content
    assert (place.file.stat().st_mode & 0o777, place.private.stat().st_mode & 0o777) == (0o600, 0o700)


# --- what makes it invalid --------------------------------------------------------------------------------


def other_value(place: Place) -> None:
    place.environ["BATCH_SIZE"] = "8"


def other_secret(place: Place) -> None:
    place.environ["DATABASE_URL"] = "mysql://mayfly:other@db/app"


def other_variable(place: Place) -> None:
    place.environ["BATCH_SIZ"] = "8"


def one_variable_less(place: Place) -> None:
    del place.environ["BATCH_SIZE"]


def changed_dotenv(place: Place) -> None:
    (place.home / ".env").write_text("MAX_WORKERS=10\n")


def no_dotenv(place: Place) -> None:
    (place.home / ".env").unlink()


def changed_toml(place: Place) -> None:
    (place.home / "mayfly.toml").write_text("max_attempts = 6\n")


def changed_secret_file(place: Place) -> None:
    (place.home / "secret").write_text("https://hc-ping.com/other")


def no_secret_file(place: Place) -> None:
    (place.home / "secret").unlink()


def unreadable_file(place: Place) -> None:
    (place.home / ".env").unlink()
    (place.home / ".env").symlink_to(".env")  # a loop: root too is refused


@pytest.mark.parametrize(
    "change",
    [other_value, other_secret, other_variable, one_variable_less, changed_dotenv, no_dotenv, changed_toml,
     changed_secret_file, no_secret_file, unreadable_file],
)  # fmt: skip
def test_a_change_of_any_source_makes_it_invalid(place: Place, change: Callable[[Place], None]) -> None:
    """The model is asked again; and the snapshot that it leaves is valid, if there is nothing to complain of."""
    place.environ |= {"DATABASE_URL": "mysql://mayfly:hunter2@db/app", "HEARTBEAT_URL_FILE": "secret"}
    (place.home / "secret").write_text("https://hc-ping.com/hunter2")
    (place.home / ".env").write_text("MAX_WORKERS=9\n")
    (place.home / "mayfly.toml").write_text("max_attempts = 5\n")
    place.write()
    assert place.read() is not None

    change(place)

    assert place.read() is None


def test_a_variable_of_another_program_may_change(place: Place) -> None:
    """Its value is not part of the key: INVOCATION_ID is another one in every run of a systemd unit."""
    loaded = place.write()

    place.environ["PATH"] = "/bin"

    assert place.read() == loaded


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [(mayfly, "__version__", "9.9"), (sys, "version", "3.99"), (snapshot, "__file__", str(CHECKOUT / "x" / "y.py"))],
)
def test_another_version_makes_it_invalid(
    place: Place, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: str
) -> None:
    """Of Mayfly, of Python, or of the code: a checkout changes without its version."""
    place.write()
    monkeypatch.setattr(owner, name, value)

    assert place.read() is None


def test_another_host_name_makes_it_invalid(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOST_NAME is the system's by default."""
    place.write()
    renamed = os.uname_result(("Linux", "other", *tuple(os.uname())[2:]))
    monkeypatch.setattr(os, "uname", lambda: renamed)

    assert place.read() is None


# --- whom it must belong to -------------------------------------------------------------------------------


def open_directory(place: Place) -> None:
    place.private.chmod(0o755)


def open_file(place: Place) -> None:
    place.file.chmod(0o640)


def link_to_directory(place: Place) -> None:
    place.private.rename(place.private.with_name("elsewhere"))
    place.private.symlink_to("elsewhere")


def link_to_file(place: Place) -> None:
    file = place.file
    file.rename(place.home / "elsewhere")
    file.symlink_to(place.home / "elsewhere")


@pytest.mark.parametrize("mischief", [open_directory, open_file, link_to_directory, link_to_file])
def test_a_file_that_others_could_have_written_is_ignored(place: Place, mischief: Callable[[Place], None]) -> None:
    """A regular file, for its owner alone, in a directory for its owner alone."""
    place.write()
    mischief(place)

    assert place.read() is None


def test_a_file_of_another_user_is_ignored(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it came from."""
    place.write()
    monkeypatch.setattr(snapshot, "default_base", lambda: place.private)
    monkeypatch.setattr(os, "getuid", lambda: 12345)

    assert place.read() is None


def test_nothing_is_written_into_a_directory_that_others_can_read(place: Place) -> None:
    """Nor does that keep anything from running."""
    place.private.mkdir(mode=0o755)
    place.private.chmod(0o755)

    assert place.write().batch_size == 7
    assert list(place.private.iterdir()) == []


# --- damage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["empty", "half", "garbage", "no JSON", "another value"])
def test_a_damaged_file_is_ignored_and_replaced(place: Place, damage: str) -> None:
    """Half of it, none of it, or one digit of it."""
    loaded = place.write()
    content = place.file.read_bytes()
    damaged = {
        "empty": b"",
        "half": content[: len(content) // 2],
        "garbage": os.urandom(500),
        "no JSON": b"[]",
        "another value": content.replace(b'"batch_size": 7', b'"batch_size": 8'),
    }[damage]
    assert damaged != content
    place.file.write_bytes(damaged)

    ignored = place.read()
    place.write()

    assert ignored is None
    assert place.read() == loaded


def test_settings_with_a_warning_leave_no_snapshot(place: Place) -> None:
    """Every cycle logs the warning."""
    place.environ["BATCHSIZE"] = "3"

    place.write()

    assert place.read() is None


def test_a_secret_that_is_escaped_in_its_file_leaves_no_snapshot(place: Place) -> None:
    """Where it is written is not what it is: rather the model each time than a wrong password."""
    (place.home / ".env").write_text('DATABASE_URL="mysql://mayfly:a\\"b@db/app"\n')

    assert place.write().database_url.get_secret_value() == 'mysql+pymysql://mayfly:a"b@db/app'
    assert place.read() is None


def test_a_secret_from_a_pipe_leaves_no_snapshot(place: Place) -> None:
    """Such as `DATABASE_URL_FILE=/dev/fd/63` of a shell's <(…): it can be read only once."""
    reader, writer = os.pipe()
    os.write(writer, b"mysql://mayfly:hunter2@db/app")
    os.close(writer)
    place.environ["DATABASE_URL_FILE"] = f"/dev/fd/{reader}"

    loaded = place.write()
    os.close(reader)

    assert loaded.database_url.get_secret_value() == "mysql+pymysql://mayfly:hunter2@db/app"
    assert not place.private.exists() or list(place.private.iterdir()) == []


def test_a_pipe_in_the_place_of_a_file_is_not_read(place: Place) -> None:
    """The model would find it empty; and one without a writer would be waited for."""
    in_file(place)
    place.write()
    (place.home / "secret").unlink()
    os.mkfifo(place.home / "secret")

    assert place.read() is None


def test_old_snapshots_are_deleted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every home and set of variables has its own."""
    monkeypatch.setattr(snapshot, "MAX_SNAPSHOTS", 3)
    for number in range(5):
        place.environ[f"OTHER_{number}"] = ""
        loaded = place.write()

    assert len(list(place.private.iterdir())) == 3
    assert place.read() == loaded


# --- who uses it ------------------------------------------------------------------------------------------


def test_what_loads_the_settings_leaves_a_snapshot(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one has them without the model."""
    monkeypatch.setattr(os, "environ", place.environ)
    first = load_settings()
    monkeypatch.setattr(snapshot, "_load", None)

    assert load_settings() == first
    assert load_with_warnings() == (first, ())


def test_warnings_are_given_each_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot has none, so settings with warnings leave no snapshot; what is wrong is an error."""
    monkeypatch.setattr(os, "environ", place.environ)
    place.environ["BATCHSIZE"] = "5"
    warned = [load_with_warnings()[1] for _ in range(2)]
    place.environ["BATCH_SIZE"] = "0"

    assert [["BATCHSIZE" in each for each in some] for some in warned] == [[True], [True]]
    with pytest.raises(SettingsError):
        load_with_warnings()


def test_a_process_with_a_snapshot_imports_no_pydantic(tmp_path: Path) -> None:
    """That is what it is for."""
    script = (
        "from mayfly.settings import load_settings; load_settings(); import sys; print('pydantic' in sys.modules)"
    )
    environ = {"MAYFLY_HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT), "HOME": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]

    assert runs == ["True\n", "False\n"]
