"""What a rescue leaves: the row of the runner, renewed leases, messages, and jobs with fields that few jobs have."""

from datetime import timedelta

from mayfly.db.database import Database
from mayfly.fleet.runners import Death
from mayfly.job import RareFields, source_row_of
from mayfly.process import timing
from mayfly.process.identity import this_process
from mayfly.process.status_page import RunnerStatus
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement
from mayfly.queue.rescue import close_lost, held_jobs, renew, rescue_jobs, rescue_messages
from mayfly.queue.settle import Settled
from mayfly.schema import metadata as tables
from mayfly.schema.tables import SOURCE
from mayfly.stats.histograms import add
from mayfly.stats.totals import count
from tests.database.factories import claim_jobs, insert_runner, make_settler, rows_of
from tests.factories import get_row, insert_rows, make_job


def test_a_lost_runner_keeps_the_figures_of_its_status_page(database: Database) -> None:
    """Jobs, failures and their average duration."""
    insert_runner(database)

    close_lost(database, "worker-1", RunnerStatus(done=3, failed=1, busy_ms=80.0))

    [row] = rows_of(database, tables.runners)
    assert (row.ending, row.jobs_done, row.jobs_failed, row.average_ms) == ("lost", 3, 1, 20)


def test_a_lost_runner_is_closed_without_its_status_page(database: Database) -> None:
    """The page is gone with its host."""
    insert_runner(database)

    close_lost(database, "worker-1", None)

    [row] = rows_of(database, tables.runners)
    assert (row.ending, row.finished_at is None) == ("lost", False)


def test_a_lease_keeper_renews_its_runner_and_its_jobs(database: Database) -> None:
    """And names its process; those of other runners keep their leases."""
    insert_rows(database, 2)
    insert_runner(database, "worker-1", lease_seconds=1)
    insert_runner(database, "worker-2", lease_seconds=1)
    [ours], [theirs] = claim_jobs(database, 1), claim_jobs(database, 1, "worker-2")
    their_lease, now = get_row(database, theirs.id).lease_until, database.clock.now()
    lease_until, process = now + timedelta(seconds=timing().long_lease_seconds), this_process()

    database.run(lambda connection: renew(connection, "default", "worker-1", process, now))

    ours_row, theirs_row = rows_of(database, tables.runners)
    assert (ours_row.lease_until, ours_row.heartbeat_at) == (lease_until, now)
    assert (ours_row.pid, ours_row.pid_started) == process
    assert (theirs_row.lease_until < lease_until, theirs_row.heartbeat_at) == (True, None)
    assert get_row(database, ours.id).lease_until == lease_until
    assert get_row(database, theirs.id).lease_until == their_lease


def test_a_lease_keeper_between_two_claims_renews_its_runner_only(database: Database) -> None:
    """It holds no job at that moment."""
    [job] = insert_rows(database, 1)
    insert_runner(database, lease_seconds=1)
    now = database.clock.now()

    database.run(lambda connection: renew(connection, "default", "worker-1", this_process(), now))

    [row] = rows_of(database, tables.runners)
    assert (row.heartbeat_at, get_row(database, job).lease_until) == (now, None)


def test_rescued_jobs_that_were_not_released_are_logged(database: Database) -> None:
    """With the first line of their error, and not a second time the kind of their outcome."""
    insert_rows(database, 2)
    crashed, released = claim_jobs(database)
    outcomes = {
        crashed.id: Outcome(OutcomeKind.CRASHED, error="crashed: killed by signal 9\nsecond\nthird", crashed=True),
        released.id: RELEASED,
    }

    rescued = rescue_jobs(database, make_settler(), [crashed, released], lambda job, _held: (outcomes[job.id], 1), {})

    assert [each.text for each in rescue_messages(rescued)] == [
        f"Job {crashed.id} (noop) attempt 1/5: crashed: killed by signal 9"
    ]


def test_a_rescue_without_jobs_writes_nothing(database: Database) -> None:
    """The totals of its dispatcher stay as they are."""
    tally = add({}, count([Settlement(make_job(), DONE, 1)], database.clock.now()))

    rescued = rescue_jobs(database, make_settler(), [], lambda _job, _held: (RELEASED, 1), tally)

    assert rescued == Settled((), (), tally)
    assert rows_of(database, tables.totals) == []


def test_a_rescued_job_keeps_what_few_jobs_have(database: Database) -> None:
    """Slices without progress, forgiven crashes, releases and the row that it stands for."""
    insert_rows(database, 1, stalled=2)
    insert_rows(database, 1, forgiven=3)
    insert_rows(database, 1, releases=4)
    insert_rows(database, 1, unique_key=f"{SOURCE}posts:7")
    claim_jobs(database)

    found = database.run(lambda connection: held_jobs(connection, "default", "worker-1"))

    *rare, companion = sorted(found, key=lambda job: job.id)
    assert [each.rare_fields for each in rare] == [
        RareFields(stalled=2), RareFields(forgiven=3), RareFields(releases=4)
    ]  # fmt: skip
    assert companion.source_row == source_row_of(f"{SOURCE}posts:7")


def test_a_submitted_runner_ends_as_its_lease_keeper_has_noted(database: Database) -> None:
    """The keeper has observed its exit, although it could not close the row."""
    insert_runner(database)

    close_lost(database, "worker-1", None, Death("crash", None, 11, {}))

    [row] = rows_of(database, tables.runners)
    assert row.ending == "crash"
