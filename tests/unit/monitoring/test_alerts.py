"""Which alerts there are, and which are told: once an hour each, and that they are over."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mayfly.monitoring.alerts import REPEAT_AFTER, Alert, AlertKind, AlertState, Incident, changed_alerts, is_due
from tests.factories import NOON

MINUTE = timedelta(minutes=1)
LATE = Incident(AlertKind.LATE, "mail", "the oldest job waits", NOON)
DEAD = Incident(AlertKind.DEAD, "send", "job 1 is dead", NOON, cause="f1")


def known(symptom: Incident, **changes: object) -> Alert:
    first = Alert(symptom.fingerprint, symptom.kind, symptom.subject, symptom.detail, NOON, symptom.last_at)
    return replace(first, **changes)  # type: ignore[arg-type]


def after(alert: Alert | None, symptoms: list[Incident], now: datetime) -> Alert | None:
    found = list(changed_alerts({alert.fingerprint: alert} if alert else {}, symptoms, now))
    assert len(found) <= 1
    return found[0] if found else None


def test_a_new_symptom_is_an_alert_that_is_told() -> None:
    """At once."""
    alert = after(None, [LATE], NOON)

    assert alert == known(LATE)
    assert is_due(alert, NOON)


def test_one_that_nobody_took_is_told_again() -> None:
    """The next minute: nobody has heard of it."""
    assert is_due(known(LATE), NOON + MINUTE)


@pytest.mark.parametrize(("passed", "told"), [(MINUTE, False), (REPEAT_AFTER - MINUTE, False), (REPEAT_AFTER, True)])
def test_what_lasts_is_told_once_an_hour(passed: timedelta, told: bool) -> None:
    """Until it is over."""
    alert = known(LATE, told_at=NOON, told=AlertState.FIRING)

    assert is_due(alert, NOON + passed) is told


@pytest.mark.parametrize(("last_at", "told"), [(NOON, False), (NOON + MINUTE, True)])
def test_what_happens_is_told_again_if_it_has_happened_again(last_at: datetime, told: bool) -> None:
    """A job that died is not news an hour later; another one is."""
    alert = known(DEAD, told_at=NOON, told=AlertState.FIRING, last_at=last_at)

    assert is_due(alert, NOON + REPEAT_AFTER) is told


def test_what_is_no_longer_found_is_over_and_told() -> None:
    """Once."""
    over = after(known(LATE, told_at=NOON, told=AlertState.FIRING), [], NOON + MINUTE)

    assert over is not None
    assert (over.recovered_at, over.state) == (NOON + MINUTE, AlertState.RECOVERED)
    assert is_due(over, NOON + MINUTE)
    assert not is_due(replace(over, told=AlertState.RECOVERED), NOON + MINUTE)


def test_that_it_is_over_is_not_news_to_those_who_never_heard_of_it() -> None:
    """It came and went before anybody could be told."""
    over = after(known(LATE), [], NOON + MINUTE)

    assert over is not None
    assert not is_due(over, NOON + MINUTE)


def test_one_that_comes_and_goes_is_not_told_each_time() -> None:
    """Once an hour is all; and nobody is told that it is over who was not told that it is there."""
    told = known(LATE, told_at=NOON, told=AlertState.RECOVERED, recovered_at=NOON + MINUTE)
    again = after(told, [replace(LATE, last_at=NOON + 2 * MINUTE)], NOON + 2 * MINUTE)

    assert again is not None
    assert (again.first_at, again.recovered_at) == (NOON + 2 * MINUTE, None)
    assert not is_due(again, NOON + 2 * MINUTE)
    assert is_due(again, NOON + REPEAT_AFTER)
    over = after(again, [], NOON + 3 * MINUTE)
    assert over is not None
    assert not is_due(over, NOON + 3 * MINUTE)


def test_nothing_new_is_no_change() -> None:
    """Nothing is written."""
    assert after(known(LATE), [LATE], NOON + MINUTE) is None
    assert after(known(LATE, recovered_at=NOON), [], NOON + MINUTE) is None


def test_causes_are_kept_apart() -> None:
    """The same type may die of two things."""
    assert DEAD.fingerprint != replace(DEAD, cause="f2").fingerprint
    assert DEAD.fingerprint == replace(DEAD, detail="job 2 is dead", times=2).fingerprint


def test_a_message_has_one_id_however_often_it_is_sent() -> None:
    """And each new one another: the next hour's, and that it is over."""
    first = known(LATE)
    later = replace(first, told_at=NOON + REPEAT_AFTER, detail="another")
    over = replace(first, told_at=NOON, recovered_at=NOON + MINUTE)

    assert replace(first, detail="another", last_at=NOON + MINUTE).message_id == first.message_id
    assert len({each.message_id for each in (first, later, over)}) == 3
