"""A claim takes due jobs in order and writes its owner; nothing else is changed."""

from datetime import timedelta
from pathlib import Path

import pytest
from freezegun import freeze_time

from mayfly.clock import host_now
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.job import SourceRow
from mayfly.queue.claim import claim
from mayfly.queue.count import ClaimCursor, due_jobs, has_due
from mayfly.schema.tables import HIGH, LOW, NORMAL, SOURCE
from runner.claims import MIN_BATCH_FOR_CLAIM_LOCK, ClaimLock
from tests.database.factories import claim_ids, claim_jobs, make_claim, make_claimant, make_claims, servers_only
from tests.factories import get_row, insert_row, insert_rows


def test_the_order_is_priority_then_time_then_arrival(database: Database) -> None:
    """High before normal before low; within a priority by run_at, then by id."""
    now = database.clock.now()
    minutes_ago = [now - timedelta(minutes=minutes) for minutes in range(4)]
    low = insert_row(database, priority=LOW, run_at=minutes_ago[3])
    late = insert_row(database, priority=NORMAL, run_at=minutes_ago[1])
    early = insert_row(database, priority=NORMAL, run_at=minutes_ago[2])
    early_too = insert_row(database, priority=NORMAL, run_at=minutes_ago[2])
    high = insert_row(database, priority=HIGH, run_at=minutes_ago[0])

    claimed = claim_ids(database)

    assert claimed == [high, early, early_too, late, low]


def test_a_claim_takes_as_many_jobs_as_it_asks_for(database: Database) -> None:
    """The rest stays pending, in every priority."""
    insert_rows(database, 2, priority=LOW)
    normal = insert_rows(database, 3)

    claimed = claim_ids(database, 2)

    assert claimed == normal[:2]


def test_no_job_is_claimed_before_its_run_at(database: Database) -> None:
    """Not even a second before."""
    insert_row(database, run_at=database.clock.now() + timedelta(seconds=1))

    assert claim_ids(database) == []


def test_only_pending_jobs_are_claimed(database: Database) -> None:
    """Finished jobs and jobs of other runners are left alone."""
    for status in ("processing", "done", "dead", "cancelled"):
        insert_row(database, status=status)

    assert claim_ids(database) == []


def test_other_lanes_are_left_alone(database: Database) -> None:
    """A runner serves one lane."""
    insert_row(database, lane="mail")
    images = insert_row(database, lane="images")

    claimed = claim_ids(database, lane="images")

    assert claimed == [images]


def test_a_claim_writes_its_owner(database: Database) -> None:
    """Status, owner, lease and time; an attempt is used, and the fencing token grows."""
    job = insert_row(database, attempts=1, claims=7)
    claimant, now = make_claimant(database, "worker-7"), database.clock.now()

    claim_jobs(database, worker_id="worker-7", lease_until=claimant.lease_until)

    row = get_row(database, job)
    assert (row.status, row.worker_id, row.lease_until) == ("processing", "worker-7", claimant.lease_until)
    assert now <= row.locked_at <= database.clock.now()
    assert (row.attempts, row.claims, row.started_at) == (2, 8, None)


def test_a_claimed_job_has_the_values_of_its_row(database: Database) -> None:
    """The runner settles by this token and this attempt."""
    insert_row(database, type="sleep", payload='{"seconds": 1}', attempts=2, max_attempts=9, claims=4,
               interruptions=1, group_key="g")  # fmt: skip

    [job] = claim_jobs(database)

    row = get_row(database, job.id)
    assert (job.type, job.payload, job.group_key) == ("sleep", {"seconds": 1}, "g")
    assert (job.attempt, job.claims, job.max_attempts) == (row.attempts, row.claims, 9)
    assert (job.crashes, job.interruptions, job.suspect, job.run_at) == (0, 1, False, row.run_at)


def test_a_job_is_claimed_once(database: Database, rival: Database) -> None:
    """No other runner gets it."""
    jobs = insert_rows(database, 3)
    first = claim_ids(database, 2)

    second = claim_ids(rival, 5, worker_id="worker-2")

    assert (first, second) == (jobs[:2], jobs[2:])


def test_a_suspect_is_claimed_alone(database: Database) -> None:
    """It cannot take other jobs of its claim down."""
    suspect = insert_row(database, suspect=1)
    insert_rows(database, 3)

    assert claim_ids(database) == [suspect]


def test_a_claim_ends_before_a_suspect(database: Database) -> None:
    """Jobs before it are taken, those after it wait."""
    before = insert_rows(database, 2)
    insert_row(database, suspect=1)
    insert_row(database)

    assert claim_ids(database) == before


def test_a_job_that_crashed_its_runner_waits_for_a_fresh_one(database: Database) -> None:
    """A runner with outcomes to write would lose more than this job."""
    insert_row(database, suspect=1, crashes=1)

    assert claim_ids(database, fresh=False) == []


def test_a_fresh_runner_claims_a_job_that_crashed_another(database: Database) -> None:
    """It is the only job of the claim."""
    crashed = insert_row(database, suspect=1, crashes=1)
    insert_row(database)

    assert claim_ids(database, fresh=True) == [crashed]


def test_a_suspect_without_a_crash_needs_no_fresh_runner(database: Database) -> None:
    """It may not be the culprit: running it alone is enough."""
    suspect = insert_row(database, suspect=1)

    assert claim_ids(database, fresh=False) == [suspect]


def test_a_host_whose_clock_is_ahead_runs_nothing_early(migrated_url: str, database: Database) -> None:
    """The database's clock decides: a host that is two hours ahead does not run a job due in an hour."""
    insert_row(database, run_at=database.clock.now() + timedelta(hours=1))

    with freeze_time(host_now() + timedelta(hours=2)):
        ahead = Database(migrated_url)
        claimed = claim_ids(ahead)
        ahead.close()

    assert claimed == []


def test_a_host_whose_clock_is_behind_runs_nothing_late(migrated_url: str, database: Database) -> None:
    """A due job is due, even if the host's own clock is behind."""
    job = insert_row(database)

    with freeze_time(host_now() - timedelta(hours=2)):
        behind = Database(migrated_url)
        claimed = claim_ids(behind)
        behind.close()

    assert claimed == [job]


def test_has_due_finds_due_jobs(database: Database) -> None:
    """In this lane: delayed jobs and other lanes do not count."""
    now = database.clock.now()
    insert_row(database, lane="mail")
    insert_row(database, lane="images", run_at=now + timedelta(hours=1))

    found = {
        lane: database.read(lambda connection, lane=lane: has_due(connection, lane, now))  # type: ignore[misc]
        for lane in ("mail", "images", "none")
    }

    assert found == {"mail": True, "images": False, "none": False}


def claim_from(database: Database, cursor: ClaimCursor, size: int) -> list[int]:
    return [row[0] for row in make_claim(database, make_claimant(database), size, cursor).rows]


def test_a_full_claim_returns_a_cursor(database: Database) -> None:
    """A claim that was not full has seen all due jobs: the next one starts from the beginning."""
    now = database.clock.now()
    insert_row(database, priority=HIGH, run_at=now - timedelta(minutes=1))
    ids = [insert_row(database, run_at=now - timedelta(minutes=minutes)) for minutes in (5, 4, 3)]

    filled, rest = make_claim(database, make_claimant(database), 3), make_claim(database, make_claimant(database), 3)

    assert filled.reached == ClaimCursor(NORMAL, now - timedelta(minutes=4))
    assert ([row[0] for row in rest.rows], rest.reached) == (ids[2:], None)


def test_a_claim_starts_at_the_cursor(database: Database) -> None:
    """Jobs with the same run_at as the cursor are found, older ones are not."""
    now = database.clock.now()
    _older, same, newer = (insert_row(database, run_at=now - timedelta(minutes=minutes)) for minutes in (5, 4, 3))

    assert claim_from(database, ClaimCursor(NORMAL, now - timedelta(minutes=4)), 2) == [same, newer]


def test_a_claim_begins_at_the_first_job_that_was_found(database: Database) -> None:
    """An older job that comes back in between is left to the next claim."""
    now = database.clock.now()
    found = [insert_row(database, run_at=now - timedelta(minutes=minutes)) for minutes in (4, 3)]
    due = database.read(lambda connection: due_jobs(connection, "default", now))
    back = insert_row(database, run_at=now - timedelta(minutes=5))

    claimed = database.run(lambda connection: claim(connection, make_claimant(database), 2, now, due.first_at))

    assert [row[0] for row in claimed.rows] == found
    assert claim_ids(database) == [back]


def test_the_first_job_is_found_whatever_the_form_of_its_time(database: Database) -> None:
    """Plain SQL may insert a time without a fraction."""
    job_id = insert_row(database)
    database.run(lambda connection: connection.execute("UPDATE mayfly_jobs SET run_at = '2026-01-01 00:00:00'"))

    assert claim_ids(database) == [job_id]


def test_a_cursor_belongs_to_one_priority(database: Database) -> None:
    """Others are read from their beginning."""
    now = database.clock.now()
    normal = insert_row(database, run_at=now - timedelta(minutes=1))
    low = insert_row(database, priority=LOW, run_at=now - timedelta(hours=1))
    high = insert_row(database, priority=HIGH, run_at=now - timedelta(hours=1))

    assert claim_from(database, ClaimCursor(NORMAL, now - timedelta(minutes=2)), 3) == [high, normal, low]


def test_a_claim_of_a_suspect_returns_no_cursor(database: Database) -> None:
    """The suspect is claimed alone, and the jobs found with it are still pending."""
    insert_row(database, suspect=1)
    insert_rows(database, 2)

    claimed = make_claim(database, make_claimant(database), 3)

    assert (len(claimed.rows), claimed.reached) == (1, None)


def test_an_empty_claim_returns_whether_anything_was_due(database: Database, rival: Database) -> None:
    """Jobs locked by another session may become free."""
    insert_row(database, run_at=database.clock.now() + timedelta(hours=1))
    assert make_claim(database, make_claimant(database)).was_due is False

    insert_row(database)

    def claim_concurrently(connection: Connection) -> bool:
        connection.execute("SELECT id FROM mayfly_jobs WHERE run_at <= :now" + connection.dialect.row_lock,
                           {"now": database.clock.now()}).all()  # fmt: skip
        return make_claim(rival, make_claimant(rival)).was_due

    if database.dialect.name != "sqlite":  # SQLite has no row locks
        assert database.run(claim_concurrently) is True


def test_a_runner_that_is_not_fresh_leaves_a_job_that_crashed_another(database: Database) -> None:
    """Its empty claim says that only a fresh runner can continue here."""
    insert_row(database, suspect=1, crashes=1)

    left = make_claim(database, make_claimant(database, fresh=False))
    taken = make_claim(database, make_claimant(database, "worker-2"))

    assert (left.rows, left.needs_fresh, left.was_due) == ((), True, True)
    assert (len(taken.rows), taken.needs_fresh) == (1, False)


def test_an_empty_lane_needs_no_fresh_runner(database: Database) -> None:
    """There is nothing that one could run."""
    assert make_claim(database, make_claimant(database)).needs_fresh is False


def test_a_suspect_and_an_interrupted_job_are_claimed_exclusively(database: Database) -> None:
    """Other jobs, of a source for example, would have to wait for them; jobs with rare fields are no suspects."""
    insert_row(database, suspect=1)
    suspect = make_claim(database, make_claimant(database))
    interrupted = insert_row(database)
    first = make_claim(database, make_claimant(database, begins_with=interrupted))
    insert_row(database, checkpoint="1")
    ordinary = make_claim(database, make_claimant(database))

    assert [each.is_exclusive for each in (suspect, first, ordinary)] == [True, True, False]


def test_a_claimed_companion_knows_its_row(database: Database) -> None:
    """Its source, its key, and the runner that marked the row."""
    insert_row(database, unique_key=f"{SOURCE}posts:7", row_worker_id="worker-0")
    insert_row(database)

    companion, plain = claim_jobs(database)

    assert companion.source_row == SourceRow("posts", "7", worker_id="worker-0")
    assert plain.source_row is None


@servers_only
def test_large_claims_of_a_host_start_where_the_last_one_ended(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older job that came back is claimed at the latest when nothing is left behind the cursor."""
    monkeypatch.setattr("runner.claims.CURSOR_SECONDS", 3600.0)
    now, size = database.clock.now(), MIN_BATCH_FOR_CLAIM_LOCK
    first, second = (insert_rows(database, size, run_at=now - timedelta(minutes=minutes)) for minutes in (5, 4))
    claims = make_claims(database, lock=ClaimLock(tmp_path, "default"))

    claimed = [[job.id for job in claims.more(size)]]
    back = insert_row(database, run_at=now - timedelta(minutes=6))
    claimed += ([job.id for job in claims.more(size)] for _ in range(2))

    assert claimed == [first, second, [back]]
