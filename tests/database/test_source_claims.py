"""Due rows of an application's table are counted, and claimed with a job for each."""

import json
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import Integer, String, insert, text

from mayfly.db.database import Database
from mayfly.errors import SourceUnusable
from mayfly.queue.source_claim import RowClaim
from mayfly.queue.source_table import RowPosition, SourceTable
from mayfly.queue.source_trial import try_claim
from mayfly.queue.sources import count_by_source, oldest_due
from mayfly.schema import metadata as tables
from tests.database.factories import in_threads, mysql_only, rows_of, run_sql, servers_only
from tests.database.source_factories import LANE, Posts, make_posts
from tests.factories import get_row
from tests.sqlalchemy_engines import engine_of, run


@pytest.fixture
def posts(database: Database) -> Posts:
    return make_posts(database)


# --- count ------------------------------------------------------------------------------------------------


def test_only_pending_rows_that_are_due_are_counted(posts: Posts) -> None:
    """Not those of the next minute, without a time, or with any other status."""
    posts.insert(1, 2, 3)
    posts.insert(4, run_at=posts.minutes_ago(-1))
    posts.insert(5, run_at=None)
    posts.insert(6, status="draft")
    posts.insert(7, status="published")
    posts.insert(8, status=None)

    assert posts.count() == 3


def test_a_count_stops_above_its_cap(posts: Posts) -> None:
    """One row more than the cap shows that there are more."""
    posts.insert(*range(10))

    assert (posts.count(cap=4), posts.count(cap=10)) == (5, 10)


def test_rows_of_several_pending_values_are_counted(database: Database) -> None:
    """NULL can be one of them."""
    posts = make_posts(database, pending=["pending", "retry", "NULL"])
    posts.insert(1)
    posts.insert(2, status="retry")
    posts.insert(3, status=None)
    posts.insert(4, status="draft")

    assert posts.count() == 3
    assert sorted(posts.claimed_keys()) == ["1", "2", "3"]


def test_a_condition_restricts_rows(database: Database) -> None:
    """Percent signs, colons and quotes in it are no parameters."""
    posts = make_posts(database, where="title LIKE '50%:now' OR title = 'it''s 10:30 :now'")
    posts.insert(1, title="50 euros:now")
    posts.insert(2, title="it's 10:30 :now")
    posts.insert(3, title="other")

    assert posts.count() == 2
    assert sorted(posts.claimed_keys()) == ["1", "2"]


def test_rows_without_a_time_column_are_due_at_once(database: Database) -> None:
    """In the order of their keys."""
    posts = make_posts(database, run_at=None)
    posts.insert(2, 1, run_at=None)

    assert (posts.count(), posts.claimed_keys()) == (2, ["1", "2"])


def test_integers_can_be_status_values(database: Database) -> None:
    """And be written back."""
    numbers = {"pending": 0, "processing": 1, "done": 2, "failed": 3, "cancelled": 4}
    posts = make_posts(database, {"status": Integer()}, **numbers)
    posts.insert(1, status=0)
    posts.insert(2, status=2)

    posts.settle(posts.claim_one())

    assert posts.statuses() == {1: 2, 2: 2}


def test_the_oldest_due_row_is_found(posts: Posts) -> None:
    """Its time in UTC; None if no row is due."""
    oldest = posts.database.read(lambda c: oldest_due(c, posts.statements, posts.database.clock.now()))
    posts.insert(1)
    posts.insert(2, run_at=posts.minutes_ago(7))
    posts.insert(3, run_at=posts.minutes_ago(-7))

    found = posts.database.read(lambda c: oldest_due(c, posts.statements, posts.database.clock.now()))

    assert oldest is None
    assert found is not None
    assert timedelta(minutes=7) <= posts.database.clock.now() - found < timedelta(minutes=8)


# --- claim ------------------------------------------------------------------------------------------------


def test_a_claim_marks_its_rows(posts: Posts) -> None:
    """With status, owner and time; no other column is changed."""
    posts.insert(1, title="Hello", retry_count=0)

    posts.claim_one(worker_id="worker-7")

    row, now = posts.row(1), posts.minutes_ago(0)
    assert (row.status, row.worker_id) == ("processing", "worker-7")
    assert now - timedelta(minutes=1) < row.locked_at <= now
    assert (row.title, row.retry_count, row.last_error, row.published_at) == ("Hello", 0, None, None)


def test_a_claimed_row_has_a_job(posts: Posts) -> None:
    """Already claimed, with lease, fencing token and attempt; its unique key names the row."""
    posts.insert(1, title="Hello")

    job = posts.claim_one(worker_id="worker-7", max_attempts=3)

    row, now = get_row(posts.database, job.id), posts.database.clock.now()
    assert (row.type, row.lane, row.status, row.worker_id) == ("noop", LANE, "processing", "worker-7")
    assert (row.attempts, row.claims, row.max_attempts, row.priority) == (1, 1, 3, 1)
    assert row.unique_key == "source:posts:1"
    assert json.loads(row.payload) == {"title": "Hello"}
    assert row.run_at <= row.locked_at <= now < row.lease_until


def test_a_handler_gets_the_columns_of_the_row(posts: Posts) -> None:
    """The columns of the payload and the key; the time at which the row was due."""
    posts.insert(1, title="Hello", run_at=posts.minutes_ago(5))

    job = posts.claim_one()

    assert (job.row, job.payload) == ({"id": 1, "title": "Hello"}, {"title": "Hello"})
    assert (job.attempt, job.claims, job.max_attempts) == (1, 1, 5)
    assert job.run_at is not None
    assert timedelta(minutes=5) <= posts.database.clock.now() - job.run_at < timedelta(minutes=6)


def test_without_a_payload_setting_a_handler_gets_all_columns(database: Database) -> None:
    """In the order of the table."""
    posts = make_posts(database, payload=None)
    posts.insert(1, title="Hello")

    job = posts.claim_one()

    assert list(job.row) == list(job.payload) == list(posts.table.columns.keys())
    assert (job.row["title"], job.payload["title"]) == ("Hello", "Hello")


def test_a_claim_takes_as_many_rows_as_it_asks_for(posts: Posts) -> None:
    """The next claim takes the next ones, until none is left."""
    posts.insert(*range(5))

    claims = [posts.claimed_keys(2) for _ in range(4)]

    assert claims == [["0", "1"], ["2", "3"], ["4"], []]


def test_the_oldest_rows_come_first(posts: Posts) -> None:
    """Among those of one time the lowest key; this is also their order within the claim."""
    posts.insert(1, run_at=posts.minutes_ago(1))
    posts.insert(2, 3, run_at=posts.minutes_ago(3))
    posts.insert(4, run_at=posts.minutes_ago(2))

    assert posts.claimed_keys() == ["2", "3", "4", "1"]


def test_rows_of_a_high_priority_come_first(database: Database) -> None:
    """Then normal and unknown values and NULL, then low ones; a job has the priority of its row."""
    posts = make_posts(database, priority="priority", priorities={"now": 0, "urgent": 0, "later": 2})
    for key, priority in enumerate(["later", "usual", None, "urgent", "now"]):
        posts.insert(key, priority=priority, run_at=posts.minutes_ago(9 - key))

    keys = posts.claimed_keys()

    assert keys == ["3", "4", "1", "2", "0"]
    stored = {row.unique_key: row.priority for row in rows_of(posts.database, tables.jobs)}
    assert [stored[f"source:posts:{key}"] for key in keys] == [0, 0, 1, 1, 2]


def test_priorities_can_be_integers(database: Database) -> None:
    """In mayfly.toml they are the keys of a table, which are texts."""
    posts = make_posts(database, {"priority": Integer()}, priority="priority", priorities={"9": 0, "1": 2})
    for key, priority in enumerate([1, 5, 9]):
        posts.insert(key, priority=priority)

    assert posts.claimed_keys() == ["2", "1", "0"]


def test_a_claim_needs_only_status_values(database: Database) -> None:
    """All other columns are optional."""
    columns = dict.fromkeys(["worker_id", "locked_at", "retry_count", "last_error", "published_at"])
    settings = dict.fromkeys(["worker_id", "locked_at", "attempts", "error", "finished_at", "cancelled", "payload"])
    posts = make_posts(database, columns, **settings)
    posts.insert(1)

    posts.settle(posts.claim_one())

    assert posts.statuses() == {1: "published"}


@servers_only
def test_rows_that_another_transaction_has_locked_are_skipped(posts: Posts) -> None:
    """A claim waits for no one: it takes other rows."""
    posts.insert(*range(5))
    with engine_of(posts.database).begin() as other:
        other.execute(text("SELECT id FROM posts WHERE id < 3 FOR UPDATE"))

        claimed = posts.claimed_keys(10)

    assert claimed == ["3", "4"]


def test_a_row_set_back_to_pending_waits_for_its_job(posts: Posts) -> None:
    """It is neither counted nor claimed while the job is live; afterwards it gets a new job."""
    posts.insert(1)
    job = posts.claim_one()
    posts.change(1, status="pending")

    while_live = posts.count(), posts.claim()
    posts.settle(job)

    assert while_live == (0, [])
    assert posts.count() == 1
    assert posts.claim_one().id != job.id


def test_a_row_whose_job_ended_can_be_processed_again(posts: Posts) -> None:
    """As soon as the application sets it back."""
    posts.insert(1)
    first = posts.claim_one()
    posts.settle(first)
    posts.change(1, status="pending")

    second = posts.claim_one()

    assert (second.id != first.id, posts.statuses()) == (True, {1: "processing"})


def test_a_row_that_has_a_job_by_now_gets_no_second_one(posts: Posts, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim may have read its candidates before another one inserted the job. The row is not changed."""
    posts.insert(1, 2)
    posts.claim(1)
    posts.change(1, status="pending")
    due = [RowPosition(1, posts.minutes_ago(1), key) for key in (1, 2)]
    monkeypatch.setattr(RowClaim, "_page", lambda *_arguments: due)

    claimed = posts.claimed_keys()

    assert (claimed, posts.statuses()) == (["2"], {1: "pending", 2: "processing"})


def test_concurrent_claims_share_no_row(posts: Posts, migrated_url: str) -> None:
    """Four runners, each with its own connection, claim all rows; each row once."""
    posts.insert(*range(60))

    def claim_all(worker_id: str) -> list[int]:
        opened = Database(migrated_url)
        runner = Posts(opened, posts.table, posts.source)
        keys = [job.row["id"] for _ in range(30) for job in runner.claim(5, worker_id)]
        opened.close()
        return keys

    claimed = in_threads([partial(claim_all, f"worker-{number}") for number in range(4)])

    assert sorted(key for keys in claimed for key in keys) == list(range(60))
    assert [{posts.row(key).worker_id for key in keys} - {f"worker-{n}"} for n, keys in enumerate(claimed)] == [
        set()
    ] * 4


# --- stale locks ------------------------------------------------------------------------------------------


def test_stale_locks_of_an_earlier_worker_are_adopted(database: Database) -> None:
    """Rows that have carried the processing value for longer than adopt_after."""
    posts = make_posts(database, adopt_after="15m")
    posts.insert(1, status="processing", locked_at=posts.minutes_ago(16), worker_id="old script")
    posts.insert(2, status="processing", locked_at=posts.minutes_ago(14), worker_id="old script")
    posts.insert(3, status="processing", locked_at=None, worker_id="old script")
    posts.insert(4, status="published", locked_at=posts.minutes_ago(16), worker_id="old script")

    counted = posts.count()
    job = posts.claim_one()

    assert (counted, job.row["id"], posts.row(1).worker_id) == (1, 1, "worker-1")
    assert posts.count() == 0


def test_without_adopt_after_no_lock_is_adopted(posts: Posts) -> None:
    """Another program may be working on the row."""
    posts.insert(1, status="processing", locked_at=posts.minutes_ago(9999))

    assert (posts.count(), posts.claim()) == (0, [])


def test_a_row_with_a_live_job_is_never_adopted(database: Database) -> None:
    """However long its retry waits."""
    posts = make_posts(database, adopt_after="15m")
    posts.insert(1)
    posts.fail(posts.claim_one())
    posts.change(1, locked_at=posts.minutes_ago(9999))

    assert (posts.count(), posts.claim()) == (0, [])


# --- unusable sources -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "column", "named"),
    [("table", "no_such_table", "no_such_table"), ("error", "no_such_column", "no_such_column"),
     ("run_at", "no_such_time", "no_such_time"), ("where", "no_such_condition = 1", "no_such_condition")],
)  # fmt: skip
def test_a_claim_of_an_unusable_source_is_an_error(database: Database, setting: str, column: str, named: str) -> None:
    """That names the source and what is missing; no row and no job is changed."""
    make_posts(database).insert(1)
    posts = make_posts(database, **{setting: column})

    with pytest.raises(SourceUnusable, match=f"The source posts cannot be used: .*{named}"):
        posts.claim()

    assert (posts.statuses(), rows_of(database, tables.jobs)) == ({1: "pending"}, [])


def test_an_unusable_source_does_not_affect_the_others(database: Database) -> None:
    """They are counted in the same queries, before and after it."""
    posts = make_posts(database)
    posts.insert(1)
    broken = make_posts(database, table="no_such_table").statements
    other = SourceTable(posts.source.replace(name="others"), database.dialect)
    several = [posts.statements, broken, other]

    counted, problems = database.read(
        lambda connection: count_by_source(connection, posts.sources, several, database.clock.now(), lambda _lane: 10)
    )

    assert counted == {"posts": 1, "others": 1}
    assert [str(each).partition(":")[0] for each in problems] == ["The source posts cannot be used"]


def test_a_key_that_is_too_long_is_refused(database: Database) -> None:
    """150 characters fit; no row is changed."""
    posts = make_posts(database, {"id": String(200)})
    posts.insert("k" * 150)
    claimed = posts.claimed_keys()
    posts.insert("k" * 151)

    with pytest.raises(SourceUnusable, match="a primary key has more than 150 characters"):
        posts.claim()

    assert claimed == ["k" * 150]
    assert posts.row("k" * 151).status == "pending"


@servers_only
@pytest.mark.parametrize("setting", ["processing", "done", "failed", "cancelled"])
def test_a_status_value_that_the_column_cannot_store_is_refused(database: Database, setting: str) -> None:
    """Before the handler runs: the row stays pending, and has no job. SQLite enforces no length."""
    posts = make_posts(database, **{setting: "a status of more than 20 characters"})
    posts.insert(1)

    with pytest.raises(SourceUnusable, match="the column status stores at most 20 characters"):
        posts.claim()

    assert (posts.statuses(), rows_of(database, tables.jobs)) == ({1: "pending"}, [])


@servers_only
def test_a_column_that_is_too_short_for_worker_ids_is_refused(database: Database) -> None:
    """Before any row is claimed."""
    posts = make_posts(database, {"worker_id": String(39)})
    posts.insert(1)

    with pytest.raises(SourceUnusable, match="the column worker_id stores less than 40 characters"):
        posts.claim()

    assert (posts.statuses(), rows_of(database, tables.jobs)) == ({1: "pending"}, [])


def test_a_job_with_the_key_of_a_row_holds_the_row(posts: Posts) -> None:
    """Also one that was inserted by plain SQL."""
    posts.insert(1, 2)
    row = {"type": "noop", "payload": "{}", "unique_key": "source:posts:1", "lane": "default"}
    run(posts.database, lambda connection: connection.execute(insert(tables.jobs), [row]))

    assert (posts.count(), posts.claimed_keys()) == (1, ["2"])


def test_jobs_of_the_lane_are_no_rows(posts: Posts) -> None:
    """An enqueued job of the same lane keeps its place."""
    posts.insert(1)
    run_sql(posts.database, "INSERT INTO mayfly_jobs (type, payload, lane) VALUES ('noop', '{}', 'posts')")

    job = posts.claim_one()

    others = [row.status for row in rows_of(posts.database, tables.jobs) if row.id != job.id]
    assert others == ["pending"]


# --- trial --------------------------------------------------------------------------------------------------


def test_a_trial_changes_nothing(posts: Posts) -> None:
    """It has found a row that can be claimed."""
    posts.insert(1)

    tried = try_claim(posts.database, posts.sources, posts.statements)

    assert (tried, posts.statuses(), posts.claimed_keys()) == (True, {1: "pending"}, ["1"])
    assert not try_claim(posts.database, posts.sources, posts.statements)


@mysql_only
def test_a_table_without_transactions_has_no_trial(posts: Posts) -> None:
    """Its row would stay `processing`, without a job."""
    posts.insert(1)
    run_sql(posts.database, "ALTER TABLE posts ENGINE=MyISAM")

    tried = try_claim(posts.database, posts.sources, posts.statements)

    assert (tried, posts.statuses()) == (False, {1: "pending"})
