"""The rows of alerts, which all hosts share: what is known, and who tells it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from mayfly.alerts.decide import AGAIN, Alert, Kind, Symptom, Told, changed, is_to_be_told
from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver

LEASE = timedelta(seconds=30)  # far longer than telling may take, and over before the next cycle
KEPT = timedelta(days=7)  # what is over
SUBJECT_LENGTH = 190

FACTS = ("kind", "subject", "detail", "first_at", "last_at", "recovered_at", "times")
KNOWN = (
    "SELECT fingerprint, kind, subject, detail, first_at, last_at, times, told_at, told, recovered_at"
    " FROM mayfly_alerts"
)
FREE = "fingerprint = :fingerprint AND (telling_until IS NULL OR telling_until <= :now)"
# Of several hosts that know the same, one changes the row.
TAKE = {
    Told.FIRING: f"{FREE} AND recovered_at IS NULL AND (told_at IS NULL OR told_at <= :again)",
    Told.RECOVERED: f"{FREE} AND recovered_at IS NOT NULL AND told = '{Told.FIRING}'",
}
FORGET = "DELETE FROM mayfly_alerts WHERE recovered_at < :before"


def note(connection: Connection, found: Sequence[Symptom], now: datetime) -> list[Alert]:
    """Write down what has changed; the alerts that somebody should be told of."""
    known = {each.fingerprint: each for each in load_alerts(connection)}
    for alert in changed(known, found, now):
        _write(connection, alert, is_new=alert.fingerprint not in known)
        known[alert.fingerprint] = alert
    connection.execute(FORGET, {"before": now - KEPT})
    return [each for each in known.values() if is_to_be_told(each, now)]


def take(connection: Connection, alert: Alert, now: datetime) -> bool:
    """Whether it is ours to tell."""
    taking = f"UPDATE mayfly_alerts SET telling_until = :until WHERE {TAKE[alert.state]}"
    values = {"fingerprint": alert.fingerprint, "now": now, "until": now + LEASE}
    if alert.state is Told.FIRING:
        values["again"] = now - AGAIN
    return connection.execute(taking, values).rowcount == 1


def note_told(connection: Connection, alert: Alert, now: datetime) -> None:
    """It stays an hour until it may be told again; that it is over is not told twice."""
    told_at = now if alert.state is Told.FIRING else alert.told_at
    _change(connection, alert, {"told": alert.state, "told_at": told_at, "telling_until": None})


def give_back(connection: Connection, alert: Alert) -> None:
    """Nobody took it: the next cycle tries again."""
    _change(connection, alert, {"telling_until": None})


def load_alerts(connection: Connection) -> list[Alert]:
    return [_alert(*row) for row in connection.execute(KNOWN).all()]


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
        fingerprint, Kind(kind), subject, detail, utc_from_driver(first_at), utc_from_driver(last_at), times,
        told_at=_time(told_at), told=None if told is None else Told(told), recovered_at=_time(recovered_at),
    )  # fmt: skip


def _time(value: Any) -> datetime | None:
    return None if value is None else utc_from_driver(value)
