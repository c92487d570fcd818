"""Detecting incidents, and that one of many hosts sends the alert."""

import re
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mayfly.admin.fleet import STALE_AFTER
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.fleet.cycles import FORGOTTEN_AFTER, close_cycle, open_cycle
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
from mayfly.queue.outcome import DONE, Outcome, Settlement
from mayfly.queue.outcome import OutcomeKind as Outcomes
from mayfly.queue.pauses import Pause
from mayfly.queue.settle import settle
from mayfly.schema.metadata import attempts
from mayfly.settings import Settings, load
from tests.database.factories import change_job, claim_jobs, in_threads, insert_runner, make_settler, rows_of
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


# --- detection --------------------------------------------------------------------------------------------


def test_a_healthy_installation_has_no_incidents(database: Database, plain: Settings) -> None:
    """Jobs that have waited for a minute, and live runners."""
    insert_row(database, lane="mail")
    insert_runner(database)

    assert found(database, plain) == []


def test_dead_jobs_are_found_by_type_and_error(database: Database, plain: Settings) -> None:
    """With the first line of their error and their number; retried ones are not found."""
    ids = insert_rows(database, 3, type="send")
    settled = [DIES, DIES, FAILS]
    settlements = [Settlement(job, outcome, 1) for job, outcome in zip(claim_jobs(database), settled, strict=True)]
    settle(database, make_settler(), settlements, {})

    [incident] = found(database, plain)

    assert (incident.kind, incident.subject, incident.times) == (AlertKind.DEAD, "send", 2)
    assert incident.detail == f"2 jobs are dead, the last is job {ids[1]} (send, lane default): no such customer"


@pytest.mark.parametrize("payload", ['{"password": "hunter22"}', '{"password": "other"}'])
def test_alerts_have_no_values_of_redacted_fields(database: Database, plain: Settings, payload: str) -> None:
    """Neither those of the payload nor what follows the name of such a field."""
    error = "login failed: password=hunter22"
    job_id = insert_row(database, type="send", payload=payload)
    outcome = replace(DIES, error=error)
    settle(database, make_settler(), [Settlement(job, outcome, 1) for job in claim_jobs(database)], {})

    [incident] = found(database, plain)

    assert incident.detail == f"job {job_id} is dead (send, lane default): login failed: password=•••"


def test_dead_jobs_are_found_among_many_successes(
    database: Database, plain: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept successes are not counted among the newest attempts that are read."""
    [dead, *done] = insert_rows(database, 5)
    settlements = [Settlement(job, DIES if job.id == dead else DONE, 1) for job in claim_jobs(database)]
    settler = replace(make_settler(), success_lanes=["default"])
    settle(database, settler, settlements[:1], {})
    settle(database, settler, settlements[1:], {})
    monkeypatch.setattr(alerts, "DEAD_JOBS", re.sub(r"LIMIT \d+", "LIMIT 2", alerts.DEAD_JOBS))

    assert [each.times for each in found(database, plain)] == [1]
    assert len(rows_of(database, attempts)) == 1 + len(done)


def test_a_dead_job_is_an_incident_for_an_hour_or_until_it_is_retried(database: Database, plain: Settings) -> None:
    """It stays dead and is listed by `mayfly dead`."""
    [job] = [*insert_rows(database, 1)]
    settle(database, make_settler(), [Settlement(each, DIES, 1) for each in claim_jobs(database)], {})

    assert len(found(database, plain)) == 1
    assert found(database, plain, HOUR + SECOND) == []
    change_job(database, job, status="pending", finished_at=None)
    assert [each for each in found(database, plain) if each.kind is AlertKind.DEAD] == []


@pytest.mark.parametrize(
    ("ended", "ending"),
    [
        (EndedRunner("crash", signal=9), "killed by signal 9"),
        (EndedRunner("timeout", signal=9), "killed by signal 9"),
        (EndedRunner("crash", exit_code=0), "crashed"),
        (EndedRunner("lost"), "disappeared"),
        (EndedRunner("ok", exit_code=0), None),
        (EndedRunner("error", exit_code=1), None),
        (EndedRunner("timeout", exit_code=2), None),
    ],
)
def test_killed_runners_are_found(
    database: Database, plain: Settings, ended: EndedRunner, ending: str | None
) -> None:
    """Runners that exited by themselves are not."""
    insert_runner(database, "worker-1", "mail")
    now = database.clock.now()
    database.run(lambda connection: close_runner(connection, "worker-1", ended, now))

    expected = f"1 runner of lane mail {ending} in the last hour ({ended.ending}), last worker-1"
    assert [each.detail for each in found(database, plain)] == ([expected] if ending else [])
    assert found(database, plain, HOUR + SECOND) == []


def test_a_lane_over_its_target_is_late(database: Database, plain: Settings) -> None:
    """By the oldest due job of any priority; lanes without a target are never late."""
    now = database.clock.now()
    insert_row(database, lane="mail", run_at=now - timedelta(minutes=4), priority=0)
    insert_row(database, lane="mail", run_at=now - timedelta(minutes=6), priority=2)
    insert_row(database, lane="other", run_at=now - timedelta(minutes=60))

    [incident] = found(database, plain)

    assert (incident.kind, incident.subject) == (AlertKind.LATE, "mail")
    assert incident.detail == "The oldest due job of lane mail has waited for 6 min; the target is 5 min."


def test_a_paused_lane_is_not_late(database: Database, plain: Settings) -> None:
    """The pause was intended."""
    now = database.clock.now()
    insert_row(database, lane="mail", run_at=now - timedelta(minutes=6))
    database.run(lambda connection: pauses.pause(connection, Pause("lane", "mail", now)))

    assert found(database, plain) == []


@pytest.mark.parametrize(
    ("age", "is_silent"),
    [(STALE_AFTER - SECOND, False), (STALE_AFTER + SECOND, True), (FORGOTTEN_AFTER + SECOND, False)],
)
def test_a_host_without_cycles_is_silent(
    database: Database, plain: Settings, age: timedelta, is_silent: bool
) -> None:
    """After a day it counts as removed."""
    for host, at in (("here", database.clock.now()), ("there", database.clock.now() - age)):
        cycle(database, host, at)

    assert [(each.kind, each.subject) for each in found(database, plain)] == [(AlertKind.SILENT, "there")] * is_silent


# --- delivery ---------------------------------------------------------------------------------------------


def test_an_alert_is_stored_with_its_incidents(database: Database) -> None:
    """The first and the last time, the number, and the recovery."""
    record(database, [LATE], NOON)
    record(database, [Incident(AlertKind.LATE, "mail", "still", NOON + MINUTE, times=2)], NOON + MINUTE)
    record(database, [], NOON + 2 * MINUTE)

    [alert] = database.read(load_alerts)
    assert (alert.kind, alert.subject, alert.detail, alert.times) == (AlertKind.LATE, "mail", "still", 2)
    assert (alert.first_at, alert.last_at) == (NOON, NOON + MINUTE)
    assert alert.recovered_at == NOON + 2 * MINUTE


def test_one_of_many_hosts_sends_an_alert(database: Database, migrated_url: str) -> None:
    """All detect the incident at the same time."""
    hosts = [Database(migrated_url) for _ in range(4)]
    wanted = [record(host, [LATE], NOON)[0] for host in hosts]

    taken = in_threads([partial(take, host, alert, NOON) for host, alert in zip(hosts, wanted, strict=True)])

    for host in hosts:
        host.close()
    assert sorted(taken) == [False, False, False, True]


def test_an_alert_is_sent_once_an_hour(database: Database) -> None:
    """A host with an outdated view does not send it again."""
    [alert] = record(database, [LATE], NOON)
    send(database, alert, NOON)

    assert record(database, [LATE], NOON + MINUTE) == []
    assert not take(database, alert, NOON + MINUTE)
    assert len(record(database, [LATE], NOON + REPEAT_AFTER)) == 1


def test_a_recovery_is_sent_once(database: Database) -> None:
    """By one host."""
    send(database, record(database, [LATE], NOON)[0], NOON)
    [recovered] = record(database, [], NOON + MINUTE)
    send(database, recovered, NOON + MINUTE)

    assert (recovered.state, recovered.told_at) == (AlertState.RECOVERED, NOON)
    assert record(database, [], NOON + 2 * MINUTE) == []
    assert not take(database, recovered, NOON + 2 * MINUTE)


def test_an_alert_that_was_not_delivered_is_sent_by_the_next_host(database: Database) -> None:
    """At once if it was released; after a lease if its sender was killed."""
    [alert] = record(database, [LATE], NOON)
    assert take(database, alert, NOON)
    assert not take(database, alert, NOON + SECOND)
    assert take(database, alert, NOON + LEASE)

    database.run(partial(alerts.release, alert=alert))

    assert take(database, alert, NOON + LEASE + SECOND)


def test_a_recovered_alert_is_deleted_after_a_while(database: Database) -> None:
    """Its recovery was sent before."""
    record(database, [LATE], NOON)
    record(database, [], NOON)

    record(database, [], NOON + KEEP_RESOLVED + SECOND)

    assert database.read(load_alerts) == []


def test_a_long_subject_is_cut_and_a_long_detail_is_stored(database: Database) -> None:
    """A type is cut to 190 characters; the text of an error can have any length."""
    record(database, [Incident(AlertKind.DEAD, "ß" * 300, "€" * 70_000, NOON)], NOON)

    [alert] = database.read(load_alerts)
    assert (alert.subject, len(alert.detail)) == ("ß" * 190, 70_000)


def record(database: Database, incidents: list[Incident], now: Any) -> list[Alert]:
    return database.run(lambda connection: alerts.record_changes(connection, incidents, now))


def take(database: Database, alert: Alert, now: Any) -> bool:
    return database.run(lambda connection: alerts.take_due(connection, alert, now))


def send(database: Database, alert: Alert, now: Any) -> None:
    assert take(database, alert, now)
    database.run(lambda connection: alerts.record_sent(connection, alert, now))


def cycle(database: Database, host: str, at: Any) -> None:
    database.run(lambda connection: open_cycle(connection, milliseconds(at), host, at))
    database.run(lambda connection: close_cycle(connection, milliseconds(at), {"exit_code": 0}, at))
