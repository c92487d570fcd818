"""Cycles and their totals: the counts of all processes are added up exactly, and lanes passed over are recorded."""

import os
from datetime import timedelta

import pytest

from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.fleet.cycles import close_cycle, known_lanes, open_cycle, record_passed_over
from mayfly.fleet.runners import (
    Assignment,
    EndedRunner,
    FiguresWriter,
    ObservedRunner,
    add_planned,
    close_runner,
    job_starts,
    live_by_lane,
    live_by_lane_and_on_host,
    renew_heartbeat,
    take_over,
)
from mayfly.job import Job
from mayfly.log import silent_log
from mayfly.process.identity import Host, Process
from mayfly.process.status_page import StatusPage
from mayfly.queue.outcome import DONE, Settlement
from mayfly.schema import metadata as tables
from mayfly.stats.histograms import Count, Tally, parse_histogram
from mayfly.stats.totals import STRAY_AGE, add_up_totals, count_unseen, write_totals
from runner.job_runtime import JobTransaction
from runner.settle_buffer import SettleBuffer
from tests.database.factories import CYCLE, claim_jobs, insert_runner, make_buffer, make_page, rows_of, run_sql
from tests.factories import NOON, insert_rows

MAIL_DONE = ("mail", "send", "done")
MAIL_FAILED = ("mail", "send", "failed")
IMAGES_DONE = ("images", "resize", "done")

FIRST: Tally = {MAIL_DONE: Count(3, {1: 2, 5: 1}, {100: 3}), MAIL_FAILED: Count(1, {1: 1}, {})}
SECOND: Tally = {MAIL_DONE: Count(4, {5: 4}, {200: 4}), IMAGES_DONE: Count(2, {}, {})}
TOGETHER: Tally = {
    MAIL_DONE: Count(7, {1: 2, 5: 5}, {100: 3, 200: 4}),
    MAIL_FAILED: Count(1, {1: 1}, {}),
    IMAGES_DONE: Count(2, {}, {}),
}


def test_the_counts_of_all_runners_are_added_up(database: Database) -> None:
    """One row per lane, type and outcome, bucket by bucket; the rows of the runners are removed."""
    write(database, "worker-1", FIRST)
    write(database, "worker-2", SECOND)

    total = database.run(lambda connection: add_up_totals(connection, CYCLE, NOON))

    assert total == TOGETHER
    assert stored(database) == {(CYCLE, *key, ""): count.jobs for key, count in TOGETHER.items()}


def test_adding_up_again_changes_nothing(database: Database) -> None:
    """A COMMIT whose answer was lost is repeated."""
    write(database, "worker-1", FIRST)
    write(database, "worker-2", SECOND)
    database.run(lambda connection: add_up_totals(connection, CYCLE, NOON))

    again = database.run(lambda connection: add_up_totals(connection, CYCLE, NOON))

    assert again == TOGETHER
    assert len(stored(database)) == 3


def test_other_cycles_are_left_alone(database: Database) -> None:
    """Each host adds up its own."""
    write(database, "worker-1", FIRST)
    write(database, "worker-2", SECOND, cycle_id=CYCLE + 1)

    database.run(lambda connection: add_up_totals(connection, CYCLE, NOON))

    assert {key for key in stored(database) if key[0] == CYCLE + 1} == {
        (CYCLE + 1, *key, "worker-2") for key in SECOND
    }


def test_a_cycle_without_jobs_has_no_totals(database: Database) -> None:
    """An idle minute writes one row, its own."""
    assert database.run(lambda connection: add_up_totals(connection, CYCLE, NOON)) == {}
    assert stored(database) == {}


def settled_by_a_dead_runner(database: Database, page: StatusPage) -> tuple[list[Job], SettleBuffer]:
    """Two of three jobs of ack="each" are done when the runner dies; one is already in the totals."""
    insert_runner(database)
    insert_rows(database, 5)
    jobs = claim_jobs(database, 5)
    buffer = make_buffer(database, page=page)
    buffer.add(Settlement(jobs[0], DONE, 1))
    buffer.flush()
    for job in jobs[1:3]:
        buffer.add(Settlement(job, DONE, 30), commit_now=True)
    page.note_uncounted(jobs[3].id, counted=1)
    return jobs, buffer


def count_unseen_of(database: Database, page: StatusPage) -> None:
    database.run(lambda connection: count_unseen(connection, "worker-1", page.read()))


def test_jobs_settled_by_a_dead_runner_are_counted(database: Database) -> None:
    """Once, with durations and waits; the job that was about to be settled is not counted."""
    page = make_page()
    settled_by_a_dead_runner(database, page)

    for _ in range(2):
        count_unseen_of(database, page)

    [row] = rows_of(database, tables.totals)
    assert (row.cycle_id, row.worker_id, row.outcome, row.jobs) == (CYCLE, "worker-1", "done", 3)
    assert parse_histogram(row.durations) == {1: 1, 50: 2}
    assert sum(parse_histogram(row.waits).values()) == 3


def test_jobs_counted_by_a_dead_runner_are_not_counted_again(database: Database) -> None:
    """It was killed after the commit of its totals, before it could update its status page."""
    page = make_page()
    _jobs, buffer = settled_by_a_dead_runner(database, page)
    at_death = page.read()
    buffer.flush()

    database.run(lambda connection: count_unseen(connection, "worker-1", at_death))

    assert [row.jobs for row in rows_of(database, tables.totals)] == [3]


def test_jobs_committed_by_a_thread_are_counted(database: Database, rival: Database) -> None:
    """The main thread had not noticed yet: on the status page they are still running."""
    insert_runner(database)
    insert_rows(database, 3)
    page, jobs = make_page(), claim_jobs(database, 3)
    for job in jobs:
        page.start(job.id, 1.0, None)
    transaction = JobTransaction(rival)
    with transaction.open(jobs[0]):
        pass
    make_buffer(database, page=page).settle_in_thread(transaction, Settlement(jobs[0], DONE, 3))

    seen = page.read()
    page.clear_running()
    cleared = page.read()

    assert (len(seen.running), seen.cleared, cleared.running, len(cleared.cleared)) == (3, (), (), 3)
    database.run(lambda connection: count_unseen(connection, "worker-1", seen))
    counted = [row.jobs for row in rows_of(database, tables.totals)]
    run_sql(database, "DELETE FROM mayfly_totals")
    database.run(lambda connection: count_unseen(connection, "worker-1", cleared))
    assert (counted, [row.jobs for row in rows_of(database, tables.totals)]) == ([1], [1])


def test_totals_of_a_lost_runner_are_added_up_when_it_cannot_write_any_more(database: Database) -> None:
    """It may still run on a frozen host: added up too early, its counts would be counted twice."""
    insert_runner(database)
    write(database, "worker-1", FIRST)
    lost = EndedRunner("lost")
    database.run(lambda connection: close_runner(connection, "worker-1", lost, NOON))

    database.run(lambda connection: add_up_totals(connection, CYCLE, NOON))
    at_first = {worker_id for *_, worker_id in stored(database)}
    database.run(lambda connection: add_up_totals(connection, CYCLE, NOON + STRAY_AGE))

    assert (at_first, {worker_id for *_, worker_id in stored(database)}) == ({"worker-1"}, {""})


def test_a_cycle_is_opened_once_and_closed_with_its_figures(database: Database) -> None:
    """Opening it again after a lost answer changes nothing."""
    for _ in range(2):
        database.run(lambda connection: open_cycle(connection, CYCLE, "host", NOON))

    database.run(lambda connection: close_cycle(connection, CYCLE, {"exit_code": 2, "spawned": 3, "note": "n"}, NOON))

    [row] = rows_of(database, tables.cycles)
    assert (row.id, row.host, row.started_at, row.finished_at) == (CYCLE, "host", NOON, NOON)
    assert (row.exit_code, row.spawned, row.note, row.failed, row.pruned) == (2, 3, "n", 0, 0)


def test_lanes_passed_over_are_counted(database: Database) -> None:
    """Once per cycle, until they are served."""
    for _ in range(2):
        record_lanes_passed_over(database, "mail", "images")
    record_lanes_passed_over(database, "mail")

    counted = {lane: known.passed_over for lane, known in database.read(known_lanes).items()}
    assert counted == {"mail": 3, "images": 0}


def test_nothing_is_written_if_no_lane_is_passed_over(database: Database) -> None:
    """A lane that was never passed over has no row."""
    record_lanes_passed_over(database)

    assert rows_of(database, tables.lanes) == []


def test_runners_are_counted_by_lane_and_by_host(database: Database) -> None:
    """Until their end is recorded, on any host. Pods of one name are machines of their own."""
    insert_runner(database, "worker-1", "mail", place=Host("b", "another pod"))
    insert_runner(database, "worker-2", "mail", place=Host("b", "m"))
    insert_runner(database, "worker-3", "images", place=Host("b", "m"))
    insert_runner(database, "worker-4", "images", place=Host("b", "m"))
    database.run(lambda connection: close_runner(connection, "worker-4", EndedRunner("ok"), NOON))

    assert database.read(live_by_lane) == {"mail": 2, "images": 1}
    found = database.read(lambda connection: live_by_lane_and_on_host(connection, Host("b", "m")))
    assert found == ({"mail": 2, "images": 1}, 2)


def test_a_runner_is_closed_once(database: Database) -> None:
    """A second close changes nothing."""
    insert_runner(database)
    first = database.run(
        lambda connection: close_runner(connection, "worker-1", EndedRunner("crash", signal=9), NOON)
    )

    second = database.run(
        lambda connection: close_runner(connection, "worker-1", EndedRunner("ok", exit_code=0), NOON)
    )

    [row] = rows_of(database, tables.runners)
    assert (first, second) == (True, False)
    assert (row.ending, row.signal, row.exit_code, row.finished_at) == ("crash", 9, None, NOON)


def write_figures(database: Database, page: StatusPage) -> None:
    FiguresWriter(database, silent_log()).write([ObservedRunner("worker-1", os.getpid(), page, monotonic() - 7)])


def test_the_figures_of_a_live_runner_are_written(database: Database) -> None:
    """From its status page and the kernel; the close adds what it knows and keeps the rest."""
    insert_runner(database)
    database.run(lambda connection: take_over(connection, "worker-1", Process(3, 4), NOON))
    page, now = make_page(), database.clock.now()
    page.start(7, monotonic() - 2, None)
    page.finish(7, monotonic(), succeeded=True)
    page.start(8, monotonic() - 60, None)
    page.start(9, monotonic() - 1, None)

    write_figures(database, page)
    [live] = rows_of(database, tables.runners)
    database.run(lambda connection: close_runner(connection, "worker-1", EndedRunner("lost"), NOON))
    [closed] = rows_of(database, tables.runners)

    (first, since), (second, _) = job_starts(live.running)
    assert (first, second) == (8, 9)
    assert abs(now - timedelta(seconds=60) - since) < timedelta(seconds=30)
    assert (live.jobs_done, live.jobs_failed, live.heartbeat_at >= now) == (1, 0, True)
    assert 2000 <= live.average_ms < 30_000
    assert 7000 <= live.uptime_ms < 60_000
    assert 1 << 20 < live.peak_memory < 4 << 30
    assert live.cpu_ms > 0
    assert (closed.ending, closed.running) == ("lost", None)
    assert (closed.jobs_done, closed.peak_memory, closed.uptime_ms) == (1, live.peak_memory, live.uptime_ms)


@pytest.mark.parametrize("has_ended", [False, True])
def test_figures_are_written_only_between_start_and_end(database: Database, has_ended: bool) -> None:
    """Before it has started, a row without a heartbeat belongs to the planner; a closed row is final."""
    insert_runner(database)
    if has_ended:
        database.run(lambda connection: take_over(connection, "worker-1", Process(3, 4), NOON))
        database.run(lambda connection: close_runner(connection, "worker-1", EndedRunner("ok"), NOON))
    before = rows_of(database, tables.runners)

    write_figures(database, make_page())

    assert rows_of(database, tables.runners) == before


def test_a_runner_takes_over_its_own_row(database: Database) -> None:
    """Until then it belongs to its planner; planning it again after a lost answer changes nothing."""
    assignment = Assignment("worker-1", "mail", CYCLE, deadline=0, window_seconds=50, lease_until=NOON)
    for _ in range(2):
        database.run(lambda connection: add_planned(connection, [assignment], Host("h", "m"), Process(1, 2), NOON))
    [planned] = rows_of(database, tables.runners)

    database.run(lambda connection: take_over(connection, "worker-1", Process(3, 4), NOON))
    database.run(lambda connection: renew_heartbeat(connection, "worker-1", NOON.replace(hour=13)))

    [row] = rows_of(database, tables.runners)
    assert (planned.pid, planned.pid_started, planned.heartbeat_at) == (1, 2, None)
    assert (row.pid, row.pid_started, row.heartbeat_at) == (3, 4, NOON.replace(hour=13))


def test_a_plan_without_runners_writes_none(database: Database) -> None:
    """An idle minute is no error."""
    database.run(lambda connection: add_planned(connection, [], Host("h", "m"), Process(1, 2), NOON))

    assert rows_of(database, tables.runners) == []


def write(database: Database, worker_id: str, tally: Tally, cycle_id: int = CYCLE) -> None:
    database.run(lambda connection: write_totals(connection, cycle_id, worker_id, tally))


def stored(database: Database) -> dict[tuple[int, str, str, str, str], int]:
    return {
        (row.cycle_id, row.lane, row.type, row.outcome, row.worker_id): row.jobs
        for row in rows_of(database, tables.totals)
    }


def record_lanes_passed_over(database: Database, *passed_over: str) -> None:
    before = database.read(known_lanes)
    database.run(lambda connection: record_passed_over(connection, before, passed_over))
