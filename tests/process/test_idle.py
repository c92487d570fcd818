"""The idle minute, in real processes: what it imports, that it tells and records what the full path does, and
that in any doubt the full path runs as if there were no other."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
from mayfly.settings import load
from tests.process.installation import Installation
from tests.process.schedules import make_due, settle, write_schedule
from tests.tables import cycles, locks

MINUTE = ("-m", "dispatcher")
FULL_PATH = ("-c", "from dispatcher.cli import main; main()")
IMPORT = re.compile(r"^import time: .*\| +(\S+)\n", re.MULTILINE)


class Run:
    """A process that has told what it imported."""

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
    def was_full_path(self) -> bool:
        return "dispatcher.cli" in self.modules


def leave_snapshot(installation: Installation, **settings: str) -> None:
    """Of the settings, as the first process with this environment does; the later ones are of interest here."""
    script = "from mayfly.settings import load_settings; load_settings()"
    assert Run(installation, "-c", script, **settings).returncode == 0


def masked(text: str, home: Path) -> str:
    """Without what differs from one run to the next: times, numbers, where it was, what runners imported."""
    told = re.sub(r".* printed: import time: .*\n", "", text.replace(str(home), "HOME"))
    return re.sub(r"\d+", "#", told)


# --- what it costs ----------------------------------------------------------------------------------------

# Python does not tell of the one module that is imported by a text: the dialect of this very database.
OURS = {
    *("dispatcher", "dispatcher.lock", "dispatcher.idle"),
    *(f"mayfly{module}" for module in ("", ".clock", ".errors", ".format", ".log", ".log_messages")),
    *(f"mayfly.db{module}" for module in ("", ".connection", ".database", ".errors", ".pool", ".url")),
    *(f"mayfly.db.dialects{module}" for module in ("", ".base")),
    *(f"mayfly.fleet{module}" for module in ("", ".cycles", ".statements")),
    *(f"mayfly.process{module}" for module in ("", ".exits", ".state_dir")),
    *(f"mayfly.queue{module}" for module in ("", ".count", ".prune")),
    *(f"mayfly.schedules{module}" for module in ("", ".next_due")),
    *(f"mayfly.schema{module}" for module in ("", ".tables", ".version")),
    *(f"mayfly.settings{module}" for module in ("", ".snapshot", ".sources", ".values")),
}
STANDARD = {"collections", "contextlib", "datetime", "enum", "fcntl", "functools", "io", "os", "pathlib", "pwd", "re"}
STANDARD |= {"stat", "sys", "threading", "time", "types", "typing", "urllib"}
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


DEAR = {"sqlalchemy", "pydantic", "pydantic_settings", "dotenv", "alembic"}
OTHERS = {
    "sqlite": {"pymysql", "psycopg"},
    "mariadb": {"psycopg", "sqlite3"},
    "mysql": {"psycopg", "sqlite3"},
    "postgres": {"pymysql", "sqlite3"},
}


@pytest.mark.every_database
def test_a_cycle_with_work_does_without_what_is_dear(installation: Installation, engine_name: str) -> None:
    """SQLAlchemy and pydantic above all; and without the other databases: each of these costs 20 ms and more."""
    leave_snapshot(installation)
    installation.enqueue("noop")

    worked = Run(installation, *MINUTE)

    assert worked.was_full_path
    assert "Workers spawned: 1" in installation.log
    assert (DEAR | OTHERS[engine_name]) & worked.modules == set()


def test_a_runner_does_without_what_is_dear(installation: Installation, engine_name: str) -> None:
    """From its claim to its last settlement, where no handler asks for more."""
    installation.dispatch()
    leave_snapshot(installation, HANDLERS="tests.process.plain")
    (job_id,) = installation.enqueue("noop")

    ran = Run(installation, "-m", "runner", HANDLERS="tests.process.plain")

    assert (ran.returncode, installation.job(job_id).status) == (0, "done")
    assert (DEAR | OTHERS[engine_name]) & ran.modules == set()


def test_to_enqueue_does_without_what_is_dear(installation: Installation, engine_name: str) -> None:
    """One by one and many at once, with and without a delay: an application has dear imports enough."""
    installation.dispatch()
    leave_snapshot(installation, HANDLERS="tests.process.plain")
    script = (
        "import mayfly; mayfly.enqueue('noop', delay=5, unique_key='x'); mayfly.enqueue_many([{'type': 'noop'}] * 2)"
    )

    enqueued = Run(installation, "-c", script, HANDLERS="tests.process.plain")

    assert (enqueued.returncode, installation.statuses()) == (0, {"pending": 3})
    assert (DEAR | OTHERS[engine_name]) & enqueued.modules == set()


@pytest.mark.parametrize(("arguments", "code", "told"), [((), 0, ""), (("--dry",), 64, "No such option")])
def test_a_cycle_with_work_ends_as_soon_as_it_is_over(
    embedded: Installation, arguments: tuple[str, ...], code: int, told: str
) -> None:
    """The interpreter is not taken down, whatever the exit code; what was to be said has been said."""
    embedded.enqueue("noop")

    run = Run(embedded, "-c", f"import atexit\natexit.register(print, 'taken down')\n{RUN_MINUTE}", *arguments)

    assert (run.was_full_path, run.returncode, run.stdout) == (True, code, "")
    assert told in run.stderr


def test_a_runner_leaves_pydantic_to_its_handlers(embedded: Installation) -> None:
    """Also in an interpreter of its own, where nothing is inherited."""
    embedded.dispatch()
    runs = []
    for each in ("string", "handlers"):
        leave_snapshot(embedded, HANDLERS=each)
        runs.append(Run(embedded, "-m", "runner", HANDLERS=each))

    plain, with_models = runs

    assert (plain.returncode, with_models.returncode) == (0, 0)
    assert ("pydantic" in plain.modules, "pydantic" in with_models.modules) == (False, True)
    assert "pydantic_settings" not in with_models.modules


# --- what it leaves behind --------------------------------------------------------------------------------


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_idle_cycle_leaves_what_the_full_path_leaves(installation: Installation, log_format: str) -> None:
    """The same lines in the log, the same row, and a free lock whose number has grown."""
    installation.enqueue("noop", run_at=installation.now() + timedelta(hours=1))
    runs: list[Run] = []
    logs: list[str] = []
    for way in (MINUTE, FULL_PATH):
        log_dir = installation.home / f"logs-{len(runs)}"
        runs.append(Run(installation, *way, LOG_FORMAT=log_format, LOG_DIR=str(log_dir)))
        logs.append(masked((log_dir / "dispatcher.log").read_text(), log_dir))

    idle, full = runs
    assert (idle.was_full_path, full.was_full_path) == (False, True)
    assert [(run.returncode, run.stdout, run.stderr) for run in runs] == [(0, "", "")] * 2
    assert logs[0] == logs[1]
    first, second = installation.rows(select(cycles).order_by(cycles.c.id))
    assert without_times(first) == without_times(second)
    for row in (first, second):
        assert row.started_at <= row.finished_at < row.started_at + timedelta(seconds=60)
        assert 0 < row.duration_ms < 60_000
    (lock,) = installation.rows(select(locks).where(locks.c.name == "plan"))
    assert (lock.holder, lock.lease_until, lock.number) == (None, None, second.id)


def without_times(row: Any) -> dict[str, Any]:
    own = ("id", "started_at", "finished_at", "duration_ms")
    return {name: value for name, value in row._mapping.items() if name not in own}


def test_idle_cycles_follow_each_other(installation: Installation) -> None:
    """Each with a number above the last, in the same log."""
    installation.dispatch()

    assert [Run(installation, *MINUTE).was_full_path for _ in range(3)] == [False] * 3

    numbers = [row.id for row in installation.rows(select(cycles).order_by(cycles.c.started_at))]
    assert numbers == sorted(set(numbers))
    assert installation.log.count("Dispatch Summary:") == len(numbers) == 4


def test_schedules_that_are_not_due_leave_a_cycle_idle(installation: Installation) -> None:
    """After one full cycle has read them; an edit, or the due time of one, is for the full path again."""
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

    assert [each.was_full_path for each in idle] == [False] * 3
    assert not any({"cronsim", "mayfly.schedules.parse"} & each.modules for each in idle)
    assert (edited.was_full_path, due.was_full_path) == (True, True)
    assert "cronsim" in edited.modules


def test_who_has_no_schedules_does_not_pay_for_them(embedded: Installation) -> None:
    """Not even on the full path."""
    embedded.dispatch()

    full = Run(embedded, *FULL_PATH)

    assert full.was_full_path
    assert {"cronsim", "mayfly.schedules.parse"} & full.modules == set()


def test_a_log_that_cannot_be_written_is_told_of_as_by_the_full_path(embedded: Installation) -> None:
    """The cycle is recorded all the same."""
    embedded.dispatch()
    (embedded.home / "file").touch()

    idle, full = (Run(embedded, *way, LOG_DIR=str(embedded.home / "file")) for way in (MINUTE, FULL_PATH))

    assert (idle.was_full_path, full.was_full_path) == (False, True)
    assert "cannot be written" in idle.stderr
    assert (idle.returncode, idle.stdout, idle.stderr) == (full.returncode, full.stdout, full.stderr)
    assert len(embedded.rows(select(cycles))) == 3


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

# What a full cycle asks and does when it is idle, and why the probe need not.
LEFT_OUT = {
    r"SELECT .* FROM mayfly_jobs .*status = 'processing' AND lease_until <= <time>": "it asks for any",
    r"SELECT lane, COUNT\(\*\) FROM mayfly_runners .*": "it has seen that there are no live runners",
    r"SELECT COUNT\(\*\) FROM mayfly_runners .*": "it has seen that there are no live runners",
    r"SELECT .* FROM mayfly_pauses": "what is paused can only be less to do",
    r"SELECT .* FROM mayfly_schedules": "the full path has noted when the next is due",
    r"SELECT .* FROM mayfly_totals WHERE cycle_id = <number>": "a new cycle has none",
    r"DELETE FROM mayfly_totals WHERE cycle_id = <number>": "a new cycle has none",
    r"SELECT DISTINCT cycle_id FROM mayfly_totals .*": "they are counted where they are; who has work adds them up",
    r"SELECT number FROM mayfly_locks WHERE name = 'counted'.*": "whoever prunes counts before, and so soon enough",
    r"SELECT worker_id FROM mayfly_runners .*cycle_id = <number>": "a new cycle has none",
    r"SELECT COUNT\(\*\) FROM mayfly_batches WHERE completed_at >= .*": "it has completed none",
}


@pytest.mark.every_database
def test_the_probe_asks_all_that_the_full_path_asks(installation: Installation) -> None:
    """What somebody adds to the cycle fails here, until the probe asks about it too or is known not to need to."""
    installation.enqueue("noop", run_at=installation.now() + timedelta(hours=1))
    settle(write_schedule(installation, "0 0 1 1 * noop"))
    installation.dispatch()  # so that the lock has a number as later ones have it, and the schedule is known
    told = {"KEEP_DEAD_DAYS": "30"}
    full = statements(Run(installation, "-c", f"{RECORD}{FULL_PATH[1]}", **told))
    probed = statements(Run(installation, "-c", f"{RECORD}{RUN_MINUTE}", **told))

    assert len(probed) > 10
    missing = [each for each in full - probed if not any(re.fullmatch(known, each) for known in LEFT_OUT)]
    assert missing == []
    assert {each.split(" WHERE ")[1] for each in probed - full} <= {"lane = 'default' AND status = 'processing'"}


def statements(run: Run) -> set[str]:
    """On our tables, with their values; without limits, times and numbers masked."""
    assert run.returncode == 0, run.stderr
    sent = [json.loads(line) for line in run.stderr.splitlines() if line.startswith("[")]
    written = (part for one in sent for part in parts(written_out(*one)))
    return {each for each in written if "mayfly_" in each}


def parts(statement: str) -> list[str]:
    """Due jobs are counted by one way, and by the other only looked for: the rows that are meant are the same."""
    each = [re.sub(r"SELECT .*? FROM \((.*)\) AS due\w*", r"\1", part) for part in statement.split(" UNION ALL ")]
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


# --- in doubt ---------------------------------------------------------------------------------------------


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


def stale_page(installation: Installation) -> None:
    path = page_path(open_state_dir(load(installation.environment()).settings), "worker-1")
    path.write_bytes(b"")


def open_state(installation: Installation) -> None:
    (installation.home / "state").mkdir()
    (installation.home / "state").chmod(0o777)


def misspelled_toml(installation: Installation) -> None:
    (installation.home / "mayfly.toml").write_text("batch_siz = 5\n")


DOUBTS: dict[str, tuple[Callable[[Installation], None], tuple[str, ...], dict[str, str]]] = {
    "no database yet": (remove_database, (), {}),
    "an empty file": (empty_database, (), {}),
    "no database": (break_database, (), {}),
    "no tables": (drop_table, (), {}),
    "a newer schema": (newer_schema, (), {}),
    "a due job": (due_job, (), {}),
    "a schedule": (schedule, (), {}),
    "a schedule that is refused": (wrong_schedule, (), {}),
    "a schedule file that is missing": (nothing, (), {"SCHEDULE_FILES": "nowhere"}),
    "a lost job": (lost_job, (), {}),
    "something to prune": (old_cycle, (), {}),
    "a page that was left behind": (stale_page, (), {}),
    "a lane by name": (delayed_job, ("--lane", "default"), {}),
    "an unknown lane": (delayed_job, ("--lane", "defautl"), {}),
    "a dry run": (nothing, ("--dry-run",), {}),
    "an unknown option": (nothing, ("--dry",), {}),
    "a wrong setting": (nothing, (), {"BATCH_SIZE": "0"}),
    "a setting in doubt": (nothing, (), {"BATCH_SIZ": "5"}),
    "a setting that does not fit another": (nothing, (), {"WORKER_TIMEOUT": "56"}),
    "a misspelled setting in mayfly.toml": (misspelled_toml, (), {}),
    "a secret that is missing": (nothing, (), {"DATABASE_URL_FILE": "nowhere", "DATABASE_URL": ""}),
    "a log that goes elsewhere": (nothing, (), {"LOG_TO": "stdout"}),
    "a state directory that others can write": (open_state, (), {}),
    "a server that is not there": (nothing, (), {"DATABASE_URL": "mysql://mayfly@127.0.0.1:1/mayfly"}),
}


# Each starts two interpreters. The others are for scripts/test --all.
USUAL_DOUBTS = {
    *("a lost job", "something to prune", "a page that was left behind", "a lane by name"),
    *("a wrong setting", "a setting in doubt", "a log that goes elsewhere", "a server that is not there"),
}


@pytest.mark.parametrize(
    "doubt", [pytest.param(name, marks=() if name in USUAL_DOUBTS else pytest.mark.slow) for name in DOUBTS]
)
def test_in_doubt_the_full_path_runs_as_if_there_were_no_other(tmp_path: Path, doubt: str) -> None:
    """The same exit code, the same words in the same places, the same rows."""
    arrange, arguments, settings = DOUBTS[doubt]
    one, other = (arranged(tmp_path / name, arrange) for name in ("one", "other"))
    with ThreadPoolExecutor() as pool:
        minute = pool.submit(Run, one, *MINUTE, *arguments, **settings)
        full_path = pool.submit(Run, other, *FULL_PATH, *arguments, **settings)

    assert minute.result().was_full_path
    assert outcome(minute.result(), one) == outcome(full_path.result(), other)


def test_without_a_doubt_there_is_no_full_path(tmp_path: Path) -> None:
    """Or the test above would show nothing."""
    assert not Run(arranged(tmp_path / "one", nothing), *MINUTE).was_full_path


def test_a_file_that_lost_its_journal_mode_has_it_again(tmp_path: Path) -> None:
    """A copy may have; readers would wait for writers."""
    installation = arranged(tmp_path / "one", nothing)
    file = tmp_path / "one" / "mayfly.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")

    idle = Run(installation, *MINUTE)

    assert (idle.returncode, idle.was_full_path) == (0, False)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]


def arranged(home: Path, arrange: Callable[[Installation], None]) -> Installation:
    home.mkdir()
    installation = Installation(home, f"sqlite:///{home}/mayfly.db")
    create_embedded(installation.url)
    installation.rows("SELECT 1")  # the first connection switches WAL on
    installation.database.close()
    arrange(installation)
    installation.database.close()
    return installation


def outcome(run: Run, installation: Installation) -> tuple[Any, ...]:
    """All that the two have in common."""
    told = [masked(text, installation.home) for text in (run.stdout, run.stderr, installation.log)]
    recorded = cycles_in(installation)
    installation.end()
    return run.returncode, *told, recorded


def cycles_in(installation: Installation) -> int | None:
    """How many were recorded; none where there is no database."""
    try:
        return len(installation.rows("SELECT id FROM mayfly_cycles"))
    except Exception:
        return None


def test_a_host_whose_lock_is_held_is_left_to_the_full_path(embedded: Installation) -> None:
    """It says that this cycle was skipped."""
    embedded.dispatch()
    lock = take_lock(lock_path(open_state_dir(load(embedded.environment()).settings)))
    assert lock is not None

    skipped = Run(embedded, *MINUTE)
    lock.close()

    assert (skipped.was_full_path, skipped.returncode) == (True, 0)
    assert embedded.log.endswith("Skipped: the previous cycle of this host still holds the lock\n")
    assert not Run(embedded, *MINUTE).was_full_path


def test_who_watches_gets_the_full_path(embedded: Installation) -> None:
    """On a terminal the dispatcher shows what it does."""
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
