"""Cycles and their totals: what each process counted is added up exactly, and lanes that waited are remembered."""

from mayfly.db.database import Database
from mayfly.fleet.cycles import close_cycle, known_lanes, open_cycle, record_passed_over
from mayfly.fleet.runners import (
    Assignment,
    EndedRunner,
    add_planned,
    close_runner,
    live_by_lane,
    live_on_host,
    renew_heartbeat,
    take_over,
)
from mayfly.process.identity import Host, Process
from mayfly.schema import metadata as tables
from mayfly.stats.histograms import Count, Tally
from mayfly.stats.totals import add_up_totals, write_totals
from tests.database.factories import CYCLE, insert_runner, rows_of
from tests.factories import NOON

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


def test_what_each_runner_counted_is_added_up(database: Database) -> None:
    """One row a lane, type and outcome, bucket by bucket, and none of the runners' own."""
    write(database, "worker-1", FIRST)
    write(database, "worker-2", SECOND)

    total = database.run(lambda connection: add_up_totals(connection, CYCLE))

    assert total == TOGETHER
    assert stored(database) == {(CYCLE, *key, ""): count.jobs for key, count in TOGETHER.items()}


def test_adding_up_again_changes_nothing(database: Database) -> None:
    """A COMMIT whose answer was lost is repeated."""
    write(database, "worker-1", FIRST)
    write(database, "worker-2", SECOND)
    database.run(lambda connection: add_up_totals(connection, CYCLE))

    again = database.run(lambda connection: add_up_totals(connection, CYCLE))

    assert again == TOGETHER
    assert len(stored(database)) == 3


def test_other_cycles_are_left_alone(database: Database) -> None:
    """Each host adds up its own."""
    write(database, "worker-1", FIRST)
    write(database, "worker-2", SECOND, cycle_id=CYCLE + 1)

    database.run(lambda connection: add_up_totals(connection, CYCLE))

    assert {key for key in stored(database) if key[0] == CYCLE + 1} == {
        (CYCLE + 1, *key, "worker-2") for key in SECOND
    }


def test_a_cycle_without_jobs_has_no_totals(database: Database) -> None:
    """An idle minute writes one row, its own."""
    assert database.run(lambda connection: add_up_totals(connection, CYCLE)) == {}
    assert stored(database) == {}


def test_a_cycle_is_opened_once_and_closed_with_its_figures(database: Database) -> None:
    """Opening it again, as after a lost answer, does no harm."""
    for _ in range(2):
        database.run(lambda connection: open_cycle(connection, CYCLE, "host", NOON))

    database.run(lambda connection: close_cycle(connection, CYCLE, {"exit_code": 2, "spawned": 3, "note": "n"}, NOON))

    [row] = rows_of(database, tables.cycles)
    assert (row.id, row.host, row.started_at, row.finished_at) == (CYCLE, "host", NOON, NOON)
    assert (row.exit_code, row.spawned, row.note, row.failed, row.pruned) == (2, 3, "n", 0, 0)


def test_lanes_that_had_to_wait_are_counted_up(database: Database) -> None:
    """One more a cycle, until they are served."""
    for _ in range(2):
        note(database, "mail", "images")
    note(database, "mail")

    counted = {lane: known.passed_over for lane, known in database.read(known_lanes).items()}
    assert counted == {"mail": 3, "images": 0}


def test_nothing_is_written_while_nobody_waits(database: Database) -> None:
    """A lane that never waited has no row."""
    note(database)

    assert rows_of(database, tables.lanes) == []


def test_runners_are_counted_by_lane_and_by_host(database: Database) -> None:
    """As long as nobody has seen them end, wherever they are."""
    insert_runner(database, "worker-1", "mail", place=Host("a", "m"))
    insert_runner(database, "worker-2", "mail", place=Host("b", "m"))
    insert_runner(database, "worker-3", "images", place=Host("b", "m"))
    insert_runner(database, "worker-4", "images", place=Host("b", "m"))
    database.run(lambda connection: close_runner(connection, "worker-4", EndedRunner("ok"), NOON))

    assert database.read(live_by_lane) == {"mail": 2, "images": 1}
    assert database.read(lambda connection: live_on_host(connection, "b")) == 2


def test_a_runner_is_closed_once(database: Database) -> None:
    """By whoever is first: a second end changes nothing."""
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


def test_a_runner_stands_behind_its_own_row(database: Database) -> None:
    """First its planner does; planning it again, as after a lost answer, does no harm."""
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


def note(database: Database, *passed_over: str) -> None:
    before = database.read(known_lanes)
    database.run(lambda connection: record_passed_over(connection, before, passed_over))
