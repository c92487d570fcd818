"""Pull, finish and extend on every database: fenced, counted, and safe where an answer was lost."""

from datetime import timedelta
from threading import Thread

import pytest

from console.api import idempotency
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.errors import KeyReused, StaleClaim
from mayfly.fleet.cycles import close_cycle, open_cycle
from mayfly.queue import external
from mayfly.queue.external import ClaimRef, ExternalTotals, Pulled, PullOptions
from mayfly.queue.outcome import DONE, Outcome
from mayfly.schema.metadata import jobs, totals
from mayfly.stats.totals import STRAYS, add_up_strays, add_up_totals
from tests.database.factories import change_job, rows_of, servers_only
from tests.database.lossy_proxy import proxied
from tests.factories import insert_row, insert_rows, make_clock

LEASE = timedelta(minutes=1)


@pytest.fixture
def books(database: Database) -> ExternalTotals:
    return ExternalTotals(database, "http-test")


def pull(database: Database, books: ExternalTotals, most: int = 1, *lanes: str) -> Pulled:
    return external.pull(database, books, PullOptions("shop", lanes or ("outside",), most, LEASE))


def done(_job: object) -> Outcome:
    return DONE


def finish(database: Database, books: ExternalTotals, hold: ClaimRef) -> external.Finished:
    return external.finish(database, books, hold, done)


def close_a_cycle(database: Database, cycle_id: int) -> None:
    now = database.clock.now()
    database.run(lambda connection: open_cycle(connection, cycle_id, "host", now))
    database.run(lambda connection: add_up_totals(connection, cycle_id))
    database.run(lambda connection: close_cycle(connection, cycle_id, {"exit_code": 0}, now))


def counted(database: Database) -> int:
    return sum(row.jobs for row in rows_of(database, totals))


def test_the_first_lane_that_has_jobs_gives_them(database: Database, books: ExternalTotals) -> None:
    """In the order in which the lanes are named; never of two at a time."""
    insert_rows(database, 2, lane="second")
    insert_rows(database, 2, lane="third")

    pulled = pull(database, books, 10, "first", "second", "third")

    assert {job.lane for job in pulled.jobs} == {"second"}
    assert len(pulled.jobs) == 2


def test_a_suspect_is_handed_out_alone(database: Database, books: ExternalTotals) -> None:
    """Whatever it did to the worker before, it does to nobody else's jobs."""
    first, *_ = insert_rows(database, 3, lane="outside")
    change_job(database, first, suspect=1, crashes=1)

    assert [job.id for job in pull(database, books, 3).jobs] == [first]
    assert len(pull(database, books, 3).jobs) == 2


def test_each_pull_has_an_owner_of_its_own(database: Database, books: ExternalTotals) -> None:
    """No two claims are ever taken for each other."""
    insert_rows(database, 2, lane="outside")

    owners = {pull(database, books).worker_id for _ in range(2)}

    assert len(owners) == 2
    assert all(len(each) <= 64 for each in owners)


def test_of_two_who_say_done_at_once_it_is_counted_once(database: Database, books: ExternalTotals) -> None:
    """One settles it, the others repeat."""
    insert_row(database, lane="outside")
    pulled = pull(database, books)
    hold = pulled.claim_of(pulled.jobs[0])
    wide = Database(database.url, connections=8)
    crowded = ExternalTotals(wide, "http-crowd")
    found: list[bool] = []
    threads = [Thread(target=lambda: found.append(finish(wide, crowded, hold).is_repeated)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    wide.close()

    assert sorted(found) == [False] + [True] * 7
    assert counted(database) == 1


def test_what_is_done_outside_is_counted_beside_a_cycle_that_is_over(
    database: Database, books: ExternalTotals
) -> None:
    """So that no cycle adds it to its own and leaves it to be written once more."""
    start = milliseconds(database.clock.now())
    close_a_cycle(database, start)
    insert_rows(database, 3, lane="outside")
    pulled = pull(database, books, 3)
    for number, job in enumerate(pulled.jobs, start=1):
        finish(database, books, pulled.claim_of(job))
        close_a_cycle(database, start + 1000 * number)

    assert counted(database) == 3
    assert {row.cycle_id for row in rows_of(database, totals)} == {start}


def test_a_cycle_that_still_runs_takes_nothing_along(database: Database, books: ExternalTotals) -> None:
    """It adds up what is written under its number when it ends; what was done outside must not be among that."""
    start, now = milliseconds(database.clock.now()), database.clock.now()
    database.run(lambda connection: open_cycle(connection, start, "host", now))
    insert_rows(database, 2, lane="outside")
    pulled = pull(database, books, 2)
    finish(database, books, pulled.claim_of(pulled.jobs[0]))
    close_a_cycle(database, start)
    finish(database, books, pulled.claim_of(pulled.jobs[1]))

    assert counted(database) == 2


def test_with_another_cycle_a_new_page_is_begun(
    database: Database, books: ExternalTotals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures of two cycles are two rows, and none is counted twice."""
    monkeypatch.setattr("mayfly.queue.external.CYCLE_POLL_SECONDS", -1.0)
    start = milliseconds(database.clock.now())
    insert_rows(database, 2, lane="outside")
    pulled = pull(database, books, 2)
    for number, job in enumerate(pulled.jobs):
        close_a_cycle(database, start + 1000 * number)
        finish(database, books, pulled.claim_of(job))

    assert {row.cycle_id: row.jobs for row in rows_of(database, totals)} == {start: 1, start + 1000: 1}


def test_nothing_is_counted_beside_a_cycle_of_long_ago(database: Database, books: ExternalTotals) -> None:
    """While cron is not at work: the first cycle afterwards adds such totals up, and they would be written again."""
    now = database.clock.now()
    close_a_cycle(database, milliseconds(now - STRAYS))
    insert_rows(database, 2, lane="outside")
    pulled = pull(database, books, 2)
    for job in pulled.jobs:
        finish(database, books, pulled.claim_of(job))
        database.run(lambda connection: add_up_strays(connection, now + STRAYS / 3))

    assert counted(database) == 2


def test_a_lease_that_ran_out_is_not_extended(database: Database, books: ExternalTotals) -> None:
    """Somebody may be about to give the job away."""
    job_id = insert_row(database, lane="outside")
    pulled = pull(database, books)
    hold = pulled.claim_of(pulled.jobs[0])
    external.extend(database, hold, LEASE)
    change_job(database, job_id, lease_until=database.clock.now() - timedelta(seconds=1))

    with pytest.raises(StaleClaim):
        external.extend(database, hold, LEASE)


def test_who_hung_up_leaves_no_trace(database: Database, books: ExternalTotals) -> None:
    """The jobs that he never saw are given back, unspent."""
    job_id = insert_row(database, lane="outside")

    external.release_pulled(books, pull(database, books))

    [row] = rows_of(database, jobs)
    assert (row.id, row.status, row.attempts, row.crashes, row.claims) == (job_id, "pending", 0, 0, 1)


@servers_only
def test_a_pull_whose_commit_was_not_answered_hands_out_what_it_took(migrated_url: str, database: Database) -> None:
    """Otherwise nobody would know of these jobs, until they come back as crashes."""
    ids = insert_rows(database, 4, lane="outside")
    with proxied(migrated_url) as (proxy, url):
        remote = Database(url)
        remote.connect()
        proxy.lose_next_commit()

        pulled = pull(remote, ExternalTotals(remote, "http-test"), 2)
        remote.close()

    assert proxy.lost == 1
    assert [job.id for job in pulled.jobs] == ids[:2]
    assert [row.status for row in rows_of(database, jobs)] == ["processing", "processing", "pending", "pending"]


@servers_only
def test_a_done_whose_commit_was_not_answered_is_counted_once(migrated_url: str, database: Database) -> None:
    """It is found to be done."""
    insert_row(database, lane="outside")
    with proxied(migrated_url) as (proxy, url):
        remote = Database(url)
        books = ExternalTotals(remote, "http-test")
        pulled = pull(remote, books)
        proxy.lose_next_commit()

        finished = finish(remote, books, pulled.claim_of(pulled.jobs[0]))
        remote.close()

    assert (proxy.lost, finished.outcome, counted(database)) == (1, DONE, 1)


def test_a_request_is_done_once_for_its_key(database: Database) -> None:
    """The first does it; the same again gets its answer; another one under that key is refused."""
    now = database.clock.now()
    first, other = (idempotency.idempotent_request("shop", "key", body, now) for body in (b"1", b"2"))

    def ask(request: idempotency.IdempotentRequest, answer: int) -> tuple[int, bool]:
        return database.run(lambda connection: idempotency.run_once(connection, request, lambda _: answer))

    assert ask(first, 1) == (1, True)
    assert ask(first, 2) == (1, False)
    with pytest.raises(KeyReused):
        ask(other, 3)


def test_a_request_that_failed_is_not_remembered(database: Database) -> None:
    """Nothing of it was committed, so the next one with its key is the first."""
    request = idempotency.idempotent_request("shop", "key", b"1", database.clock.now())

    def fail(_connection: object) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.run(lambda connection: idempotency.run_once(connection, request, fail))

    assert database.run(lambda connection: idempotency.run_once(connection, request, lambda _: 7)) == (7, True)


def test_a_process_that_stays_measures_its_clock_anew(database: Database) -> None:
    """Its host's clock may be set while it runs; asked for again too soon, nothing is measured."""
    wrong = make_clock(timedelta(hours=1))
    database.connect()
    database.set_clock(wrong)
    database.refresh_clock(60)
    kept = database.clock
    step = database.refresh_clock()

    assert kept is wrong
    assert abs(database.clock.offset) < timedelta(minutes=1)
    assert abs(step + timedelta(hours=1)) < timedelta(minutes=1)


@servers_only
def test_sessions_that_were_cut_are_all_replaced(database: Database) -> None:
    """Whoever finds one cut does not try the next one that was cut with it."""
    wide = Database(database.url, connections=3)
    sessions = [wide._pool.take() for _ in range(3)]
    for each in sessions:
        wide._pool.put_back(each)
    for each in sessions:
        each.raw.close()

    assert wide.read(lambda connection: connection.execute("SELECT 1").scalar()) == 1
    wide.close()
