"""What `mayfly schedules` shows: each schedule with its last and its next runs, in its zone and in UTC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mayfly.schedules.decide import Known
from mayfly.schedules.entry import Entry
from mayfly.schedules.recurrence import next_due

NEXT_SHOWN = 5


@dataclass(frozen=True)
class Listed:
    entry: Entry
    known: Known | None
    now: datetime

    @property
    def last(self) -> datetime | None:
        return self.known.last_due_at if self.known else None

    @property
    def next(self) -> list[datetime]:
        return next_due(self.entry.expression, self.entry.zone, self.now, NEXT_SHOWN)

    @property
    def pause(self) -> Known | None:
        return self.known if self.known and self.known.is_paused(self.now) else None


def listed(entries: Sequence[Entry], known: Mapping[str, Known], now: datetime) -> list[Listed]:
    return [Listed(each, known.get(each.name), now) for each in entries]


def facts(each: Listed) -> dict[str, Any]:
    entry, pause = each.entry, each.pause
    return {
        "name": entry.name,
        "rule": entry.expression,
        "tz": entry.tz,
        "runs": entry.what,
        "lane": entry.lane,
        "where": entry.where,
        "paused": pause and {
            "since": _both(entry, pause.paused_at),
            "until": _both(entry, pause.paused_until),
            "by": pause.paused_by,
            "reason": pause.pause_reason,
        },
        "last": _both(entry, each.last),
        "next": [_both(entry, at) for at in each.next],
    }  # fmt: skip


def text(each: Listed) -> str:
    entry, pause = each.entry, each.pause
    lines = [f"{entry.name}  {entry.expression}  {entry.tz}  {entry.what}  ({entry.where})"]
    if pause is not None:
        until = f" until {_shown(entry, pause.paused_until)}" if pause.paused_until else ""
        reason = f": {pause.pause_reason}" if pause.pause_reason else ""
        lines.append(f"  paused by {pause.paused_by}{until}{reason}")
    lines.append(f"  last  {_shown(entry, each.last) if each.last else 'never'}")
    lines += [f"  {'next' if number == 0 else '    '}  {_shown(entry, at)}" for number, at in enumerate(each.next)]
    return "\n".join(lines)


def _both(entry: Entry, at: datetime | None) -> dict[str, str] | None:
    if at is None:
        return None
    local, utc = at.astimezone(entry.zone), at.astimezone(UTC)
    return {"local": local.isoformat(timespec="seconds"), "utc": utc.isoformat(timespec="seconds")}


def _shown(entry: Entry, at: datetime | None) -> str:
    """The zone's own time first; UTC behind it, with its date where that is another."""
    if at is None:
        return "-"
    local, utc = at.astimezone(entry.zone), at.astimezone(UTC)
    if local.utcoffset() == utc.utcoffset():
        return f"{utc:%a %Y-%m-%d %H:%M} UTC"
    other = f"{utc:%H:%M}" if local.date() == utc.date() else f"{utc:%Y-%m-%d %H:%M}"
    return f"{local:%a %Y-%m-%d %H:%M %Z} ({other} UTC)"
