"""Which jobs a page shows: the filter that lives in its address, and what it means. Pure."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mayfly.admin.filters import MAX_ID, JobFilter
from mayfly.errors import BadField

MAX_IDS = 1000
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
TIME_RULE = "so long ago (15m, 24h, 7d) or a time in UTC (2026-05-04T12:00)"
LATER_RULE = "so long from now (15m, 24h, 7d) or a time in UTC (2026-05-04T12:00)"


class PageFilter(NamedTuple):
    """As people wrote it; empty is whatever."""

    id: str = ""
    type: str = ""
    lane: str = ""
    group: str = ""
    error: str = ""  # a fingerprint
    status: str = ""
    since: str = ""  # enqueued
    before: str = ""  # enqueued
    ended: str = ""  # since then
    text: str = ""
    field: str = ""
    value: str = ""

    @property
    def query(self) -> dict[str, str]:
        """What stands in the address."""
        return {name: value for name, value in self._asdict().items() if value}

    @property
    def looks_inside(self) -> bool:
        """For what no verb can be told: it knows columns."""
        return bool(self.text or self.field)

    @property
    def is_narrow(self) -> bool:
        """Whether all that match may be meant by a verb: never everything, nor all of a status."""
        return bool(self._replace(status="", text="", field="", value="").query) and not self.looks_inside

    def which(self, now: datetime) -> JobFilter:
        return JobFilter(
            ids=read_ids(self.id),
            group_key=self.group or None,
            lane=self.lane or None,
            type=self.type or None,
            status=self.status or None,
            created_before=read_time("before", self.before, now),
            created_after=read_time("since", self.since, now),
            error=self.error or None,
            finished_after=read_time("ended", self.ended, now),
        ).checked()

    @property
    def inside(self) -> tuple[str, str] | None:
        return (self.field, self.value) if self.field else None

    def settled(self, now: datetime) -> "PageFilter":
        """With times that stay where they are, however long somebody thinks about it."""
        times = {name: read_time(name, getattr(self, name), now) for name in ("since", "before", "ended")}
        return self._replace(**{name: at.isoformat() for name, at in times.items() if at is not None})


def filter_of(given: Mapping[str, Any]) -> PageFilter:
    """From an address or a form; what is not a filter's is left alone."""
    return PageFilter(**{name: str(given.get(name, "")).strip() for name in PageFilter._fields})


def read_ids(given: str) -> tuple[int, ...] | None:
    words = re.split(r"[\s,]+", given.strip()) if given.strip() else []
    if not words:
        return None
    if len(words) > MAX_IDS or not all(re.fullmatch(r"[0-9]{1,19}", each, re.ASCII) for each in words):
        raise BadField("id", given, f"up to {MAX_IDS} numbers of jobs, with commas between them")
    return tuple(_id(int(each)) for each in words)


def _id(given: int) -> int:
    if not 1 <= given <= MAX_ID:
        raise BadField("id", given, "a whole number above 0, as large as an id can be")
    return given


def read_time(name: str, given: str, now: datetime) -> datetime | None:
    """So long ago, or a time; one without a zone is in UTC."""
    return _time(name, given, now, -1, TIME_RULE)


def read_later(name: str, given: str, now: datetime) -> datetime | None:
    """The same, from now."""
    return _time(name, given, now, 1, LATER_RULE)


def _time(name: str, given: str, now: datetime, direction: int, rule: str) -> datetime | None:
    if not given:
        return None
    distance = re.fullmatch(r"([0-9]{1,6})([mhdw])", given, re.ASCII)
    try:
        if distance:
            return now + direction * timedelta(**{UNITS[distance[2]]: int(distance[1])})
        at = datetime.fromisoformat(given)
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise BadField(name, given, rule) from None


def ids_of(given: Sequence[str]) -> str:
    """Ticked boxes as one filter."""
    return ",".join(given)
