"""Write log messages, one per line, to a file, to stdout or to syslog."""

import json
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

LINE_BYTES = 4000  # writes below PIPE_BUF (4096) are atomic: lines of several processes do not mix
LOG_NAME = "dispatcher.log"
SYSLOG_SOCKET = "/dev/log"
_SYSLOG_SEVERITY = {Level.INFO: 6, Level.WARNING: 4, Level.ERROR: 3}
_SYSLOG_DAEMON = 3 << 3
_UNSAFE = r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\\]"  # control characters except the tab, line ends, \


class Sink(Protocol):
    def write(self, line: str, level: Level) -> None: ...


class Log:
    """The log of one process, whose name is in every line."""

    def __init__(self, sink: Sink, source: str, as_json: bool = False, echo: TextIO | None = None) -> None:
        self._sink = sink
        self._source = source
        self._as_json = as_json
        self._echo = echo

    def write(self, message: LogMessage) -> None:
        line = render_json(message, self._source, host_now()) if self._as_json else None
        self._sink.write(line or render_text(message, self._source, host_now()), message.level)
        if self._echo is not None:
            print(_one_line(f"[{self._source}] {message.text}"), file=self._echo, flush=True)

    def named(self, source: str) -> "Log":
        return Log(self._sink, source, self._as_json, self._echo)


class _Nowhere:
    def write(self, line: str, level: Level) -> None:
        """Discard it."""


def silent_log() -> Log:
    return Log(_Nowhere(), "")


def echo_log(settings: "Settings", source: str, stream: TextIO) -> Log:
    """For the console: its supervisor stores and rotates its output."""
    return Log(_Stream(stream), source, settings.log_format == "json")


def open_log(settings: "Settings", source: str, echo: TextIO | None = None) -> Log:
    return Log(open_sink(settings), source, settings.log_format == "json", echo)


def open_sink(settings: "Settings") -> Sink:
    if settings.log_to == "stdout":
        # A separate descriptor: a runner redirects stdout to capture what its handlers print.
        return _Stream(open(os.dup(1), "w", encoding="utf-8", errors="backslashreplace", closefd=False))
    if settings.log_to == "syslog":
        return _Syslog()
    return _File(settings.log_dir, settings.log_group)


def render_text(message: LogMessage, source: str, at: datetime) -> str:
    marked = "" if message.level is Level.INFO else f"{message.level.upper()}: "
    return _one_line(f"{_stamp(at)} [{source}] {marked}{message.text}")


def render_json(message: LogMessage, source: str, at: datetime) -> str:
    facts = {
        "at": _stamp(at),
        "level": message.level,
        "source": source,
        "event": message.name,
        "text": message.text,
    }
    line = json.dumps({**message.fields, **facts}, default=str, ensure_ascii=False)
    if len(line.encode("utf-8", "backslashreplace")) <= LINE_BYTES:
        return line
    # A character is at most six bytes in JSON: this part of the text fits in any case.
    return json.dumps({**facts, "text": message.text[: LINE_BYTES // 8]}, ensure_ascii=False)


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _one_line(text: str) -> str:
    """One message per line: untrusted text can neither forge another message nor control the terminal."""
    is_safe = text.isprintable() and "\\" not in text  # true for nearly every line: skips the regular expression
    flat = text if is_safe else re.sub(_UNSAFE, lambda found: ascii(found[0])[1:-1], text)
    encoded = flat.encode("utf-8", "backslashreplace")
    return encoded.decode() if len(encoded) <= LINE_BYTES else encoded[:LINE_BYTES].decode(errors="ignore") + "…"


class _File:
    """If the file cannot be written, that is reported once on stderr and the process continues without a log."""

    def __init__(self, directory: Path, group: str | None) -> None:
        self._path = directory / LOG_NAME
        self._descriptor: int | None = None
        try:
            self._descriptor = self._open(group)
        except OSError as error:
            self._report(error)

    def _open(self, group: str | None) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        with suppress(FileNotFoundError):
            return os.open(self._path, flags)  # an existing file keeps its mode
        is_new_directory = not self._path.parent.exists()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, flags | os.O_CREAT, 0o600)
        if group is not None:
            _share(descriptor, 0o640, group)
            if is_new_directory:
                _share(self._path.parent, 0o750, group)
        return descriptor

    def write(self, line: str, level: Level) -> None:  # noqa: ARG002 - a file has no levels
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))
        except OSError as error:
            self._descriptor = None
            self._report(error)

    def _report(self, error: OSError) -> None:
        print(  # noqa: T201 - the log itself cannot be used
            f"The log {self._path} cannot be written: {error.strerror}. Make it writable for {_user()}, "
            "free disk space, or set LOG_DIR. This run continues without a log.",
            file=sys.stderr,
        )


def _share(file: int | Path, mode: int, group: str) -> None:
    """Let the group read it; if that is not possible, it stays private."""
    import grp  # only for new files: an idle cycle must not import it

    try:
        os.chown(file, -1, grp.getgrnam(group).gr_gid)
        os.chmod(file, mode)  # noqa: PTH101 - of a descriptor, too
    except (KeyError, OSError) as error:
        reason = "there is no such group" if isinstance(error, KeyError) else f"{_user()} is not a member of it"
        print(  # noqa: T201 - before there is a log
            f"LOG_GROUP={group} cannot be used: {reason}. The log can be read by its owner only.", file=sys.stderr
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
