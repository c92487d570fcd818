"""Pauses of lanes and types: stored in a table, with an optional end, and snoozed jobs return."""

from datetime import timedelta
from typing import Any

import pytest

from mayfly.db.database import Database
from mayfly.queue.outcome import Outcome, OutcomeKind, Settlement
from mayfly.queue.pauses import LANE, TYPE, Pause, load_pauses, pause, resume, resume_jobs
from mayfly.queue.settle import settle
from runner.batch import PauseCache, SkipCheck
from tests.database.factories import change_job, claim_jobs, make_claims, make_settler
from tests.factories import get_row, insert_row, insert_rows

HOUR = timedelta(hours=1)


def make_pause(database: Database, kind: str = TYPE, name: str = "noop", **changes: Any) -> Pause:
    return Pause(kind, name, database.clock.now(), paused_by="ann", reason="the vendor is down")._replace(**changes)


def add_pause(database: Database, kind: str = TYPE, name: str = "noop", **changes: Any) -> Pause:
    new = make_pause(database, kind, name, **changes)
    database.run(lambda connection: pause(connection, new))
    return new


def end_pause(database: Database, kind: str, name: str) -> bool:
    now = database.clock.now()
    return database.run(lambda connection: resume(connection, kind, name, now))


def insert_snoozed(database: Database, count: int = 1, until: timedelta = HOUR, **columns: Any) -> list[int]:
    """Jobs of a paused type, as runners leave them."""
    run_at = database.clock.now() + until
    waiting_for = make_pause(database).waiting_for
    return insert_rows(database, count, run_at=run_at, waiting_for=waiting_for, **columns)


# --- the rows ---------------------------------------------------------------------------------------------


def test_a_pause_is_read_as_it_was_written(database: Database) -> None:
    """A lane and a type of the same name have separate pauses."""
    until = database.clock.now() + HOUR
    lane = add_pause(database, LANE, "mail", paused_until=until)
    of_type = add_pause(database, TYPE, "mail", reason=None)

    known = database.read(lambda connection: load_pauses(connection, database.clock.now()))

    assert (known.lanes, known.types) == ({"mail": lane}, {"mail": of_type})


def test_a_pause_with_an_end_expires(database: Database) -> None:
    """From its end on it is not listed."""
    until = database.clock.now() + HOUR
    add_pause(database, paused_until=until)

    known = [database.read(lambda c, at=at: load_pauses(c, at)).types for at in (until - HOUR / 2, until)]  # type: ignore[misc]

    assert [list(each) for each in known] == [["noop"], []]


def test_pausing_again_changes_the_pause(database: Database) -> None:
    """The last reason counts, and the call returns that there was a pause."""
    first, second = make_pause(database), make_pause(database, reason="still down")

    were_paused = [database.run(lambda c, new=new: pause(c, new)) for new in (first, second)]  # type: ignore[misc]

    known = database.read(lambda connection: load_pauses(connection, database.clock.now()))
    assert (were_paused, known.types["noop"].reason) == ([False, True], "still down")


def test_resuming_returns_whether_there_was_a_pause(database: Database) -> None:
    """Resuming twice is no error."""
    add_pause(database, LANE, "mail")

    assert [end_pause(database, LANE, "mail") for _ in range(2)] == [True, False]


# --- snoozed jobs -----------------------------------------------------------------------------------------


def test_a_snoozed_job_has_its_reason_until_its_run_at_changes(database: Database) -> None:
    """A retry has another run_at and no reason."""
    job_id = insert_row(database)
    later = database.clock.now() + HOUR
    waiting = Outcome(OutcomeKind.SNOOZED, run_at=later, keeps_attempt=True, waiting_for="type noop is paused")
    settle(database, make_settler(), [Settlement(claim_jobs(database)[0], waiting)], {})
    row = get_row(database, job_id)
    assert (row.status, row.attempts, row.run_at, row.waiting_for) == ("pending", 0, later, "type noop is paused")
    change_job(database, job_id, run_at=database.clock.now())

    failed = Outcome(OutcomeKind.FAILED, run_at=later, error="no", fingerprint="f", attempt_ending=OutcomeKind.FAILED)
    settle(database, make_settler(), [Settlement(claim_jobs(database)[0], failed, 1)], {})

    row = get_row(database, job_id)
    assert (row.status, row.attempts, row.run_at, row.waiting_for) == ("pending", 1, later, None)


def test_resuming_a_type_makes_its_jobs_due(database: Database) -> None:
    """In every lane and priority, with any reason; other jobs stay delayed."""
    back = [
        *insert_snoozed(database, 3),
        *insert_snoozed(database, priority=0, lane="mail"),
        *insert_snoozed(database, priority=2),
    ]
    change_job(database, back[0], waiting_for="type noop is paused")
    later = database.clock.now() + HOUR
    staying = [
        *insert_snoozed(database, type="sleep"),
        insert_row(database, run_at=later),
        insert_row(database, run_at=later, waiting_for="limit noop opens at 14:05"),
    ]

    moved = resume_jobs(database, "noop")

    now = database.clock.now()
    assert moved == len(back)
    assert all(get_row(database, each).run_at <= now and get_row(database, each).waiting_for is None for each in back)
    assert all(get_row(database, each).run_at >= later - timedelta(minutes=1) for each in staying)


def test_more_jobs_than_a_slice_are_made_due(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among others with the same run_at, which are skipped."""
    monkeypatch.setattr("mayfly.queue.pauses.ROWS_PER_SLICE", 3)
    run_at = database.clock.now() + HOUR
    text = make_pause(database).waiting_for
    for _ in range(5):
        insert_rows(database, 2, run_at=run_at, waiting_for=text)
        insert_rows(database, 2, run_at=run_at, type="sleep", waiting_for=text)

    assert (resume_jobs(database, "noop"), resume_jobs(database, "noop")) == (10, 0)


# --- runners ----------------------------------------------------------------------------------------------


def test_a_runner_of_a_paused_lane_claims_nothing(database: Database) -> None:
    """Paused after it was planned and before its first claim."""
    insert_rows(database, 3)
    claims = make_claims(database, pauses=PauseCache("default", database))
    add_pause(database, LANE, "default")
    claims.take_over()

    assert (claims.next(), claims.more(2)) == ([], [])


def test_a_runner_detects_a_pause_with_its_next_heartbeat(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that it has claimed are run; then it claims no more."""
    insert_rows(database, 20)
    pauses = PauseCache("default", database)
    claims = make_claims(database, pauses)
    before = len(claims.next())
    add_pause(database, LANE, "default")
    monkeypatch.setattr("runner.claims.HEARTBEAT_SECONDS", 0.0)
    noticing = len(claims.more(5))

    assert (before, noticing) == (5, 5)
    assert (claims.next(), pauses.lane_pause and pauses.lane_pause.name) == ([], "default")


def test_a_runner_knows_the_paused_types(database: Database) -> None:
    """From its start on; pauses of other lanes are ignored."""
    paused = add_pause(database)
    add_pause(database, LANE, "mail")
    insert_rows(database, 1)
    pausing = PauseCache("default", database)
    claims = make_claims(database, pausing)

    claims.take_over()
    claimed = claims.next()
    snoozed: list[Outcome] = []
    check = SkipCheck(database, pausing, {})
    admitted = list(check.admit(claimed, lambda _job, outcome: snoozed.append(outcome)))

    assert (len(claimed), admitted, pausing.lane_pause) == (1, [], None)
    assert [each.waiting_for for each in snoozed] == [paused.waiting_for]


def test_jobs_snoozed_after_the_end_of_a_pause_are_made_due(database: Database) -> None:
    """The runner could not know of the end; it checks again when it exits."""
    add_pause(database)
    pausing = PauseCache("default", database)
    database.read(pausing.read)
    end_pause(database, TYPE, "noop")
    late, elsewhere = insert_snoozed(database)[0], insert_snoozed(database, lane="mail")[0]

    pausing.resume_snoozed()

    assert get_row(database, late).waiting_for is None
    assert get_row(database, elsewhere).waiting_for is not None


def test_jobs_of_a_paused_type_stay_snoozed(database: Database) -> None:
    """When the runner exits."""
    add_pause(database)
    pausing = PauseCache("default", database)
    database.read(pausing.read)
    [job_id] = insert_snoozed(database)

    pausing.resume_snoozed()

    assert get_row(database, job_id).waiting_for is not None
