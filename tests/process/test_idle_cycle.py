"""The idle minute, in real processes: what it imports, what it logs and records, and when a minute is not idle."""

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

from dispatcher.lock import take_lock
from mayfly.bootstrap import create_embedded
from mayfly.db.url import mysql_arguments, postgres_arguments, sqlite_arguments
from mayfly.process.state_dir import lock_path, open_state_dir, page_path
from mayfly.schema.metadata import cycles, locks
from mayfly.settings import load
from tests.process.installation import Installation
from tests.process.schedules import make_due, settle, write_schedule

MINUTE = ("-m", "dispatcher")
IMPORT = re.compile(r"^import time: .*\| +(\S+)\n", re.MULTILINE)


class Run:
    """A process, and the modules that it has imported."""

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


def leave_snapshot(installation: Installation, **settings: str) -> None:
    """Of the settings, as the first process with this environment does; the later ones are of interest here."""
    script = "from mayfly.settings import load_settings; load_settings()"
    assert Run(installation, "-c", script, **settings).returncode == 0


def masked(text: str) -> str:
    """Without what differs from one run to the next: times and numbers."""
    return re.sub(r"\d+", "#", text)


def leave_stale_page(installation: Installation) -> None:
    """A reason for a full cycle that has nothing to do."""
    page_path(open_state_dir(load(installation.environment()).settings), "worker-1").write_bytes(b"")


# --- what it costs ----------------------------------------------------------------------------------------

# -X importtime does not list the one module that is imported by name: the dialect of this database.
OURS = {
    "dispatcher",
    *(f"dispatcher.{module}" for module in ("context", "cycle", "idle", "lock", "summary")),
    *(f"mayfly{module}" for module in ("", ".clock", ".errors", ".format", ".log", ".log_messages")),
    *(f"mayfly.db{module}" for module in ("", ".connection", ".database", ".errors", ".pool", ".url")),
    *(f"mayfly.db.dialects{module}" for module in ("", ".base")),
    *(f"mayfly.fleet{module}" for module in ("", ".cycles", ".plan_lock")),
    *(f"mayfly.process{module}" for module in ("", ".exits", ".identity", ".state_dir")),
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
    """Import the driver and connect: what cannot be done for less."""
    connect = {
        "sqlite": lambda: f"import sqlite3; sqlite3.connect(**{sqlite_arguments(url)})",
        "postgres": lambda: f"import psycopg; psycopg.connect(**{postgres_arguments(url)})",
    }
    return connect.get(engine_name, lambda: f"import pymysql; pymysql.connect(**{mysql_arguments(url)})")()


@pytest.mark.every_database
def test_an_idle_cycle_imports_only_what_is_listed_here(installation: Installation, engine_name: str) -> None:
    """Beyond what the interpreter and the driver need: our own light modules, and little of the standard library.

    Think twice before a name is added: every host pays for it every minute.
    """
    installation.dispatch()  # the first one of a new SQLite file has something to do
    leave_snapshot(installation)
    bare = Run(installation, "-c", bare_script(engine_name, installation.url)).modules
    standard = Run(installation, "-c", f"import runpy, {', '.join(sorted(STANDARD))}").modules

    idle = Run(installation, *MINUTE)

    assert idle.returncode == 0
    assert sorted(idle.modules - bare - standard) == sorted(OURS)
    assert (idle.modules - bare) & HEAVY == set()


HEAVY_PACKAGES = {"sqlalchemy", "pydantic", "pydantic_settings", "dotenv", "alembic"}
OTHERS = {
    "sqlite": {"pymysql", "psycopg"},
    "mariadb": {"psycopg", "sqlite3"},
    "mysql": {"psycopg", "sqlite3"},
    "postgres": {"pymysql", "sqlite3"},
}


@pytest.mark.every_database
def test_a_cycle_with_work_does_without_heavy_imports(installation: Installation, engine_name: str) -> None:
    """SQLAlchemy and pydantic above all; and without the other databases: each of these costs 20 ms and more."""
    leave_snapshot(installation)
    installation.enqueue("noop")

    worked = Run(installation, *MINUTE)

    assert not worked.was_idle
    assert "Workers spawned: 1" in installation.log
    assert (HEAVY_PACKAGES | OTHERS[engine_name]) & worked.modules == set()


def test_a_runner_does_without_heavy_imports(installation: Installation, engine_name: str) -> None:
    """From its claim to its last settlement, where no handler asks for more."""
    installation.dispatch()
    leave_snapshot(installation, HANDLERS="tests.process.sample_handlers.minimal")
    (job_id,) = installation.enqueue("noop")

    ran = Run(installation, "-m", "runner", HANDLERS="tests.process.sample_handlers.minimal")

    assert (ran.returncode, installation.job(job_id).status) == (0, "done")
    assert (HEAVY_PACKAGES | OTHERS[engine_name]) & ran.modules == set()


def test_to_enqueue_does_without_heavy_imports(installation: Installation, engine_name: str) -> None:
    """One by one and many at once, with and without a delay: an application has heavy imports enough."""
    installation.dispatch()
    leave_snapshot(installation, HANDLERS="tests.process.sample_handlers.minimal")
    script = (
        "import mayfly; mayfly.enqueue('noop', delay=5, unique_key='x'); mayfly.enqueue_many([{'type': 'noop'}] * 2)"
    )

    enqueued = Run(installation, "-c", script, HANDLERS="tests.process.sample_handlers.minimal")

    assert (enqueued.returncode, installation.statuses()) == (0, {"pending": 3})
    assert (HEAVY_PACKAGES | OTHERS[engine_name]) & enqueued.modules == set()


@pytest.mark.parametrize(
    ("arguments", "code", "told"), [((), 0, ""), (("--dry",), 64, "No such option"), (("--lane", "default"), 0, "")]
)
def test_a_cycle_with_work_ends_as_soon_as_it_is_over(
    embedded: Installation, arguments: tuple[str, ...], code: int, told: str
) -> None:
    """The interpreter is not taken down, whatever the exit code; what was to be said has been said."""
    embedded.enqueue("noop")

    run = Run(embedded, "-c", f"import atexit\natexit.register(print, 'taken down')\n{RUN_MINUTE}", *arguments)

    assert (run.returncode, run.stdout) == (code, "")
    assert told in run.stderr


def test_a_runner_leaves_pydantic_to_its_handlers(embedded: Installation) -> None:
    """Also in an interpreter of its own, where nothing is inherited."""
    embedded.dispatch()
    runs = []
    for each in ("string", "tests.basic_handlers"):
        leave_snapshot(embedded, HANDLERS=each)
        runs.append(Run(embedded, "-m", "runner", HANDLERS=each))

    plain, with_models = runs

    assert (plain.returncode, with_models.returncode) == (0, 0)
    assert ("pydantic" in plain.modules, "pydantic" in with_models.modules) == (False, True)
    assert "pydantic_settings" not in with_models.modules


# --- what it leaves behind --------------------------------------------------------------------------------


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_idle_cycle_leaves_what_a_full_cycle_without_work_leaves(
    installation: Installation, log_format: str
) -> None:
    """The same lines in the log, the same row, and a free lock whose number has grown."""
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
    """Line by line: operators grep for these."""
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
    """Each with a number above the last, in the same log."""
    installation.dispatch()

    assert [Run(installation, *MINUTE).was_idle for _ in range(3)] == [True] * 3

    numbers = [row.id for row in installation.rows(select(cycles).order_by(cycles.c.started_at))]
    assert numbers == sorted(set(numbers))
    assert installation.log.count("Dispatch Summary:") == len(numbers) == 4


def test_schedules_that_are_not_due_leave_a_cycle_idle(installation: Installation) -> None:
    """After one full cycle has read them; an edit, or the due time of one, needs a full cycle again."""
    file = write_schedule(installation, "0 0 1 1 * noop", "# 0 0 1 1 * sleep")
    settle(file)
    installation.dispatch()

    idle = [Run(installation, *MINUTE) for _ in range(2)]
    file.write_text("0 0 1 1 * noop\n  0 0 1 1 * sleep\n")
    edited = Run(installation, *MINUTE)
    settle(file)
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
    """Once; the cycle is recorded all the same."""
    embedded.dispatch()
    (embedded.home / "file").touch()

    idle = Run(embedded, *MINUTE, LOG_DIR=str(embedded.home / "file"))

    assert (idle.was_idle, idle.returncode, idle.stdout) == (True, 0, "")
    assert idle.stderr.count("cannot be written") == 1
    assert len(embedded.rows(select(cycles))) == 2


# --- what is asked ----------------------------------------------------------------------------------------

RECORD = """
import json, sys
from datetime import datetime
from mayfly.db.connection import Connection

def stand_in(value):
    assert isinstance(value, datetime), value
    return "<time>"

execute, execute_many = Connection.execute, Connection.execute_many

def told(connection, statement, values={}, *ids):
    print(json.dumps([statement, dict(values)], default=stand_in), file=sys.stderr)
    return execute(connection, statement, values, *ids)

def told_of_many(connection, statement, rows):
    for row in rows:
        print(json.dumps([statement, dict(row)], default=stand_in), file=sys.stderr)
    return execute_many(connection, statement, rows)

Connection.execute, Connection.execute_many = told, told_of_many
"""
RUN_MINUTE = "import runpy; runpy.run_module('dispatcher', run_name='__main__', alter_sys=True)"

# What a full cycle without work queries and writes, and why the idle check need not.
LEFT_OUT = {
    r"SELECT .* FROM mayfly_jobs .*status = 'processing' AND lease_until <= <time>": "it asks for any in progress",
    r"SELECT worker_id, cycle_id, .* FROM mayfly_runners WHERE finished_at IS NULL": "it asks for any live runner",
    r"SELECT lane, COUNT\(\*\) FROM mayfly_runners .*": "there are no live runners",
    r"SELECT COUNT\(\*\) FROM mayfly_runners .*": "there are no live runners",
    r"SELECT .* FROM mayfly_pauses": "a pause can only reduce the work",
    r"SELECT .* FROM mayfly_schedules": "a full cycle has noted when the next one is due",
    r"SELECT .* FROM mayfly_totals WHERE cycle_id = <number>": "a new cycle has none",
    r"DELETE FROM mayfly_totals WHERE cycle_id = <number>": "a new cycle has none",
    r"SELECT DISTINCT cycle_id FROM mayfly_totals .*": "the next full cycle adds them up",
    r"SELECT number FROM mayfly_locks WHERE name = 'counted'.*": "pruning counts first, and so soon enough",
    r"SELECT worker_id FROM mayfly_runners .*cycle_id = <number>": "a new cycle has none",
    r"SELECT COUNT\(\*\) FROM mayfly_batches WHERE completed_at >= .*": "there are no finished batches",
}


@pytest.mark.every_database
def test_the_idle_check_asks_all_that_a_full_cycle_asks(installation: Installation) -> None:
    """A new query in the cycle fails here, until the idle check has it too or is known not to need it."""
    installation.enqueue("noop", run_at=installation.now() + timedelta(hours=1))
    settle(write_schedule(installation, "0 0 1 1 * noop"))
    installation.dispatch()  # so that the lock has a number as later ones have it, and the schedule is known
    script = f"{RECORD}{RUN_MINUTE}"
    idle = statements(Run(installation, "-c", script, KEEP_DEAD_DAYS="30"))
    leave_stale_page(installation)
    full = statements(Run(installation, "-c", script, KEEP_DEAD_DAYS="30"))

    assert len(idle) > 10
    missing = [each for each in full - idle if not any(re.fullmatch(known, each) for known in LEFT_OUT)]
    assert missing == []


def statements(run: Run) -> set[str]:
    """On our tables, with their values; without limits, times and numbers masked."""
    assert run.returncode == 0, run.stderr
    sent = [json.loads(line) for line in run.stderr.splitlines() if line.startswith("[")]
    written = (part for one in sent for part in parts(written_out(*one)))
    return {each for each in written if "mayfly_" in each}


def parts(statement: str) -> list[str]:
    """Due jobs are counted by one way, and by the other only looked for: the rows that are meant are the same."""
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


# --- minutes that are not idle, and failures ---------------------------------------------------------------


def nothing(_installation: Installation) -> None:
    """As it is."""


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
    "a state directory that others can write": (open_state, (), {}, 1, "can be written by others"),
    "a server that is not there": (nothing, (), {"DATABASE_URL": "mysql://mayfly@127.0.0.1:1/mayfly"}, 1, "reached"),
}


@pytest.mark.parametrize("work", WORK)
def test_work_is_noticed(tmp_path: Path, work: str) -> None:
    """A full cycle runs, with the lock, the log and the row of the same one cycle."""
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
def test_without_work_a_minute_is_idle(tmp_path: Path, case: str) -> None:
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


def test_an_idle_cycle_logs_to_stdout_where_that_is_asked_for(tmp_path: Path) -> None:
    """LOG_TO changes where the lines go, and nothing else."""
    installation = arranged(tmp_path, nothing)

    run = Run(installation, *MINUTE, LOG_TO="stdout")

    assert (run.was_idle, run.returncode, run.stderr) == (True, 0, "")
    assert "Dispatch Summary:" in run.stdout
    assert not (tmp_path / "logs").exists()


def test_a_file_that_lost_its_journal_mode_has_it_again(tmp_path: Path) -> None:
    """A copy may have; readers would wait for writers."""
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
