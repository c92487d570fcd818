"""After a COMMIT whose answer was lost, nothing happens twice."""

from collections.abc import Iterator

import pytest

import mayfly
from mayfly.client import App, use_app
from mayfly.db.database import Database
from mayfly.errors import CommitUnknown, DatabaseAway
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement
from mayfly.queue.rescue import held_jobs
from mayfly.queue.settle import settle
from mayfly.schema import metadata as tables
from mayfly.schema.metadata import jobs
from runner.job_runtime import JobTransaction
from runner.settle_buffer import SettleBuffer
from tests.database.factories import claim_jobs, make_buffer, make_settler, rows_of, servers_only
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
    """The database through the proxy, with an open connection."""
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
    """The row is read again: the job counts as done, and neither a failure nor a lost lease is reported."""
    insert_rows(database, 1)
    [job] = claim_jobs(database, 1)
    buffer = make_buffer(remote)
    transaction = JobTransaction(remote)
    with transaction.open(job):
        proxy.lose_next(b"COMMIT")

    buffer.settle_in_transaction(transaction, Settlement(job, DONE, 5))

    assert proxy.lost == 1
    assert [row.status for row in rows_of(database, jobs)] == ["done"]
    assert [(row.outcome, row.jobs) for row in rows_of(database, tables.totals)] == [("done", 1)]


def test_a_job_is_done_though_its_row_could_not_be_read(
    remote: Database, proxy: Proxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was away for too long, and the runner releases the job: that finds it done, and counts it once."""
    insert_rows(database, 1)
    [job] = claim_jobs(database, 1)
    buffer = make_buffer(remote)
    transaction = JobTransaction(remote)
    with transaction.open(job):
        proxy.lose_next(b"COMMIT")
    monkeypatch.setattr(SettleBuffer, "_was_committed", lambda *_: False)
    with pytest.raises(DatabaseAway):
        buffer.settle_in_transaction(transaction, Settlement(job, DONE, 5))

    buffer.add(Settlement(job, RELEASED))
    buffer.flush()

    assert [row.status for row in rows_of(database, jobs)] == ["done"]
    assert [(row.outcome, row.jobs) for row in rows_of(database, tables.totals)] == [("done", 1)]


def test_a_job_is_never_enqueued_twice(producer: App, proxy: Proxy, database: Database) -> None:
    """The caller gets an error that the result is unknown, and that a unique key would make a retry safe."""
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


def test_a_job_with_a_key_is_enqueued(producer: App, proxy: Proxy, database: Database) -> None:
    """The constraint shows whether it was: the caller gets the id."""
    proxy.lose_next(b"INSERT")

    job = mayfly.enqueue("noop", unique_key="key")

    assert [row.id for row in rows_of(database, jobs)] == [job]


def test_a_caller_does_not_get_its_own_job_as_a_conflict(producer: App, proxy: Proxy, database: Database) -> None:
    """With on_conflict="error" a repeat would find the first job, so the result is reported as unknown."""
    proxy.lose_next(b"INSERT")

    with pytest.raises(CommitUnknown):
        mayfly.enqueue("noop", unique_key="key", on_conflict="error")

    assert len(rows_of(database, jobs)) == 1


def test_settled_jobs_are_not_mistaken_for_lost(remote: Database, proxy: Proxy, database: Database) -> None:
    """The runner continues with the same figures: history and totals are complete and counted once."""
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


def test_a_single_settled_job_is_not_mistaken_for_lost(remote: Database, proxy: Proxy, database: Database) -> None:
    """A batch of one has no other rows that prove it."""
    insert_rows(database, 1)
    settlements = [Settlement(job, DONE, 1) for job in claim_jobs(remote, 1)]
    proxy.lose_next_commit()

    settled = settle(remote, make_settler(), settlements, {})

    assert settled.lost == ()
    assert [row.jobs for row in rows_of(database, tables.totals)] == [1]


def test_a_job_committed_alone_is_not_mistaken_for_lost(remote: Database, proxy: Proxy, database: Database) -> None:
    """With ack="each" there are no totals that prove it; the row does."""
    insert_rows(database, 1)
    [job] = claim_jobs(remote, 1)
    buffer = make_buffer(remote)
    proxy.lose_next(b"UPDATE")

    buffer.add(Settlement(job, DONE, 1), commit_now=True)
    buffer.flush()

    assert proxy.lost == 1
    assert [(row.outcome, row.jobs) for row in rows_of(database, tables.totals)] == [("done", 1)]


def test_claimed_jobs_are_held_and_not_lost(remote: Database, proxy: Proxy, database: Database) -> None:
    """The runner runs the jobs of the second claim; those of the first are released when it exits."""
    insert_rows(database, 4)
    proxy.lose_next_commit()

    batch = claim_jobs(remote, 2)

    held = database.run(lambda connection: held_jobs(connection, "default", "worker-1"))
    assert len(batch) == 2
    assert {job.id for job in batch} <= {job.id for job in held}
    assert {job.claims for job in held} == {1}


def test_a_repeat_is_counted(remote: Database, proxy: Proxy) -> None:
    """The summary shows how often transactions were repeated."""
    proxy.lose_next_commit()

    remote.run(lambda connection: connection.execute("DELETE FROM mayfly_jobs"))

    assert remote.repeats == 1
