"""A runner claims retries with their rows first, then due rows; an unusable source affects no other job."""

import pytest

from mayfly.db.database import Database
from mayfly.fleet.runners import Assignment
from mayfly.job import Job
from mayfly.log import silent_log
from mayfly.queue.policy import skip_outcome
from mayfly.queue.sources import Sources
from mayfly.schema import metadata as tables
from runner import sources as runner_sources
from runner.batch import PauseCache
from runner.claims import ClaimLock, Claims
from runner.sources import RowClaims
from tests.database.factories import CYCLE, insert_runner, make_buffer, make_claimant, rows_of, run_sql
from tests.database.source_factories import LANE, Posts, make_posts, make_source
from tests.factories import NOON, insert_row


@pytest.fixture
def posts(database: Database) -> Posts:
    return make_posts(database)


def runner_claims(
    posts: Posts, sources: Sources | None = None, size: int = 5, locks: dict[str, ClaimLock] | None = None
) -> Claims:
    """Those of a runner with the sources of the lane."""
    database, sources = posts.database, sources or posts.sources
    insert_runner(database, "worker-9", LANE)
    rows = RowClaims(
        sources,
        database,
        sources.of_lane(LANE),
        PauseCache(LANE, database),
        silent_log(),
        lambda _type: 5,
        locks or {},
    )
    lease_until = make_claimant(database).lease_until
    assignment = Assignment("worker-9", LANE, CYCLE, deadline=0, window_seconds=50, lease_until=lease_until)
    return Claims(
        database,
        make_buffer(database),
        assignment,
        size,
        rows.pauses,
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
