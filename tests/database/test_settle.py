"""Settling writes the outcome of a job if its claim is valid, with history and totals, in one transaction."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Row

from mayfly.db.database import Database
from mayfly.job import Job, RareFields
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement, Settler
from mayfly.queue.settle import Settled, settle
from mayfly.schema import metadata as tables
from mayfly.stats.histograms import Tally
from mayfly.stats.totals import count
from tests.database.factories import CYCLE, change_job, claim_jobs, make_settler, rows_of
from tests.factories import NOON, get_row, insert_row, insert_rows
from tests.statement_recorder import recorded_statements

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

# Each outcome, and the columns that differ afterwards from a claimed row with attempts=1.
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
    "without a handler": (
        Outcome(OutcomeKind.SNOOZED, run_at=LATER, keeps_attempt=True, waiting_for="no handler", unknown_since=NOON),
        {"status": "pending", "run_at": LATER, "attempts": 0, "waiting_for": "no handler", "unknown_since": NOON},
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
             "stalled": 0, "result": None, "last_error": None, "lease_until": None, "waiting_for": None,
             "unknown_since": None}  # fmt: skip


def test_every_outcome_sets_its_columns(database: Database) -> None:
    """And no others: all of them in one batch, each with its own row."""
    due = database.clock.now() - timedelta(minutes=1)
    insert_rows(database, len(ENDINGS), run_at=due)
    batch = dict(zip(ENDINGS, claim_jobs(database, len(ENDINGS)), strict=True))

    settle_all(database, [Settlement(batch[name], outcome) for name, (outcome, _) in ENDINGS.items()])

    rows = {name: get_row(database, job.id) for name, job in batch.items()}
    for name, (_, changes) in ENDINGS.items():
        expected = UNCHANGED | {"run_at": due} | changes
        assert {column: getattr(rows[name], column) for column in expected} == expected, name


def test_a_finished_job_keeps_its_worker_id(database: Database) -> None:
    """Owner and time of the claim stay; the end and the duration are written."""
    [job] = claimed(database, 1)
    before = database.clock.now()

    settle_all(database, [Settlement(job, DONE, duration_ms=250)])

    row = get_row(database, job.id)
    assert (row.worker_id, row.duration_ms) == ("worker-1", 250)
    assert row.locked_at <= before <= row.finished_at <= database.clock.now()
    assert row.finished_at - row.started_at == timedelta(milliseconds=250)


def test_a_job_that_is_pending_again_has_no_owner(database: Database) -> None:
    """The duration of the last run is kept; finished_at is not set."""
    [job] = claimed(database, 1)

    settle_all(database, [Settlement(job, FAILED, duration_ms=250)])

    row = get_row(database, job.id)
    assert (row.worker_id, row.locked_at, row.finished_at, row.duration_ms) == (None, None, None, 250)
    assert row.started_at is not None


def test_a_job_that_never_started_has_no_duration(database: Database) -> None:
    """Neither a start nor a duration of zero."""
    [job] = claimed(database, 1)

    settle_all(database, [Settlement(job, RELEASED)])

    row = get_row(database, job.id)
    assert (row.started_at, row.duration_ms) == (None, None)


@pytest.mark.parametrize("name", ["failed", "snoozed", "sliced"])
def test_a_job_whose_handler_ran_begins_another_grace_period(database: Database, name: str) -> None:
    """Its type may be unknown again to another host, or after another deploy."""
    [job_id] = insert_rows(database, unknown_since=NOON)
    [job] = claim_jobs(database)
    assert job.rare_fields == RareFields(unknown_since=NOON)

    settle_all(database, [Settlement(job, ENDINGS[name][0], duration_ms=250)])

    assert get_row(database, job_id).unknown_since is None


def test_failed_attempts_are_recorded(database: Database) -> None:
    """One row per failure, timeout and crash, including the last, and per slice and release; none for done jobs."""
    insert_rows(database, len(ENDINGS))
    batch = dict(zip(ENDINGS, claim_jobs(database, len(ENDINGS)), strict=True))

    settle_all(database, [Settlement(batch[name], outcome, 7) for name, (outcome, _) in ENDINGS.items()])

    found = {row.job_id: (row.attempt, row.worker_id, row.outcome, row.error, row.fingerprint, row.duration_ms)
             for row in rows_of(database, tables.attempts)}  # fmt: skip
    assert found == {
        batch["failed"].id: (1, "worker-1", "failed", "RuntimeError: no", "f1", 7),
        batch["timed out"].id: (1, "worker-1", "timed out", "timed out", "f2", 7),
        batch["dead"].id: (1, "worker-1", "failed", "no", "f", 7),
        **{
            batch[name].id: (1, "worker-1", "released", "", "", 7)
            for name in ("released", "interrupted", "suspected")
        },
        batch["sliced"].id: (1, "worker-1", "sliced", "", "", 7),
        batch["crashed"].id: (1, "worker-1", "crashed", "crashed: SIGKILL", "f3", 7),
        batch["crashed at last"].id: (1, "worker-1", "crashed", "crashed 3 times", "f4", 7),
    }


def test_only_releases_of_started_jobs_are_recorded(database: Database) -> None:
    """A runner releases the unstarted rest of its claim at the end of its window: that is no event of the job."""
    unstarted, lost, refused = claimed(database, 3)
    error = Outcome(OutcomeKind.RELEASED, error="gone away", fingerprint="f", keeps_attempt=True, counts_release=True)

    settle_all(
        database,
        [
            Settlement(unstarted, RELEASED),
            Settlement(lost, Outcome(OutcomeKind.RELEASED, keeps_attempt=True, counts_release=True)),
            Settlement(refused, error, 7),
        ],
    )

    found = [(row.job_id, row.error, row.fingerprint) for row in rows_of(database, tables.attempts)]
    assert sorted(found) == [(lost.id, "", ""), (refused.id, "gone away", "")]


def test_a_release_removes_the_reason_of_a_snooze(database: Database) -> None:
    """It no longer applies: a runner has claimed the job since."""
    job_id, reasons = insert_row(database), []
    snoozed = Outcome(OutcomeKind.SNOOZED, run_at=database.clock.now(), keeps_attempt=True, waiting_for="no handler")
    for outcome in (snoozed, RELEASED):
        settle_all(database, [Settlement(claim_jobs(database)[0], outcome)])
        reasons.append(get_row(database, job_id).waiting_for)

    assert reasons == ["no handler", None]


def test_successes_are_recorded_in_lanes_that_keep_them(database: Database) -> None:
    """One row per done job of these lanes, beside the failed attempts."""
    kept, failed = claimed(database, 2)
    insert_rows(database, 1, lane="other")
    [other] = claim_jobs(database, lane="other")
    settler = replace(make_settler(), success_lanes=["default"])

    settle(database, settler, [Settlement(kept, DONE, 7), Settlement(failed, FAILED, 8), Settlement(other, DONE)], {})

    found = {row.job_id: (row.attempt, row.worker_id, row.outcome, row.error, row.fingerprint, row.duration_ms)
             for row in rows_of(database, tables.attempts)}  # fmt: skip
    assert found == {
        kept.id: (1, "worker-1", "done", "", "", 7),
        failed.id: (1, "worker-1", "failed", "RuntimeError: no", "f1", 8),
    }


def test_outcomes_are_counted_in_the_totals(database: Database) -> None:
    """By lane, type and outcome, under the worker_id that settled them."""
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
    """They are absolute: each settlement writes all that this process has counted."""
    first, second = claimed(database, 1), claimed(database, 2)

    settled = settle_all(database, [Settlement(job, DONE, 1) for job in first])
    settle_all(database, [Settlement(job, DONE, 1) for job in second], settled.tally)

    [row] = rows_of(database, tables.totals)
    assert (row.jobs, row.durations) == (3, '{"1":3}')


def test_the_wait_of_a_job_counts_from_its_run_at(database: Database) -> None:
    """Until its handler started; the run itself is not part of it."""
    insert_rows(database, 1, run_at=database.clock.now() - timedelta(seconds=30))

    settle_all(database, [Settlement(job, DONE, duration_ms=20_000) for job in claim_jobs(database)])

    [row] = rows_of(database, tables.totals)
    assert (row.durations, row.waits) == ('{"20000":1}', '{"12000":1}')


@pytest.mark.parametrize(
    "theft",
    [{"worker_id": "worker-2"}, {"claims": 2}, {"status": "pending"}, {"status": "done"}, {"status": "cancelled"}],
    ids=str,
)
def test_a_job_with_a_lost_lease_is_left_alone(database: Database, theft: dict[str, Any]) -> None:
    """With another owner, token or status nothing is written, and the job is reported as lost."""
    mine, stolen, mine_too = claimed(database, 3)
    change_job(database, stolen.id, **theft)
    before = get_row(database, stolen.id)

    settled = settle_all(database, [Settlement(job, DONE, 1) for job in (mine, stolen, mine_too)])

    assert [job.id for job in settled.lost] == [stolen.id]
    assert get_row(database, stolen.id) == before
    assert [get_row(database, job.id).status for job in (mine, mine_too)] == ["done", "done"]
    assert [row.jobs for row in rows_of(database, tables.totals)] == [2]


def test_a_failure_with_a_lost_lease_records_no_attempt(database: Database) -> None:
    """The history belongs to the owner of the job."""
    [job] = claimed(database, 1)
    change_job(database, job.id, claims=2)

    settle_all(database, [Settlement(job, FAILED, 1)])

    assert (rows_of(database, tables.attempts), rows_of(database, tables.totals)) == ([], [])


def test_settling_again_changes_nothing(database: Database) -> None:
    """A COMMIT whose answer was lost is repeated: rows, attempts and totals are unchanged."""
    batch = claimed(database, 4)
    outcomes = [DONE, DONE, FAILED, RELEASED]
    settlements = [Settlement(job, outcome, 5) for job, outcome in zip(batch, outcomes, strict=True)]
    settle_all(database, settlements)
    before = everything(database)

    settled = settle_all(database, settlements)

    assert everything(database) == before
    assert (settled.settlements, settled.lost) == (tuple(settlements), ())
    assert sum(each.jobs for each in settled.tally.values()) == 4


def test_jobs_settled_by_another_runner_are_lost(database: Database) -> None:
    """Only our own totals prove that we settled them."""
    batch = claimed(database, 2)
    settle(database, Settler("worker-1", CYCLE, "dispatcher-1"), [Settlement(job, DONE, 1) for job in batch], {})

    settled = settle_all(database, [Settlement(job, DONE, 1) for job in batch])

    assert [job.id for job in settled.lost] == [job.id for job in batch]
    assert settled.tally == {}


def test_equal_outcomes_share_a_statement(database: Database) -> None:
    """A batch of fast jobs is one UPDATE of any size."""
    batch = claimed(database, 50)

    with recorded_statements() as sent:
        settle_all(database, [Settlement(job, DONE, 0) for job in batch])

    assert len([statement for statement in sent if statement.startswith("UPDATE mayfly_jobs")]) == 1
    assert {get_row(database, job.id).status for job in batch} == {"done"}


def test_outcomes_and_totals_are_one_transaction(database: Database) -> None:
    """If one of them cannot be written, neither is."""
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


def test_totals_include_jobs_that_were_settled_without_them(database: Database) -> None:
    """This process has settled them one by one."""
    uncounted, failed = claimed(database, 2)
    before = count([Settlement(uncounted, DONE, 1)], database.clock.now())

    settle(database, make_settler(), [Settlement(failed, FAILED)], {}, before)

    assert [(row.outcome, row.jobs) for row in rows_of(database, tables.totals)] == [("done", 1), ("failed", 1)]
