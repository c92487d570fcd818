"""One event, one line, whatever is in it."""

import io
import json
import os
import socket
import unicodedata
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
ATOMIC_BYTES = 4096  # what POSIX promises to write in one piece

any_text = st.text(st.characters(), max_size=300)
hostile_text = any_text | st.sampled_from(["\ud800", "💥", "\x00", "\\", '"', "é"]).map(lambda each: each * 5000)
hostile_events = st.builds(
    LogMessage,
    name=st.just("output"),
    text=hostile_text,
    level=st.sampled_from(Level),
    fields=st.dictionaries(any_text, hostile_text, max_size=3),
)


class Kept:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, Level]] = []

    def write(self, line: str, level: Level) -> None:
        self.lines.append((line, level))


def as_text(text: str, level: Level = Level.INFO) -> str:
    return render_text(LogMessage("said", text, level), "DISPATCHER", AT)


def as_json(text: str = "said", **fields: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(render_json(LogMessage("said", text, fields=fields), "DISPATCHER", AT))
    return loaded


def on_disk(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace")


# --- lines for people -------------------------------------------------------------------------------------


def test_a_line_says_when_who_and_what() -> None:
    """UTC with milliseconds, the process in brackets, the sentence."""
    assert as_text("Pending jobs: 23") == "2026-05-04T12:00:00.123Z [DISPATCHER] Pending jobs: 23"


@pytest.mark.parametrize(
    ("level", "mark"), [(Level.WARNING, "WARNING: "), (Level.ERROR, "ERROR: "), (Level.INFO, "")]
)
def test_what_is_not_well_is_marked(level: Level, mark: str) -> None:
    """To be found by grep; what is well has no mark."""
    assert as_text("said", level).endswith(f"[DISPATCHER] {mark}said")


def test_every_zone_is_written_as_utc() -> None:
    """Lines of several hosts can be sorted together."""
    elsewhere = AT.astimezone(timezone(timedelta(hours=-7)))

    assert render_text(LogMessage("said", "x"), "A", elsewhere).startswith("2026-05-04T12:00:00.123Z ")


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
def test_what_would_break_a_line_is_escaped(text: str, shown: str) -> None:
    """And can still be told from what was a backslash before."""
    assert as_text(text).endswith(f"[DISPATCHER] {shown}")


def test_no_one_can_forge_a_line() -> None:
    """What a handler prints cannot look like something that the dispatcher said."""
    forged = "nothing\n2026-05-04T12:00:00.123Z [DISPATCHER] Cycle failed: disk full"

    assert len(as_text(forged).splitlines()) == 1


@given(hostile_events)
def test_a_line_is_one_line_within_its_bound(event: LogMessage) -> None:
    """Below what a write to a file or pipe keeps in one piece, with several processes writing to it."""
    line = render_text(event, "WORKER worker-1-1", AT)

    assert len(line.splitlines()) == 1
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in line if char != "\t")
    assert len(on_disk(line)) < ATOMIC_BYTES


def test_a_long_line_is_cut_and_says_so() -> None:
    """Its beginning is kept, and no character is cut in two."""
    line = as_text("💥" * 5000)

    assert line.endswith("💥…")
    assert LINE_BYTES - 4 < len(line.encode()) <= LINE_BYTES + 3


# --- lines for machines -----------------------------------------------------------------------------------


def test_a_machine_gets_every_figure() -> None:
    """The fields of the event beside what the line for people says."""
    assert as_json("Pending jobs: 23", pending=23, cuts=("pool email 3",)) == {
        "at": "2026-05-04T12:00:00.123Z",
        "level": "info",
        "source": "DISPATCHER",
        "event": "said",
        "text": "Pending jobs: 23",
        "pending": 23,
        "cuts": ["pool email 3"],
    }


def test_a_field_cannot_pass_for_what_the_log_says() -> None:
    """Time, level, source and name are ours, whatever an event's fields are called."""
    event = LogMessage(
        "said", "x", fields={"at": "1999", "source": "root", "event": "cycle_failed", "level": "error"}
    )

    assert json.loads(render_json(event, "DISPATCHER", AT)) == {
        "at": "2026-05-04T12:00:00.123Z",
        "level": "info",
        "source": "DISPATCHER",
        "event": "said",
        "text": "x",
    }


def test_a_value_that_json_has_no_word_for_is_its_text() -> None:
    """Nothing that is worth a line gets lost over its type."""
    assert as_json(path=Path("/tmp/x"), at_noon=AT)["path"] == "/tmp/x"


@given(hostile_events)
def test_a_machines_line_is_json_within_its_bound(event: LogMessage) -> None:
    """One line, one object, as much of the text as fits."""
    line = on_disk(render_json(event, "WORKER worker-1-1", AT))

    assert b"\n" not in line
    assert len(line) < ATOMIC_BYTES
    assert json.loads(line)["event"] == "output"


def test_what_does_not_fit_leaves_its_fields_out() -> None:
    """The facts and the beginning of the text are kept."""
    line = as_json("boom " * 1000, reason="x" * 10_000)

    assert line.keys() == {"at", "level", "source", "event", "text"}
    assert line["text"].startswith("boom boom")


# --- where it goes ----------------------------------------------------------------------------------------


@freeze_time(AT)
def test_a_log_says_events_in_its_name() -> None:
    """The sink gets the line and its level; another name shares the sink."""
    sink = Kept()
    log = Log(sink, "DISPATCHER")
    log.say(LogMessage("said", "one", Level.ERROR))
    log.named("WORKER w-1").say(LogMessage("said", "two"))

    assert sink.lines == [
        ("2026-05-04T12:00:00.123Z [DISPATCHER] ERROR: one", Level.ERROR),
        ("2026-05-04T12:00:00.123Z [WORKER w-1] two", Level.INFO),
    ]


def test_the_echo_is_one_line_too() -> None:
    """Whoever watches on a terminal sees the sentence, and no escape sequence from a job."""
    echo = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    Log(Kept(), "DISPATCHER", echo=echo).say(LogMessage("said", "a\nb \x1b[2J \ud800"))
    echo.seek(0)

    assert echo.read() == "[DISPATCHER] a\\nb \\x1b[2J \\ud800\n"


def test_a_silent_log_leaves_no_trace(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """For --dry-run."""
    silent_log().say(LogMessage("said", "one"))

    assert (list(tmp_path.iterdir()), capfd.readouterr()) == ([], ("", ""))


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    """By every process anew: what is there stays, and the directory is made where it is missing."""
    settings = settings_in(tmp_path, {"LOG_DIR": "deep/logs"})
    for source in ("DISPATCHER", "WORKER w-1"):
        open_log(settings, source).say(LogMessage("said", "hello \ud800 é"))
    lines = (tmp_path / "deep/logs" / LOG_NAME).read_text("utf-8").splitlines()

    assert [line.split(" ", 1)[1] for line in lines] == [
        r"[DISPATCHER] hello \ud800 é",
        r"[WORKER w-1] hello \ud800 é",
    ]


def test_a_file_for_machines_has_an_object_a_line(tmp_path: Path) -> None:
    """LOG_FORMAT=json."""
    settings = settings_in(tmp_path, {"LOG_FORMAT": "json"})
    open_log(settings, "DISPATCHER").say(LogMessage("said", "a\nb \ud800"))

    assert json.loads((settings.log_dir / LOG_NAME).read_text("utf-8"))["text"] == "a\nb \ud800"


@pytest.mark.parametrize("log_dir", ["/dev/full", "/proc/nowhere"])
def test_a_log_that_cannot_be_opened_is_told_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], log_dir: str
) -> None:
    """A sentence on stderr that says what to do; the work goes on without a log."""
    log = open_log(settings_in(tmp_path, {"LOG_DIR": log_dir}), "DISPATCHER")
    log.say(LogMessage("said", "one"))
    log.say(LogMessage("said", "two"))
    said = capfd.readouterr().err

    assert said.startswith(f"The log {log_dir}/{LOG_NAME} cannot be written: ")
    assert said.endswith("free disk space, or set LOG_DIR. This run continues without a log.\n")
    assert said.count("\n") == 1


def test_a_full_disk_is_told_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Jobs matter more than their log."""
    settings = settings_in(tmp_path)
    settings.log_dir.mkdir()
    (settings.log_dir / LOG_NAME).symlink_to("/dev/full")
    log = open_log(settings, "DISPATCHER")
    log.say(LogMessage("said", "one"))
    log.say(LogMessage("said", "two"))

    assert capfd.readouterr().err.count("cannot be written: No space left on device") == 1


def test_stdout_is_kept_for_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """LOG_TO=stdout: also after a runner sent what its handlers print elsewhere."""
    log = open_log(settings_in(tmp_path, {"LOG_TO": "stdout"}), "DISPATCHER")
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        log.say(LogMessage("said", "one"))
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)

    assert capfd.readouterr().out.endswith(" [DISPATCHER] one\n")


lives_as_long_as_its_process = pytest.mark.filterwarnings(
    "ignore:unclosed <socket:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@lives_as_long_as_its_process
@pytest.mark.parametrize(("level", "priority"), [(Level.INFO, 30), (Level.WARNING, 28), (Level.ERROR, 27)])
def test_syslog_gets_the_line_and_its_severity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: Level, priority: int
) -> None:
    """LOG_TO=syslog: a datagram an event, as a daemon's, under our name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "log"))
        listening.setblocking(False)
        monkeypatch.setattr(log, "SYSLOG_SOCKET", str(tmp_path / "log"))
        open_log(settings_in(tmp_path, {"LOG_TO": "syslog"}), "DISPATCHER").say(LogMessage("said", "one", level))
        message = listening.recv(65536).decode()

    assert message.startswith(f"<{priority}>mayfly[{os.getpid()}]: ")
    assert message.endswith("one")


@lives_as_long_as_its_process
def test_a_host_without_syslog_still_does_its_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs matter more than their log."""
    monkeypatch.setattr(log, "SYSLOG_SOCKET", str(tmp_path / "nobody listens"))

    open_log(settings_in(tmp_path, {"LOG_TO": "syslog"}), "DISPATCHER").say(LogMessage("said", "one"))
