"""The snapshot of the settings: valid only while all its sources are unchanged, and without secrets."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mayfly
from mayfly.errors import SettingsError
from mayfly.settings import Settings, load, load_settings, load_with_warnings, snapshot
from mayfly.settings.snapshot import read_snapshot, write_snapshot
from tests.unit.settings.factories import HASH, WHSEC

CHECKOUT = Path(__file__).parents[3]


class Place:
    """A home, an environment, and the user's private directory."""

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
    monkeypatch.setattr(snapshot, "SHARED_MEMORY", tmp_path / "memory")
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
        '[launchers.kubernetes]\nstart_timeout = "1h"\n[launchers.ssh]\nhost = "worker.example"\n'
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
    """Defaults only."""


@pytest.mark.parametrize("arrange", [nothing, in_environment, in_dotenv, in_toml, in_file, of_every_type])
def test_a_snapshot_equals_the_loaded_settings(place: Place, arrange: Callable[[Place], None]) -> None:
    """Every value has its type; secrets are read from their sources."""
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
    """Neither a password nor a hash, from any source; only the owner can read the file."""
    arrange(place)
    place.write()

    content = place.file.read_bytes()
    assert b"hunter2" not in content
    assert HASH.encode() not in content
    assert WHSEC.removeprefix("whsec_").encode() not in content
    assert (place.file.stat().st_mode & 0o777, place.private.stat().st_mode & 0o777) == (0o600, 0o700)


# --- what invalidates it ----------------------------------------------------------------------------------


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
def test_a_change_of_any_source_invalidates_it(place: Place, change: Callable[[Place], None]) -> None:
    """The model is loaded again, and if it is valid, its new snapshot is valid too."""
    place.environ |= {"DATABASE_URL": "mysql://mayfly:hunter2@db/app", "HEARTBEAT_URL_FILE": "secret"}
    (place.home / "secret").write_text("https://hc-ping.com/hunter2")
    (place.home / ".env").write_text("MAX_WORKERS=9\n")
    (place.home / "mayfly.toml").write_text("max_attempts = 5\n")
    place.write()
    assert place.read() is not None

    change(place)

    assert place.read() is None


def test_a_variable_of_another_program_does_not_invalidate_it(place: Place) -> None:
    """Its value is not part of the key: INVOCATION_ID changes in every run of a systemd unit."""
    loaded = place.write()

    place.environ["PATH"] = "/bin"

    assert place.read() == loaded


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [(mayfly, "__version__", "9.9"), (sys, "version", "3.99"), (snapshot, "__file__", str(CHECKOUT / "x" / "y.py"))],
)
def test_another_version_invalidates_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: str
) -> None:
    """Of Mayfly, of Python, or of the code: a checkout can change without its version."""
    place.write()
    monkeypatch.setattr(owner, name, value)

    assert place.read() is None


def test_another_host_name_invalidates_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default of HOST_NAME is the system's name."""
    place.write()
    renamed = os.uname_result(("Linux", "other", *tuple(os.uname())[2:]))
    monkeypatch.setattr(os, "uname", lambda: renamed)

    assert place.read() is None


# --- ownership --------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("tamper", [open_directory, open_file, link_to_directory, link_to_file])
def test_a_file_that_others_could_have_written_is_ignored(place: Place, tamper: Callable[[Place], None]) -> None:
    """It must be a regular file with mode 0600 in a directory with mode 0700."""
    place.write()
    tamper(place)

    assert place.read() is None


def test_a_file_of_another_user_is_ignored(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if its content is valid."""
    place.write()
    monkeypatch.setattr(snapshot, "private_dir", lambda: place.private)
    monkeypatch.setattr(os, "getuid", lambda: 12345)

    assert place.read() is None


def test_nothing_is_written_into_a_directory_that_others_can_read(place: Place) -> None:
    """The process continues without a snapshot."""
    place.private.mkdir(mode=0o755)
    place.private.chmod(0o755)

    assert place.write().batch_size == 7
    assert list(place.private.iterdir()) == []


# --- damage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["empty", "half", "garbage", "no JSON", "another value"])
def test_a_damaged_file_is_ignored_and_replaced(place: Place, damage: str) -> None:
    """Truncated, empty, or with one wrong digit."""
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


def test_a_secret_that_is_escaped_in_its_source_leaves_no_snapshot(place: Place) -> None:
    """Its written form is not its value, so the model is loaded every time."""
    (place.home / ".env").write_text('DATABASE_URL="mysql://mayfly:a\\"b@db/app"\n')

    assert place.write().database_url.get_secret_value() == 'mysql+pymysql://mayfly:a"b@db/app'
    assert place.read() is None


def test_a_secret_from_a_pipe_leaves_no_snapshot(place: Place) -> None:
    """Such as `DATABASE_URL_FILE=/dev/fd/63` of a shell's <(…), which can be read only once."""
    reader, writer = os.pipe()
    os.write(writer, b"mysql://mayfly:hunter2@db/app")
    os.close(writer)
    place.environ["DATABASE_URL_FILE"] = f"/dev/fd/{reader}"

    loaded = place.write()
    os.close(reader)

    assert loaded.database_url.get_secret_value() == "mysql+pymysql://mayfly:hunter2@db/app"
    assert not place.private.exists() or list(place.private.iterdir()) == []


def test_a_pipe_instead_of_a_source_file_is_not_read(place: Place) -> None:
    """The model would find it empty, and opening one without a writer would block."""
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


# --- use --------------------------------------------------------------------------------------------------


def test_loading_the_settings_leaves_a_snapshot(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next load does not need the model."""
    monkeypatch.setattr(os, "environ", place.environ)
    first = load_settings()
    monkeypatch.setattr("mayfly.settings.load", None)

    assert load_settings() == first
    assert load_with_warnings() == (first, ())


def test_warnings_are_given_at_every_load(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings with warnings leave no snapshot; an invalid setting is an error."""
    monkeypatch.setattr(os, "environ", place.environ)
    place.environ["BATCHSIZE"] = "5"
    warned = [load_with_warnings()[1] for _ in range(2)]
    place.environ["BATCH_SIZE"] = "0"

    assert [["BATCHSIZE" in each for each in some] for some in warned] == [[True], [True]]
    with pytest.raises(SettingsError):
        load_with_warnings()


def test_a_process_with_a_snapshot_imports_no_pydantic(tmp_path: Path) -> None:
    """That is its purpose."""
    script = (
        "from mayfly.settings import load_settings; load_settings(); import sys; print('pydantic' in sys.modules)"
    )
    environ = {"MAYFLY_HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT), "HOME": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]

    assert runs == ["True\n", "False\n"]
