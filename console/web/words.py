"""Times, sizes and numbers as the pages say them. Pure."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from mayfly.spans import moment, span

MEBIBYTE = 1 << 20


def ago(at: datetime, now: datetime) -> str:
    """3 min ago, in 2 h, just now."""
    away = now - at
    if abs(away) < timedelta(seconds=1):
        return "just now"
    return f"{span(away)} ago" if away > timedelta(0) else f"in {span(-away)}"


def exact(at: datetime) -> str:
    return moment(at)


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(milliseconds: float | None) -> str:
    """12 ms, 3.4 s, 7 min."""
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{round(seconds, 1):g} s" if seconds < 120 else span(timedelta(seconds=seconds))


def seconds(given: float | None) -> str:
    return "" if given is None else duration(given * 1000)


def mebibytes(given: int | None) -> str:
    return "" if given is None else f"{given / MEBIBYTE:,.0f} MiB"


def number(given: Any) -> str:
    """With its thousands; a capped one says so itself."""
    return f"{given:,}" if isinstance(given, int) else str(given)


def as_json(given: Any) -> str:
    return json.dumps(given, indent=2, ensure_ascii=False, default=str)


FILTERS = {"exact": exact, "iso": iso, "duration": duration, "seconds": seconds, "number": number,
           "mebibytes": mebibytes, "as_json": as_json}  # fmt: skip
