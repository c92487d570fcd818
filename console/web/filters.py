"""The filter of a list of jobs, as it stands in the address of a page, and times as users write them. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mayfly.admin.filters import MAX_ID, JobFilter
from mayfly.errors import BadField
from mayfly.format import parse_duration

MAX_IDS = 1000
PAST_RULE = "how long ago (15m, 24h, 7d) or a time in UTC (2026-05-04T12:00)"
FUTURE_RULE = "how long from now (15m, 24h, 7d) or a time in UTC (2026-05-04T12:00)"


class PageFilter(NamedTuple):
    """As the user wrote it; an empty field matches everything."""

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
        """The parameters of the address."""
        return {name: value for name, value in self._asdict().items() if value}

    @property
    def searches_content(self) -> bool:
        """Such a filter can be shown, but not acted on: actions filter by columns only."""
        return bool(self.text or self.field)

    @property
    def is_narrow(self) -> bool:
        """Whether an action on all matching jobs is offered: never on all jobs, nor on all of a status."""
        return bool(self._replace(status="", text="", field="", value="").query) and not self.searches_content

    @property
    def payload_field(self) -> tuple[str, str] | None:
        return (self.field, self.value) if self.field else None

    def job_filter(self, now: datetime) -> JobFilter:
        return JobFilter(
            ids=parse_ids(self.id),
            group_key=self.group or None,
            lane=self.lane or None,
            type=self.type or None,
            status=self.status or None,
            created_before=parse_past("before", self.before, now),
            created_after=parse_past("since", self.since, now),
            error=self.error or None,
            finished_after=parse_past("ended", self.ended, now),
        ).checked()

    def with_fixed_times(self, now: datetime) -> "PageFilter":
        """With absolute times, so that it matches the same jobs when the user confirms later."""
        times = {name: parse_past(name, getattr(self, name), now) for name in ("since", "before", "ended")}
        return self._replace(**{name: at.isoformat() for name, at in times.items() if at is not None})


def filter_of(given: Mapping[str, Any]) -> PageFilter:
    """From the parameters of an address or a form; others are ignored."""
    return PageFilter(**{name: str(given.get(name, "")).strip() for name in PageFilter._fields})


def parse_ids(given: str) -> tuple[int, ...] | None:
    words = re.split(r"[\s,]+", given.strip()) if given.strip() else []
    if not words:
        return None
    if len(words) > MAX_IDS or not all(re.fullmatch(r"[0-9]{1,19}", each, re.ASCII) for each in words):
        raise BadField("id", given, f"up to {MAX_IDS} job ids, separated by commas")
    return tuple(_id(int(each)) for each in words)


def _id(given: int) -> int:
    if not 1 <= given <= MAX_ID:
        raise BadField("id", given, f"an integer, 1–{MAX_ID}")
    return given


def parse_past(name: str, given: str, now: datetime) -> datetime | None:
    return _parse_time(name, given, now, -1, PAST_RULE)


def parse_future(name: str, given: str, now: datetime) -> datetime | None:
    return _parse_time(name, given, now, 1, FUTURE_RULE)


def _parse_time(name: str, given: str, now: datetime, direction: int, rule: str) -> datetime | None:
    """A duration relative to now, or a time; without a zone it is UTC."""
    if not given:
        return None
    try:
        if given[-1] in "smhdw":
            return now + direction * parse_duration(given)
        at = datetime.fromisoformat(given)
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise BadField(name, given, rule) from None
