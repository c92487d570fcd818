"""A COMMIT whose answer was lost has happened or has not: whatever is done then, nothing happens twice."""

from collections.abc import Iterator

import pytest

import mayfly
from mayfly.client import App, use_app
from mayfly.db.database import Database
from mayfly.errors import CommitUnknown
from mayfly.log import silent_log
from mayfly.queue.outcome import DONE, Outcome, OutcomeKind, Settlement
from mayfly.queue.rescue import held_jobs
from mayfly.queue.settle import settle
from mayfly.schema import metadata as tables
from mayfly.schema.metadata import jobs
from runner.job_runtime import JobTransaction
from runner.settle_buffer import SettleBuffer
from tests.database.factories import claim_jobs, make_settler, rows_of, servers_only
from tests.database.lossy_proxy import Proxy, proxied
from tests.factories import insert_rows

pytestmark = servers_only

FAILED = Outcome(OutcomeKind.FAILED, error="no", fingerprint="f", attempt_ending=OutcomeKind.FAILED)


@pytest.fixture
def wire(migrated_url: str) -> Iterator[tuple[Proxy, str]]:
    with proxied(migrated_url) as wired:
        yield wired


@pytest.fixture
def proxy(wire: tuple[Proxy, str]) -> Proxy:
    return wire[0]


@pytest.fixture
def remote(wire: tuple[Proxy, str]) -> Iterator[Database]:
    """The database as it is seen over the wire, with a connection that is open already."""
    database = Database(wire[1])
    database.run(lambda _connection: None)
    yield database
    database.close()


@pytest.fixture
def producer(app: App, remote: Database) -> App:
    producing = App(app.settings, remote)
    use_app(producing)
    return producing


def test_a_job_is_done_with_its_transaction(remote: Database, proxy: Proxy, database: Database) -> None:
    """The row is read again: the job is counted as done, and neither a failure nor a lost lease is reported."""
    insert_rows(database, 1)
    [job] = claim_jobs(database, 1)
    buffer = SettleBuffer(remote, make_settler(), silent_log())
    transaction = JobTransaction(remote)
    with transaction.open(job):
        proxy.lose_next(b"COMMIT")

    buffer.settle_in_transaction(transaction, Settlement(job, DONE, 5))

    assert proxy.lost == 1
    assert [row.status for row in rows_of(database, jobs)] == ["done"]
    assert [(row.outcome, row.jobs) for row in rows_of(database, tables.totals)] == [("done", 1)]


def test_a_job_is_never_enqueued_twice(producer: App, proxy: Proxy, database: Database) -> None:
    """The caller is told that nobody knows, and that a key would make it safe to ask again."""
    proxy.lose_next(b"INSERT")

    with pytest.raises(CommitUnknown, match="unique_key"):
        mayfly.enqueue("noop")

    assert proxy.lost == 1
    assert len(rows_of(database, jobs)) == 1


def test_many_jobs_are_never_enqueued_twice(producer: App, proxy: Proxy, database: Database) -> None:
    """The same for each thousand of them."""
    proxy.lose_next(b"INSERT")

    with pytest.raises(CommitUnknown):
        mayfly.enqueue_many([{"type": "noop"}] * 3)

    assert len(rows_of(database, jobs)) == 3


def test_a_job_with_a_key_is_enqueued_all_the_same(producer: App, proxy: Proxy, database: Database) -> None:
    """The constraint says whether it was: the caller gets the id and hears nothing of it."""
    proxy.lose_next(b"INSERT")

    job = mayfly.enqueue("noop", unique_key="key")

    assert [row.id for row in rows_of(database, jobs)] == [job]


def test_nobody_is_told_of_a_holder_that_is_his_own(producer: App, proxy: Proxy, database: Database) -> None:
    """With `error` a second try would find the first one's job: the caller is told that nobody knows."""
    proxy.lose_next(b"INSERT")

    with pytest.raises(CommitUnknown):
        mayfly.enqueue("noop", unique_key="key", on_conflict="error")

    assert len(rows_of(database, jobs)) == 1


def test_what_was_settled_is_not_taken_for_lost(remote: Database, proxy: Proxy, database: Database) -> None:
    """The runner goes on with the same figures: history and totals are complete, and counted once."""
    insert_rows(database, 4)
    batch = claim_jobs(remote, 3)
    outcomes = [DONE, DONE, FAILED]
    settlements = [Settlement(job, outcome, 1) for job, outcome in zip(batch, outcomes, strict=True)]
    proxy.lose_next_commit()

    settled = settle(remote, make_settler(), settlements, {})
    more = settle(remote, make_settler(), [Settlement(claim_jobs(remote, 1)[0], DONE, 1)], settled.tally)

    assert (settled.lost, more.lost) == ((), ())
    assert {row.outcome: row.jobs for row in rows_of(database, tables.totals)} == {"done": 3, "failed": 1}
    assert len(rows_of(database, tables.attempts)) == 1


def test_one_job_that_was_settled_is_not_taken_for_lost(remote: Database, proxy: Proxy, database: Database) -> None:
    """A batch of one has no mates whose rows would tell."""
    insert_rows(database, 1)
    settlements = [Settlement(job, DONE, 1) for job in claim_jobs(remote, 1)]
    proxy.lose_next_commit()

    settled = settle(remote, make_settler(), settlements, {})

    assert settled.lost == ()
    assert [row.jobs for row in rows_of(database, tables.totals)] == [1]


def test_one_that_was_committed_alone_is_not_taken_for_lost(
    remote: Database, proxy: Proxy, database: Database
) -> None:
    """With ack="each" there are no totals that would tell; the row does."""
    insert_rows(database, 1)
    settlements = [Settlement(job, DONE, 1) for job in claim_jobs(remote, 1)]
    proxy.lose_next(b"UPDATE")

    settled = settle(remote, make_settler(), settlements, {}, with_totals=False)

    assert (proxy.lost, settled.lost) == (1, ())
    assert settled.settlements == tuple(settlements)


def test_what_was_claimed_is_held_and_not_lost(remote: Database, proxy: Proxy, database: Database) -> None:
    """The runner works on what it was given the second time; the rest is in its name, and given back at its end."""
    insert_rows(database, 4)
    proxy.lose_next_commit()

    batch = claim_jobs(remote, 2)

    held = database.run(lambda connection: held_jobs(connection, "default", "worker-1"))
    assert len(batch) == 2
    assert {job.id for job in batch} <= {job.id for job in held}
    assert {job.claims for job in held} == {1}


def test_a_repeat_is_counted(remote: Database, proxy: Proxy) -> None:
    """The summary shows how often the database had to be asked again."""
    proxy.lose_next_commit()

    remote.run(lambda connection: connection.execute("DELETE FROM mayfly_jobs"))

    assert remote.repeats == 1
