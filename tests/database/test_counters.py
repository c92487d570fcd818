"""Counters only grow: each job and each cycle is counted once by any host, and pruning subtracts nothing."""

from datetime import datetime, timedelta
from functools import partial

import pytest

from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.fleet.cycles import close_cycle, open_cycle
from mayfly.fleet.runners import EndedRunner, close_runner
from mayfly.schema import metadata as tables
from mayfly.stats.histograms import Count, Tally
from mayfly.stats.history import NEVER_ENDED, SETTLED, count_cycles, read_counters, read_cycles
from mayfly.stats.totals import STRAY_AGE, add_up_strays, add_up_totals, write_totals
from tests.database.factories import CYCLE, in_threads, insert_runner, rows_of, run_sql
from tests.factories import NOON

DONE = ("mail", "send", "done")
ONE: Tally = {DONE: Count(3, {1: 2, 5: 1}, {100: 3})}
MORE: Tally = {DONE: Count(5, {1: 4, 5: 1}, {100: 3, 200: 2}), ("mail", "send", "dead"): Count(1, {}, {})}


def test_added_up_totals_stay_counted(database: Database) -> None:
    """The totals of the cycle can be pruned without losing a job."""
    write(database, "worker-1", ONE)
    add_up(database)

    run_sql(database, "DELETE FROM mayfly_totals")

    assert database.read(read_counters) == ONE


def test_totals_that_are_not_added_up_yet_are_counted_too(database: Database) -> None:
    """While the runner works, and not again when the cycle has added it up."""
    write(database, "worker-1", ONE)
    before = database.read(read_counters)

    add_up(database)

    assert before == database.read(read_counters) == ONE


def test_adding_up_again_counts_nothing_twice(database: Database) -> None:
    """A COMMIT whose answer was lost is repeated."""
    write(database, "worker-1", ONE)

    for _ in range(2):
        add_up(database)

    assert database.read(read_counters) == ONE


def test_cycles_are_counted_together(database: Database) -> None:
    """Bucket by bucket."""
    write(database, "worker-1", ONE)
    add_up(database)
    write(database, "worker-2", MORE, CYCLE + 1)
    add_up(database, CYCLE + 1)

    assert database.read(read_counters)[DONE] == Count(8, {1: 6, 5: 2}, {100: 6, 200: 2})


def test_a_runner_that_outlives_its_cycle_is_counted_once(database: Database) -> None:
    """Its figures stay its own until it ends: it rewrites them, including earlier ones."""
    insert_runner(database, "worker-1")
    write(database, "worker-1", ONE)
    added = add_up(database)
    write(database, "worker-1", MORE)
    add_up(database)

    assert added == ONE
    assert database.read(read_counters) == MORE

    database.run(lambda connection: close_runner(connection, "worker-1", EndedRunner("ok"), NOON))
    later = instant(CYCLE) + STRAY_AGE + timedelta(seconds=1)
    database.run(lambda connection: add_up_strays(connection, later))

    assert database.read(read_counters) == MORE
    assert {row.worker_id for row in rows_of(database, tables.totals)} == {""}


def test_a_cycle_that_may_still_run_is_left_to_its_dispatcher(database: Database) -> None:
    """It rewrites its own figures too."""
    write(database, f"dispatcher-{CYCLE}", ONE)

    database.run(lambda connection: add_up_strays(connection, instant(CYCLE) + STRAY_AGE))

    assert {row.worker_id for row in rows_of(database, tables.totals)} == {f"dispatcher-{CYCLE}"}


def test_hosts_that_add_up_at_once_lose_nothing(database: Database, migrated_url: str) -> None:
    """Not even if both count a new type."""
    hosts = [Database(migrated_url) for _ in range(4)]
    for number in range(len(hosts)):
        write(database, f"worker-{number}", ONE, CYCLE + number)

    in_threads([partial(add_up, host, CYCLE + number) for number, host in enumerate(hosts)])

    for host in hosts:
        host.close()
    assert database.read(read_counters)[DONE].jobs == 4 * ONE[DONE].jobs


# --- cycles -----------------------------------------------------------------------------------------------


def test_pruned_cycles_stay_counted(database: Database) -> None:
    """By host and exit code, with all their figures."""
    for minute in range(3):
        cycle(database, minute, "a", exit_code=0, spawned=2, duration_ms=100, repeated=1)
    cycle(database, 3, "a", exit_code=2)
    cycle(database, 4, "b", exit_code=0)
    before = counted(database)

    count_at(database, NOON + timedelta(hours=1))
    run_sql(database, "DELETE FROM mayfly_cycles")

    assert before == {("a", 0): 3, ("a", 2): 1, ("b", 0): 1}
    assert counted(database) == before
    [good] = [each for each in database.read(read_cycles) if (each.host, each.exit_code) == ("a", 0)]
    assert (good.spawned, good.duration_ms, good.repeated) == (6, 300, 3)
    assert good.last_at == NOON + timedelta(minutes=2)


def test_a_cycle_is_counted_once_however_often_cycles_are_counted(database: Database) -> None:
    """Also cycles in between, also by several hosts."""
    for minute in (0, 30):
        cycle(database, minute, "a", exit_code=0)
        for _ in range(2):
            count_at(database, NOON + timedelta(minutes=minute) + SETTLED * 2)

        assert counted(database) == {("a", 0): 1 if minute == 0 else 2}


def test_a_running_cycle_is_not_counted_yet(database: Database) -> None:
    """Its exit code is unknown; one that never ends is counted as such."""
    database.run(lambda connection: open_cycle(connection, milliseconds(NOON), "a", NOON))
    now = counted(database)

    count_at(database, NOON + SETTLED * 2)

    assert now == {}
    assert counted(database) == {("a", NEVER_ENDED): 1}


def test_hosts_that_count_cycles_at_once_count_each_once(database: Database, migrated_url: str) -> None:
    """The row of the lock serialises them."""
    cycle(database, 0, "a", exit_code=0)
    hosts = [Database(migrated_url) for _ in range(4)]

    in_threads([partial(count_at, host, NOON + SETTLED * 2) for host in hosts])

    for host in hosts:
        host.close()
    assert counted(database) == {("a", 0): 1}


@pytest.mark.parametrize(("hours", "left"), [(23, {"gone", "here"}), (25, {"here"})])
def test_a_host_that_is_silent_for_a_day_is_deleted(database: Database, hours: int, left: set[str]) -> None:
    """All of its rows, and none of a host that is not silent: an old exit code of it stays counted."""
    for minute, host, exit_code in ((0, "gone", 0), (1, "gone", 1), (2, "here", 1), (3 + 60 * 22, "here", 0)):
        cycle(database, minute, host, exit_code=exit_code)
    count_at(database, NOON + timedelta(hours=1))

    count_at(database, NOON + timedelta(hours=hours))

    assert counted(database) == {(host, code): 1 for host in left for code in (0, 1)}


def write(database: Database, worker_id: str, tally: Tally, cycle_id: int = CYCLE) -> None:
    database.run(lambda connection: write_totals(connection, cycle_id, worker_id, tally))


def add_up(database: Database, cycle_id: int = CYCLE) -> Tally:
    return database.run(lambda connection: add_up_totals(connection, cycle_id, NOON))


def instant(cycle_id: int) -> datetime:
    return datetime.fromtimestamp(cycle_id / 1000, NOON.tzinfo)


def cycle(database: Database, minute: int, host: str, **figures: int) -> None:
    at = NOON + timedelta(minutes=minute)
    database.run(lambda connection: open_cycle(connection, milliseconds(at), host, at))
    database.run(lambda connection: close_cycle(connection, milliseconds(at), figures, at))


def count_at(database: Database, now: datetime) -> None:
    database.run(lambda connection: count_cycles(connection, now))


def counted(database: Database) -> dict[tuple[str, int], int]:
    return {(each.host, each.exit_code): each.cycles for each in database.read(read_cycles)}
