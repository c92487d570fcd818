"""Due times become jobs: each once, with concurrent hosts and after long gaps."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select, update

from mayfly.clock import Clock, host_now
from mayfly.db.database import Database
from mayfly.queue.options import JobValidator
from mayfly.schedules import fire as schedule_store
from mayfly.schedules.fire import Fired, fire_due, jitter_of
from mayfly.schedules.parse import ScheduleEntry, parse_line
from mayfly.schema import metadata as tables
from tests.database.factories import change_job, in_threads, rows_of
from tests.factories import NOON
from tests.sqlalchemy_engines import run
from tests.statement_recorder import on_statement

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
VALIDATOR = JobValidator(64 << 10, 5, host_now)


class StoppedClock(Clock):
    """A clock that a test sets."""

    def now(self) -> datetime:
        return self.measured


def set_time(database: Database, at: datetime) -> None:
    clock = StoppedClock(at, 0.0)
    database.set_clock(clock)


def fire(database: Database, at: datetime, *entries: ScheduleEntry) -> Fired:
    set_time(database, at)
    return fire_due(database, entries, VALIDATOR)


def after_first_cycle(database: Database, *lines: str, at: datetime = NOON) -> list[ScheduleEntry]:
    """Schedules after their first cycle, by default a second past the full hour."""
    entries = [parse_line(line) for line in lines]
    assert fire(database, at + timedelta(seconds=1), *entries).jobs == ()
    return entries


def jobs(database: Database) -> Sequence[Any]:
    ordered = select(tables.jobs).order_by(tables.jobs.c.id)
    return run(database, lambda connection: connection.execute(ordered).all())


def due_of(fired: Fired) -> list[str]:
    return [f"{due:%H:%M}" for _, due in fired.jobs]


# --- one job --------------------------------------------------------------------------------------------


def test_a_due_time_becomes_one_job(database: Database) -> None:
    """With every option of its line; another cycle in the same minute finds no more."""
    line = '30 * * * * digest {"to": "ann"} lane=mail max_attempts=2'
    [entry] = after_first_cycle(database, line)

    first = fire(database, NOON + 30 * MINUTE, entry)
    again = fire(database, NOON + 30 * MINUTE + timedelta(seconds=40), entry)

    assert (due_of(first), due_of(again), again.skipped) == (["12:30"], [], ())
    assert first.next_at == NOON + 90 * MINUTE
    [job] = jobs(database)
    assert (job.type, job.payload, job.lane, job.max_attempts) == ("digest", '{"to":"ann"}', "mail", 2)
    assert (job.run_at, job.status, job.group_key) == (NOON + 30 * MINUTE, "pending", "schedule:digest")
    [row] = rows_of(database, tables.schedules)
    assert (row.dealt_until, row.last_due_at) == (NOON + 30 * MINUTE, NOON + 30 * MINUTE)


def test_a_new_schedule_has_no_past(database: Database) -> None:
    """A time that was due before its first cycle is not caught up."""
    entry = parse_line("0 12 * * * x")

    assert fire(database, NOON + timedelta(seconds=1), entry).jobs == ()
    assert jobs(database) == []


def test_a_schedule_counts_from_the_time_it_was_written(database: Database) -> None:
    """Added half a minute before noon it is due at noon, though no cycle had seen it; added later it is not."""
    before = replace(parse_line("0 12 * * * x"), written_at=NOON - timedelta(seconds=30))
    after = replace(parse_line("0 12 * * * y"), written_at=NOON + timedelta(milliseconds=500))

    assert [entry.name for entry, _ in fire(database, NOON + timedelta(seconds=1), before, after).jobs] == ["x"]


def test_an_old_schedule_file_is_not_caught_up(database: Database) -> None:
    """The first cycle on a new database catches up the last minute only."""
    old = replace(parse_line("0 * * * * x"), written_at=NOON - timedelta(days=9))

    assert fire(database, NOON + 2 * MINUTE, old).jobs == ()


def test_a_due_time_is_not_fired_again_after_its_job_was_pruned(database: Database) -> None:
    """The progress of the schedule is stored, independently of its jobs."""
    [entry] = after_first_cycle(database, "30 * * * * x")
    fire(database, NOON + 30 * MINUTE, entry)
    run(database, lambda connection: connection.execute(tables.jobs.delete()))

    assert fire(database, NOON + 31 * MINUTE, entry).jobs == ()


def test_a_command_is_enqueued_by_its_name_alone(database: Database) -> None:
    """The row never contains the command."""
    [entry] = after_first_cycle(database, "30 * * * * name=nightly run: scripts/nightly --all")
    fire(database, NOON + 30 * MINUTE, entry)

    [job] = jobs(database)
    assert (job.type, job.payload) == ("command", '{"schedule":"nightly"}')


def test_jitter_is_the_same_on_every_host(database: Database) -> None:
    """A time between the due time and the jitter after it, different for each due time."""
    [entry] = after_first_cycle(database, "30 * * * * x jitter=10m")
    for hours in range(2):
        fire(database, NOON + 30 * MINUTE + hours * HOUR, entry)

    delays = [job.run_at - (NOON + 30 * MINUTE + number * HOUR) for number, job in enumerate(jobs(database))]
    assert all(timedelta(0) <= delay < 10 * MINUTE for delay in delays)
    assert delays == [jitter_of(entry, NOON + 30 * MINUTE + number * HOUR) for number in range(2)]
    assert delays[0] != delays[1]


# --- concurrent hosts -----------------------------------------------------------------------------------


def test_many_hosts_fire_each_due_time_once(migrated_url: str) -> None:
    """Eight at once, three due times of ten schedules: thirty jobs, and no message about lost races."""
    lines = [f"* * * * * type-{number} overlap={'skip' if number % 2 else 'allow'}" for number in range(10)]
    hosts = [Database(migrated_url) for _ in range(8)]
    entries = after_first_cycle(hosts[0], *lines)

    fired: list[Fired] = []
    for minute in range(1, 4):
        at = NOON + minute * MINUTE + timedelta(seconds=2)
        fired += in_threads([partial(fire, host, at, *entries) for host in hosts])
        for job in jobs(hosts[0]):
            change_job(hosts[0], job.id, status="done")

    assert sum(len(each.jobs) for each in fired) == 30
    assert [each.skipped for each in fired] == [()] * 24
    found = [(job.type, job.run_at) for job in jobs(hosts[0])]
    assert len(found) == len(set(found)) == 30
    for host in hosts:
        host.close()


def test_many_hosts_record_a_new_schedule_at_once(migrated_url: str) -> None:
    """It is recorded once, and one host fires what has been due since it was written."""
    hosts = [Database(migrated_url) for _ in range(4)]
    entry = replace(parse_line("* * * * * x"), written_at=NOON - timedelta(seconds=1))

    fired = in_threads([partial(fire, host, NOON, entry) for host in hosts])

    assert sum(len(each.jobs) for each in fired) == len(jobs(hosts[0])) == 1
    assert len(rows_of(hosts[0], tables.schedules)) == 1
    for host in hosts:
        host.close()


def test_a_failed_transaction_leaves_the_due_time_to_the_next_cycle(database: Database) -> None:
    """The job and the progress of the schedule are committed together."""
    [entry] = after_first_cycle(database, "30 * * * * x")

    def fail_after_insert(statement: str) -> None:
        if statement.startswith("INSERT INTO mayfly_schedules"):  # the jobs are inserted by then
            raise ZeroDivisionError

    with on_statement(fail_after_insert), pytest.raises(ZeroDivisionError):
        fire(database, NOON + 30 * MINUTE, entry)

    assert jobs(database) == []
    assert due_of(fire(database, NOON + 30 * MINUTE, entry)) == ["12:30"]


def test_hosts_with_different_rules_under_one_name_miss_no_due_time(database: Database, rival: Database) -> None:
    """During a deploy each host fires the rules of its own files, and a common due time once."""
    [old, new] = (replace(parse_line(line), written_at=NOON - HOUR) for line in ("0 3 * * * x", "30 * * * * x"))
    fire(database, NOON + 28 * MINUTE, old)
    fire(rival, NOON + 29 * MINUTE, new)

    fire(database, NOON + 30 * MINUTE + timedelta(seconds=1), old)
    fired = fire(rival, NOON + 30 * MINUTE + timedelta(seconds=2), new)

    assert due_of(fired) == ["12:30"]


# --- after a gap ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("catch_up", "fired", "skipped"),
    [
        ("latest", ["13:50"], [("12:10", "13:40")]),
        ("none", [], [("12:10", "13:50")]),
        ("all", [f"{12 + n // 6}:{n % 6}0" for n in range(1, 12)], []),
    ],
)
def test_catch_up_after_a_gap_of_two_hours(
    database: Database, catch_up: str, fired: list[str], skipped: list[tuple[str, str]]
) -> None:
    """The latest, none or all due times, as configured; skipped ones are reported."""
    [entry] = after_first_cycle(database, f"*/10 * * * * x catch_up={catch_up}")

    found = fire(database, NOON + 118 * MINUTE, entry)

    assert due_of(found) == fired
    assert [(f"{each.first:%H:%M}", f"{each.last:%H:%M}") for each in found.skipped] == skipped
    assert found.next_at == NOON + 2 * HOUR
    assert fire(database, NOON + 119 * MINUTE, entry) == Fired(next_at=NOON + 2 * HOUR)


def test_a_due_time_a_minute_late_is_on_time(database: Database) -> None:
    """A skipped cycle is no gap: catch_up=none runs it."""
    [entry] = after_first_cycle(database, "*/10 * * * * x catch_up=none")

    assert due_of(fire(database, NOON + 11 * MINUTE + timedelta(seconds=2), entry)) == ["12:10"]


def test_a_long_gap_is_caught_up_in_portions(database: Database) -> None:
    """A thousand jobs per cycle; the next cycle must not be idle."""
    [entry] = after_first_cycle(database, "* * * * * x catch_up=all")

    first, second = (fire(database, NOON + 1500 * MINUTE, entry) for _ in range(2))

    assert (len(first.jobs), first.next_at) == (1000, NOON + 1001 * MINUTE)
    assert (len(second.jobs), second.next_at) == (500, NOON + 1501 * MINUTE)
    assert len({job.run_at for job in jobs(database)}) == 1500


def test_a_changed_rule_does_not_run_for_its_past(database: Database) -> None:
    """Moved in the afternoon from night to morning, it is due the next morning."""
    after_first_cycle(database, "0 3 * * * x")
    edited = replace(parse_line("0 13 * * * x catch_up=all"), written_at=NOON + 2.5 * HOUR)

    assert fire(database, NOON + 3 * HOUR, edited).jobs == ()
    assert due_of(fire(database, NOON + 25 * HOUR, edited)) == ["13:00"]


# --- overlap --------------------------------------------------------------------------------------------


def test_overlap_skip_waits_for_the_previous_job(database: Database) -> None:
    """While it is pending or processing, the due time is skipped and reported."""
    [entry] = after_first_cycle(database, "*/10 * * * * x overlap=skip")
    fire(database, NOON + 10 * MINUTE, entry)
    [job] = jobs(database)

    while_pending = fire(database, NOON + 20 * MINUTE, entry)
    change_job(database, job.id, status="processing")
    while_processing = fire(database, NOON + 30 * MINUTE, entry)
    change_job(database, job.id, status="done")
    afterwards = fire(database, NOON + 40 * MINUTE, entry)

    assert [due_of(each) for each in (while_pending, while_processing, afterwards)] == [[], [], ["12:40"]]
    assert [each.because for each in while_pending.skipped] == ["overlap=skip: the job before it is unfinished"]
    [row] = rows_of(database, tables.schedules)
    assert row.last_due_at == NOON + 40 * MINUTE


def test_overlap_skip_catches_up_only_one(database: Database) -> None:
    """Its job blocks the others, which are reported together."""
    [entry] = after_first_cycle(database, "*/10 * * * * x overlap=skip catch_up=all")

    found = fire(database, NOON + 45 * MINUTE, entry)

    assert due_of(found) == ["12:10"]
    assert [(f"{each.first:%H:%M}", f"{each.last:%H:%M}") for each in found.skipped] == [("12:20", "12:40")]


def test_overlap_allow_does_not_wait(database: Database) -> None:
    """Each due time has its own job."""
    [entry] = after_first_cycle(database, "*/10 * * * * x")
    for minutes in (10, 20):
        fire(database, NOON + minutes * MINUTE, entry)

    assert len(jobs(database)) == 2


# --- pauses ---------------------------------------------------------------------------------------------


def pause(database: Database, entry: ScheduleEntry, at: datetime, until: datetime | None = None) -> None:
    database.run(lambda connection: schedule_store.pause(connection, entry, at, until, "ann", "the printer burns"))


def test_a_paused_schedule_fires_nothing_and_reports_it(database: Database) -> None:
    """Resuming it does not catch up."""
    [entry] = after_first_cycle(database, "*/10 * * * * x catch_up=all")
    pause(database, entry, NOON + 5 * MINUTE)

    paused = fire(database, NOON + 10 * MINUTE, entry)
    database.run(lambda connection: schedule_store.resume(connection, "x", NOON + 25 * MINUTE))
    resumed = fire(database, NOON + 30 * MINUTE, entry)

    assert (due_of(paused), [each.because for each in paused.skipped]) == ([], ["paused: the printer burns"])
    assert due_of(resumed) == ["12:30"]


def test_a_pause_with_an_end_expires(database: Database) -> None:
    """Due times from its end on run, earlier ones do not, with or without a cycle in between."""
    [entry] = after_first_cycle(database, "*/10 * * * * x catch_up=all")
    pause(database, entry, NOON + 5 * MINUTE, until=NOON + 20 * MINUTE)

    assert due_of(fire(database, NOON + 35 * MINUTE, entry)) == ["12:20", "12:30"]


def test_a_schedule_can_be_paused_before_its_first_cycle(database: Database) -> None:
    """It is recorded with its pause."""
    entry = parse_line("* * * * * x")
    pause(database, entry, NOON)

    assert fire(database, NOON + MINUTE, entry).jobs == ()
    assert database.run(lambda connection: schedule_store.resume(connection, "x", NOON + MINUTE))
    assert not database.run(lambda connection: schedule_store.resume(connection, "x", NOON + MINUTE))


def test_firing_does_not_overwrite_a_concurrent_pause(database: Database) -> None:
    """The cycle writes only the progress of the schedule."""
    [entry] = after_first_cycle(database, "*/10 * * * * x")
    pause(database, entry, NOON + 5 * MINUTE)
    fire(database, NOON + 10 * MINUTE, entry)

    [row] = rows_of(database, tables.schedules)
    assert (row.paused_at, row.paused_by, row.pause_reason) == (NOON + 5 * MINUTE, "ann", "the printer burns")


def test_the_row_of_a_schedule_that_no_file_names_is_left_alone(database: Database) -> None:
    """Another host may have it in its files."""
    after_first_cycle(database, "* * * * * other")
    run(database, lambda c: c.execute(update(tables.schedules).values(dealt_until=NOON - HOUR)))
    [entry] = after_first_cycle(database, "* * * * * x")

    assert [each.name for each, _ in fire(database, NOON + MINUTE, entry).jobs] == ["x"]
    assert [row.dealt_until for row in rows_of(database, tables.schedules) if row.name == "other"] == [NOON - HOUR]
