"""Write log messages, one per line, to a file that is opened anew each minute, to stdout or to syslog."""

import os
import pwd
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from mayfly.clock import host_now
from mayfly.log_messages import Level, LogMessage

if TYPE_CHECKING:
    from mayfly.settings.values import Settings

LINE_BYTES = 4000  # a write below PIPE_BUF is never torn between processes
LOG_NAME = "dispatcher.log"
SYSLOG_SOCKET = "/dev/log"
_SYSLOG_SEVERITY = {Level.INFO: 6, Level.WARNING: 4, Level.ERROR: 3}
_SYSLOG_DAEMON = 3 << 3
_UNSAFE = r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\\]"  # control characters but the tab, line ends, \


class Sink(Protocol):
    def write(self, line: str, level: Level) -> None: ...


class Log:
    """The log of one process, whose name is in every line."""

    def __init__(self, sink: Sink, source: str, as_json: bool = False, echo: TextIO | None = None) -> None:
        self._sink = sink
        self._source = source
        self._as_json = as_json
        self._echo = echo

    def say(self, event: LogMessage) -> None:
        line = render_json(event, self._source, host_now()) if self._as_json else None
        self._sink.write(line or render_text(event, self._source, host_now()), event.level)
        if self._echo is not None:
            print(_one_line(f"[{self._source}] {event.text}"), file=self._echo, flush=True)

    def named(self, source: str) -> "Log":
        return Log(self._sink, source, self._as_json, self._echo)


class _Nowhere:
    def write(self, line: str, level: Level) -> None:
        """Discard it."""


def silent_log() -> Log:
    return Log(_Nowhere(), "")


def echo_log(settings: "Settings", source: str, stream: TextIO) -> Log:
    """For the console: the process that started it stores and rotates its output."""
    return Log(_Stream(stream), source, settings.log_format == "json")


def open_log(settings: "Settings", source: str, echo: TextIO | None = None) -> Log:
    return Log(open_sink(settings), source, settings.log_format == "json", echo)


def open_sink(settings: "Settings") -> Sink:
    if settings.log_to == "stdout":
        return _Stdout()
    if settings.log_to == "syslog":
        return _Syslog()
    return _File(settings.log_dir)


def render_text(event: LogMessage, source: str, at: datetime) -> str:
    marked = "" if event.level is Level.INFO else f"{event.level.upper()}: "
    return _one_line(f"{_stamp(at)} [{source}] {marked}{event.text}")


def render_json(event: LogMessage, source: str, at: datetime) -> str:
    import json  # most logs are plain text: an idle cycle must not import it

    facts = {
        "at": _stamp(at),
        "level": event.level,
        "source": source,
        "event": event.name,
        "text": event.text,
    }
    line = json.dumps({**event.fields, **facts}, default=str, ensure_ascii=False)
    if len(line.encode("utf-8", "backslashreplace")) <= LINE_BYTES:
        return line
    # A character is at most six bytes in JSON: this part of the text fits in any case.
    return json.dumps({**facts, "text": event.text[: LINE_BYTES // 8]}, ensure_ascii=False)


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _one_line(text: str) -> str:
    """One message per line: text from outside can neither forge a second one nor control the terminal."""
    harmless = text.isprintable() and "\\" not in text  # nearly every line: skip the regular expression
    flat = text if harmless else re.sub(_UNSAFE, lambda found: ascii(found[0])[1:-1], text)
    encoded = flat.encode("utf-8", "backslashreplace")
    return encoded.decode() if len(encoded) <= LINE_BYTES else encoded[:LINE_BYTES].decode(errors="ignore") + "…"


class _File:
    """A log that cannot be written is reported once on stderr; the jobs continue without it."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOG_NAME
        self._descriptor: int | None = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o644)
        except OSError as error:
            self._complain(error)

    def write(self, line: str, level: Level) -> None:  # noqa: ARG002 - a file has no levels
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))
        except OSError as error:
            self._descriptor = None
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        print(  # noqa: T201 - the log itself is what is broken
            f"The log {self._path} cannot be written: {error.strerror}. Make it writable for {_user()}, "
            "free disk space, or set LOG_DIR. This run continues without a log.",
            file=sys.stderr,
        )


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


class _Stream:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, line: str, level: Level) -> None:  # noqa: ARG002
        with suppress(OSError):
            print(line, file=self._stream, flush=True)


class _Stdout:
    """With a descriptor of its own: a runner redirects stdout, to capture what its handlers print."""

    def __init__(self) -> None:
        self._descriptor = os.dup(1)

    def write(self, line: str, level: Level) -> None:  # noqa: ARG002
        with suppress(OSError):
            os.write(self._descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))


class _Syslog:
    def __init__(self) -> None:
        import socket  # most logs are files: an idle cycle must not import it

        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        with suppress(OSError):
            self._socket.connect(SYSLOG_SOCKET)

    def write(self, line: str, level: Level) -> None:
        message = f"<{_SYSLOG_DAEMON | _SYSLOG_SEVERITY[level]}>mayfly[{os.getpid()}]: {line}"
        with suppress(OSError):
            self._socket.send(message.encode("utf-8", "backslashreplace"))
