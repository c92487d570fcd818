"""Pull, finish and extend: fenced, counted, and safe after a lost answer."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from threading import Thread

import pytest

from console.api.enqueue import IdempotentRequest
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.errors import KeyReused, StaleClaim
from mayfly.fleet.cycles import close_cycle, open_cycle
from mayfly.queue import external
from mayfly.queue.external import ClaimRef, ExternalTotals, Pulled, PullOptions
from mayfly.queue.outcome import DONE, RELEASED, Outcome, Settlement
from mayfly.schema.metadata import attempts, jobs, totals
from mayfly.stats.totals import STRAY_AGE, add_up_strays, add_up_totals
from tests.database.factories import change_job, claim_jobs, in_threads, rows_of, servers_only
from tests.database.lossy_proxy import proxied
from tests.factories import insert_row, insert_rows, make_clock

LEASE = timedelta(minutes=1)
Report = Callable[[Database, ExternalTotals, ClaimRef], object]


@pytest.fixture
def external_totals(database: Database) -> ExternalTotals:
    return ExternalTotals(database, "http-test")


def pull(database: Database, external_totals: ExternalTotals, max_jobs: int = 1, *lanes: str) -> Pulled:
    return external.pull(database, external_totals, PullOptions("shop", lanes or ("outside",), max_jobs, LEASE))


def done(_job: object) -> Outcome:
    return DONE


def finish(database: Database, external_totals: ExternalTotals, claim: ClaimRef) -> external.Finished:
    return external.finish(database, external_totals, claim, done)


def run_cycle(database: Database, cycle_id: int) -> None:
    now = database.clock.now()
    database.run(lambda connection: open_cycle(connection, cycle_id, "host", now))
    database.run(lambda connection: add_up_totals(connection, cycle_id, now))
    database.run(lambda connection: close_cycle(connection, cycle_id, {"exit_code": 0}, now))


def counted(database: Database) -> int:
    return sum(row.jobs for row in rows_of(database, totals))


def test_jobs_come_from_the_first_lane_that_has_some(database: Database, external_totals: ExternalTotals) -> None:
    """In the order of the given lanes, never from two at a time."""
    insert_rows(database, 2, lane="second")
    insert_rows(database, 2, lane="third")

    pulled = pull(database, external_totals, 10, "first", "second", "third")

    assert {job.lane for job in pulled.jobs} == {"second"}
    assert len(pulled.jobs) == 2


def test_a_suspect_is_pulled_alone(database: Database, external_totals: ExternalTotals) -> None:
    """If it crashes its worker again, no other job is affected."""
    first, *_ = insert_rows(database, 3, lane="outside")
    change_job(database, first, suspect=1, crashes=1)

    assert [job.id for job in pull(database, external_totals, 3).jobs] == [first]
    assert len(pull(database, external_totals, 3).jobs) == 2


def test_each_pull_has_its_own_worker_id(database: Database, external_totals: ExternalTotals) -> None:
    """So no two claims are confused."""
    insert_rows(database, 2, lane="outside")

    owners = {pull(database, external_totals).worker_id for _ in range(2)}

    assert len(owners) == 2
    assert all(len(each) <= 64 for each in owners)


def test_concurrent_finishes_of_a_job_are_counted_once(database: Database, external_totals: ExternalTotals) -> None:
    """One settles it, the others are repeats."""
    insert_row(database, lane="outside")
    pulled = pull(database, external_totals)
    claim = pulled.claim_of(pulled.jobs[0])
    wide = Database(database.url, connections=8)
    crowded = ExternalTotals(wide, "http-crowd")
    found: list[bool] = []
    threads = [Thread(target=lambda: found.append(finish(wide, crowded, claim).is_repeated)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    wide.close()

    assert sorted(found) == [False] + [True] * 7
    assert counted(database) == 1


def test_successes_of_external_workers_are_kept_too(database: Database) -> None:
    """In lanes with KEEP_SUCCESSES."""
    insert_row(database, lane="outside")
    keeping = ExternalTotals(database, "http-test", success_lanes=["outside"])
    pulled = pull(database, keeping)

    finish(database, keeping, pulled.claim_of(pulled.jobs[0]))

    assert [(row.worker_id, row.outcome) for row in rows_of(database, attempts)] == [(pulled.worker_id, "done")]


def test_external_outcomes_are_counted_in_a_closed_cycle(database: Database, external_totals: ExternalTotals) -> None:
    """So no cycle adds them to its own while they are still being rewritten."""
    start = milliseconds(database.clock.now())
    run_cycle(database, start)
    insert_rows(database, 3, lane="outside")
    pulled = pull(database, external_totals, 3)
    for number, job in enumerate(pulled.jobs, start=1):
        finish(database, external_totals, pulled.claim_of(job))
        run_cycle(database, start + 1000 * number)

    assert counted(database) == 3
    assert {row.cycle_id for row in rows_of(database, totals)} == {start}


def test_external_outcomes_are_not_counted_in_a_running_cycle(
    database: Database, external_totals: ExternalTotals
) -> None:
    """At its end it adds up all totals under its id."""
    start, now = milliseconds(database.clock.now()), database.clock.now()
    database.run(lambda connection: open_cycle(connection, start, "host", now))
    insert_rows(database, 2, lane="outside")
    pulled = pull(database, external_totals, 2)
    finish(database, external_totals, pulled.claim_of(pulled.jobs[0]))
    run_cycle(database, start)
    finish(database, external_totals, pulled.claim_of(pulled.jobs[1]))

    assert counted(database) == 2


def test_a_new_cycle_starts_new_totals(
    database: Database, external_totals: ExternalTotals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures of two cycles are two rows, and none is counted twice."""
    monkeypatch.setattr("mayfly.queue.external.CYCLE_POLL_SECONDS", -1.0)
    start = milliseconds(database.clock.now())
    insert_rows(database, 2, lane="outside")
    pulled = pull(database, external_totals, 2)
    for number, job in enumerate(pulled.jobs):
        run_cycle(database, start + 1000 * number)
        finish(database, external_totals, pulled.claim_of(job))

    assert {row.cycle_id: row.jobs for row in rows_of(database, totals)} == {start: 1, start + 1000: 1}


def test_external_outcomes_are_not_counted_in_an_old_cycle(
    database: Database, external_totals: ExternalTotals
) -> None:
    """Without cron: the next cycle adds up old totals, and they would be rewritten later."""
    now = database.clock.now()
    run_cycle(database, milliseconds(now - STRAY_AGE))
    insert_rows(database, 2, lane="outside")
    pulled = pull(database, external_totals, 2)
    for job in pulled.jobs:
        finish(database, external_totals, pulled.claim_of(job))
        database.run(lambda connection: add_up_strays(connection, now + STRAY_AGE / 3))

    assert counted(database) == 2


def expire(database: Database, *ids: int) -> None:
    """As if their leases had expired."""
    for each in ids:
        change_job(database, each, lease_until=database.clock.now() - timedelta(seconds=1))


REPORTS: dict[str, Report] = {
    "extend": lambda database, _totals, claim: external.extend(database, claim, LEASE),
    "finish": finish,
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_a_claim_holds_until_its_job_is_redelivered(
    database: Database, external_totals: ExternalTotals, report: Report
) -> None:
    """One rule for extensions and reports: an expired lease alone does not end a claim."""
    ids = insert_rows(database, 2, lane="outside")
    held, redelivered = pull(database, external_totals), pull(database, external_totals)
    expire(database, *ids)

    report(database, external_totals, held.claim_of(held.jobs[0]))
    external.redeliver(database, external_totals, ["outside"])

    stale = redelivered.claim_of(redelivered.jobs[0])
    with pytest.raises(StaleClaim):
        report(database, external_totals, stale)
    again = pull(database, external_totals)
    with pytest.raises(StaleClaim):
        report(database, external_totals, stale)
    assert [job.id for job in again.jobs] == [ids[1]]
    assert finish(database, external_totals, again.claim_of(again.jobs[0])).outcome == DONE


def test_expired_jobs_of_these_lanes_are_due_at_once(database: Database, external_totals: ExternalTotals) -> None:
    """A job that was held alone has crashed; jobs of other lanes, other leases and runners are not touched."""
    ids = insert_rows(database, 2, lane="outside")
    [other] = insert_rows(database, 1, lane="other")
    for lane in ("outside", "outside", "other"):
        pull(database, external_totals, 1, lane)
    [own] = insert_rows(database, 1, lane="outside")
    claim_jobs(database, lane="outside")
    expire(database, ids[0], other, own)

    messages = external.redeliver(database, external_totals, ["outside"])

    found = {row.id: row for row in rows_of(database, jobs)}
    assert [found[each].status for each in (*ids, other, own)] == ["pending", *["processing"] * 3]
    assert (found[ids[0]].crashes, found[ids[0]].attempts) == (1, 0)
    assert found[ids[0]].run_at <= database.clock.now()
    assert [each.name for each in messages] == ["job_failed", "runner_lost"]
    assert external.redeliver(database, external_totals, ["outside"]) == []


def test_of_several_expired_jobs_of_a_pull_none_is_blamed(
    database: Database, external_totals: ExternalTotals
) -> None:
    """Each is pulled alone from then on."""
    insert_rows(database, 3, lane="outside")
    pulled = pull(database, external_totals, 3)
    expire(database, *(job.id for job in pulled.jobs))
    external.redeliver(database, external_totals, ["outside"])

    assert [(row.crashes, row.suspect) for row in rows_of(database, jobs)] == [(0, 1)] * 3
    assert [len(pull(database, external_totals, 3).jobs) for _ in range(3)] == [1, 1, 1]


def test_a_job_is_dead_after_its_third_expired_lease(database: Database, external_totals: ExternalTotals) -> None:
    """It is announced before, and counted once per crash."""
    job_id = insert_row(database, lane="outside")
    announced: list[int] = []
    for _ in range(3):
        pull(database, external_totals)
        expire(database, job_id)
        external.redeliver(database, external_totals, ["outside"], lambda job: announced.append(job.id))

    [row] = rows_of(database, jobs)
    assert (row.status, row.crashes, announced) == ("dead", 3, [job_id])
    assert "its lease expired before the external worker reported a result" in row.last_error
    assert {each.outcome: each.jobs for each in rows_of(database, totals)} == {"crashed": 2, "dead": 1}


def test_a_lease_that_is_extended_during_the_redelivery_holds(
    database: Database, external_totals: ExternalTotals
) -> None:
    """It was read as expired; the other job of the pull is redelivered."""
    insert_rows(database, 2, lane="outside")
    pulled = pull(database, external_totals, 2)
    expire(database, *(job.id for job in pulled.jobs))
    read_at = database.clock.now()
    external.extend(database, pulled.claim_of(pulled.jobs[0]), LEASE)

    released = [Settlement(job, RELEASED) for job in pulled.jobs]
    settled = external_totals.settle(pulled.worker_id, released, expired_at=read_at)

    assert [job.id for job in settled.lost] == [pulled.jobs[0].id]
    assert [row.status for row in rows_of(database, jobs)] == ["processing", "pending"]


def test_concurrent_redeliveries_count_a_job_once(database: Database, external_totals: ExternalTotals) -> None:
    """Several consoles serve one database."""
    ids = insert_rows(database, 5, lane="outside")
    for _ in ids:
        pull(database, external_totals)
    expire(database, *ids)
    wide = Database(database.url, connections=4)
    consoles = [ExternalTotals(wide, f"http-{number}") for number in range(4)]
    in_threads([partial(external.redeliver, wide, each, ["outside"]) for each in consoles])
    wide.close()

    assert [row.crashes for row in rows_of(database, jobs)] == [1] * 5
    assert counted(database) == 5


def test_many_jobs_are_finished_at_once(database: Database, external_totals: ExternalTotals) -> None:
    """Of several pulls; claims that do not hold are missing from the result and change nothing."""
    insert_rows(database, 5, lane="outside")
    first, second = pull(database, external_totals, 3), pull(database, external_totals, 2)
    claims = [each.claim_of(job) for each in (first, second) for job in each.jobs]
    finish(database, external_totals, claims[0])
    expire(database, claims[4].job_id)
    external.redeliver(database, external_totals, ["outside"])
    unknown = [claims[1]._replace(claims=7), claims[1]._replace(job_id=999), ClaimRef.from_text(3, "nonsense")]

    finished = external.finish_all(database, external_totals, dict.fromkeys([*claims, *unknown], done))

    assert {each: found.is_repeated for each, found in finished.items()} == {
        claims[0]: True, claims[1]: False, claims[2]: False, claims[3]: False
    }  # fmt: skip
    assert [row.status for row in rows_of(database, jobs)] == ["done"] * 4 + ["pending"]
    assert {each.outcome: each.jobs for each in rows_of(database, totals)} == {"done": 4, "crashed": 1}


def test_a_pull_whose_client_disconnected_is_undone(database: Database, external_totals: ExternalTotals) -> None:
    """The jobs are released without using an attempt."""
    job_id = insert_row(database, lane="outside")

    external.release_pulled(external_totals, pull(database, external_totals))

    [row] = rows_of(database, jobs)
    assert (row.id, row.status, row.attempts, row.crashes, row.claims) == (job_id, "pending", 0, 0, 1)


@servers_only
def test_a_pull_with_a_lost_answer_returns_the_jobs_it_took(migrated_url: str, database: Database) -> None:
    """Otherwise they would stay claimed and be rescued as crashes."""
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
def test_a_finish_with_a_lost_answer_is_counted_once(migrated_url: str, database: Database) -> None:
    """The repeat finds the job done."""
    insert_row(database, lane="outside")
    with proxied(migrated_url) as (proxy, url):
        remote = Database(url)
        external_totals = ExternalTotals(remote, "http-test")
        pulled = pull(remote, external_totals)
        proxy.lose_next_commit()

        finished = finish(remote, external_totals, pulled.claim_of(pulled.jobs[0]))
        remote.close()

    assert (proxy.lost, finished.outcome, counted(database)) == (1, DONE, 1)


def test_a_request_runs_once_for_its_idempotency_key(database: Database) -> None:
    """A repeat gets the stored response; another request with that key is refused."""
    now = database.clock.now()
    first, other = (IdempotentRequest.of("shop", "key", body, now) for body in (b"1", b"2"))

    def ask(request: IdempotentRequest, answer: int) -> tuple[int, bool]:
        return database.run(lambda connection: request.run_once(connection, lambda _: answer))

    assert ask(first, 1) == (1, True)
    assert ask(first, 2) == (1, False)
    with pytest.raises(KeyReused):
        ask(other, 3)


def test_a_failed_request_is_not_stored(database: Database) -> None:
    """Nothing of it was committed, so the next one with its key is the first."""
    request = IdempotentRequest.of("shop", "key", b"1", database.clock.now())

    def fail(_connection: object) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.run(lambda connection: request.run_once(connection, fail))

    assert database.run(lambda connection: request.run_once(connection, lambda _: 7)) == (7, True)


def test_a_long_running_process_measures_its_clock_again(database: Database) -> None:
    """The clock of its host may be set; too soon after the last measurement nothing is measured."""
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
def test_all_sessions_that_were_closed_are_replaced(database: Database) -> None:
    """After the first closed one, the others are not tried."""
    wide = Database(database.url, connections=3)
    sessions = [wide._pool.take() for _ in range(3)]
    for each in sessions:
        wide._pool.put_back(each)
    for each in sessions:
        each.raw.close()

    assert wide.read(lambda connection: connection.execute("SELECT 1").scalar()) == 1
    wide.close()
