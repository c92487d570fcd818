"""Alerts: detect incidents in the tables, store them as rows that all hosts share, and send those that are due.

An alert is sent by one host, at most once per hour while it is firing, and once when it has recovered. A new kind is
a member of AlertKind and a function in DETECTORS.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from mayfly import log_messages
from mayfly.admin.filters import newest_failures, read_payloads
from mayfly.admin.health import ProblemKind, problems, read_snapshot
from mayfly.admin.jobs import read_views
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import Undelivered
from mayfly.fleet.runners import LOST
from mayfly.fleet.submitted import refusals
from mayfly.format import plural
from mayfly.log import Log
from mayfly.monitoring.channels import CHANNELS
from mayfly.monitoring.redact import first_line
from mayfly.settings import Settings

REPEAT_AFTER = timedelta(hours=1)  # a firing alert is not repeated earlier
MAX_SINGLE_ALERTS = 3  # about one subject in a cycle; more are sent as one message
SUBJECT_LENGTH = 190  # of the column


class AlertKind(StrEnum):
    DEAD = "dead job"
    KILLED = "runner killed"
    LATE = "lane late"
    SILENT = "host silent"
    REFUSED = "launcher refused"


# Events: they recover when they have not happened for an hour. The other kinds are states, which end.
ONE_TIME_KINDS = frozenset({AlertKind.DEAD, AlertKind.KILLED})


class AlertState(StrEnum):
    FIRING = "firing"
    RECOVERED = "recovered"


@dataclass(frozen=True)
class Incident:
    """A problem found by a detector."""

    kind: AlertKind
    subject: str  # a type, a lane, a host
    detail: str  # a sentence
    last_at: datetime
    times: int = 1
    cause: str = ""  # one subject may have several

    @property
    def fingerprint(self) -> str:
        return _hash(self.kind, self.subject, self.cause)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Alert:
    """A stored incident, shared by all hosts, and what was sent about it."""

    fingerprint: str
    kind: str
    subject: str
    detail: str
    first_at: datetime
    last_at: datetime
    times: int = 1
    told_at: datetime | None = None  # when it was last sent as firing
    told: str | None = None  # the state that was sent last
    recovered_at: datetime | None = None

    @property
    def is_firing(self) -> bool:
        return self.recovered_at is None

    @property
    def state(self) -> AlertState:
        return AlertState.FIRING if self.is_firing else AlertState.RECOVERED

    @property
    def message_id(self) -> str:
        """The same for repeated attempts to send one message, so that receivers can drop duplicates."""
        since = self.first_at if self.told_at is None else max(self.first_at, self.told_at)
        return f"mayfly_{self.fingerprint}_{self.state}_{since:%Y%m%d%H%M%S%f}"


def changed_alerts(known: Mapping[str, Alert], found: Iterable[Incident], now: datetime) -> Iterator[Alert]:
    """Alerts that are new, changed or recovered. Pure."""
    seen = {each.fingerprint: each for each in found}
    for fingerprint, incident in seen.items():
        before = known.get(fingerprint)
        first_at = before.first_at if before and before.is_firing else now
        told_at, told = (before.told_at, before.told) if before else (None, None)
        after = Alert(
            fingerprint, incident.kind, incident.subject[:SUBJECT_LENGTH], incident.detail, first_at,
            incident.last_at, incident.times, told_at, told,
        )  # fmt: skip
        if after != before:
            yield after
    for fingerprint, alert in known.items():
        if fingerprint not in seen and alert.is_firing:
            yield replace(alert, recovered_at=now)


def is_due(alert: Alert, now: datetime) -> bool:
    """Firing: once per hour while it lasts or happens again. Recovered: once, if it was sent as firing. Pure."""
    if not alert.is_firing:
        return alert.told == AlertState.FIRING
    if alert.told_at is None:
        return True
    is_new = alert.kind not in ONE_TIME_KINDS or alert.last_at > alert.told_at
    return is_new and alert.told_at <= now - REPEAT_AFTER


def bundled(due: Iterable[Alert]) -> Iterator[tuple[Alert, Sequence[Alert]]]:
    """The messages to send, each with the alerts that it reports: more than three of one type share one. Pure."""
    groups: dict[tuple[str, str, AlertState], list[Alert]] = {}
    for alert in due:
        groups.setdefault((alert.kind, alert.subject, alert.state), []).append(alert)
    for group in groups.values():
        if len(group) > MAX_SINGLE_ALERTS:
            yield _bundle(group), group
        else:
            yield from ((alert, [alert]) for alert in group)


def _bundle(group: Sequence[Alert]) -> Alert:
    """Its fingerprint depends on all of them: if it must be sent again, it has the same message_id."""
    most_frequent = sorted(group, key=lambda each: (-each.times, each.fingerprint))[:MAX_SINGLE_ALERTS]
    details = "; ".join(each.detail for each in most_frequent)
    rest = len(group) - len(most_frequent)
    return replace(
        most_frequent[0],
        fingerprint=_hash(*sorted(each.fingerprint for each in group)),
        detail=f"{len(group)} alerts about {most_frequent[0].subject}: {details}; and {rest} more",
        first_at=min(each.first_at for each in group),
        last_at=max(each.last_at for each in group),
        times=sum(each.times for each in group),
        told_at=max((each.told_at for each in group if each.told_at), default=None),
    )


LEASE = timedelta(seconds=30)  # far longer than sending takes, and shorter than a cycle
KEEP_RESOLVED = timedelta(days=7)

FACTS = ("kind", "subject", "detail", "first_at", "last_at", "recovered_at", "times")
FREE = "fingerprint = :fingerprint AND (telling_until IS NULL OR telling_until <= :now)"

# Several hosts may try; only one of them changes the row.
TAKE = {
    AlertState.FIRING: f"{FREE} AND recovered_at IS NULL AND (told_at IS NULL OR told_at <= :again)",
    AlertState.RECOVERED: f"{FREE} AND recovered_at IS NOT NULL AND told = '{AlertState.FIRING}'",
}
FORGET = "DELETE FROM mayfly_alerts WHERE recovered_at < :before"


def record_changes(connection: Connection, found: Sequence[Incident], now: datetime) -> list[Alert]:
    """Write changed alerts and return those that are due."""
    known = {each.fingerprint: each for each in load_alerts(connection)}
    for alert in changed_alerts(known, found, now):
        _write(connection, alert, is_new=alert.fingerprint not in known)
        known[alert.fingerprint] = alert
    connection.execute(FORGET, {"before": now - KEEP_RESOLVED})
    return [each for each in known.values() if is_due(each, now)]


def take_due(connection: Connection, alert: Alert, now: datetime) -> bool:
    """True if this host may send it; no other host can for the time of LEASE."""
    taking = f"UPDATE mayfly_alerts SET telling_until = :until WHERE {TAKE[alert.state]}"
    values = {"fingerprint": alert.fingerprint, "now": now, "until": now + LEASE, "again": now - REPEAT_AFTER}
    return connection.execute(taking, values).rowcount == 1


def record_sent(connection: Connection, alert: Alert, now: datetime) -> None:
    """A firing alert is due again after REPEAT_AFTER, a recovered one never."""
    told_at = now if alert.is_firing else alert.told_at
    _change(connection, alert, {"told": alert.state, "told_at": told_at, "telling_until": None})


def release(connection: Connection, alert: Alert) -> None:
    """No channel delivered it: the next cycle tries again."""
    _change(connection, alert, {"telling_until": None})


def load_alerts(connection: Connection) -> list[Alert]:
    return read_views(connection, Alert, "mayfly_alerts")


def _write(connection: Connection, alert: Alert, is_new: bool) -> None:
    """Without the columns of the sending host. Another host may have inserted the same new alert."""
    facts = {name: getattr(alert, name) for name in FACTS}
    if not is_new:
        return _change(connection, alert, facts)
    row = {"fingerprint": alert.fingerprint, **facts}
    connection.execute(connection.dialect.insert_missing("mayfly_alerts", ("fingerprint",), row), row)
    return None


def _change(connection: Connection, alert: Alert, values: dict[str, Any]) -> None:
    changes = connection.dialect.assignments(values)
    changing = f"UPDATE mayfly_alerts SET {changes} WHERE fingerprint = :fingerprint"
    connection.execute(changing, {**values, "fingerprint": alert.fingerprint})


MAX_ATTEMPTS_READ = 10_000  # of each outcome, the newest: many failures must not slow down the cycle

# A dead job has the finished_at of its last attempt: both are written together.
DEAD_JOBS = (
    "SELECT j.lane, j.type, a.fingerprint, COUNT(*), MAX(a.finished_at), MAX(j.id)"
    f" FROM {newest_failures('job_id, fingerprint, finished_at', MAX_ATTEMPTS_READ)} AS a"
    " JOIN mayfly_jobs AS j ON j.id = a.job_id"
    " WHERE j.status = 'dead' AND j.finished_at = a.finished_at GROUP BY j.lane, j.type, a.fingerprint"
)
LAST_ERROR = "SELECT last_error FROM mayfly_jobs WHERE id = :id"

# SIGNAL is a keyword in MySQL: with the table's name before it, it is a column everywhere.
KILLED_RUNNERS = (
    "SELECT r.lane, r.ending, r.signal, COUNT(*), MAX(r.finished_at), MAX(r.worker_id), MAX(r.cause)"
    " FROM mayfly_runners AS r"
    f" WHERE r.finished_at > :since AND (r.signal IS NOT NULL OR r.ending IN ('crash', '{LOST}'))"
    " GROUP BY r.lane, r.ending, r.signal"
)


def dead_jobs(connection: Connection, settings: Settings, now: datetime) -> Iterator[Incident]:
    """Jobs that died in the last hour, by lane, type and error."""
    found = connection.execute(DEAD_JOBS, {"since": now - REPEAT_AFTER}).all()
    for lane, type_name, error, times, last_at, job_id in found:
        last_error = connection.execute(LAST_ERROR, {"id": job_id}).scalar()
        reason = first_line(settings.redact, read_payloads(connection, [job_id]).get(job_id), last_error)
        jobs = f"{times} jobs are dead, the last is job {job_id}" if times > 1 else f"job {job_id} is dead"
        detail = f"{jobs} ({type_name}, lane {lane}): {reason}"
        yield Incident(AlertKind.DEAD, type_name, detail, utc_from_driver(last_at), times, cause=f"{lane} {error}")


def killed_runners(connection: Connection, _settings: Settings, now: datetime) -> Iterator[Incident]:
    """Runners that were killed or crashed in the last hour, by lane and cause."""
    found = connection.execute(KILLED_RUNNERS, {"since": now - REPEAT_AFTER}).all()
    for lane, ending, signal, times, last_at, worker_id, why in found:
        how = "disappeared" if ending == LOST else "crashed" if signal is None else f"killed by signal {signal}"
        detail = f"{plural(times, 'runner')} of lane {lane} {how} in the last hour ({ending}), last {worker_id}"
        detail += f"; its engine reports: {why}" if why else ""
        yield Incident(AlertKind.KILLED, lane, detail, utc_from_driver(last_at), times, cause=f"{ending} {signal}")


def unhealthy(connection: Connection, settings: Settings, now: datetime) -> Iterator[Incident]:
    """Late lanes and silent hosts, as `mayfly status` reports them."""
    for problem in problems(read_snapshot(connection, settings, now), settings):
        kind = PROBLEM_ALERTS.get(problem.kind)
        if kind is not None and problem.subject:
            yield Incident(kind, problem.subject, problem.text, now)


def refused_submits(connection: Connection, settings: Settings, now: datetime) -> Iterator[Incident]:
    """Lanes whose last submit was refused by their launcher."""
    for lane, refusal in refusals(connection, now).items() if settings.launchers else ():
        detail = f"the launcher {refusal.launcher} refused a runner of lane {lane}: {refusal.reason}"
        yield Incident(AlertKind.REFUSED, lane, detail, refusal.at, refusal.times, cause=refusal.launcher)


PROBLEM_ALERTS = {ProblemKind.WAIT: AlertKind.LATE, ProblemKind.CYCLE: AlertKind.SILENT}
Detector = Callable[[Connection, Settings, datetime], Iterable[Incident]]
DETECTORS: tuple[Detector, ...] = (dead_jobs, killed_runners, refused_submits, unhealthy)


def detect(connection: Connection, settings: Settings, now: datetime) -> list[Incident]:
    return [incident for find in DETECTORS for incident in find(connection, settings, now)]


def send_alerts(settings: Settings, database: Database, log: Log) -> None:
    """Each alert is sent by one host, alone or in a bundle.

    One delivered channel is enough: otherwise every cycle would repeat it.
    """
    now = database.clock.now()
    found = database.read(lambda connection: detect(connection, settings, now))
    due = database.run(lambda connection: record_changes(connection, found, now))
    ours = [alert for alert in due if database.run(partial(take_due, alert=alert, now=now))]
    messages = list(bundled(ours))
    unsent = {message.fingerprint: alerts for message, alerts in messages}
    for message in _delivered(settings, log, [message for message, _alerts in messages], now):
        if alerts := unsent.pop(message.fingerprint, None):
            log.write(log_messages.alert_sent(message.state, message.kind, message.detail))
            for alert in alerts:
                database.run(partial(record_sent, alert=alert, now=now))
    for alert in (each for alerts in unsent.values() for each in alerts):
        database.run(partial(release, alert=alert))


def _delivered(settings: Settings, log: Log, alerts: Sequence[Alert], now: datetime) -> Iterator[Alert]:
    """Delivered alerts, by channel; a channel that fails does not stop the others."""
    for name, channel in CHANNELS.items():
        try:
            if alerts:
                yield from channel.send(settings, alerts, now)
        except Undelivered as error:
            log.write(log_messages.alert_undelivered(name, str(error)))
