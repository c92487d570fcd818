"""Decide which alerts there are and which of them to tell. Pure: what was found and what is known, and the time."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from mayfly import log_messages
from mayfly.admin.lanes import list_lanes
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import Undelivered
from mayfly.fleet.runners import LOST
from mayfly.format import format_duration
from mayfly.log import Log
from mayfly.settings import Settings
from mayfly.stats.history import read_cycles

REPEAT_AFTER = timedelta(hours=1)  # the same alert is not told sooner


class AlertKind(StrEnum):
    DEAD = "dead job"
    KILLED = "runner killed"
    LATE = "lane late"
    SILENT = "host silent"


# What happens, and is over when it has not happened again for a while; the others last, and end.
ONE_TIME_KINDS = frozenset({AlertKind.DEAD, AlertKind.KILLED})


class AlertState(StrEnum):
    FIRING = "firing"
    RECOVERED = "recovered"


@dataclass(frozen=True)
class Symptom:
    """Something wrong, as one look at the tables has found it."""

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
    """What all hosts know of one symptom."""

    fingerprint: str
    kind: AlertKind
    subject: str
    detail: str
    first_at: datetime
    last_at: datetime
    times: int = 1
    told_at: datetime | None = None  # when it was told last that it is there
    told: AlertState | None = None
    recovered_at: datetime | None = None

    @property
    def state(self) -> AlertState:
        return AlertState.FIRING if self.recovered_at is None else AlertState.RECOVERED

    @property
    def message_id(self) -> str:
        """The same for every try to tell the same: who gets it twice can know."""
        since = self.first_at if self.told_at is None else max(self.first_at, self.told_at)
        return f"mayfly_{self.fingerprint}_{self.state}_{since:%Y%m%d%H%M%S%f}"


def changed_alerts(known: Mapping[str, Alert], found: Iterable[Symptom], now: datetime) -> Iterator[Alert]:
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


def is_due(alert: Alert, now: datetime) -> bool:
    """That it is there, once an hour while it lasts or happens again; that it is over, if somebody heard of it."""
    if alert.recovered_at is not None:
        return alert.told is AlertState.FIRING
    if alert.told_at is None:
        return True
    is_new = alert.kind not in ONE_TIME_KINDS or alert.last_at > alert.told_at
    return is_new and alert.told_at <= now - REPEAT_AFTER


LEASE = timedelta(seconds=30)  # far longer than telling may take, and over before the next cycle
KEEP_RESOLVED = timedelta(days=7)  # what is over
SUBJECT_LENGTH = 190

FACTS = ("kind", "subject", "detail", "first_at", "last_at", "recovered_at", "times")
KNOWN_ALERTS = (
    "SELECT fingerprint, kind, subject, detail, first_at, last_at, times, told_at, told, recovered_at"
    " FROM mayfly_alerts"
)
FREE = "fingerprint = :fingerprint AND (telling_until IS NULL OR telling_until <= :now)"

# Of several hosts that know the same, one changes the row.
TAKE = {
    AlertState.FIRING: f"{FREE} AND recovered_at IS NULL AND (told_at IS NULL OR told_at <= :again)",
    AlertState.RECOVERED: f"{FREE} AND recovered_at IS NOT NULL AND told = '{AlertState.FIRING}'",
}
FORGET = "DELETE FROM mayfly_alerts WHERE recovered_at < :before"


def record_changes(connection: Connection, found: Sequence[Symptom], now: datetime) -> list[Alert]:
    """Write down what has changed; the alerts that somebody should be told of."""
    known = {each.fingerprint: each for each in load_alerts(connection)}
    for alert in changed_alerts(known, found, now):
        _write(connection, alert, is_new=alert.fingerprint not in known)
        known[alert.fingerprint] = alert
    connection.execute(FORGET, {"before": now - KEEP_RESOLVED})
    return [each for each in known.values() if is_due(each, now)]


def take_due(connection: Connection, alert: Alert, now: datetime) -> bool:
    """Whether it is ours to tell."""
    taking = f"UPDATE mayfly_alerts SET telling_until = :until WHERE {TAKE[alert.state]}"
    values = {"fingerprint": alert.fingerprint, "now": now, "until": now + LEASE}
    if alert.state is AlertState.FIRING:
        values["again"] = now - REPEAT_AFTER
    return connection.execute(taking, values).rowcount == 1


def record_sent(connection: Connection, alert: Alert, now: datetime) -> None:
    """It stays an hour until it may be told again; that it is over is not told twice."""
    told_at = now if alert.state is AlertState.FIRING else alert.told_at
    _change(connection, alert, {"told": alert.state, "told_at": told_at, "telling_until": None})


def release(connection: Connection, alert: Alert) -> None:
    """Nobody took it: the next cycle tries again."""
    _change(connection, alert, {"telling_until": None})


def load_alerts(connection: Connection) -> list[Alert]:
    return [_alert(*row) for row in connection.execute(KNOWN_ALERTS).all()]


def _write(connection: Connection, alert: Alert, is_new: bool) -> None:
    """Never what was told, which is another's matter. A new one that another host has just written is the same."""
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


HOST_SILENT_AFTER = timedelta(minutes=5)  # longer than any cycle
HOST_FORGOTTEN_AFTER = timedelta(days=1)  # a host that was taken away
MAX_ROWS_READ = 10_000  # failed attempts, the newest: a storm of them must not hold up the cycle

# A job that died has the time of its last attempt, which was written with it.
DEAD_JOBS = (
    "SELECT j.lane, j.type, a.fingerprint, COUNT(*), MAX(a.finished_at), MAX(j.id) FROM (SELECT job_id, fingerprint,"
    " finished_at FROM mayfly_attempts WHERE finished_at > :since ORDER BY finished_at DESC"
    f" LIMIT {MAX_ROWS_READ}) AS a JOIN mayfly_jobs AS j ON j.id = a.job_id"
    " WHERE j.status = 'dead' AND j.finished_at = a.finished_at GROUP BY j.lane, j.type, a.fingerprint"
)
LAST_ERROR = "SELECT last_error FROM mayfly_jobs WHERE id = :id"

# With the table's name before it, even a word like SIGNAL is a column everywhere.
KILLED_RUNNERS = (
    "SELECT r.lane, r.ending, r.signal, COUNT(*), MAX(r.finished_at), MAX(r.worker_id) FROM mayfly_runners AS r"
    f" WHERE r.finished_at > :since AND (r.signal IS NOT NULL OR r.ending IN ('crash', '{LOST}'))"
    " GROUP BY r.lane, r.ending, r.signal"
)


def detect(connection: Connection, settings: Settings, now: datetime) -> list[Symptom]:
    return [
        *dead_jobs(connection, now),
        *killed_runners(connection, now),
        *late_lanes(connection, settings, now),
        *silent_hosts(connection, now),
    ]


def dead_jobs(connection: Connection, now: datetime) -> Iterator[Symptom]:
    """Of the last hour, by lane, type and error."""
    found = connection.execute(DEAD_JOBS, {"since": now - REPEAT_AFTER}).all()
    for lane, type_name, error, times, last_at, job_id in found:
        reason = str(connection.execute(LAST_ERROR, {"id": job_id}).scalar() or "").partition("\n")[0]
        jobs = f"{times} jobs are dead, the last is job {job_id}" if times > 1 else f"job {job_id} is dead"
        detail = f"{jobs} ({type_name}, lane {lane}): {reason}"
        yield Symptom(AlertKind.DEAD, type_name, detail, utc_from_driver(last_at), times, cause=f"{lane} {error}")


def killed_runners(connection: Connection, now: datetime) -> Iterator[Symptom]:
    """Of the last hour, by lane and by what killed them."""
    for lane, ending, signal, times, last_at, worker_id in connection.execute(
        KILLED_RUNNERS, {"since": now - REPEAT_AFTER}
    ).all():
        how = "disappeared" if ending == LOST else "crashed" if signal is None else f"were ended by signal {signal}"
        detail = f"runners of lane {lane} {how} ({ending}): {times} in an hour, the last is {worker_id}"
        yield Symptom(AlertKind.KILLED, lane, detail, utc_from_driver(last_at), times, cause=f"{ending} {signal}")


def late_lanes(connection: Connection, settings: Settings, now: datetime) -> Iterator[Symptom]:
    """Those whose LATENCY_TARGET has passed. Whoever has paused a lane knows that it waits."""
    targets = {lane: each.latency_target for lane, each in settings.lanes.items() if each.latency_target}
    for each in list_lanes(connection, settings, now) if targets else ():
        target, waits = targets.get(each.lane), each.wait_seconds or 0.0
        if target is not None and waits > target and not each.paused:
            spans = [format_duration(timedelta(seconds=seconds)) for seconds in (waits, target)]
            detail = f"the oldest job of lane {each.lane} waits for {spans[0]}, and should for {spans[1]} at most"
            yield Symptom(AlertKind.LATE, each.lane, detail, now)


def silent_hosts(connection: Connection, now: datetime) -> Iterator[Symptom]:
    last: dict[str, datetime] = {}
    for each in read_cycles(connection):
        last[each.host] = max(each.last_at, last.get(each.host, each.last_at))
    for host, at in last.items():
        if HOST_SILENT_AFTER < now - at <= HOST_FORGOTTEN_AFTER:
            detail = f"the last cycle of host {host} began {format_duration(now - at)} ago: is cron running there?"
            yield Symptom(AlertKind.SILENT, host, detail, at)


def send_alerts(settings: Settings, database: Database, log: Log) -> None:
    """Each by one host. What one way took is told, or the other's failure would bring it again every minute."""
    now = database.clock.now()
    found = database.read(lambda connection: detect(connection, settings, now))
    wanted = database.run(lambda connection: record_changes(connection, found, now))
    ours = [alert for alert in wanted if database.run(partial(take_due, alert=alert, now=now))]
    untold = {alert.fingerprint: alert for alert in ours}
    for alert in _delivered(settings, database, log, ours):
        if untold.pop(alert.fingerprint, None):
            log.say(log_messages.alert_sent(alert.state, alert.kind, alert.detail))
            database.run(partial(record_sent, alert=alert, now=now))
    for alert in untold.values():
        database.run(partial(release, alert=alert))


def _delivered(settings: Settings, database: Database, log: Log, alerts: Sequence[Alert]) -> Iterator[Alert]:
    """As each way takes them."""
    for name, way in (("webhook", _by_webhook), ("mail", _by_mail)):
        try:
            if alerts:
                yield from way(settings, database, alerts)
        except Undelivered as error:
            log.say(log_messages.alert_undelivered(name, str(error)))


def _by_webhook(settings: Settings, database: Database, alerts: Sequence[Alert]) -> Iterator[Alert]:
    """One a message. After the first that is not taken the others are not tried: they would wait as long."""
    url, secret = settings.alert_webhook_url, settings.alert_webhook_secret
    if url is None or secret is None:
        return
    from mayfly.monitoring.channels import send_webhook

    for alert in alerts:
        send_webhook(
            url.get_secret_value(), secret.get_secret_value(), alert, settings.host_name, database.clock.now()
        )
        yield alert


def _by_mail(settings: Settings, database: Database, alerts: Sequence[Alert]) -> Iterator[Alert]:
    if not settings.alert_mail_to:
        return
    from mayfly.monitoring.channels import default_sender, mail_message, send_mail

    sender = settings.alert_mail_from or default_sender(settings.host_name)
    message = mail_message(alerts, sender, settings.alert_mail_to, settings.host_name, database.clock.now())
    send_mail(settings.alert_smtp_url.get_secret_value(), message)
    yield from alerts
