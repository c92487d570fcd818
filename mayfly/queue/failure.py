"""What is stored of an error: a text of limited length that every database can hold, and its fingerprint. Pure."""

import hashlib
import re
import traceback
from dataclasses import dataclass

ERROR_LIMIT = 16_000  # characters: a long traceback, and far from any packet limit

_VARYING = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"", re.IGNORECASE)


@dataclass(frozen=True)
class Failure:
    """The same error on other data has the same fingerprint."""

    message: str  # one line
    text: str  # the message, and the traceback below it
    fingerprint: str

    @classmethod
    def from_error(cls, error: BaseException) -> "Failure":
        message = storable(_one_line(error))
        # The first frame is the call of the handler, in Mayfly itself.
        trace = error.__traceback__.tb_next if error.__traceback__ else None
        frames = "".join(traceback.format_tb(trace)).rstrip()
        where = traceback.extract_tb(trace)[-1].name if trace else ""
        text = bounded(storable(f"{message}\n{frames}" if frames else message))
        return cls(message, text, _fingerprint(f"{message} {where}"))

    @classmethod
    def from_reason(cls, reason: str) -> "Failure":
        text = bounded(storable(reason))
        return cls(text.partition("\n")[0], text, _fingerprint(text))


def storable(text: str) -> str:
    """NUL and lone surrogates as escapes: PostgreSQL takes no NUL, UTF-8 no surrogates."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


def bounded(text: str, limit: int = ERROR_LIMIT) -> str:
    """Keeps both ends: what the error was, and where it happened."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - limit:,} characters omitted …\n{text[-half:]}"


def _one_line(error: BaseException) -> str:
    try:
        message = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - the handler's own __str__ may fail, and the job's row must still be written
        message = "(its text cannot be shown)"
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def _fingerprint(text: str) -> str:
    shape = _VARYING.sub("…", text.partition("\n")[0])
    return hashlib.sha256(shape.encode()).hexdigest()[:16]
