"""Decide which alerts there are and which of them to tell. Pure: what was found and what is known, and the time."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

AGAIN = timedelta(hours=1)  # the same alert is not told sooner


class Kind(StrEnum):
    DEAD = "dead job"
    KILLED = "runner killed"
    LATE = "lane late"
    SILENT = "host silent"


# What happens, and is over when it has not happened again for a while; the others last, and end.
HAPPENS = frozenset({Kind.DEAD, Kind.KILLED})


class Told(StrEnum):
    FIRING = "firing"
    RECOVERED = "recovered"


@dataclass(frozen=True)
class Symptom:
    """Something wrong, as one look at the tables has found it."""

    kind: Kind
    subject: str  # a type, a lane, a host
    detail: str  # a sentence
    last_at: datetime
    times: int = 1
    cause: str = ""  # the same subject may have several

    @property
    def fingerprint(self) -> str:
        text = "\n".join((self.kind, self.subject, self.cause))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Alert:
    """What all hosts know of one symptom."""

    fingerprint: str
    kind: Kind
    subject: str
    detail: str
    first_at: datetime
    last_at: datetime
    times: int = 1
    told_at: datetime | None = None  # when it was told last that it is there
    told: Told | None = None
    recovered_at: datetime | None = None

    @property
    def state(self) -> Told:
        return Told.FIRING if self.recovered_at is None else Told.RECOVERED

    @property
    def message_id(self) -> str:
        """The same for every try to tell the same: who gets it twice can know."""
        since = self.first_at if self.told_at is None else max(self.first_at, self.told_at)
        return f"mayfly_{self.fingerprint}_{self.state}_{since:%Y%m%d%H%M%S%f}"


def changed(known: Mapping[str, Alert], found: Iterable[Symptom], now: datetime) -> Iterator[Alert]:
    """Alerts that are new, not as they were, or over."""
    seen = {each.fingerprint: each for each in found}
    for fingerprint, symptom in seen.items():
        before = known.get(fingerprint)
        after = _seen(symptom, before, now)
        if after != before:
            yield after
    for fingerprint, alert in known.items():
        if fingerprint not in seen and alert.recovered_at is None:
            yield replace(alert, recovered_at=now)


def _seen(symptom: Symptom, before: Alert | None, now: datetime) -> Alert:
    facts = {"detail": symptom.detail, "last_at": symptom.last_at, "times": symptom.times}
    if before is None:
        return Alert(symptom.fingerprint, symptom.kind, symptom.subject, first_at=now, **facts)  # type: ignore[arg-type]
    first_at = now if before.recovered_at is not None else before.first_at
    return replace(before, first_at=first_at, recovered_at=None, **facts)  # type: ignore[arg-type]


def is_to_be_told(alert: Alert, now: datetime) -> bool:
    """That it is there, once an hour while it lasts or happens again; that it is over, if somebody heard of it."""
    if alert.recovered_at is not None:
        return alert.told is Told.FIRING
    if alert.told_at is None:
        return True
    is_new = alert.kind not in HAPPENS or alert.last_at > alert.told_at
    return is_new and alert.told_at <= now - AGAIN
