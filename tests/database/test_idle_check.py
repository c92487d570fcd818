"""The idle check: it finds a reason for a full cycle whenever a full cycle would have something to do."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from sqlalchemy import Table, delete, insert, select, update

from dispatcher.assign import LaneConditions, count_work, make_plan
from dispatcher.cli import due_schedules
from dispatcher.context import CycleContext, take_lock
from dispatcher.cycle import run_locked
from dispatcher.full_cycle import FullCycle
from dispatcher.idle import reasons
from mayfly.clock import Clock, milliseconds, monotonic, pin_offset
from mayfly.db.connection import Connection, Result
from mayfly.db.database import Database
from mayfly.errors import SchemaMismatch
from mayfly.fleet.plan_lock import READ_PLAN_LOCK
from mayfly.log import Log, silent_log
from mayfly.log_messages import Level
from mayfly.process.identity import this_host, this_process
from mayfly.queue.count import find_lanes, finished_batches
from mayfly.queue.options import JobValidator
from mayfly.queue.prune import prune
from mayfly.queue.rescue import dead_runners, expired_jobs
from mayfly.schedules.files import read_schedules
from mayfly.schedules.fire import fire_due
from mayfly.schedules.next_due import file_signatures, write_next_due
from mayfly.schema import metadata as tables
from mayfly.schema import tables as schema_tables
from mayfly.settings import Settings, load
from tests.database.factories import run_sql, servers_only, sqlite_only
from tests.factories import NOON
from tests.hypothesis_profiles import in_full
from tests.sqlalchemy_engines import run

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
Row = tuple[Table, dict[str, Any]]


class StoppedClock(Clock):
    """Both read the same time."""

    def now(self) -> datetime:
        return self.measured


# --- rows -------------------------------------------------------------------------------------------------


def job(**columns: Any) -> Row:
    """By default pending and due in an hour."""
    return tables.jobs, {"type": "noop", "payload": "{}", "lane": "default", "run_at": NOON + HOUR, **columns}


def finished_job(status: str, age: timedelta, **columns: Any) -> Row:
    return job(status=status, run_at=NOON - age, finished_at=NOON - age, **columns)


def runner(**columns: Any) -> Row:
    """A live one: this process."""
    here, process = this_host("here"), this_process()
    return tables.runners, {
        "worker_id": "worker-1",
        "cycle_id": 1,
        "lane": "default",
        "host": here.name,
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


def audit_entry(age: timedelta) -> Row:
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
    """An open one, complete as far as its jobs are known."""
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


# --- the idle check, and the work of a full cycle -------------------------------------------------------------


def settings_for(url: str, home: Path, **others: str) -> Settings:
    return load({"MAYFLY_HOME": str(home), "DATABASE_URL": url, "HOST_NAME": "here", **others}).settings


def found_reasons(settings: Settings) -> list[str]:
    with closing(Database(settings.database_url.get_secret_value())) as database:
        return database.read(lambda connection: list(reasons(connection, settings, settings.home, NOON)))


def full_cycle_finds(url: str, home: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """What a full cycle would plan, complete, rescue and prune. It really prunes, so call it last."""
    database = Database(url)
    database.set_clock(StoppedClock(NOON, 0.0))
    settings = settings_for(url, home, **variables)
    context = CycleContext(settings, database, silent_log(), home, monotonic())
    counted = count_work(context)
    plan = make_plan(context, counted, LaneConditions())
    lanes = database.read(lambda connection: find_lanes(connection))
    if counted.pending or plan.runners:
        yield "work"
    if due_schedules(context)[0]:
        yield "schedules"
    if any(each.passed_over for each in counted.lanes.values()):
        yield "lanes that were passed over"
    if dead_runners(database, context.host):
        yield "dead runners"
    if database.read(lambda connection: expired_jobs(connection, lanes, NOON)):
        yield "lost jobs"
    if database.read(lambda connection: finished_batches(connection)):
        yield "batches that are over"
    if prune(database, settings):
        yield "old rows"
    database.close()


# --- every database ---------------------------------------------------------------------------------------

IDLE: dict[str, list[Row]] = {
    "empty tables": [],
    "a delayed job": [job()],
    "finished jobs": [finished_job(status, DAY) for status in ("done", "dead", "cancelled")],
    "dead jobs without a retention": [finished_job("dead", 1000 * DAY)],
    "rows that are not old enough": [
        cycle(89 * DAY), total(89 * DAY), attempt(89 * DAY), audit_entry(360 * DAY), request(HOUR)
    ],
    "a job that is not old enough": [finished_job("done", 6 * DAY)],
    "a runner that ended": [runner(finished_at=NOON - HOUR)],
    "a lane that was served": [passed_over(0)],
    "a batch whose job is delayed": [batch(), job(group_key="campaign")],
    "a batch that is being filled": [batch(sealed_at=None)],
    "a batch that is complete": [batch(completed_at=NOON - DAY)],
}  # fmt: skip
REASONS: dict[str, list[Row]] = {
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
    "an old audit entry": [audit_entry(370 * DAY)],
    "a request of the day before yesterday": [request(2 * DAY)],
    "an old attempt": [attempt(92 * DAY)],
    "a batch whose jobs have ended": [batch(), finished_job("done", DAY, group_key="campaign")],
    "an old batch": [batch(completed_at=NOON - 8 * DAY)],
    "an old batch that was never sealed": [batch(created_at=NOON - 8 * DAY, sealed_at=None)],
}  # fmt: skip


@pytest.mark.parametrize("rows", IDLE.values(), ids=IDLE)
def test_an_idle_minute_is_detected(database: Database, migrated_url: str, tmp_path: Path, rows: list[Row]) -> None:
    """A full cycle would find nothing either."""
    fill(database, rows)

    assert found_reasons(settings_for(migrated_url, tmp_path)) == []
    assert list(full_cycle_finds(migrated_url, tmp_path, {})) == []


@pytest.mark.parametrize("rows", REASONS.values(), ids=REASONS)
def test_each_kind_of_work_is_detected(
    database: Database, migrated_url: str, tmp_path: Path, rows: list[Row]
) -> None:
    """One row of each kind."""
    fill(database, rows)

    assert found_reasons(settings_for(migrated_url, tmp_path)) != []


def test_dead_jobs_to_prune_are_detected_if_a_retention_is_set(
    database: Database, migrated_url: str, tmp_path: Path
) -> None:
    """KEEP_DEAD_DAYS has no default."""
    fill(database, [finished_job("dead", 40 * DAY)])

    assert found_reasons(settings_for(migrated_url, tmp_path, KEEP_DEAD_DAYS="30")) != []
    assert found_reasons(settings_for(migrated_url, tmp_path, KEEP_DEAD_DAYS="60")) == []


# --- any rows ---------------------------------------------------------------------------------------------

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
    """A schedule file, when a full cycle last read it, and whether it was edited since."""

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
    """As a full cycle leaves them: first seen three days ago, fired until some time ago, and cached."""
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
    """A reason for a full cycle, even if there may be nothing to do."""
    table, columns = row
    running = table is tables.runners and columns.get("finished_at") is None
    return running or columns.get("status") == "processing"


@sqlite_only
@in_full(150)
@given(some_jobs=st.lists(jobs, max_size=4), other_rows=others, variables=variables, schedules=scheduled)
def test_the_idle_check_misses_nothing(
    database: Database,
    migrated_url: str,
    tmp_path: Path,
    some_jobs: list[Row],
    other_rows: list[Row],
    variables: Any,
    schedules: Scheduled,
) -> None:
    """Without a reason a full cycle finds nothing; and it has no unneeded reason, as far as that is known."""
    rows = some_jobs + other_rows
    fill(database, [])
    leave_schedules(migrated_url, tmp_path, schedules)
    fill(database, rows, but=tables.schedules)

    noticed = found_reasons(settings_for(migrated_url, tmp_path, **variables))
    found = list(full_cycle_finds(migrated_url, tmp_path, variables))

    event(f"noticed={bool(noticed)} found={bool(found)} schedules={'schedules' in found}")
    if not any(map(is_unfinished, rows)) and not schedules.edited:
        assert bool(noticed) == bool(found)
    assert noticed or not found


# --- work that is not in a row ----------------------------------------------------------------------------


@pytest.mark.parametrize("lease_until", ["2099-01-01 00:00:00", "2000-01-01 00:00:00"], ids=["held", "holder died"])
def test_a_held_planning_lock_is_detected(
    database: Database, migrated_url: str, tmp_path: Path, lease_until: str
) -> None:
    """A full cycle waits for it."""
    spoil = f"UPDATE mayfly_locks SET holder = 'rival', lease_until = '{lease_until}'"
    run_sql(database, spoil.replace(":", r"\:"))

    assert found_reasons(settings_for(migrated_url, tmp_path)) != []


def test_a_status_page_and_a_linger_are_detected(database: Database, migrated_url: str, tmp_path: Path) -> None:
    """Neither is a row."""
    assert found_reasons(settings_for(migrated_url, tmp_path, LINGER="10")) == ["the dispatcher lingers"]

    (tmp_path / "worker-1.page").touch()

    assert len(found_reasons(settings_for(migrated_url, tmp_path))) == 1


class Lines:
    """A sink that keeps the lines."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, line: str, level: Level) -> None:
        self.texts.append(line.partition("] ")[2])


class WorkDetected(Exception):
    """The cycle has gone beyond the idle check."""


def run_idle_cycle(url: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, list[str]]:
    """Whether the cycle was idle, and its log."""

    def refuse(_cycle: FullCycle) -> None:
        raise WorkDetected

    monkeypatch.setattr(FullCycle, "run", refuse)
    lines = Lines()
    lock = take_lock(home / "lock")
    assert lock is not None
    context = CycleContext(settings_for(url, home), Database(url), Log(lines, ""), home, monotonic())
    with closing(context):
        try:
            run_locked(context, lock)
        except WorkDetected:
            return False, lines.texts
        finally:
            lock.close()
    return True, lines.texts


def recorded_cycles(database: Database) -> int:
    return len(run(database, lambda connection: connection.execute(select(tables.cycles.c.id)).all()))


@pytest.mark.parametrize("version", ["0000", "9999"])
def test_tables_of_another_version_are_refused(
    database: Database, migrated_url: str, tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything else is read from them."""
    run_sql(database, f"UPDATE mayfly_version SET version_num = '{version}'")

    with pytest.raises(SchemaMismatch):
        run_idle_cycle(migrated_url, tmp_path, monkeypatch)

    assert recorded_cycles(database) == 0


def test_an_idle_cycle_logs_a_clock_that_is_off(
    database: Database, migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any other cycle does."""
    pinned = pin_offset(timedelta(seconds=2))
    try:
        was_idle, lines = run_idle_cycle(migrated_url, tmp_path, monkeypatch)
    finally:
        pin_offset(pinned)

    assert (was_idle, recorded_cycles(database)) == (True, 1)
    assert any("clock" in line for line in lines)


# --- concurrent dispatchers -------------------------------------------------------------------------------


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


def test_a_rival_that_takes_the_planning_lock_after_the_check_keeps_it(
    database: Database, migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts never get the same number; the cycle continues as a full one, which waits for the lock."""
    write = Database.run

    def take_first(own: Database, work: Callable[[Connection], Any]) -> Any:
        take_as_rival(database)  # the check is done, the number is about to be taken
        return write(own, work)

    monkeypatch.setattr(Database, "run", take_first)
    was_idle, lines = run_idle_cycle(migrated_url, tmp_path, monkeypatch)

    assert (was_idle, holder(database), recorded_cycles(database)) == (False, "rival", 0)
    assert not any("Pending jobs" in line for line in lines)


@servers_only
def test_a_rival_that_takes_the_planning_lock_after_the_read_keeps_it(
    database: Database, migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number decides. On SQLite the transaction that reads it is the only writer."""
    execute = Connection.execute
    reads: list[Result] = []

    def then_take(connection: Connection, statement: str, *arguments: Any) -> Result:
        found = execute(connection, statement, *arguments)
        if statement == READ_PLAN_LOCK:
            reads.append(found)
            if len(reads) == 2:  # the check is done, the number is about to be taken
                take_as_rival(database)
        return found

    monkeypatch.setattr(Connection, "execute", then_take)
    was_idle, lines = run_idle_cycle(migrated_url, tmp_path, monkeypatch)

    assert (len(reads), was_idle, holder(database), recorded_cycles(database)) == (2, False, "rival", 0)
    assert not any("Pending jobs" in line for line in lines)
