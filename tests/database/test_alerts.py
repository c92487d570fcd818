"""What is found wrong, and that of many hosts one tells it."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mayfly.admin.fleet import DAY, STALE_AFTER
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.fleet.cycles import close_cycle, open_cycle
from mayfly.fleet.runners import EndedRunner, close_runner
from mayfly.monitoring import alerts
from mayfly.monitoring.alerts import (
    KEEP_RESOLVED,
    LEASE,
    REPEAT_AFTER,
    Alert,
    AlertKind,
    AlertState,
    Incident,
    detect,
    load_alerts,
)
from mayfly.queue import pauses
from mayfly.queue.outcome import Outcome, Settlement
from mayfly.queue.outcome import OutcomeKind as Outcomes
from mayfly.queue.pauses import Pause
from mayfly.queue.settle import settle
from mayfly.settings import Settings, load
from tests.database.factories import change_job, claim_jobs, in_threads, insert_runner, make_settler
from tests.factories import NOON, insert_row, insert_rows

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
DIES = Outcome(Outcomes.DEAD, error="no such customer\n…", fingerprint="f1", attempt_ending=Outcomes.FAILED)
FAILS = Outcome(Outcomes.FAILED, error="timeout", fingerprint="f2", attempt_ending=Outcomes.FAILED)
LATE = Incident(AlertKind.LATE, "mail", "the oldest job waits", NOON)


@pytest.fixture
def plain(tmp_path: Path) -> Settings:
    return load({"MAYFLY_HOME": str(tmp_path), "LANES__MAIL__LATENCY_TARGET": "5m"}).settings


def found(database: Database, settings: Settings, later: timedelta = timedelta(0)) -> list[Incident]:
    now = database.clock.now() + later
    return database.read(lambda connection: detect(connection, settings, now))


# --- what is found ----------------------------------------------------------------------------------------


def test_a_table_in_which_all_is_well_has_no_symptoms(database: Database, plain: Settings) -> None:
    """Jobs that wait for a minute, and runners at work."""
    insert_row(database, lane="mail")
    insert_runner(database)

    assert found(database, plain) == []


def test_dead_jobs_are_found_by_type_and_error(database: Database, plain: Settings) -> None:
    """With the first line of their error, and how many; those that are tried again are not."""
    ids = insert_rows(database, 3, type="send")
    settled = [DIES, DIES, FAILS]
    settlements = [Settlement(job, outcome, 1) for job, outcome in zip(claim_jobs(database), settled, strict=True)]
    settle(database, make_settler(), settlements, {})

    [symptom] = found(database, plain)

    assert (symptom.kind, symptom.subject, symptom.times) == (AlertKind.DEAD, "send", 2)
    assert symptom.detail == f"2 jobs are dead, the last is job {ids[1]} (send, lane default): no such customer"


def test_a_dead_job_is_forgotten_after_an_hour_or_when_somebody_sees_to_it(
    database: Database, plain: Settings
) -> None:
    """It stays dead; that is for `mayfly dead` to show."""
    [job] = [*insert_rows(database, 1)]
    settle(database, make_settler(), [Settlement(each, DIES, 1) for each in claim_jobs(database)], {})

    assert len(found(database, plain)) == 1
    assert found(database, plain, HOUR + SECOND) == []
    change_job(database, job, status="pending", finished_at=None)
    assert [each for each in found(database, plain) if each.kind is AlertKind.DEAD] == []


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (EndedRunner("crash", signal=9), "were ended by signal 9 (crash)"),
        (EndedRunner("timeout", signal=9), "were ended by signal 9 (timeout)"),
        (EndedRunner("crash", exit_code=0), "crashed (crash)"),
        (EndedRunner("lost"), "disappeared (lost)"),
        (EndedRunner("ok", exit_code=0), None),
        (EndedRunner("error", exit_code=1), None),
        (EndedRunner("timeout", exit_code=2), None),
    ],
)
def test_runners_that_were_killed_are_found(
    database: Database, plain: Settings, ended: EndedRunner, told: str | None
) -> None:
    """Not those that ended by themselves, however they did."""
    insert_runner(database, "worker-1", "mail")
    now = database.clock.now()
    database.run(lambda connection: close_runner(connection, "worker-1", ended, now))

    expected = [f"runners of lane mail {told}: 1 in an hour, the last is worker-1"] if told else []
    assert [each.detail for each in found(database, plain)] == expected
    assert found(database, plain, HOUR + SECOND) == []


def test_a_lane_whose_target_has_passed_is_late(database: Database, plain: Settings) -> None:
    """By the oldest of its due jobs, whatever their priority; lanes without a target never are."""
    now = database.clock.now()
    insert_row(database, lane="mail", run_at=now - timedelta(minutes=4), priority=0)
    insert_row(database, lane="mail", run_at=now - timedelta(minutes=6), priority=2)
    insert_row(database, lane="other", run_at=now - timedelta(minutes=60))

    [symptom] = found(database, plain)

    assert (symptom.kind, symptom.subject) == (AlertKind.LATE, "mail")
    assert symptom.detail == "The oldest due job of lane mail has waited for 6 min; the target is 5 min."


def test_a_lane_that_is_paused_is_not_late(database: Database, plain: Settings) -> None:
    """Whoever paused it knows."""
    now = database.clock.now()
    insert_row(database, lane="mail", run_at=now - timedelta(minutes=6))
    database.run(lambda connection: pauses.pause(connection, Pause("lane", "mail", now)))

    assert found(database, plain) == []


@pytest.mark.parametrize(
    ("age", "is_silent"),
    [(STALE_AFTER - SECOND, False), (STALE_AFTER + SECOND, True), (DAY + SECOND, False)],
)
def test_a_host_whose_cycles_stay_away_is_silent(
    database: Database, plain: Settings, age: timedelta, is_silent: bool
) -> None:
    """Until it is taken for one that was taken away."""
    for host, at in (("here", database.clock.now()), ("there", database.clock.now() - age)):
        cycle(database, host, at)

    assert [(each.kind, each.subject) for each in found(database, plain)] == [(AlertKind.SILENT, "there")] * is_silent


# --- what is told, and by whom ----------------------------------------------------------------------------


def test_an_alert_is_kept_as_it_is_found(database: Database) -> None:
    """First, last, how often; and that it is over."""
    note(database, [LATE], NOON)
    note(database, [Incident(AlertKind.LATE, "mail", "still", NOON + MINUTE, times=2)], NOON + MINUTE)
    note(database, [], NOON + 2 * MINUTE)

    [alert] = database.read(load_alerts)
    assert (alert.kind, alert.subject, alert.detail, alert.times) == (AlertKind.LATE, "mail", "still", 2)
    assert (alert.first_at, alert.last_at) == (NOON, NOON + MINUTE)
    assert alert.recovered_at == NOON + 2 * MINUTE


def test_one_of_many_hosts_tells_it(database: Database, migrated_url: str) -> None:
    """All have found it, and all at once."""
    hosts = [Database(migrated_url) for _ in range(4)]
    wanted = [note(host, [LATE], NOON)[0] for host in hosts]

    taken = in_threads([partial(take, host, alert, NOON) for host, alert in zip(hosts, wanted, strict=True)])

    for host in hosts:
        host.close()
    assert sorted(taken) == [False, False, False, True]


def test_it_is_told_once_an_hour(database: Database) -> None:
    """And nobody who still has an old view of it tells it again."""
    [alert] = note(database, [LATE], NOON)
    tell(database, alert, NOON)

    assert note(database, [LATE], NOON + MINUTE) == []
    assert not take(database, alert, NOON + MINUTE)
    assert len(note(database, [LATE], NOON + REPEAT_AFTER)) == 1


def test_that_it_is_over_is_told_once(database: Database) -> None:
    """By one host."""
    tell(database, note(database, [LATE], NOON)[0], NOON)
    [over] = note(database, [], NOON + MINUTE)
    tell(database, over, NOON + MINUTE)

    assert (over.state, over.told_at) == (AlertState.RECOVERED, NOON)
    assert note(database, [], NOON + 2 * MINUTE) == []
    assert not take(database, over, NOON + 2 * MINUTE)


def test_what_nobody_took_is_told_by_the_next(database: Database) -> None:
    """At once if it was given back; after a while if its teller was killed."""
    [alert] = note(database, [LATE], NOON)
    assert take(database, alert, NOON)
    assert not take(database, alert, NOON + SECOND)
    assert take(database, alert, NOON + LEASE)

    database.run(partial(alerts.release, alert=alert))

    assert take(database, alert, NOON + LEASE + SECOND)


def test_what_is_long_over_is_forgotten(database: Database) -> None:
    """It was told."""
    note(database, [LATE], NOON)
    note(database, [], NOON)

    note(database, [], NOON + KEEP_RESOLVED + SECOND)

    assert database.read(load_alerts) == []


def test_a_long_name_and_a_long_reason_are_kept(database: Database) -> None:
    """A type has 64 letters at most, and an error as many as it likes."""
    note(database, [Incident(AlertKind.DEAD, "ß" * 300, "€" * 70_000, NOON)], NOON)

    [alert] = database.read(load_alerts)
    assert (alert.subject, len(alert.detail)) == ("ß" * 190, 70_000)


def note(database: Database, symptoms: list[Incident], now: Any) -> list[Alert]:
    return database.run(lambda connection: alerts.record_changes(connection, symptoms, now))


def take(database: Database, alert: Alert, now: Any) -> bool:
    return database.run(lambda connection: alerts.take_due(connection, alert, now))


def tell(database: Database, alert: Alert, now: Any) -> None:
    assert take(database, alert, now)
    database.run(lambda connection: alerts.record_sent(connection, alert, now))


def cycle(database: Database, host: str, at: Any) -> None:
    database.run(lambda connection: open_cycle(connection, milliseconds(at), host, at))
    database.run(lambda connection: close_cycle(connection, milliseconds(at), {"exit_code": 0}, at))
