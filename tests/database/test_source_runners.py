"""A runner claims retries with their rows first, then due rows; an unusable source affects no other job.

Large claims of one host begin where the last one has locked rows.
"""

import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import DateTime, String, text

from mayfly.db.database import Database
from mayfly.fleet.runners import Assignment
from mayfly.job import Job
from mayfly.log import silent_log
from mayfly.queue.policy import skip_outcome
from mayfly.queue.sources import Sources
from mayfly.schema import metadata as tables
from runner import sources as runner_sources
from runner.batch import PauseCache
from runner.claims import CURSOR_SECONDS, ClaimLock, Claims
from runner.sources import RowClaims
from tests.database.factories import CYCLE, insert_runner, make_buffer, make_claimant, rows_of, run_sql, servers_only
from tests.database.source_factories import LANE, Posts, make_posts, make_source
from tests.factories import NOON, insert_row
from tests.sqlalchemy_engines import engine_of


@pytest.fixture
def posts(database: Database) -> Posts:
    return make_posts(database)


def runner_claims(
    posts: Posts,
    sources: Sources | None = None,
    *,
    size: int = 5,
    locks: dict[str, ClaimLock] | None = None,
    worker_id: str = "worker-9",
) -> Claims:
    """Those of a runner with the sources of the lane."""
    database, sources = posts.database, sources or posts.sources
    insert_runner(database, worker_id, LANE)
    pauses = PauseCache(LANE, database)
    rows = RowClaims(sources, database, pauses, silent_log(), lambda _type: 5, locks or {})
    lease_until = make_claimant(database).lease_until
    assignment = Assignment(worker_id, LANE, CYCLE, deadline=0, window_seconds=50, lease_until=lease_until)
    return Claims(
        database,
        make_buffer(database),
        assignment,
        size,
        pauses,
        middleware=[rows.around],
        steps=[rows.claim],
        due_checks=[rows.has_due],
    )


def keys_of(jobs: list[Job]) -> list[str | None]:
    return [None if job.source_row is None else job.source_row.key for job in jobs]


def test_a_runner_claims_jobs_before_rows(posts: Posts) -> None:
    """Retries and enqueued jobs of the lane come first; rows fill the claim."""
    posts.insert(1)
    posts.fail(posts.claim_one())
    insert_row(posts.database, lane=LANE)
    posts.insert(*range(2, 9))
    claims = runner_claims(posts)

    jobs = claims.next()

    assert sorted(map(str, keys_of(jobs)[:2])) == ["1", "None"]
    assert keys_of(jobs)[2:] == ["2", "3", "4"]
    assert posts.row(1).worker_id == posts.row(4).worker_id == "worker-9"


def test_a_retry_and_its_row_are_claimed_in_one_transaction(posts: Posts, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that is killed in between has claimed neither: otherwise its row could not be written any more."""
    posts.insert(1)
    posts.fail(posts.claim_one())

    def killed(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner_sources, "reclaim_rows", killed)
    claims = runner_claims(posts)

    with pytest.raises(KeyboardInterrupt):
        claims.next()

    assert [row.status for row in rows_of(posts.database, tables.jobs)] == ["pending"]


def test_retries_of_an_unusable_source_wait(posts: Posts) -> None:
    """They keep their attempt; the enqueued job of the same lane runs."""
    posts.insert(1)
    posts.fail(posts.claim_one())
    insert_row(posts.database, lane=LANE)
    run_sql(posts.database, "ALTER TABLE posts RENAME TO posts_old")
    claims = runner_claims(posts, Sources([posts.source], posts.database.dialect))

    jobs = claims.next()

    skipped = dict(zip(keys_of(jobs), (skip_outcome(job, None, NOON) for job in jobs), strict=True))
    waiting = skipped["1"]
    assert skipped[None] is None
    assert waiting is not None
    assert waiting.keeps_attempt
    assert waiting.waiting_for == "source posts, which this host does not have or cannot use"


def test_an_unusable_source_hides_no_rows_of_another(posts: Posts) -> None:
    """Two sources of one lane: those of the other are found and claimed."""
    broken = make_source(table="no_such_table").replace(name="broken")
    posts.insert(1)
    claims = runner_claims(posts, Sources([broken, posts.source], posts.database.dialect))

    found = claims.has_due()

    assert (found, keys_of(claims.next())) == (True, ["1"])


def test_a_job_that_is_claimed_alone_gets_no_rows(posts: Posts) -> None:
    """It may crash its runner: rows of the same claim would wait for their rescue."""
    insert_row(posts.database, lane=LANE, suspect=1)
    posts.insert(1)

    jobs = runner_claims(posts).next()

    assert (keys_of(jobs), posts.statuses()) == ([None], {1: "pending"})


# --- large claims -----------------------------------------------------------------------------------------

SIZE = 100  # the smallest claim that uses the cursor
NUMBERS = count(1)


@pytest.fixture
def locks(tmp_path: Path) -> dict[str, ClaimLock]:
    """Those of one host."""
    return {LANE: ClaimLock(tmp_path, "source posts")}


def claim_keys(posts: Posts, locks: dict[str, ClaimLock], size: int = SIZE) -> list[str]:
    """The rows that a new runner of the host claims first."""
    worker_id = f"worker-{next(NUMBERS)}"
    return [str(key) for key in keys_of(runner_claims(posts, size=size, locks=locks, worker_id=worker_id).next())]


def fill(posts: Posts, rows: int) -> None:
    """Pairs of rows have the same time, the last of them a minute ago; keys are in this order."""
    now = posts.minutes_ago(1)
    for key in range(0, rows, 2):
        posts.insert(key, key + 1, run_at=now - timedelta(seconds=rows - key))


def test_large_claims_take_each_row_once_and_in_order(posts: Posts, locks: dict[str, ClaimLock]) -> None:
    """The next one begins behind the last row of a time, not behind all rows of that time."""
    fill(posts, 3 * SIZE)

    claimed = [claim_keys(posts, locks, size) for size in (SIZE - 1, SIZE, SIZE, SIZE)]

    assert [int(key) for keys in claimed for key in keys] == list(range(3 * SIZE))
    assert list(map(len, claimed)) == [SIZE - 1, SIZE, SIZE, 1]


def test_the_last_claim_begins_at_the_oldest_row(posts: Posts, locks: dict[str, ClaimLock]) -> None:
    """It finds fewer rows behind the cursor than it asks for: no due row is left behind."""
    fill(posts, 2 * SIZE)
    claim_keys(posts, locks)
    posts.insert(999, run_at=posts.minutes_ago(99))

    keys = claim_keys(posts, locks, 2 * SIZE)

    assert sorted(map(int, keys)) == [*range(SIZE, 2 * SIZE), 999]


@servers_only
def test_a_row_before_the_cursor_is_found_when_it_expires(
    posts: Posts, locks: dict[str, ClaimLock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One second after the last claim that began at the oldest row."""
    seconds = [100.0]
    monkeypatch.setattr("runner.claims.monotonic", lambda: seconds[0])
    fill(posts, 3 * SIZE)
    claim_keys(posts, locks)
    posts.insert(999, run_at=posts.minutes_ago(99))
    before = claim_keys(posts, locks)
    seconds[0] += CURSOR_SECONDS

    after = claim_keys(posts, locks)

    assert ("999" in before, after[0]) == (False, "999")


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local time of this process."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@servers_only
@pytest.mark.usefixtures("far_from_utc")
def test_a_claim_passes_rows_that_others_have_locked(posts: Posts) -> None:
    """However many: another host may be claiming a thousand of them. The zone of this host does not matter."""
    fill(posts, 4 * SIZE)
    with engine_of(posts.database).begin() as other:
        other.execute(text(f"SELECT id FROM posts WHERE id < {3 * SIZE} FOR UPDATE"))

        jobs = runner_claims(posts, size=2).next()

    assert keys_of(jobs) == [str(3 * SIZE), str(3 * SIZE + 1)]


@pytest.mark.parametrize("run_at", [None, "run_at"])
@pytest.mark.parametrize("kind", ["datetime", "text"])
def test_the_cursor_knows_every_kind_of_key_and_time(
    database: Database, locks: dict[str, ClaimLock], kind: str, run_at: str | None
) -> None:
    """Text keys; times as texts; no time at all: then rows are due in the order of their keys."""
    times = DateTime() if kind == "datetime" else String(40)
    posts = make_posts(
        database, {"id": String(40), "run_at": times, "locked_at": times, "published_at": times},
        run_at_format=kind, run_at=run_at,
    )  # fmt: skip
    keys = [f"post-{number:04}" for number in range(2 * SIZE + 1)]
    due = posts.minutes_ago(1)
    posts.insert(*keys, run_at=due.isoformat() if kind == "text" else due)

    claimed = [key for _ in range(3) for key in claim_keys(posts, locks)]

    assert claimed == keys
