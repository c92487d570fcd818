"""Idle cycles in real processes: what they import, log and record, and when a cycle is not idle."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from dispatcher.context import take_lock
from mayfly.db.dialects import mysql, postgres, sqlite
from mayfly.process.state_dir import lock_path, open_state_dir, page_path
from mayfly.schema import create_embedded
from mayfly.schema.metadata import cycles, locks
from mayfly.settings import load, snapshot
from tests.process.installation import Installation
from tests.process.schedules import make_due, wait_until_trusted, write_schedule

MINUTE = ("-m", "mayfly", "dispatch")  # as cron starts it
IMPORT = re.compile(r"^import time: .*\| +(\S+)\n", re.MULTILINE)


class Run:
    """A process and the modules it imported."""

    def __init__(self, installation: Installation, *arguments: str, **settings: str) -> None:
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *arguments],
            env=installation.environment(**settings),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        self.returncode, self.stdout = done.returncode, done.stdout
        self.stderr = IMPORT.sub("", done.stderr.partition("\n")[2])
        self.modules = set(IMPORT.findall(done.stderr))

    @property
    def was_idle(self) -> bool:
        return "dispatcher.supervise" not in self.modules


def write_snapshot(installation: Installation, **settings: str) -> None:
    """Of the settings, as the first process with this environment does; the tests are about later ones."""
    environ = installation.environment(**settings) | {"LC_CTYPE": "C.UTF-8"}  # added by Python itself (PEP 538)
    snapshot.write_snapshot(load(environ), environ)
    assert snapshot.read_snapshot(environ) is not None


def masked(text: str) -> str:
    """Without times and numbers, which differ from run to run."""
    return re.sub(r"\d+", "#", text)


def leave_stale_page(installation: Installation) -> None:
    """A reason for a full cycle without work."""
    page_path(open_state_dir(load(installation.environment()).settings), "worker-1").write_bytes(b"")


# --- what it costs ----------------------------------------------------------------------------------------

# -X importtime does not list modules that are imported by name: the dialect of this database, dispatcher.__main__.
OURS = {
    *(f"dispatcher.{module}" for module in ("context", "cycle", "idle", "summary")),
    *(f"mayfly{module}" for module in ("", ".clock", ".errors", ".format", ".log", ".log_messages")),
    *(f"mayfly.db{module}" for module in ("", ".connection", ".database", ".dialects", ".hosts")),
    *(f"mayfly.fleet{module}" for module in ("", ".cycles", ".plan_lock")),
    *(f"mayfly.process{module}" for module in ("", ".exits", ".identity", ".programs", ".state_dir")),
    *(f"mayfly.queue{module}" for module in ("", ".count", ".prune")),
    *(f"mayfly.schedules{module}" for module in ("", ".next_due")),
    *(f"mayfly.schema{module}" for module in ("", ".tables")),
    *(f"mayfly.settings{module}" for module in ("", ".snapshot", ".sources", ".values")),
}
STANDARD = {"collections", "contextlib", "datetime", "enum", "fcntl", "functools", "io", "os", "pathlib", "pwd", "re"}
STANDARD |= {"select", "signal", "stat", "sys", "threading", "time", "types", "typing", "urllib"}
STANDARD |= {"json", "_sha256" if sys.version_info < (3, 12) else "_sha2"}  # for the snapshot of the settings
HEAVY = {"alembic", "asyncio", "click", "dataclasses", "hashlib", "psutil", "pydantic", "sqlalchemy", "tomllib"}


def bare_script(engine_name: str, url: str) -> str:
    """Import the driver and connect: the minimum."""
    connect = {
        "sqlite": lambda: f"import sqlite3; sqlite3.connect(**{sqlite.arguments(url)})",
        "postgres": lambda: f"import psycopg; psycopg.connect(**{postgres.arguments(url)})",
    }
    return connect.get(engine_name, lambda: f"import pymysql; pymysql.connect(**{mysql.arguments(url)})")()


@pytest.mark.every_database
def test_an_idle_cycle_imports_only_the_modules_listed_here(installation: Installation, engine_name: str) -> None:
    """Beyond interpreter and driver: our own light modules, and little of the standard library.

    Think twice before you add a name: every host pays for it every minute.
    """
    installation.dispatch()  # the first one of a new SQLite file has work
    write_snapshot(installation)
    bare = Run(installation, "-c", bare_script(engine_name, installation.url)).modules
    standard = Run(installation, "-c", f"import runpy, {', '.join(sorted(STANDARD))}").modules

    idle = Run(installation, *MINUTE)

    assert idle.returncode == 0
    assert sorted(idle.modules - bare - standard) == sorted(OURS)
    assert (idle.modules - bare) & HEAVY == set()


HEAVY_PACKAGES = {"sqlalchemy", "pydantic", "dotenv", "alembic"}
OTHERS = {
    "sqlite": {"pymysql", "psycopg"},
    "mariadb": {"psycopg", "sqlite3"},
    "mysql": {"psycopg", "sqlite3"},
    "postgres": {"pymysql", "sqlite3"},
}


@pytest.mark.every_database
def test_a_cycle_with_work_has_no_heavy_imports(installation: Installation, engine_name: str) -> None:
    """No SQLAlchemy, no pydantic and no other database: each of them costs 20 ms and more."""
    write_snapshot(installation)
    installation.enqueue("noop")

    worked = Run(installation, *MINUTE)

    assert not worked.was_idle
    assert "Workers spawned: 1" in installation.log
    assert (HEAVY_PACKAGES | OTHERS[engine_name]) & worked.modules == set()


def test_a_runner_has_no_heavy_imports(installation: Installation, engine_name: str) -> None:
    """From its claim to its last settled job, unless a handler needs them."""
    installation.dispatch()
    write_snapshot(installation, HANDLERS="tests.process.sample_handlers.minimal")
    (job_id,) = installation.enqueue("noop")

    ran = Run(installation, "-m", "runner", HANDLERS="tests.process.sample_handlers.minimal")

    assert (ran.returncode, installation.job(job_id).status) == (0, "done")
    assert (HEAVY_PACKAGES | OTHERS[engine_name]) & ran.modules == set()


def test_enqueueing_has_no_heavy_imports(installation: Installation, engine_name: str) -> None:
    """One job or many, with and without a delay."""
    installation.dispatch()
    write_snapshot(installation, HANDLERS="tests.process.sample_handlers.minimal")
    script = (
        "import mayfly; mayfly.enqueue('noop', delay=5, unique_key='x'); mayfly.enqueue_many([{'type': 'noop'}] * 2)"
    )

    enqueued = Run(installation, "-c", script, HANDLERS="tests.process.sample_handlers.minimal")

    assert (enqueued.returncode, installation.statuses()) == (0, {"pending": 3})
    assert (HEAVY_PACKAGES | OTHERS[engine_name]) & enqueued.modules == set()


@pytest.mark.parametrize(
    ("arguments", "code", "error"), [((), 0, ""), (("--dry",), 64, "No such option"), (("--lane", "default"), 0, "")]
)
def test_a_cycle_with_work_exits_immediately(
    embedded: Installation, arguments: tuple[str, ...], code: int, error: str
) -> None:
    """The interpreter is not finalised, with any exit code; all output is written."""
    embedded.enqueue("noop")

    run = Run(embedded, "-c", f"import atexit\natexit.register(print, 'taken down')\n{RUN_MINUTE}", *arguments)

    assert (run.returncode, run.stdout) == (code, "")
    assert error in run.stderr


def test_a_runner_imports_pydantic_only_for_its_handlers(embedded: Installation) -> None:
    """Also in a new interpreter, which inherits nothing."""
    embedded.dispatch()
    runs = []
    for each in ("string", "tests.basic_handlers"):
        write_snapshot(embedded, HANDLERS=each)
        runs.append(Run(embedded, "-m", "runner", HANDLERS=each))

    plain, with_models = runs

    assert (plain.returncode, with_models.returncode) == (0, 0)
    assert ("pydantic" in plain.modules, "pydantic" in with_models.modules) == (False, True)


# --- what it leaves behind --------------------------------------------------------------------------------


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_idle_cycle_leaves_the_same_traces_as_a_full_one(installation: Installation, log_format: str) -> None:
    """The same log lines, the same row, and a free lock with a higher number."""
    installation.enqueue("noop", run_at=installation.now() + timedelta(hours=1))
    runs: list[Run] = []
    logs: list[str] = []
    for arrange in (nothing, leave_stale_page):
        arrange(installation)
        log_dir = installation.home / f"logs-{len(runs)}"
        runs.append(Run(installation, *MINUTE, LOG_FORMAT=log_format, LOG_DIR=str(log_dir)))
        logs.append(masked((log_dir / "dispatcher.log").read_text()))

    assert [run.was_idle for run in runs] == [True, False]
    assert [(run.returncode, run.stdout, run.stderr) for run in runs] == [(0, "", "")] * 2
    assert logs[0] == logs[1]
    first, second = installation.rows(select(cycles).order_by(cycles.c.id))
    assert without_times(first) == without_times(second)
    for row in (first, second):
        assert row.started_at <= row.finished_at < row.started_at + timedelta(seconds=60)
        assert 0 < row.duration_ms < 60_000
    (lock,) = installation.rows(select(locks).where(locks.c.name == "plan"))
    assert (lock.holder, lock.lease_until, lock.number) == (None, None, second.id)


def test_the_log_of_an_idle_cycle(embedded: Installation) -> None:
    """Line by line: operators grep for them."""
    embedded.dispatch()
    (embedded.home / "logs" / "dispatcher.log").unlink()

    assert Run(embedded, *MINUTE).was_idle

    assert [line.partition("[DISPATCHER] ")[2] for line in masked(embedded.log).splitlines()] == [
        "Dispatch cycle started at #-#-#T#:#:#+#:#",
        "Database connection verified (SQLite #.#.#)",
        "Pending jobs: #",
        "No pending jobs, skipping worker spawn",
        "Dispatch Summary:",
        "Pending jobs: #",
        "Workers spawned: #",
        "Successful workers: #",
        "Failed workers: #",
        "Total duration: #ms",
        "Avg worker duration: -",
    ]


def without_times(row: Any) -> dict[str, Any]:
    own = ("id", "started_at", "finished_at", "duration_ms")
    return {name: value for name, value in row._mapping.items() if name not in own}


def test_idle_cycles_follow_each_other(installation: Installation) -> None:
    """Each number is above the previous one, in the same log."""
    installation.dispatch()

    assert [Run(installation, *MINUTE).was_idle for _ in range(3)] == [True] * 3

    numbers = [row.id for row in installation.rows(select(cycles).order_by(cycles.c.started_at))]
    assert numbers == sorted(set(numbers))
    assert installation.log.count("Dispatch Summary:") == len(numbers) == 4


def test_schedules_that_are_not_due_keep_a_cycle_idle(installation: Installation) -> None:
    """After a full cycle has read them; an edit, or a due time, needs a full cycle again."""
    file = write_schedule(installation, "0 0 1 1 * noop", "# 0 0 1 1 * sleep")
    wait_until_trusted(file)
    installation.dispatch()

    idle = [Run(installation, *MINUTE) for _ in range(2)]
    file.write_text("0 0 1 1 * noop\n  0 0 1 1 * sleep\n")
    edited = Run(installation, *MINUTE)
    wait_until_trusted(file)
    installation.dispatch()
    idle.append(Run(installation, *MINUTE))
    make_due(installation)
    due = Run(installation, *MINUTE)

    assert [each.was_idle for each in idle] == [True] * 3
    assert not any({"cronsim", "mayfly.schedules.parse"} & each.modules for each in idle)
    assert (edited.was_idle, due.was_idle) == (False, False)
    assert "cronsim" in edited.modules


def test_an_installation_without_schedules_does_not_import_their_parser(embedded: Installation) -> None:
    """Not even in a full cycle."""
    embedded.dispatch()
    leave_stale_page(embedded)

    full = Run(embedded, *MINUTE)

    assert not full.was_idle
    assert {"cronsim", "mayfly.schedules.parse"} & full.modules == set()


def test_a_log_that_cannot_be_written_is_reported_on_stderr(embedded: Installation) -> None:
    """Once; the cycle is recorded."""
    embedded.dispatch()
    (embedded.home / "file").touch()

    idle = Run(embedded, *MINUTE, LOG_DIR=str(embedded.home / "file"))

    assert (idle.was_idle, idle.returncode, idle.stdout) == (True, 0, "")
    assert idle.stderr.count("cannot be written") == 1
    assert len(embedded.rows(select(cycles))) == 2


# --- queries ----------------------------------------------------------------------------------------------

RECORD = """
import json, sys
from datetime import datetime
from mayfly.db.connection import Connection

def placeholder(value):
    assert isinstance(value, datetime), value
    return "<time>"

execute, execute_many = Connection.execute, Connection.execute_many

def print_statement(connection, statement, values={}, *ids):
    print(json.dumps([statement, dict(values)], default=placeholder), file=sys.stderr)
    return execute(connection, statement, values, *ids)

def print_statements(connection, statement, rows):
    for row in rows:
        print(json.dumps([statement, dict(row)], default=placeholder), file=sys.stderr)
    return execute_many(connection, statement, rows)

Connection.execute, Connection.execute_many = print_statement, print_statements
"""
RUN_MINUTE = "import runpy; runpy.run_module('dispatcher', run_name='__main__', alter_sys=True)"

# The queries and writes of a full cycle without work, and why the idle check does not need them.
NOT_NEEDED = {
    r"SELECT .* FROM mayfly_jobs .*status = 'processing' AND lease_until <= <time>": "it queries running jobs",
    r"SELECT worker_id, cycle_id, .* FROM mayfly_runners WHERE finished_at IS NULL": "it queries live runners",
    r"SELECT lane, COUNT\(\*\), .* FROM mayfly_runners .*": "there are no live runners",
    r"SELECT .* FROM mayfly_pauses": "a pause can only reduce the work",
    r"SELECT .* FROM mayfly_schedules": "a full cycle has noted when the next one is due",
    r"SELECT .* FROM mayfly_totals WHERE cycle_id = <number>.*": "a new cycle has none",
    r"DELETE FROM mayfly_totals WHERE cycle_id = <number>": "a new cycle has none",
    r"SELECT DISTINCT cycle_id FROM mayfly_totals .*": "the next full cycle adds them up",
    r"SELECT number FROM mayfly_locks WHERE name = 'counted'.*": "pruning counts before it deletes",
    r"SELECT worker_id FROM mayfly_runners .*cycle_id = <number>.*": "a new cycle has none",
    r"SELECT COUNT\(\*\) FROM mayfly_batches WHERE completed_at >= .*": "there are no finished batches",
}


@pytest.mark.every_database
def test_the_idle_check_makes_all_queries_of_a_full_cycle(installation: Installation) -> None:
    """A new query of the cycle fails this test until the idle check has it too, or is known not to need it."""
    installation.enqueue("noop", run_at=installation.now() + timedelta(hours=1))
    wait_until_trusted(write_schedule(installation, "0 0 1 1 * noop"))
    installation.dispatch()  # gives the lock a number, and reads the schedule
    script = f"{RECORD}{RUN_MINUTE}"
    idle = statements(Run(installation, "-c", script, KEEP_DEAD_DAYS="30"))
    leave_stale_page(installation)
    full = statements(Run(installation, "-c", script, KEEP_DEAD_DAYS="30"))

    assert len(idle) > 10
    missing = [each for each in full - idle if not any(re.fullmatch(known, each) for known in NOT_NEEDED)]
    assert missing == []


def statements(run: Run) -> set[str]:
    """On our tables, with their values; without limits, times and numbers masked."""
    assert run.returncode == 0, run.stderr
    sent = [json.loads(line) for line in run.stderr.splitlines() if line.startswith("[")]
    written = (part for one in sent for part in parts(written_out(*one)))
    return {each for each in written if "mayfly_" in each}


def parts(statement: str) -> list[str]:
    """One path counts due jobs, the other only checks whether there are any: the condition is the same."""
    each = [
        re.sub(r"SELECT .*? FROM \((.*)\) AS (?:due|counted)_\d\w*", r"\1", part)
        for part in statement.split(" UNION ALL ")
    ]
    return [part.replace(" DESC", "").strip() for part in each]


def written_out(statement: str, values: dict[str, Any]) -> str:
    text = re.sub(r"(?<!:):([a-z]\w*)", lambda match: literal(values[match[1]]), statement)
    text = re.sub(r" LIMIT \d+", "", text)
    text = re.sub(r"holder = '[^']*'", "holder = <holder>", text)
    return re.sub(r"duration_ms(`?) = \d+", r"duration_ms\1 = <number>", text)


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return "<number>" if value > 10**11 else str(value)
    return "<time>" if value == "<time>" else f"'{value}'"


# --- cycles that are not idle, and failures ---------------------------------------------------------------


def nothing(_installation: Installation) -> None:
    """No change."""


def remove_database(installation: Installation) -> None:
    (installation.home / "mayfly.db").unlink()


def empty_database(installation: Installation) -> None:
    (installation.home / "mayfly.db").write_bytes(b"")


def break_database(installation: Installation) -> None:
    (installation.home / "mayfly.db").write_bytes(b"no database\n" * 100)


def drop_table(installation: Installation) -> None:
    installation.execute("DROP TABLE mayfly_version")


def newer_schema(installation: Installation) -> None:
    installation.execute("UPDATE mayfly_version SET version_num = '9999'")


def due_job(installation: Installation) -> None:
    installation.enqueue("noop")


def schedule(installation: Installation) -> None:
    write_schedule(installation, "0 0 1 1 * noop")


def wrong_schedule(installation: Installation) -> None:
    write_schedule(installation, "0 25 1 1 * noop")


def delayed_job(installation: Installation) -> None:
    installation.enqueue("noop", run_at=installation.now() + timedelta(hours=1))


def lost_job(installation: Installation) -> None:
    past = installation.now() - timedelta(hours=1)
    installation.enqueue("noop", status="processing", worker_id="worker-1", claims=1, attempts=1, lease_until=past)


def old_cycle(installation: Installation) -> None:
    row = r"(1, 'here', '2001-01-01 00\:00\:00')"
    installation.execute(f"INSERT INTO mayfly_cycles (id, host, started_at) VALUES {row}")


def open_state(installation: Installation) -> None:
    (installation.home / "state").mkdir()
    (installation.home / "state").chmod(0o777)


def misspelled_toml(installation: Installation) -> None:
    (installation.home / "mayfly.toml").write_text("batch_siz = 5\n")


Arrange = Callable[[Installation], None]
WORK: dict[str, tuple[Arrange, dict[str, str], str]] = {
    "a due job": (due_job, {}, "Workers spawned: 1"),
    "a lost job": (lost_job, {}, "Rescued 1 job of worker-1"),
    "a schedule": (schedule, {}, "Pending jobs: 0"),
    "something to prune": (old_cycle, {}, "Pruned 1 old row"),
    "a status page that was left behind": (leave_stale_page, {}, "Pending jobs: 0"),
    "a dispatcher that lingers": (nothing, {"LINGER": "0.1"}, "Pending jobs: 0"),
}
IDLE: dict[str, tuple[Arrange, tuple[str, ...], dict[str, str], str]] = {
    "no work": (nothing, (), {}, "No pending jobs"),
    "an existing lane by name": (delayed_job, ("--lane", "default"), {}, "No pending jobs"),
    "a setting with a warning": (nothing, (), {"BATCH_SIZ": "5"}, "WARNING: .*BATCH_SIZ"),
}
FAILURES: dict[str, tuple[Arrange, tuple[str, ...], dict[str, str], int, str]] = {
    "no database": (break_database, (), {}, 1, "not a database"),
    "no tables": (drop_table, (), {}, 1, "mayfly migrate"),
    "a newer schema": (newer_schema, (), {}, 1, "9999"),
    "a schedule that is refused": (wrong_schedule, (), {}, 1, "cron.d/schedule"),
    "a schedule file that is missing": (nothing, (), {"SCHEDULE_FILES": "nowhere"}, 1, "nowhere"),
    "an unknown lane": (delayed_job, ("--lane", "defautl"), {}, 64, "default"),
    "an unknown option": (nothing, ("--dry",), {}, 64, "No such option"),
    "a wrong setting": (nothing, (), {"BATCH_SIZE": "0"}, 64, "BATCH_SIZE"),
    "settings that do not fit": (nothing, (), {"WORKER_TIMEOUT": "56"}, 64, "WORKER_TIMEOUT"),
    "a misspelled setting in mayfly.toml": (misspelled_toml, (), {}, 64, "batch_siz"),
    "a secret that is missing": (
        nothing,
        (),
        {"DATABASE_URL_FILE": "nowhere", "DATABASE_URL": ""},
        64,
        "DATABASE_URL",
    ),
    "a state directory that others can write": (open_state, (), {}, 1, "is writable for other users"),
    "a server that is not there": (nothing, (), {"DATABASE_URL": "mysql://mayfly@127.0.0.1:1/mayfly"}, 1, "reached"),
}


@pytest.mark.parametrize("work", WORK)
def test_work_needs_a_full_cycle(tmp_path: Path, work: str) -> None:
    """It runs with the lock, the log and the row of the same cycle."""
    arrange, settings, logged = WORK[work]
    installation = arranged(tmp_path, arrange)
    before = len(installation.rows(select(cycles)))

    run = Run(installation, *MINUTE, **settings)

    assert (run.was_idle, run.returncode, run.stdout, run.stderr) == (False, 0, "", "")
    assert re.search(logged, installation.log)
    assert installation.log.count("Dispatch cycle started at") == installation.log.count("Dispatch Summary:") == 1
    assert installation.log.count("Database connection verified") == 1
    assert len(installation.rows(select(cycles))) == before + (work != "something to prune")


@pytest.mark.parametrize("case", IDLE)
def test_a_cycle_without_work_is_idle(tmp_path: Path, case: str) -> None:
    """However it was started."""
    arrange, arguments, settings, logged = IDLE[case]
    installation = arranged(tmp_path, arrange)

    run = Run(installation, *MINUTE, *arguments, **settings)

    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert "Workers spawned: 0" in installation.log
    assert re.search(logged, installation.log)
    assert len(installation.rows(select(cycles))) == 1


@pytest.mark.parametrize("arrange", [remove_database, empty_database])
def test_a_missing_file_is_created(tmp_path: Path, arrange: Arrange) -> None:
    """By the first cycle, which is recorded in it."""
    installation = arranged(tmp_path, arrange)

    run = Run(installation, *MINUTE)

    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert len(installation.rows(select(cycles))) == 1


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_one_sentence_and_an_exit_code(tmp_path: Path, failure: str) -> None:
    """On stderr, which cron mails."""
    arrange, arguments, settings, code, sentence = FAILURES[failure]
    installation = arranged(tmp_path, arrange)

    run = Run(installation, *MINUTE, *arguments, **settings)

    assert (run.returncode, run.stdout) == (code, "")
    assert sentence in run.stderr
    assert "Traceback" not in run.stderr


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    """No row, no log, no directory."""
    installation = arranged(tmp_path, nothing)

    run = Run(installation, *MINUTE, "--dry-run")

    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith("Pending jobs: 0. Runners planned: 0. Nothing was changed.\n")
    assert installation.rows(select(cycles)) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mayfly.db"]


def test_an_idle_cycle_logs_to_stdout_if_configured(tmp_path: Path) -> None:
    """LOG_TO changes only the destination."""
    installation = arranged(tmp_path, nothing)

    run = Run(installation, *MINUTE, LOG_TO="stdout")

    assert (run.was_idle, run.returncode, run.stderr) == (True, 0, "")
    assert "Dispatch Summary:" in run.stdout
    assert not (tmp_path / "logs").exists()


def test_wal_mode_is_restored(tmp_path: Path) -> None:
    """A copied file may have lost it; readers would then wait for writers."""
    installation = arranged(tmp_path, nothing)
    file = tmp_path / "mayfly.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")

    idle = Run(installation, *MINUTE)

    assert (idle.returncode, idle.was_idle) == (0, True)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]


def arranged(home: Path, arrange: Arrange) -> Installation:
    installation = Installation(home, f"sqlite:///{home}/mayfly.db")
    create_embedded(installation.url)
    installation.rows("SELECT 1")  # the first connection switches WAL on
    installation.database.close()
    arrange(installation)
    installation.database.close()
    return installation


def test_a_cycle_is_skipped_while_the_lock_is_held(embedded: Installation) -> None:
    """By another dispatcher of this host."""
    embedded.dispatch()
    lock = take_lock(lock_path(open_state_dir(load(embedded.environment()).settings)))
    assert lock is not None

    skipped = Run(embedded, *MINUTE)
    lock.close()

    assert skipped.returncode == 0
    assert embedded.log.endswith("Skipped: the previous cycle of this host still holds the lock\n")
    assert len(embedded.rows(select(cycles))) == 1


def test_a_terminal_shows_the_log_of_an_idle_cycle(embedded: Installation) -> None:
    """As of any other cycle."""
    embedded.dispatch()
    ours, theirs = os.openpty()
    with subprocess.Popen([sys.executable, *MINUTE], env=embedded.environment(), cwd="/", stderr=theirs) as watched:
        os.close(theirs)
        shown = b""
        while b"Avg worker duration" not in shown:
            shown += os.read(ours, 4096)
        watched.wait(60)
    os.close(ours)

    assert b"[DISPATCHER] No pending jobs, skipping worker spawn" in shown
