"""One event, one line, with any content."""

import grp
import io
import json
import os
import socket
import stat
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from mayfly import log
from mayfly.log import LINE_BYTES, LOG_NAME, Log, open_log, render_json, render_text, silent_log
from mayfly.log_messages import Level, LogMessage
from tests.unit.settings.factories import settings_in

AT = datetime(2026, 5, 4, 12, 0, 0, 123_456, tzinfo=UTC)
ATOMIC_BYTES = 4096  # POSIX writes this many bytes to a pipe atomically

any_text = st.text(st.characters(), max_size=300)
hostile_text = any_text | st.sampled_from(["\ud800", "💥", "\x00", "\\", '"', "é"]).map(lambda each: each * 5000)
hostile_events = st.builds(
    LogMessage,
    name=st.just("output"),
    text=hostile_text,
    level=st.sampled_from(Level),
    fields=st.dictionaries(any_text, hostile_text, max_size=3),
)


class RecordingSink:
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, Level]] = []

    def write(self, line: str, level: Level) -> None:
        self.lines.append((line, level))


def as_text(text: str, level: Level = Level.INFO) -> str:
    return render_text(LogMessage("test", text, level), "DISPATCHER", AT)


def as_json(text: str = "test", **fields: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(render_json(LogMessage("test", text, fields=fields), "DISPATCHER", AT))
    return loaded


def on_disk(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace")


# --- text lines -------------------------------------------------------------------------------------------


def test_a_line_has_time_source_and_text() -> None:
    """The time is UTC with milliseconds; the process is in brackets."""
    assert as_text("Pending jobs: 23") == "2026-05-04T12:00:00.123Z [DISPATCHER] Pending jobs: 23"


@pytest.mark.parametrize(
    ("level", "mark"), [(Level.WARNING, "WARNING: "), (Level.ERROR, "ERROR: "), (Level.INFO, "")]
)
def test_warnings_and_errors_are_marked(level: Level, mark: str) -> None:
    """The mark can be found by grep; other lines have none."""
    assert as_text("test", level).endswith(f"[DISPATCHER] {mark}test")


def test_times_are_logged_in_utc() -> None:
    """So lines of several hosts can be sorted together."""
    elsewhere = AT.astimezone(timezone(timedelta(hours=-7)))

    assert render_text(LogMessage("test", "x"), "A", elsewhere).startswith("2026-05-04T12:00:00.123Z ")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\ntwo", r"one\ntwo"),
        ("one\r\ntwo", r"one\r\ntwo"),
        ("a\x00b", r"a\x00b"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\x85b\u2028c", r"a\x85b\u2028c"),
        ("a\\nb", r"a\\nb"),
        ("a\tb é 💥", "a\tb é 💥"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_and_backslashes_are_escaped(text: str, shown: str) -> None:
    """Backslashes are escaped too, so the text can be restored."""
    assert as_text(text).endswith(f"[DISPATCHER] {shown}")


def test_a_text_cannot_forge_a_line() -> None:
    """Output of a handler cannot be mistaken for a line of the dispatcher."""
    forged = "nothing\n2026-05-04T12:00:00.123Z [DISPATCHER] Cycle failed: disk full"

    assert len(as_text(forged).splitlines()) == 1


@given(hostile_events)
def test_a_line_is_one_line_within_its_bound(event: LogMessage) -> None:
    """Concurrent writers do not mix lines that are shorter than an atomic write."""
    line = render_text(event, "WORKER worker-1-1", AT)

    assert len(line.splitlines()) == 1
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in line if char != "\t")
    assert len(on_disk(line)) < ATOMIC_BYTES


def test_a_long_line_is_cut_with_an_ellipsis() -> None:
    """The beginning is kept, and no character is split."""
    line = as_text("💥" * 5000)

    assert line.endswith("💥…")
    assert LINE_BYTES - 4 < len(line.encode()) <= LINE_BYTES + 3


# --- JSON lines -------------------------------------------------------------------------------------------


def test_a_json_line_has_every_field() -> None:
    """The fields of the event, and the text of the text line."""
    assert as_json("Pending jobs: 23", pending=23, cuts=("pool email 3",)) == {
        "at": "2026-05-04T12:00:00.123Z",
        "level": "info",
        "source": "DISPATCHER",
        "event": "test",
        "text": "Pending jobs: 23",
        "pending": 23,
        "cuts": ["pool email 3"],
    }


def test_a_field_cannot_replace_those_of_the_log() -> None:
    """Fields of an event named at, level, source or event are ignored."""
    event = LogMessage(
        "test", "x", fields={"at": "1999", "source": "root", "event": "cycle_failed", "level": "error"}
    )

    assert json.loads(render_json(event, "DISPATCHER", AT)) == {
        "at": "2026-05-04T12:00:00.123Z",
        "level": "info",
        "source": "DISPATCHER",
        "event": "test",
        "text": "x",
    }


def test_a_value_without_a_json_type_is_logged_as_text() -> None:
    """No line is lost because of the type of a value."""
    assert as_json(path=Path("/tmp/x"), at_noon=AT)["path"] == "/tmp/x"


@given(hostile_events)
def test_a_json_line_is_one_object_within_its_bound(event: LogMessage) -> None:
    """The text is cut to fit."""
    line = on_disk(render_json(event, "WORKER worker-1-1", AT))

    assert b"\n" not in line
    assert len(line) < ATOMIC_BYTES
    assert json.loads(line)["event"] == "output"


def test_a_json_line_that_is_too_long_has_no_fields() -> None:
    """The standard fields and the beginning of the text are kept."""
    line = as_json("boom " * 1000, reason="x" * 10_000)

    assert line.keys() == {"at", "level", "source", "event", "text"}
    assert line["text"].startswith("boom boom")


# --- destinations -----------------------------------------------------------------------------------------


@freeze_time(AT)
def test_a_log_writes_events_under_its_name() -> None:
    """The sink gets the line and its level; a log with another name shares the sink."""
    sink = RecordingSink()
    log = Log(sink, "DISPATCHER")
    log.write(LogMessage("test", "one", Level.ERROR))
    log.named("WORKER w-1").write(LogMessage("test", "two"))

    assert sink.lines == [
        ("2026-05-04T12:00:00.123Z [DISPATCHER] ERROR: one", Level.ERROR),
        ("2026-05-04T12:00:00.123Z [WORKER w-1] two", Level.INFO),
    ]


def test_the_echo_is_one_line_too() -> None:
    """A terminal gets the escaped text, without escape sequences from jobs."""
    echo = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    Log(RecordingSink(), "DISPATCHER", echo=echo).write(LogMessage("test", "a\nb \x1b[2J \ud800"))
    echo.seek(0)

    assert echo.read() == "[DISPATCHER] a\\nb \\x1b[2J \\ud800\n"


def test_a_silent_log_writes_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is used by --dry-run."""
    silent_log().write(LogMessage("test", "one"))

    assert (list(tmp_path.iterdir()), capfd.readouterr()) == ([], ("", ""))


def test_a_log_file_is_appended_to(tmp_path: Path) -> None:
    """Every process keeps the existing lines; a missing directory is created."""
    settings = settings_in(tmp_path, {"LOG_DIR": "deep/logs"})
    for source in ("DISPATCHER", "WORKER w-1"):
        open_log(settings, source).write(LogMessage("test", "hello \ud800 é"))
    lines = (tmp_path / "deep/logs" / LOG_NAME).read_text("utf-8").splitlines()

    assert [line.split(" ", 1)[1] for line in lines] == [
        r"[DISPATCHER] hello \ud800 é",
        r"[WORKER w-1] hello \ud800 é",
    ]


def test_a_json_log_has_one_object_per_line(tmp_path: Path) -> None:
    """With LOG_FORMAT=json."""
    settings = settings_in(tmp_path, {"LOG_FORMAT": "json"})
    open_log(settings, "DISPATCHER").write(LogMessage("test", "a\nb \ud800"))

    assert json.loads((settings.log_dir / LOG_NAME).read_text("utf-8"))["text"] == "a\nb \ud800"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Files are created with the mode that the program asks for."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_only_the_owner_may_read_a_new_log(tmp_path: Path) -> None:
    """Errors in it may quote personal data. What exists already keeps its mode."""
    settings = settings_in(tmp_path)

    open_log(settings, "DISPATCHER")

    created = mode_of(settings.log_dir), mode_of(settings.log_dir / LOG_NAME)
    (settings.log_dir / LOG_NAME).chmod(0o644)
    open_log(settings, "DISPATCHER")
    assert created == (0o700, 0o600)
    assert mode_of(settings.log_dir / LOG_NAME) == 0o644


def test_log_group_lets_a_group_read_new_logs(tmp_path: Path) -> None:
    """Whatever the umask; the group may neither write nor delete them."""
    own = [each for each in grp.getgrall() if os.geteuid() == 0 or each.gr_gid in os.getgroups()]
    settings = settings_in(tmp_path, {"LOG_GROUP": own[-1].gr_name})
    before = os.umask(0o077)
    try:
        open_log(settings, "DISPATCHER")
    finally:
        os.umask(before)

    paths = (settings.log_dir, settings.log_dir / LOG_NAME)
    assert [mode_of(each) for each in paths] == [0o750, 0o640]
    assert [each.stat().st_gid for each in paths] == [own[-1].gr_gid] * 2


def test_an_unknown_log_group_is_reported_and_the_log_stays_private(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The process continues with its log."""
    settings = settings_in(tmp_path, {"LOG_GROUP": "no-such-group"})

    open_log(settings, "DISPATCHER").write(LogMessage("test", "one"))

    assert "LOG_GROUP=no-such-group" in capfd.readouterr().err
    assert mode_of(settings.log_dir / LOG_NAME) == 0o600
    assert "one" in (settings.log_dir / LOG_NAME).read_text()


@pytest.mark.parametrize("log_dir", ["/dev/full", "/proc/nowhere"])
def test_a_log_that_cannot_be_opened_is_reported_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], log_dir: str
) -> None:
    """One sentence on stderr names the remedy, and the process continues without a log."""
    log = open_log(settings_in(tmp_path, {"LOG_DIR": log_dir}), "DISPATCHER")
    log.write(LogMessage("test", "one"))
    log.write(LogMessage("test", "two"))
    printed = capfd.readouterr().err

    assert printed.startswith(f"The log {log_dir}/{LOG_NAME} cannot be written: ")
    assert printed.endswith("free disk space, or set LOG_DIR. This run continues without a log.\n")
    assert printed.count("\n") == 1


def test_a_full_disk_is_reported_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A failing log does not stop jobs."""
    settings = settings_in(tmp_path)
    settings.log_dir.mkdir()
    (settings.log_dir / LOG_NAME).symlink_to("/dev/full")
    log = open_log(settings, "DISPATCHER")
    log.write(LogMessage("test", "one"))
    log.write(LogMessage("test", "two"))

    assert capfd.readouterr().err.count("cannot be written: No space left on device") == 1


def test_stdout_is_kept_for_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With LOG_TO=stdout, also after a runner has redirected the output of its handlers."""
    log = open_log(settings_in(tmp_path, {"LOG_TO": "stdout"}), "DISPATCHER")
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        log.write(LogMessage("test", "one"))
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)

    assert capfd.readouterr().out.endswith(" [DISPATCHER] one\n")


closed_at_exit = pytest.mark.filterwarnings(
    "ignore:unclosed <socket:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@closed_at_exit
@pytest.mark.parametrize(("level", "priority"), [(Level.INFO, 30), (Level.WARNING, 28), (Level.ERROR, 27)])
def test_syslog_gets_the_line_and_its_severity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: Level, priority: int
) -> None:
    """With LOG_TO=syslog, each event is one datagram of the facility daemon, named mayfly."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "log"))
        listening.setblocking(False)
        monkeypatch.setattr(log, "SYSLOG_SOCKET", str(tmp_path / "log"))
        open_log(settings_in(tmp_path, {"LOG_TO": "syslog"}), "DISPATCHER").write(LogMessage("test", "one", level))
        message = listening.recv(65536).decode()

    assert message.startswith(f"<{priority}>mayfly[{os.getpid()}]: ")
    assert message.endswith("one")


@closed_at_exit
def test_a_host_without_syslog_still_runs_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing log does not stop jobs."""
    monkeypatch.setattr(log, "SYSLOG_SOCKET", str(tmp_path / "no listener"))

    open_log(settings_in(tmp_path, {"LOG_TO": "syslog"}), "DISPATCHER").write(LogMessage("test", "one"))
