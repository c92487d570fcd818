"""A claim takes what is due, in order, and writes its owner; nothing else is touched."""

from datetime import timedelta

from freezegun import freeze_time

from mayfly.clock import host_now
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.queue.claim import ClaimCursor
from mayfly.queue.count import has_due
from mayfly.schema.tables import HIGH, LOW, NORMAL
from tests.database.factories import claim_ids, claim_jobs, make_claim, make_claimant
from tests.factories import get_row, insert_row, insert_rows


def test_the_order_is_priority_then_time_then_arrival(database: Database) -> None:
    """High before normal before low; among equals the one that was due first, then the one that came first."""
    now = database.clock.now()
    minutes_ago = [now - timedelta(minutes=minutes) for minutes in range(4)]
    low = insert_row(database, priority=LOW, run_at=minutes_ago[3])
    late = insert_row(database, priority=NORMAL, run_at=minutes_ago[1])
    early = insert_row(database, priority=NORMAL, run_at=minutes_ago[2])
    early_too = insert_row(database, priority=NORMAL, run_at=minutes_ago[2])
    high = insert_row(database, priority=HIGH, run_at=minutes_ago[0])

    claimed = claim_ids(database)

    assert claimed == [high, early, early_too, late, low]


def test_a_claim_takes_as_many_as_it_asks_for(database: Database) -> None:
    """The rest stays for others, of whatever priority it is."""
    insert_rows(database, 2, priority=LOW)
    normal = insert_rows(database, 3)

    claimed = claim_ids(database, 2)

    assert claimed == normal[:2]


def test_nothing_is_claimed_before_its_time(database: Database) -> None:
    """Not even a second before."""
    insert_row(database, run_at=database.clock.now() + timedelta(seconds=1))

    assert claim_ids(database) == []


def test_only_pending_jobs_are_claimed(database: Database) -> None:
    """Whatever has ended, or is held by another, is nobody's."""
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
    """Status, owner, lease and time; a try is spent, and the fencing token grows."""
    job = insert_row(database, attempts=1, claims=7)
    claimant, now = make_claimant(database, "worker-7"), database.clock.now()

    claim_jobs(database, worker_id="worker-7", lease_until=claimant.lease_until)

    row = get_row(database, job)
    assert (row.status, row.worker_id, row.lease_until) == ("processing", "worker-7", claimant.lease_until)
    assert now <= row.locked_at <= database.clock.now()
    assert (row.attempts, row.claims, row.started_at) == (2, 8, None)


def test_a_claimed_job_is_what_its_row_says_after_the_claim(database: Database) -> None:
    """The runner settles by this token and judges by this attempt."""
    insert_row(database, type="sleep", payload='{"seconds": 1}', attempts=2, max_attempts=9, claims=4,
               interruptions=1, group_key="g")  # fmt: skip

    [job] = claim_jobs(database)

    row = get_row(database, job.id)
    assert (job.type, job.payload, job.group_key) == ("sleep", {"seconds": 1}, "g")
    assert (job.attempt, job.claims, job.max_attempts) == (row.attempts, row.claims, 9)
    assert (job.crashes, job.interruptions, job.suspect, job.run_at) == (0, 1, False, row.run_at)


def test_a_job_is_claimed_once(database: Database, rival: Database) -> None:
    """What one runner holds, no other gets."""
    jobs = insert_rows(database, 3)
    first = claim_ids(database, 2)

    second = claim_ids(rival, 5, worker_id="worker-2")

    assert (first, second) == (jobs[:2], jobs[2:])


def test_a_suspect_is_claimed_alone(database: Database) -> None:
    """Whoever it takes down with it must not be a batch mate."""
    suspect = insert_row(database, suspect=1)
    insert_rows(database, 3)

    assert claim_ids(database) == [suspect]


def test_a_claim_ends_before_a_suspect(database: Database) -> None:
    """Those before it are taken, those behind it wait."""
    mates = insert_rows(database, 2)
    insert_row(database, suspect=1)
    insert_row(database)

    assert claim_ids(database) == mates


def test_a_job_that_killed_a_runner_waits_for_a_fresh_one(database: Database) -> None:
    """A runner that has already worked would lose more than the job."""
    insert_row(database, suspect=1, crashes=1)

    assert claim_ids(database, fresh=False) == []


def test_a_fresh_runner_takes_the_job_that_killed_another(database: Database) -> None:
    """It gets a runner of its own."""
    crashed = insert_row(database, suspect=1, crashes=1)
    insert_row(database)

    assert claim_ids(database, fresh=True) == [crashed]


def test_a_suspect_without_a_crash_needs_no_fresh_runner(database: Database) -> None:
    """It may well be innocent: alone is enough."""
    suspect = insert_row(database, suspect=1)

    assert claim_ids(database, fresh=False) == [suspect]


def test_a_host_whose_clock_is_ahead_runs_nothing_early(migrated_url: str, database: Database) -> None:
    """The database's clock rules: what is due in an hour is not due on a host that is two hours ahead."""
    insert_row(database, run_at=database.clock.now() + timedelta(hours=1))

    with freeze_time(host_now() + timedelta(hours=2)):
        ahead = Database(migrated_url)
        claimed = claim_ids(ahead)
        ahead.close()

    assert claimed == []


def test_a_host_whose_clock_is_behind_runs_nothing_late(migrated_url: str, database: Database) -> None:
    """What is due is due, although that host's own clock has not got there."""
    job = insert_row(database)

    with freeze_time(host_now() - timedelta(hours=2)):
        behind = Database(migrated_url)
        claimed = claim_ids(behind)
        behind.close()

    assert claimed == [job]


def test_a_look_tells_whether_anything_is_due(database: Database) -> None:
    """In this lane, now: delayed jobs and other lanes' do not count."""
    now = database.clock.now()
    insert_row(database, lane="mail")
    insert_row(database, lane="images", run_at=now + timedelta(hours=1))

    found = {
        lane: database.read(lambda connection, lane=lane: has_due(connection, lane, now))  # type: ignore[misc]
        for lane in ("mail", "images", "none")
    }

    assert found == {"mail": True, "images": False, "none": False}


def claim_from(database: Database, front: ClaimCursor, size: int) -> list[int]:
    return [row[0] for row in make_claim(database, make_claimant(database), size, front).rows]


def test_a_claim_that_was_filled_tells_how_far_it_came(database: Database) -> None:
    """One that was not has seen all there is: the next has to look again from the beginning."""
    now = database.clock.now()
    insert_row(database, priority=HIGH, run_at=now - timedelta(minutes=1))
    ids = [insert_row(database, run_at=now - timedelta(minutes=minutes)) for minutes in (5, 4, 3)]

    filled, rest = make_claim(database, make_claimant(database), 3), make_claim(database, make_claimant(database), 3)

    assert filled.cursor == ClaimCursor(NORMAL, now - timedelta(minutes=4))
    assert ([row[0] for row in rest.rows], rest.cursor) == (ids[2:], None)


def test_a_claim_begins_at_the_front(database: Database) -> None:
    """What is due at the same time as the last one that was claimed is still to be had; what is older is not seen."""
    now = database.clock.now()
    _older, same, newer = (insert_row(database, run_at=now - timedelta(minutes=minutes)) for minutes in (5, 4, 3))

    assert claim_from(database, ClaimCursor(NORMAL, now - timedelta(minutes=4)), 2) == [same, newer]


def test_who_finds_too_few_behind_the_front_looks_before_it(database: Database) -> None:
    """In the order they would have had without it."""
    now = database.clock.now()
    ids = [insert_row(database, run_at=now - timedelta(minutes=minutes)) for minutes in (5, 4, 3)]

    assert claim_from(database, ClaimCursor(NORMAL, now - timedelta(minutes=3)), 2) == ids[:2]


def test_a_front_is_of_one_priority(database: Database) -> None:
    """Others are looked for from their beginning."""
    now = database.clock.now()
    normal = insert_row(database, run_at=now - timedelta(minutes=1))
    low = insert_row(database, priority=LOW, run_at=now - timedelta(hours=1))
    high = insert_row(database, priority=HIGH, run_at=now - timedelta(hours=1))

    assert claim_from(database, ClaimCursor(NORMAL, now - timedelta(minutes=2)), 3) == [high, normal, low]


def test_a_suspect_at_the_front_is_no_front(database: Database) -> None:
    """It is claimed alone, and those that were found with it are still there."""
    insert_row(database, suspect=1)
    insert_rows(database, 2)

    claimed = make_claim(database, make_claimant(database), 3)

    assert (len(claimed.rows), claimed.cursor) == (1, None)


def test_an_empty_claim_tells_whether_anything_was_due(database: Database, rival: Database) -> None:
    """What somebody else has locked may come back."""
    insert_row(database, run_at=database.clock.now() + timedelta(hours=1))
    assert make_claim(database, make_claimant(database)).was_due is False

    insert_row(database)

    def claim_beside(connection: Connection) -> bool:
        connection.execute("SELECT id FROM mayfly_jobs WHERE run_at <= :now" + connection.dialect.row_lock,
                           {"now": database.clock.now()}).all()  # fmt: skip
        return make_claim(rival, make_claimant(rival)).was_due

    if database.dialect.name != "sqlite":  # there nobody locks a row
        assert database.run(claim_beside) is True
