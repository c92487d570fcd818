"""Settling writes what became of a job, if it is still ours, with its history and the totals, all at once."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Row

from mayfly.db.database import Database
from mayfly.job import Job
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement, Settler
from mayfly.queue.settle import Settled, settle
from mayfly.schema import metadata as tables
from mayfly.stats.histograms import Tally
from tests.database.factories import CYCLE, change_job, claim_jobs, make_settler, rows_of
from tests.factories import NOON, get_row, insert_rows
from tests.statement_recorder import recorded

LATER = NOON + timedelta(hours=1)

FAILED = Outcome(
    OutcomeKind.FAILED, run_at=LATER, error="RuntimeError: no", fingerprint="f1", attempt_ending=OutcomeKind.FAILED
)
TIMED_OUT = Outcome(
    OutcomeKind.TIMED_OUT, run_at=LATER, error="timed out", fingerprint="f2", attempt_ending=OutcomeKind.TIMED_OUT
)
CRASHED = Outcome(
    OutcomeKind.CRASHED, run_at=LATER, error="crashed: SIGKILL", fingerprint="f3", keeps_attempt=True, crashed=True,
    suspect=True, attempt_ending=OutcomeKind.CRASHED,
)  # fmt: skip
CRASHED_AT_LAST = Outcome(
    OutcomeKind.DEAD, error="crashed 3 times", fingerprint="f4", keeps_attempt=True, crashed=True, suspect=True,
    attempt_ending=OutcomeKind.CRASHED,
)  # fmt: skip

# Each way to end, and what must differ afterwards from a claimed row with attempts=1.
ENDINGS: dict[str, tuple[Outcome, dict[str, Any]]] = {
    "done": (DONE, {"status": "done"}),
    "done with a result": (Outcome(OutcomeKind.DONE, result='{"a":1}'), {"status": "done", "result": '{"a":1}'}),
    "done with a note": (Outcome(OutcomeKind.DONE, error="dropped"), {"status": "done", "last_error": "dropped"}),
    "failed": (FAILED, {"status": "pending", "run_at": LATER, "last_error": "RuntimeError: no"}),
    "timed out": (TIMED_OUT, {"status": "pending", "run_at": LATER, "last_error": "timed out"}),
    "dead": (
        Outcome(OutcomeKind.DEAD, error="no", fingerprint="f", attempt_ending=OutcomeKind.FAILED),
        {"status": "dead", "last_error": "no"},
    ),
    "cancelled": (Outcome(OutcomeKind.CANCELLED, error="why"), {"status": "cancelled", "last_error": "why"}),
    "snoozed": (
        Outcome(OutcomeKind.SNOOZED, run_at=LATER, keeps_attempt=True),
        {"status": "pending", "run_at": LATER, "attempts": 0},
    ),
    "released": (RELEASED, {"status": "pending", "attempts": 0}),
    "interrupted": (
        Outcome(OutcomeKind.RELEASED, keeps_attempt=True, interrupted=True),
        {"status": "pending", "attempts": 0, "interruptions": 1},
    ),
    "sliced": (
        Outcome(OutcomeKind.SLICED, keeps_attempt=True),
        {"status": "pending", "attempts": 0, "slices": 1, "stalled": 1},
    ),
    "suspected": (
        Outcome(OutcomeKind.RELEASED, keeps_attempt=True, suspect=True),
        {"status": "pending", "attempts": 0, "suspect": 1},
    ),
    "crashed": (
        CRASHED,
        {"status": "pending", "run_at": LATER, "attempts": 0, "crashes": 1, "suspect": 1,
         "last_error": "crashed: SIGKILL"},
    ),
    "crashed at last": (
        CRASHED_AT_LAST,
        {"status": "dead", "attempts": 0, "crashes": 1, "suspect": 1, "last_error": "crashed 3 times"},
    ),
}  # fmt: skip

UNCHANGED = {"attempts": 1, "claims": 1, "crashes": 0, "interruptions": 0, "suspect": 0, "slices": 0,
             "stalled": 0, "result": None, "last_error": None, "lease_until": None}  # fmt: skip


def test_every_ending_sets_what_it_must(database: Database) -> None:
    """And nothing else: all of them in one batch, and each row has its own."""
    due = database.clock.now() - timedelta(minutes=1)
    insert_rows(database, len(ENDINGS), run_at=due)
    batch = dict(zip(ENDINGS, claim_jobs(database, len(ENDINGS)), strict=True))

    settle_all(database, [Settlement(batch[name], outcome) for name, (outcome, _) in ENDINGS.items()])

    rows = {name: get_row(database, job.id) for name, job in batch.items()}
    for name, (_, changes) in ENDINGS.items():
        expected = UNCHANGED | {"run_at": due} | changes
        assert {column: getattr(rows[name], column) for column in expected} == expected, name


def test_a_job_that_has_ended_keeps_who_ran_it(database: Database) -> None:
    """Owner and time of the claim stay; the end and the duration are written."""
    [job] = claimed(database, 1)
    before = database.clock.now()

    settle_all(database, [Settlement(job, DONE, duration_ms=250)])

    row = get_row(database, job.id)
    assert (row.worker_id, row.duration_ms) == ("worker-1", 250)
    assert row.locked_at <= before <= row.finished_at <= database.clock.now()
    assert row.finished_at - row.started_at == timedelta(milliseconds=250)


def test_a_job_that_comes_back_has_no_owner(database: Database) -> None:
    """How long the last run took is kept; when it ended is not an end."""
    [job] = claimed(database, 1)

    settle_all(database, [Settlement(job, FAILED, duration_ms=250)])

    row = get_row(database, job.id)
    assert (row.worker_id, row.locked_at, row.finished_at, row.duration_ms) == (None, None, None, 250)
    assert row.started_at is not None


def test_a_job_that_never_started_has_no_duration(database: Database) -> None:
    """Neither a start, nor a length of nothing."""
    [job] = claimed(database, 1)

    settle_all(database, [Settlement(job, RELEASED)])

    row = get_row(database, job.id)
    assert (row.started_at, row.duration_ms) == (None, None)


def test_what_went_wrong_is_kept_among_the_attempts(database: Database) -> None:
    """One row for each failure, time-out and crash, also for the last; none for what went well or was given back."""
    insert_rows(database, len(ENDINGS))
    batch = dict(zip(ENDINGS, claim_jobs(database, len(ENDINGS)), strict=True))

    settle_all(database, [Settlement(batch[name], outcome, 7) for name, (outcome, _) in ENDINGS.items()])

    found = {row.job_id: (row.attempt, row.worker_id, row.outcome, row.error, row.fingerprint, row.duration_ms)
             for row in rows_of(database, tables.attempts)}  # fmt: skip
    assert found == {
        batch["failed"].id: (1, "worker-1", "failed", "RuntimeError: no", "f1", 7),
        batch["timed out"].id: (1, "worker-1", "timed out", "timed out", "f2", 7),
        batch["dead"].id: (1, "worker-1", "failed", "no", "f", 7),
        batch["crashed"].id: (1, "worker-1", "crashed", "crashed: SIGKILL", "f3", 7),
        batch["crashed at last"].id: (1, "worker-1", "crashed", "crashed 3 times", "f4", 7),
    }


def test_outcomes_are_counted_in_the_totals(database: Database) -> None:
    """By lane, type and outcome, under the name of the process that settled them."""
    batch = claimed(database, 3)

    settle_all(
        database, [Settlement(batch[0], DONE, 3), Settlement(batch[1], DONE, 40), Settlement(batch[2], FAILED)]
    )

    found = [(row.cycle_id, row.lane, row.type, row.outcome, row.worker_id, row.jobs, row.durations)
             for row in rows_of(database, tables.totals)]  # fmt: skip
    assert found == [
        (CYCLE, "default", "noop", "done", "worker-1", 2, '{"5":1,"50":1}'),
        (CYCLE, "default", "noop", "failed", "worker-1", 1, "{}"),
    ]


def test_totals_grow_with_each_batch(database: Database) -> None:
    """They are absolute: each settling writes all that this process has counted."""
    first, second = claimed(database, 1), claimed(database, 2)

    settled = settle_all(database, [Settlement(job, DONE, 1) for job in first])
    settle_all(database, [Settlement(job, DONE, 1) for job in second], settled.tally)

    [row] = rows_of(database, tables.totals)
    assert (row.jobs, row.durations) == (3, '{"1":3}')


def test_a_wait_is_counted_from_when_the_job_was_due(database: Database) -> None:
    """Until its handler started; the run itself is no wait."""
    insert_rows(database, 1, run_at=database.clock.now() - timedelta(seconds=30))

    settle_all(database, [Settlement(job, DONE, duration_ms=20_000) for job in claim_jobs(database)])

    [row] = rows_of(database, tables.totals)
    assert (row.durations, row.waits) == ('{"20000":1}', '{"12000":1}')


@pytest.mark.parametrize(
    "theft",
    [{"worker_id": "worker-2"}, {"claims": 2}, {"status": "pending"}, {"status": "done"}, {"status": "cancelled"}],
    ids=str,
)
def test_a_job_that_is_no_longer_ours_is_left_alone(database: Database, theft: dict[str, Any]) -> None:
    """Another owner, another claim or another status: nothing is written, and the job is reported as lost."""
    mine, stolen, mine_too = claimed(database, 3)
    change_job(database, stolen.id, **theft)
    before = get_row(database, stolen.id)

    settled = settle_all(database, [Settlement(job, DONE, 1) for job in (mine, stolen, mine_too)])

    assert [job.id for job in settled.lost] == [stolen.id]
    assert get_row(database, stolen.id) == before
    assert [get_row(database, job.id).status for job in (mine, mine_too)] == ["done", "done"]
    assert [row.jobs for row in rows_of(database, tables.totals)] == [2]


def test_a_lost_failure_leaves_no_attempt(database: Database) -> None:
    """The history is that of those who owned the job."""
    [job] = claimed(database, 1)
    change_job(database, job.id, claims=2)

    settle_all(database, [Settlement(job, FAILED, 1)])

    assert (rows_of(database, tables.attempts), rows_of(database, tables.totals)) == ([], [])


def test_settling_again_changes_nothing_more(database: Database) -> None:
    """A COMMIT whose answer was lost is repeated: rows, attempts and totals are as they were."""
    batch = claimed(database, 4)
    outcomes = [DONE, DONE, FAILED, RELEASED]
    settlements = [Settlement(job, outcome, 5) for job, outcome in zip(batch, outcomes, strict=True)]
    settle_all(database, settlements)
    before = everything(database)

    settled = settle_all(database, settlements)

    assert everything(database) == before
    assert (settled.lost, sum(count.jobs for count in settled.tally.values())) == ((), 4)


def test_jobs_that_another_has_settled_are_lost(database: Database) -> None:
    """Whatever the totals of the other say: only our own tell that it was us."""
    batch = claimed(database, 2)
    settle(database, Settler("worker-1", CYCLE, "dispatcher-1"), [Settlement(job, DONE, 1) for job in batch], {})

    settled = settle_all(database, [Settlement(job, DONE, 1) for job in batch])

    assert [job.id for job in settled.lost] == [job.id for job in batch]
    assert settled.tally == {}


def test_equal_jobs_share_a_statement(database: Database) -> None:
    """A batch of fast jobs is one UPDATE, however many they are."""
    batch = claimed(database, 50)

    with recorded() as sent:
        settle_all(database, [Settlement(job, DONE, 0) for job in batch])

    assert len([statement for statement in sent if statement.startswith("UPDATE mayfly_jobs")]) == 1
    assert {get_row(database, job.id).status for job in batch} == {"done"}


def test_what_is_settled_is_one_transaction(database: Database) -> None:
    """An outcome is never there without its totals: where one cannot be written, neither is."""
    good, bad = claimed(database, 2)
    unwritable = Outcome(OutcomeKind.FAILED, run_at=LATER, error="\ud800", attempt_ending=OutcomeKind.FAILED)

    with pytest.raises(UnicodeEncodeError):
        settle_all(database, [Settlement(good, DONE, 0), Settlement(bad, unwritable, 0)])

    assert {get_row(database, job.id).status for job in (good, bad)} == {"processing"}
    assert rows_of(database, tables.totals) == []


def claimed(database: Database, count: int) -> list[Job]:
    insert_rows(database, count)
    return claim_jobs(database, count)


def settle_all(database: Database, settlements: Sequence[Settlement], tally: Tally | None = None) -> Settled:
    return settle(database, make_settler(), settlements, tally or {})


def everything(database: Database) -> list[Sequence[Row[Any]]]:
    return [rows_of(database, table) for table in tables.metadata.sorted_tables]
