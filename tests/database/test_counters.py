"""Figures that only grow: each job and each cycle is counted once, whoever counts, and pruning takes nothing off."""

from datetime import datetime, timedelta
from functools import partial

import pytest

from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.fleet.cycles import close_cycle, open_cycle
from mayfly.fleet.runners import EndedRunner, close_runner
from mayfly.schema import metadata as tables
from mayfly.stats.counters import read_counters
from mayfly.stats.histograms import Count, Tally
from mayfly.stats.history import NEVER_ENDED, SETTLED, count_cycles, read_cycles
from mayfly.stats.totals import STRAYS, add_up_strays, add_up_totals, write_totals
from tests.database.factories import CYCLE, in_threads, insert_runner, rows_of, run_sql
from tests.factories import NOON

DONE = ("mail", "send", "done")
ONE: Tally = {DONE: Count(3, {1: 2, 5: 1}, {100: 3})}
MORE: Tally = {DONE: Count(5, {1: 4, 5: 1}, {100: 3, 200: 2}), ("mail", "send", "dead"): Count(1, {}, {})}


def test_what_was_added_up_is_counted_for_ever(database: Database) -> None:
    """The cycle's totals may be pruned: not a job is missing."""
    write(database, "worker-1", ONE)
    add_up(database)

    run_sql(database, "DELETE FROM mayfly_totals")

    assert database.read(read_counters) == ONE


def test_what_is_not_added_up_yet_is_counted_too(database: Database) -> None:
    """While the runner works, and no more than once when the cycle has added it up."""
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
    """Its figures are its own until it ends: it writes them anew, with what it had before."""
    insert_runner(database, "worker-1")
    write(database, "worker-1", ONE)
    told = add_up(database)
    write(database, "worker-1", MORE)
    add_up(database)

    assert told == ONE
    assert database.read(read_counters) == MORE

    database.run(lambda connection: close_runner(connection, "worker-1", EndedRunner("ok"), NOON))
    later = instant(CYCLE) + STRAYS + timedelta(seconds=1)
    database.run(lambda connection: add_up_strays(connection, later))

    assert database.read(read_counters) == MORE
    assert {row.worker_id for row in rows_of(database, tables.totals)} == {""}


def test_a_cycle_that_may_still_be_at_work_is_left_to_its_dispatcher(database: Database) -> None:
    """It writes its own figures anew as well."""
    write(database, f"dispatcher-{CYCLE}", ONE)

    database.run(lambda connection: add_up_strays(connection, instant(CYCLE) + STRAYS))

    assert {row.worker_id for row in rows_of(database, tables.totals)} == {f"dispatcher-{CYCLE}"}


def test_hosts_that_add_up_at_once_lose_nothing(database: Database, migrated_url: str) -> None:
    """Not even where both bring a type that nobody has counted yet."""
    hosts = [Database(migrated_url) for _ in range(4)]
    for number in range(len(hosts)):
        write(database, f"worker-{number}", ONE, CYCLE + number)

    in_threads([partial(add_up, host, CYCLE + number) for number, host in enumerate(hosts)])

    for host in hosts:
        host.close()
    assert database.read(read_counters)[DONE].jobs == 4 * ONE[DONE].jobs


# --- cycles -----------------------------------------------------------------------------------------------


def test_cycles_that_are_pruned_stay_counted(database: Database) -> None:
    """By host and exit code, with all that is told of them."""
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


def test_a_cycle_is_counted_once_however_often_it_is_carried_over(database: Database) -> None:
    """Also those that came in between, also by several hosts."""
    for minute in (0, 30):
        cycle(database, minute, "a", exit_code=0)
        for _ in range(2):
            count_at(database, NOON + timedelta(minutes=minute) + SETTLED * 2)

        assert counted(database) == {("a", 0): 1 if minute == 0 else 2}


def test_a_cycle_that_goes_on_is_not_counted_yet(database: Database) -> None:
    """Nobody knows its exit code; one that never ends is counted as that."""
    database.run(lambda connection: open_cycle(connection, milliseconds(NOON), "a", NOON))
    now = counted(database)

    count_at(database, NOON + SETTLED * 2)

    assert now == {}
    assert counted(database) == {("a", NEVER_ENDED): 1}


def test_hosts_that_carry_over_at_once_count_once(database: Database, migrated_url: str) -> None:
    """The lock's row lets one after the other."""
    cycle(database, 0, "a", exit_code=0)
    hosts = [Database(migrated_url) for _ in range(4)]

    in_threads([partial(count_at, host, NOON + SETTLED * 2) for host in hosts])

    for host in hosts:
        host.close()
    assert counted(database) == {("a", 0): 1}


@pytest.mark.parametrize(("days", "left"), [(91, set()), (89, {"gone"})])
def test_a_host_that_is_long_gone_is_forgotten(database: Database, days: int, left: set[str]) -> None:
    """After as many days as cycles are kept."""
    cycle(database, 0, "gone", exit_code=0)
    count_at(database, NOON + timedelta(hours=1))

    count_at(database, NOON + timedelta(days=days))

    assert {host for host, _ in counted(database)} == left


def write(database: Database, worker_id: str, tally: Tally, cycle_id: int = CYCLE) -> None:
    database.run(lambda connection: write_totals(connection, cycle_id, worker_id, tally))


def add_up(database: Database, cycle_id: int = CYCLE) -> Tally:
    return database.run(lambda connection: add_up_totals(connection, cycle_id))


def instant(cycle_id: int) -> datetime:
    return datetime.fromtimestamp(cycle_id / 1000, NOON.tzinfo)


def cycle(database: Database, minute: int, host: str, **figures: int) -> None:
    at = NOON + timedelta(minutes=minute)
    database.run(lambda connection: open_cycle(connection, milliseconds(at), host, at))
    database.run(lambda connection: close_cycle(connection, milliseconds(at), figures, at))


def count_at(database: Database, now: datetime) -> None:
    database.run(lambda connection: count_cycles(connection, now, keep_days=90))


def counted(database: Database) -> dict[tuple[str, int], int]:
    return {(each.host, each.exit_code): each.cycles for each in database.read(read_cycles)}
