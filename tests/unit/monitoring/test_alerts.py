"""When alerts are sent: once an hour while they last, and once when they recover."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mayfly.monitoring.alerts import (
    REPEAT_AFTER,
    Alert,
    AlertKind,
    AlertState,
    Incident,
    bundled,
    changed_alerts,
    is_due,
)
from tests.factories import NOON

MINUTE = timedelta(minutes=1)
LATE = Incident(AlertKind.LATE, "mail", "the oldest job waits", NOON)
DEAD = Incident(AlertKind.DEAD, "send", "job 1 is dead", NOON, cause="f1")


def known(incident: Incident, **changes: object) -> Alert:
    first = Alert(incident.fingerprint, incident.kind, incident.subject, incident.detail, NOON, incident.last_at)
    return replace(first, **changes)  # type: ignore[arg-type]


def after(alert: Alert | None, incidents: list[Incident], now: datetime) -> Alert | None:
    found = list(changed_alerts({alert.fingerprint: alert} if alert else {}, incidents, now))
    assert len(found) <= 1
    return found[0] if found else None


def test_a_new_incident_is_an_alert_that_is_sent() -> None:
    """It is sent in the same cycle."""
    alert = after(None, [LATE], NOON)

    assert alert == known(LATE)
    assert is_due(alert, NOON)


def test_an_alert_that_no_channel_accepted_is_sent_again() -> None:
    """The next attempt is a minute later."""
    assert is_due(known(LATE), NOON + MINUTE)


@pytest.mark.parametrize(("passed", "sent"), [(MINUTE, False), (REPEAT_AFTER - MINUTE, False), (REPEAT_AFTER, True)])
def test_a_lasting_alert_is_sent_once_an_hour(passed: timedelta, sent: bool) -> None:
    """Until it recovers."""
    alert = known(LATE, told_at=NOON, told=AlertState.FIRING)

    assert is_due(alert, NOON + passed) is sent


@pytest.mark.parametrize(("last_at", "sent"), [(NOON, False), (NOON + MINUTE, True)])
def test_an_event_is_sent_again_only_if_it_happened_again(last_at: datetime, sent: bool) -> None:
    """A dead job is not reported again after an hour; another dead job is."""
    alert = known(DEAD, told_at=NOON, told=AlertState.FIRING, last_at=last_at)

    assert is_due(alert, NOON + REPEAT_AFTER) is sent


def test_an_incident_that_is_gone_recovers_and_is_sent() -> None:
    """The recovery is sent once."""
    recovered = after(known(LATE, told_at=NOON, told=AlertState.FIRING), [], NOON + MINUTE)

    assert recovered is not None
    assert (recovered.recovered_at, recovered.state) == (NOON + MINUTE, AlertState.RECOVERED)
    assert is_due(recovered, NOON + MINUTE)
    assert not is_due(replace(recovered, told=AlertState.RECOVERED), NOON + MINUTE)


def test_a_recovery_is_not_sent_if_the_alert_never_was() -> None:
    """The incident ended before the first delivery."""
    recovered = after(known(LATE), [], NOON + MINUTE)

    assert recovered is not None
    assert not is_due(recovered, NOON + MINUTE)


def test_a_flapping_alert_is_not_sent_each_time() -> None:
    """It is sent at most once an hour, and its recovery only if the incident was sent."""
    sent = known(LATE, told_at=NOON, told=AlertState.RECOVERED, recovered_at=NOON + MINUTE)
    again = after(sent, [replace(LATE, last_at=NOON + 2 * MINUTE)], NOON + 2 * MINUTE)

    assert again is not None
    assert (again.first_at, again.recovered_at) == (NOON + 2 * MINUTE, None)
    assert not is_due(again, NOON + 2 * MINUTE)
    assert is_due(again, NOON + REPEAT_AFTER)
    recovered = after(again, [], NOON + 3 * MINUTE)
    assert recovered is not None
    assert not is_due(recovered, NOON + 3 * MINUTE)


def test_an_unchanged_incident_is_no_change() -> None:
    """No row is written."""
    assert after(known(LATE), [LATE], NOON + MINUTE) is None
    assert after(known(LATE, recovered_at=NOON), [], NOON + MINUTE) is None


def test_incidents_with_different_causes_are_separate_alerts() -> None:
    """Jobs of a type can fail for two reasons."""
    assert DEAD.fingerprint != replace(DEAD, cause="f2").fingerprint
    assert DEAD.fingerprint == replace(DEAD, detail="job 2 is dead", times=2).fingerprint


def test_a_message_keeps_its_id_when_it_is_sent_again() -> None:
    """The message of the next hour and the recovery have new ids."""
    first = known(LATE)
    later = replace(first, told_at=NOON + REPEAT_AFTER, detail="another")
    recovered = replace(first, told_at=NOON, recovered_at=NOON + MINUTE)

    assert replace(first, detail="another", last_at=NOON + MINUTE).message_id == first.message_id
    assert len({each.message_id for each in (first, later, recovered)}) == 3


# --- bundles ----------------------------------------------------------------------------------------------


def deaths(number: int, **changes: object) -> list[Alert]:
    """Alerts about one type that died of so many errors, the last one most often."""
    return [
        known(
            replace(DEAD, cause=f"f{each}", detail=f"detail {each}"),
            times=each,
            last_at=NOON + each * MINUTE,
            **changes,
        )
        for each in range(1, number + 1)
    ]


def test_up_to_three_alerts_of_a_type_are_sent_alone() -> None:
    """However many there are of other types, kinds or states."""
    alerts = [
        *deaths(3),
        *deaths(3, subject="other"),
        *deaths(3, kind=AlertKind.KILLED),
        *deaths(3, recovered_at=NOON),
    ]

    assert list(bundled(alerts)) == [(each, [each]) for each in alerts]


def test_more_than_three_alerts_of_a_type_are_one_message() -> None:
    """It has the most frequent ones, the number of the others, and the figures of all."""
    alerts = deaths(5)

    [(message, reported)] = bundled(alerts)

    assert reported == alerts
    assert message.detail == "5 alerts about send: detail 5; detail 4; detail 3; and 2 more"
    assert (message.kind, message.subject, message.state) == (AlertKind.DEAD, "send", AlertState.FIRING)
    assert (message.times, message.first_at, message.last_at) == (15, NOON, NOON + 5 * MINUTE)


def test_a_bundle_keeps_its_id_when_it_is_sent_again() -> None:
    """A bundle of other alerts, or of a later hour, has another one."""
    first, same, other, later = (
        next(iter(bundled(alerts)))[0].message_id
        for alerts in (deaths(4), reversed(deaths(4)), deaths(5), deaths(4, told_at=NOON + REPEAT_AFTER))
    )

    assert first == same
    assert len({first, other, later}) == 3
