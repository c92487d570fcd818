"""The idle cycle's look at the tables: it never has no doubt where a full cycle would find something to do."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from sqlalchemy import Table, delete, insert, select, update

from dispatcher import idle
from dispatcher.assign import read_plan
from dispatcher.context import CycleContext
from dispatcher.idle import possible_work
from dispatcher.schedules import due_schedules
from mayfly.clock import Clock, milliseconds, monotonic, pin_offset
from mayfly.db.connection import Connection, Result
from mayfly.db.database import Database
from mayfly.fleet.statements import READ_PLAN_LOCK
from mayfly.log import silent_log
from mayfly.process.identity import this_host, this_process
from mayfly.queue.count import find_lanes, finished_batches
from mayfly.queue.insert import JobValidator
from mayfly.queue.prune import keep_from, prune
from mayfly.queue.rescue import dead_runners, expired_jobs
from mayfly.schedules.files import read_schedules
from mayfly.schedules.fire import fire_due
from mayfly.schedules.next_due import file_signatures, may_be_due, write_next_due
from mayfly.schema import tables as schema_tables
from mayfly.settings import Settings, load
from tests import tables
from tests.database.factories import run_sql, servers_only, sqlite_only
from tests.examples import in_full
from tests.factories import NOON
from tests.looking import run

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
Row = tuple[Table, dict[str, Any]]


class StoppedClock(Clock):
    """Both ways look at the same instant."""

    def now(self) -> datetime:
        return self.measured


# --- rows -------------------------------------------------------------------------------------------------


def job(**columns: Any) -> Row:
    """Pending and due in an hour, unless told otherwise."""
    return tables.jobs, {"type": "noop", "payload": "{}", "lane": "default", "run_at": NOON + HOUR, **columns}


def finished_job(status: str, age: timedelta, **columns: Any) -> Row:
    return job(status=status, run_at=NOON - age, finished_at=NOON - age, **columns)


def runner(**columns: Any) -> Row:
    """One that is alive: this very process."""
    here, process = this_host("here"), this_process()
    return tables.runners, {
        "worker_id": "worker-1",
        "cycle_id": 1,
        "lane": "default",
        "host": here.host,
        "machine": here.machine,
        "pid": process.pid,
        "pid_started": process.started,
        "planned_at": NOON - HOUR,
        "lease_until": NOON + HOUR,
        "jobs_done": 0,
        **columns,
    }


def cycle(age: timedelta) -> Row:
    return tables.cycles, {"id": milliseconds(NOON - age), "host": "here", "started_at": NOON - age}


def total(age: timedelta) -> Row:
    key = {"lane": "default", "type": "noop", "outcome": "done", "worker_id": ""}
    return tables.totals, {
        "cycle_id": milliseconds(NOON - age),
        **key,
        "jobs": 1,
        "durations": "{}",
        "waits": "{}",
    }


def attempt(age: timedelta) -> Row:
    failed = {"job_id": 1, "attempt": 1, "worker_id": "w", "outcome": "failed", "error": "", "fingerprint": ""}
    return tables.attempts, {**failed, "finished_at": NOON - age}


def deed(age: timedelta) -> Row:
    done = {"done_by": "ann", "via": "terminal", "verb": "cancel", "subject": "1"}
    return tables.audit, {**done, "done_at": NOON - age}


def request(age: timedelta) -> Row:
    return tables.requests, {
        "token_name": "a",
        "idempotency_key": "k",
        "body_hash": "h",
        "created_at": NOON - age,
    }


def batch(**columns: Any) -> Row:
    """One that is open, and complete for all that is known of its jobs."""
    return tables.batches, {"batch_key": "campaign", "created_at": NOON - DAY, "sealed_at": NOON - DAY, **columns}


def passed_over(times: int) -> Row:
    return tables.lanes, {"lane": "default", "passed_over": times}


def fill(database: Database, rows: list[Row], but: Table | None = None) -> None:
    def work(connection: Any) -> None:
        for table in tables.metadata.sorted_tables:
            if table is not tables.locks and table is not but:
                connection.execute(delete(table))
        for table, columns in rows:
            connection.execute(insert(table).values(**columns))

    run(database, work)


# --- the two ways to look ---------------------------------------------------------------------------------


def environ(url: str, home: Path, **others: str) -> dict[str, str]:
    return {"MAYFLY_HOME": str(home), "DATABASE_URL": url, "HOST_NAME": "here", **others}


def quick(url: str, home: Path, **others: str) -> Settings:
    return load(environ(url, home, **others)).settings


def probe_doubts(settings: Settings) -> list[str]:
    with closing(Database(settings.database_url.get_secret_value())) as database:
        found = database.read(lambda connection: list(possible_work(connection, keep_from(settings), NOON)))
    return [*found, "a schedule may be due"] if may_be_due(settings, settings.home, NOON) else found


def full_path_finds(url: str, home: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """What a full cycle would plan, clear, rescue and prune. It prunes: ask nothing afterwards."""
    database = Database(url)
    database.set_clock(StoppedClock(NOON, 0.0))
    settings = load(environ(url, home, **variables)).settings
    place = this_host(settings.host_name)
    world = CycleContext(settings, database, silent_log(), home, place, this_process(), monotonic())
    counted, plan = read_plan(world)
    lanes = database.read(lambda connection: find_lanes(connection))
    if counted.pending or plan.runners:
        yield "work"
    if due_schedules(world).due:
        yield "schedules"
    if any(each.passed_over for each in counted.lanes.values()):
        yield "lanes that were passed over"
    if dead_runners(database, place):
        yield "dead runners"
    if database.read(lambda connection: expired_jobs(connection, lanes, NOON)):
        yield "lost jobs"
    if database.read(lambda connection: finished_batches(connection)):
        yield "batches that are over"
    if prune(database, keep_from(settings)):
        yield "old rows"
    database.close()


# --- every database ---------------------------------------------------------------------------------------

IDLE: dict[str, list[Row]] = {
    "empty tables": [],
    "a delayed job": [job()],
    "finished jobs": [finished_job(status, DAY) for status in ("done", "dead", "cancelled")],
    "dead jobs are kept for ever": [finished_job("dead", 1000 * DAY)],
    "rows that are not old enough": [
        cycle(89 * DAY), total(89 * DAY), attempt(89 * DAY), deed(360 * DAY), request(HOUR)
    ],
    "a job that is not old enough": [finished_job("done", 6 * DAY)],
    "a runner that ended": [runner(finished_at=NOON - HOUR)],
    "a lane that was served": [passed_over(0)],
    "a batch whose job is delayed": [batch(), job(group_key="campaign")],
    "a batch that is being filled": [batch(sealed_at=None)],
    "a batch that is complete": [batch(completed_at=NOON - DAY)],
}  # fmt: skip
DOUBTFUL: dict[str, list[Row]] = {
    "a due job": [job(run_at=NOON)],
    "a due job of low priority in the last of many lanes": [
        *(job(lane=f"lane-{number}") for number in range(5)), job(lane="zz", priority=2, run_at=NOON - HOUR)
    ],
    "a job being processed": [job(status="processing", worker_id="w", lease_until=NOON + HOUR)],
    "a job whose lease ran out": [job(status="processing", worker_id="w", lease_until=NOON)],
    "a live runner": [runner()],
    "a dead runner": [runner(pid_started=1)],
    "another host's runner": [runner(host="there", lease_until=NOON - HOUR)],
    "a lane that was passed over": [passed_over(1)],
    "an old done job": [finished_job("done", 8 * DAY, priority=0)],
    "an old cancelled job in the second lane": [job(), finished_job("cancelled", 8 * DAY, lane="mail")],
    "an old runner": [runner(finished_at=NOON - 8 * DAY)],
    "an old cycle": [cycle(92 * DAY)],
    "old totals": [total(92 * DAY)],
    "an old deed of an operator": [deed(370 * DAY)],
    "a request of the day before yesterday": [request(2 * DAY)],
    "an old attempt": [attempt(92 * DAY)],
    "a batch that is over": [batch(), finished_job("done", DAY, group_key="campaign")],
    "an old batch": [batch(completed_at=NOON - 8 * DAY)],
    "an old batch that was never sealed": [batch(created_at=NOON - 8 * DAY, sealed_at=None)],
}  # fmt: skip


@pytest.mark.parametrize("rows", IDLE.values(), ids=IDLE)
def test_nothing_to_do_is_seen(database: Database, migrated_url: str, tmp_path: Path, rows: list[Row]) -> None:
    """The usual minute: both ways agree that it is idle."""
    fill(database, rows)

    assert probe_doubts(quick(migrated_url, tmp_path)) == []
    assert list(full_path_finds(migrated_url, tmp_path, {})) == []


@pytest.mark.parametrize("rows", DOUBTFUL.values(), ids=DOUBTFUL)
def test_anything_else_is_a_doubt(database: Database, migrated_url: str, tmp_path: Path, rows: list[Row]) -> None:
    """One of each kind."""
    fill(database, rows)

    assert probe_doubts(quick(migrated_url, tmp_path)) != []


def test_dead_jobs_are_pruned_where_that_is_asked_for(database: Database, migrated_url: str, tmp_path: Path) -> None:
    """KEEP_DEAD_DAYS has no default."""
    fill(database, [finished_job("dead", 40 * DAY)])

    assert probe_doubts(quick(migrated_url, tmp_path, KEEP_DEAD_DAYS="30")) != []
    assert probe_doubts(quick(migrated_url, tmp_path, KEEP_DEAD_DAYS="60")) == []


# --- whatever there is ------------------------------------------------------------------------------------

ages = st.one_of(
    st.sampled_from([-HOUR, timedelta(0), timedelta(microseconds=1), timedelta(microseconds=-1), 7 * DAY, 90 * DAY]),
    st.timedeltas(-DAY, 110 * DAY),
    st.timedeltas(DAY / 2, 8 * DAY),
)
lanes = st.sampled_from(["default", "mail", "Ä"])
priorities = st.sampled_from(schema_tables.PRIORITIES)
groups = st.sampled_from([None, "campaign"])
jobs = st.one_of(
    st.builds(
        lambda age, **rest: job(run_at=NOON - age, **rest), ages, lane=lanes, priority=priorities, group_key=groups
    ),
    st.builds(
        lambda due, age, **rest: job(run_at=NOON - due, finished_at=NOON - age, **rest),
        ages, ages, lane=lanes, priority=priorities, status=st.sampled_from(["done", "dead", "cancelled"]),
    ),
    st.builds(
        lambda age, lease, **rest: job(run_at=NOON - age, lease_until=NOON - lease, status="processing", **rest),
        ages, ages, lane=lanes, priority=priorities, worker_id=st.sampled_from(["worker-1", "w"]),
    ),
)  # fmt: skip
ended_runners = st.builds(lambda age: runner(finished_at=NOON - age), ages)
unseen_runners = st.builds(
    lambda lease, **rest: runner(lease_until=NOON - lease, **rest),
    ages, host=st.sampled_from(["here", "there"]), pid_started=st.sampled_from([1, this_process().started]),
)  # fmt: skip
others = st.fixed_dictionaries(
    {},
    optional={
        "runner": ended_runners | unseen_runners,
        "cycle": st.builds(cycle, ages),
        "total": st.builds(total, ages),
        "attempt": st.builds(attempt, ages),
        "lane": st.builds(passed_over, st.integers(0, 2)),
        "batch": st.builds(lambda age: batch(created_at=NOON - age), ages)
        | st.builds(lambda age: batch(sealed_at=None, created_at=NOON - age), ages)
        | st.builds(lambda age: batch(completed_at=NOON - age), ages),
    },
).map(lambda found: list(found.values()))
variables = st.fixed_dictionaries(
    {},
    optional={
        **{
            f"KEEP_{kind}_DAYS": st.sampled_from(["0.5", "1", "7", "30", "90"])
            for kind in ("DONE", "CANCELLED", "DEAD", "CYCLES", "RUNNERS")
        },
        "LANES__MAIL__EXTERNAL": st.sampled_from(["true", "false"]),
        "BATCH_SIZE": st.sampled_from(["1", "5"]),
        "HOST_MAX_WORKERS": st.just("1"),
    },
)


class Scheduled(NamedTuple):
    """A schedule file, how long ago a full cycle last read it, and whether it was edited since then."""

    lines: list[str]
    ago: timedelta
    edited: bool


schedule_lines = st.sampled_from(
    [
        "* * * * * a", "0 12 * * * b", "0 14 * * * c tz=Europe/Berlin", "1 12 * * * d", "0 0 1 1 * e catch_up=none",
        "*/20 * * * * f catch_up=all", "# nothing", "59 11 4 5 * g overlap=skip jitter=5m",
    ]
)  # fmt: skip
scheduled = st.builds(
    Scheduled,
    st.lists(schedule_lines, unique=True, max_size=3),
    st.sampled_from([timedelta(0), timedelta(minutes=1), 2 * DAY]) | st.timedeltas(timedelta(0), 2 * HOUR),
    st.booleans(),
)


def leave_schedules(url: str, home: Path, given: Scheduled) -> None:
    """As a full cycle leaves them: first seen three days ago, last dealt with some time ago, and noted."""
    file = home / "cron.d" / "schedule"
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(given.lines))
    database = Database(url)
    entries = read_schedules([file], home, 1 << 16).entries
    next_at = None
    for ago in (3 * DAY, given.ago):
        clock = StoppedClock(NOON - ago, 0.0)
        database.set_clock(clock)
        next_at = fire_due(database, entries, JobValidator(1 << 16, 5, database.clock.now)).next_at
    write_next_due(home, file_signatures([file]), next_at)
    run(database, lambda connection: connection.execute(delete(tables.jobs)))
    database.close()
    if given.edited:
        file.write_text("\n".join([*given.lines, "", "* * * * * new"]))


def is_unfinished(row: Row) -> bool:
    """What the probe takes for a reason to look closer, whether or not there is something to do about it."""
    table, columns = row
    running = table is tables.runners and columns.get("finished_at") is None
    return running or columns.get("status") == "processing"


@sqlite_only
@in_full(150)
@given(some_jobs=st.lists(jobs, max_size=4), other_rows=others, variables=variables, schedules=scheduled)
def test_whatever_there_is_the_probe_overlooks_nothing(
    database: Database,
    migrated_url: str,
    tmp_path: Path,
    some_jobs: list[Row],
    other_rows: list[Row],
    variables: Any,
    schedules: Scheduled,
) -> None:
    """Where it has no doubt, a full cycle finds nothing; and where that is clear, it has none."""
    rows = some_jobs + other_rows
    fill(database, [])
    leave_schedules(migrated_url, tmp_path, schedules)
    fill(database, rows, but=tables.schedules)

    doubted = probe_doubts(quick(migrated_url, tmp_path, **variables))
    found = list(full_path_finds(migrated_url, tmp_path, variables))

    event(f"doubted={bool(doubted)} found={bool(found)} schedules={'schedules' in found}")
    if not any(map(is_unfinished, rows)) and not schedules.edited:
        assert bool(doubted) == bool(found)
    assert doubted or not found


# --- the doubts that are no rows --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE mayfly_locks SET holder = 'somebody', lease_until = '2099-01-01 00:00:00'",
        "UPDATE mayfly_locks SET holder = 'somebody', lease_until = '2000-01-01 00:00:00'",
        "UPDATE mayfly_version SET version_num = '0000'",
        "UPDATE mayfly_version SET version_num = '9999'",
    ],
    ids=["planning lock held", "planner died", "older schema", "newer schema"],
)
def test_a_lock_or_a_schema_that_is_not_as_expected_is_a_doubt(
    database: Database, migrated_url: str, tmp_path: Path, spoil: str
) -> None:
    """The full path waits for the one and has a sentence about the other."""
    run_sql(database, spoil.replace(":", r"\:"))

    assert probe_doubts(quick(migrated_url, tmp_path)) != []


@pytest.fixture
def contents(database: Database) -> Callable[[], list[Any]]:
    """Everything in Mayfly's tables."""
    return lambda: [
        run(database, lambda connection, table=table: list(map(tuple, connection.execute(table.select()))))  # type: ignore[misc]
        for table in tables.metadata.sorted_tables
    ]


def test_a_host_whose_clock_is_off_is_left_to_the_full_path(
    migrated_url: str, tmp_path: Path, contents: Callable[[], list[Any]]
) -> None:
    """Which tells about it. Nothing was changed, and nothing said."""
    before = contents()
    pinned = pin_offset(timedelta(seconds=2))
    try:
        was_idle = idle.run_idle_cycle(quick(migrated_url, tmp_path, STATE_DIR="state"), monotonic())
    finally:
        pin_offset(pinned)

    assert not was_idle
    assert contents() == before
    assert not (tmp_path / "logs").exists()


# --- rivals -----------------------------------------------------------------------------------------------


def take_as_rival(database: Database) -> None:
    taken = update(tables.locks).values(holder="rival", number=tables.locks.c.number + 1)
    run(database, lambda connection: connection.execute(taken))


def holder(database: Database) -> str | None:
    found: str | None = run(
        database,
        lambda connection: connection.execute(
            select(tables.locks.c.holder).where(tables.locks.c.name == "plan")
        ).scalar_one(),
    )
    return found


def test_a_rival_who_has_the_planning_lock_before_it_is_read_keeps_it(
    database: Database, migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts never have the same number, and an idle one takes nobody's lock away."""
    writing = Database.run
    written: list[object] = []

    def take_first(own: Database, work: Callable[[Connection], Any]) -> Any:
        take_as_rival(database)  # the look at the tables is done, the number is about to be taken
        written.append(writing(own, work))
        return written[-1]

    monkeypatch.setattr(Database, "run", take_first)
    was_idle = idle.run_idle_cycle(quick(migrated_url, tmp_path, STATE_DIR="state"), monotonic())

    assert (written, was_idle) == ([False], False)
    assert holder(database) == "rival"
    assert not (tmp_path / "logs").exists()


@servers_only
def test_a_rival_who_takes_the_planning_lock_just_after_it_was_read_keeps_it(
    database: Database, migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number tells. On SQLite there is no such moment: who is about to take it is already the only writer."""
    execute = Connection.execute
    looks: list[Result] = []

    def then_take(connection: Connection, statement: str, *arguments: Any) -> Result:
        found = execute(connection, statement, *arguments)
        if statement == READ_PLAN_LOCK:
            looks.append(found)
            if len(looks) == 2:  # the look at the tables is done, the number is about to be taken
                take_as_rival(database)
        return found

    monkeypatch.setattr(Connection, "execute", then_take)
    was_idle = idle.run_idle_cycle(quick(migrated_url, tmp_path, STATE_DIR="state"), monotonic())

    assert (len(looks), was_idle) == (2, False)
    assert holder(database) == "rival"
    assert not (tmp_path / "logs").exists()
