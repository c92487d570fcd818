"""Parse the job filter in the address of a page, and times as users write them. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mayfly.admin.filters import MAX_ID, JobFilter, parse_field
from mayfly.errors import BadField
from mayfly.format import parse_duration, parse_time

MAX_IDS = 1000
FIELD_TEXT = re.compile(r"payload\.[^=\s]+=")
PAST_RULE = "how long ago (15m, 24h, 7d) or a time in UTC (2026-05-04T12:00)"
FUTURE_RULE = "how long from now (15m, 24h, 7d) or a time in UTC (2030-01-31T12:00)"


class PageFilter(NamedTuple):
    """The filter as the user wrote it; an empty field matches everything."""

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
    source: str = ""
    row: str = ""  # its primary key

    @property
    def query(self) -> dict[str, str]:
        """The query parameters of the address."""
        return {name: value for name, value in self._asdict().items() if value}

    @property
    def is_narrow(self) -> bool:
        """Whether actions on all matching jobs are allowed: not on all jobs, nor on all jobs of one status."""
        return bool(self._replace(status="", value="").query)

    @property
    def plain_text(self) -> str:
        """The text, unless it names a payload field."""
        return "" if FIELD_TEXT.match(self.text) else self.text

    @property
    def payload(self) -> tuple[tuple[str, str], ...] | None:
        """Also from a text such as `payload.order.id=7`."""
        fields = [(self.field, self.value)] if self.field else []
        return (*fields, *([parse_field(self.text)] if FIELD_TEXT.match(self.text) else [])) or None

    def job_filter(self, now: datetime) -> JobFilter:
        if self.row and not self.source:
            raise BadField("row", self.row, "given together with its source")
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
            text=self.plain_text or None,
            payload=self.payload,
            source=self.source or None,
            row=self.row or None,
        ).checked()

    def with_fixed_times(self, now: datetime) -> "PageFilter":
        """Make times absolute, so that it still matches the same jobs when the user confirms."""
        times = {name: parse_past(name, getattr(self, name), now) for name in ("since", "before", "ended")}
        return self._replace(**{name: at.isoformat() for name, at in times.items() if at is not None})


def filter_of(given: Mapping[str, Any]) -> PageFilter:
    """Read the filter from the parameters of an address or a form; others are ignored."""
    return PageFilter(**{name: str(given.get(name, "")).strip() for name in PageFilter._fields})


def parse_ids(given: str) -> tuple[int, ...] | None:
    words = re.split(r"[\s,]+", given.strip()) if given.strip() else []
    if not words:
        return None
    is_valid = all(re.fullmatch(r"[0-9]{1,19}", each, re.ASCII) and 1 <= int(each) <= MAX_ID for each in words)
    if len(words) > MAX_IDS or not is_valid:
        raise BadField("id", given, f"up to {MAX_IDS} job ids, separated by commas")
    return tuple(map(int, words))


def parse_past(name: str, given: str, now: datetime) -> datetime | None:
    return _parse_time(name, given, now, -1, PAST_RULE)


def parse_future(name: str, given: str, now: datetime) -> datetime | None:
    return _parse_time(name, given, now, 1, FUTURE_RULE)


def parse_until(given: str, now: datetime) -> datetime | None:
    until = parse_future("until", given.strip(), now)
    if until is not None and until <= now:
        raise BadField("until", given, "a time in the future, such as 15m, 2h, 1d or 2030-01-31T12:00")
    return until


def _parse_time(name: str, given: str, now: datetime, direction: int, rule: str) -> datetime | None:
    """Parse a duration relative to now, or a time, in UTC unless it has a zone."""
    if not given:
        return None
    try:
        if given[-1] in "smhdw":
            return now + direction * parse_duration(given)
        return parse_time(given, UTC)
    except (ValueError, OverflowError):
        raise BadField(name, given, rule) from None
