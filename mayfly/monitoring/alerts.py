"""Alerts: detect incidents in the tables, keep them as rows that all hosts share, and send what is due.

An alert is sent by one host, at most once an hour while it lasts, and once more when it is over. A new kind is a
member of AlertKind and a function in DETECTORS.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from mayfly import log_messages
from mayfly.admin.health import ProblemKind, problems, read_snapshot
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import Undelivered
from mayfly.fleet.runners import LOST
from mayfly.log import Log
from mayfly.monitoring.channels import CHANNELS
from mayfly.settings import Settings

REPEAT_AFTER = timedelta(hours=1)  # the same alert is not sent sooner


class AlertKind(StrEnum):
    DEAD = "dead job"
    KILLED = "runner killed"
    LATE = "lane late"
    SILENT = "host silent"


# Events: over when they have not happened again for an hour. The other kinds are states, which end.
ONE_TIME_KINDS = frozenset({AlertKind.DEAD, AlertKind.KILLED})


class AlertState(StrEnum):
    FIRING = "firing"
    RECOVERED = "recovered"


@dataclass(frozen=True)
class Incident:
    """Something wrong, as one query of the tables found it."""

    kind: AlertKind
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
    """An incident as all hosts know it, and what was sent about it."""

    fingerprint: str
    kind: AlertKind
    subject: str
    detail: str
    first_at: datetime
    last_at: datetime
    times: int = 1
    told_at: datetime | None = None  # when it was last sent as firing
    told: AlertState | None = None  # the state that was sent last
    recovered_at: datetime | None = None

    @property
    def state(self) -> AlertState:
        return AlertState.FIRING if self.recovered_at is None else AlertState.RECOVERED

    @property
    def is_firing(self) -> bool:
        return self.recovered_at is None

    @property
    def message_id(self) -> str:
        """The same for each attempt to send the same message, so that receivers can drop duplicates."""
        since = self.first_at if self.told_at is None else max(self.first_at, self.told_at)
        return f"mayfly_{self.fingerprint}_{self.state}_{since:%Y%m%d%H%M%S%f}"


def changed_alerts(known: Mapping[str, Alert], found: Iterable[Incident], now: datetime) -> Iterator[Alert]:
    """Alerts that are new, changed or over. Pure."""
    seen = {each.fingerprint: each for each in found}
    for fingerprint, incident in seen.items():
        before = known.get(fingerprint)
        after = _seen(incident, before, now)
        if after != before:
            yield after
    for fingerprint, alert in known.items():
        if fingerprint not in seen and alert.recovered_at is None:
            yield replace(alert, recovered_at=now)


def _seen(incident: Incident, before: Alert | None, now: datetime) -> Alert:
    facts = {"detail": incident.detail, "last_at": incident.last_at, "times": incident.times}
    if before is None:
        return Alert(incident.fingerprint, incident.kind, incident.subject, first_at=now, **facts)  # type: ignore[arg-type]
    first_at = now if before.recovered_at is not None else before.first_at
    return replace(before, first_at=first_at, recovered_at=None, **facts)  # type: ignore[arg-type]


def is_due(alert: Alert, now: datetime) -> bool:
    """Firing: once an hour while it lasts or happens again. Over: once, if the firing was sent. Pure."""
    if alert.recovered_at is not None:
        return alert.told is AlertState.FIRING
    if alert.told_at is None:
        return True
    is_new = alert.kind not in ONE_TIME_KINDS or alert.last_at > alert.told_at
    return is_new and alert.told_at <= now - REPEAT_AFTER


LEASE = timedelta(seconds=30)  # far longer than sending may take, and over before the next cycle
KEEP_RESOLVED = timedelta(days=7)
SUBJECT_LENGTH = 190

FACTS = ("kind", "subject", "detail", "first_at", "last_at", "recovered_at", "times")
KNOWN_ALERTS = (
    "SELECT fingerprint, kind, subject, detail, first_at, last_at, times, told_at, told, recovered_at"
    " FROM mayfly_alerts"
)
FREE = "fingerprint = :fingerprint AND (telling_until IS NULL OR telling_until <= :now)"

# Several hosts may try; one of them changes the row.
TAKE = {
    AlertState.FIRING: f"{FREE} AND recovered_at IS NULL AND (told_at IS NULL OR told_at <= :again)",
    AlertState.RECOVERED: f"{FREE} AND recovered_at IS NOT NULL AND told = '{AlertState.FIRING}'",
}
FORGET = "DELETE FROM mayfly_alerts WHERE recovered_at < :before"


def record_changes(connection: Connection, found: Sequence[Incident], now: datetime) -> list[Alert]:
    """Write what has changed; returns the alerts that are due to be sent."""
    known = {each.fingerprint: each for each in load_alerts(connection)}
    for alert in changed_alerts(known, found, now):
        _write(connection, alert, is_new=alert.fingerprint not in known)
        known[alert.fingerprint] = alert
    connection.execute(FORGET, {"before": now - KEEP_RESOLVED})
    return [each for each in known.values() if is_due(each, now)]


def take_due(connection: Connection, alert: Alert, now: datetime) -> bool:
    """Whether this host may send it: it holds the alert until LEASE is over."""
    taking = f"UPDATE mayfly_alerts SET telling_until = :until WHERE {TAKE[alert.state]}"
    values = {"fingerprint": alert.fingerprint, "now": now, "until": now + LEASE}
    if alert.is_firing:
        values["again"] = now - REPEAT_AFTER
    return connection.execute(taking, values).rowcount == 1


def record_sent(connection: Connection, alert: Alert, now: datetime) -> None:
    """A firing alert is due again after REPEAT_AFTER, a recovered one never."""
    told_at = now if alert.is_firing else alert.told_at
    _change(connection, alert, {"told": alert.state, "told_at": told_at, "telling_until": None})


def release(connection: Connection, alert: Alert) -> None:
    """No channel took it: the next cycle tries again."""
    _change(connection, alert, {"telling_until": None})


def load_alerts(connection: Connection) -> list[Alert]:
    return [_alert(*row) for row in connection.execute(KNOWN_ALERTS).all()]


def _write(connection: Connection, alert: Alert, is_new: bool) -> None:
    """Never what was sent, which the sending host writes. A new alert may just have been written by another host."""
    facts = {name: getattr(alert, name) for name in FACTS} | {"subject": alert.subject[:SUBJECT_LENGTH]}
    if not is_new:
        return _change(connection, alert, facts)
    row = {"fingerprint": alert.fingerprint, **facts}
    connection.execute(connection.dialect.insert_missing("mayfly_alerts", ("fingerprint",), row), row)
    return None


def _change(connection: Connection, alert: Alert, values: dict[str, Any]) -> None:
    changes = connection.dialect.assignments(values)
    changing = f"UPDATE mayfly_alerts SET {changes} WHERE fingerprint = :fingerprint"
    connection.execute(changing, {**values, "fingerprint": alert.fingerprint})


def _alert(fingerprint: str, kind: str, subject: str, detail: str, *rest: Any) -> Alert:
    first_at, last_at, times, told_at, told, recovered_at = rest
    return Alert(
        fingerprint, AlertKind(kind), subject, detail, utc_from_driver(first_at), utc_from_driver(last_at), times,
        told_at=_time(told_at), told=None if told is None else AlertState(told), recovered_at=_time(recovered_at),
    )  # fmt: skip


def _time(value: Any) -> datetime | None:
    return None if value is None else utc_from_driver(value)


MAX_ATTEMPTS_READ = 10_000  # failed ones, the newest: the cycle must not wait for a storm of failures

# A dead job has the finished_at of its last attempt: both are written together.
DEAD_JOBS = (
    "SELECT j.lane, j.type, a.fingerprint, COUNT(*), MAX(a.finished_at), MAX(j.id) FROM (SELECT job_id, fingerprint,"
    " finished_at FROM mayfly_attempts WHERE finished_at > :since ORDER BY finished_at DESC"
    f" LIMIT {MAX_ATTEMPTS_READ}) AS a JOIN mayfly_jobs AS j ON j.id = a.job_id"
    " WHERE j.status = 'dead' AND j.finished_at = a.finished_at GROUP BY j.lane, j.type, a.fingerprint"
)
LAST_ERROR = "SELECT last_error FROM mayfly_jobs WHERE id = :id"

# SIGNAL is a keyword in MySQL: with the table's name before it, it is a column everywhere.
KILLED_RUNNERS = (
    "SELECT r.lane, r.ending, r.signal, COUNT(*), MAX(r.finished_at), MAX(r.worker_id) FROM mayfly_runners AS r"
    f" WHERE r.finished_at > :since AND (r.signal IS NOT NULL OR r.ending IN ('crash', '{LOST}'))"
    " GROUP BY r.lane, r.ending, r.signal"
)


def dead_jobs(connection: Connection, _settings: Settings, now: datetime) -> Iterator[Incident]:
    """Of the last hour, by lane, type and error."""
    found = connection.execute(DEAD_JOBS, {"since": now - REPEAT_AFTER}).all()
    for lane, type_name, error, times, last_at, job_id in found:
        reason = str(connection.execute(LAST_ERROR, {"id": job_id}).scalar() or "").partition("\n")[0]
        jobs = f"{times} jobs are dead, the last is job {job_id}" if times > 1 else f"job {job_id} is dead"
        detail = f"{jobs} ({type_name}, lane {lane}): {reason}"
        yield Incident(AlertKind.DEAD, type_name, detail, utc_from_driver(last_at), times, cause=f"{lane} {error}")


def killed_runners(connection: Connection, _settings: Settings, now: datetime) -> Iterator[Incident]:
    """Of the last hour, by lane and cause."""
    for lane, ending, signal, times, last_at, worker_id in connection.execute(
        KILLED_RUNNERS, {"since": now - REPEAT_AFTER}
    ).all():
        how = "disappeared" if ending == LOST else "crashed" if signal is None else f"were ended by signal {signal}"
        detail = f"runners of lane {lane} {how} ({ending}): {times} in an hour, the last is {worker_id}"
        yield Incident(AlertKind.KILLED, lane, detail, utc_from_driver(last_at), times, cause=f"{ending} {signal}")


def unhealthy(connection: Connection, settings: Settings, now: datetime) -> Iterator[Incident]:
    """Late lanes and silent hosts, as `mayfly status` reports them."""
    for problem in problems(read_snapshot(connection, settings, now), settings):
        kind = PROBLEM_ALERTS.get(problem.kind)
        if kind is not None and problem.subject:
            yield Incident(kind, problem.subject, problem.text, now)


PROBLEM_ALERTS = {ProblemKind.WAIT: AlertKind.LATE, ProblemKind.CYCLE: AlertKind.SILENT}
DETECTORS: tuple[Callable[[Connection, Settings, datetime], Iterable[Incident]], ...] = (
    dead_jobs,
    killed_runners,
    unhealthy,
)


def detect(connection: Connection, settings: Settings, now: datetime) -> list[Incident]:
    return [incident for find in DETECTORS for incident in find(connection, settings, now)]


def send_alerts(settings: Settings, database: Database, log: Log) -> None:
    """Each alert is sent by one host. It counts as sent if one channel took it: else every minute would repeat it."""
    now = database.clock.now()
    found = database.read(lambda connection: detect(connection, settings, now))
    due = database.run(lambda connection: record_changes(connection, found, now))
    ours = [alert for alert in due if database.run(partial(take_due, alert=alert, now=now))]
    unsent = {alert.fingerprint: alert for alert in ours}
    for alert in _delivered(settings, log, ours, now):
        if unsent.pop(alert.fingerprint, None):
            log.say(log_messages.alert_sent(alert.state, alert.kind, alert.detail))
            database.run(partial(record_sent, alert=alert, now=now))
    for alert in unsent.values():
        database.run(partial(release, alert=alert))


def _delivered(settings: Settings, log: Log, alerts: Sequence[Alert], now: datetime) -> Iterator[Alert]:
    """Alerts as the channels take them; a channel that fails does not stop the others."""
    for name, channel in CHANNELS.items():
        try:
            if alerts:
                yield from channel.send(settings, alerts, now)
        except Undelivered as error:
            log.say(log_messages.alert_undelivered(name, str(error)))
