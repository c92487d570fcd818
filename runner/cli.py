"""`python -m runner`: what SPAWN=exec starts, and what a person starts by hand to run one lane here and now."""

import os
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import click

from mayfly import bootstrap
from mayfly.clock import monotonic
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import MayflyError
from mayfly.fleet.plan_lock import finish_planning, planning
from mayfly.fleet.runners import Assignment, EndedRunner, add_planned, close_runner
from mayfly.log import Log, open_log
from mayfly.process import exits
from mayfly.process.fork import die_with_parent
from mayfly.process.identity import this_host, this_process
from mayfly.process.state_dir import open_state_dir, page_path
from mayfly.process.status_page import StatusPage
from mayfly.process.timing import timing
from mayfly.settings import Settings, load_settings
from mayfly.stats.totals import read_usual
from runner.lease_keeper import run_kept
from runner.main import Inherited, run_runner


def run_assigned(
    assignment: Assignment, settings: Settings, directory: Path, output: int, inherited: Inherited | None = None
) -> int:
    """The life of a runner that a dispatcher started. What handlers print goes to the dispatcher."""
    log = inherited.log if inherited else None
    log = (log or print_to(output, settings)).named(f"WORKER {assignment.worker_id}")
    page = StatusPage(page_path(directory, assignment.worker_id))
    for each in (1, 2):
        os.dup2(output, each)
    if not assignment.is_long:
        return run_runner(assignment, settings, page, log, inherited)
    database = inherited.database if inherited else bootstrap.open_database(settings)
    database.close()

    def life() -> int:
        code = run_runner(assignment, settings, page, log, inherited)
        with suppress(MayflyError):  # the database is gone: the next cycle finds the page
            close_own_row(database, assignment.worker_id, page, code)  # nobody else may be there to see it end
        return code

    return run_kept(assignment, life, page, database, log, settings.worker_memory)


def print_to(output: int, settings: Settings) -> Log:
    """From here on nothing is read, and what is printed goes to the dispatcher; the log that was opened before."""
    os.dup2(output, 2)  # before the log is opened: that it cannot be, the dispatcher has told already
    log = open_log(settings, "WORKER")  # before stdout goes: it may be the log
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    return log


@click.command(help="Run the due jobs of one lane in this process, until it is empty or the guard ends it.")
@click.option("--lane", default="default", show_default=True, help="The lane to work in.")
@click.option("--assignment", hidden=True, help="Given by the dispatcher: who this runner is.")
@click.option("--output", type=int, hidden=True, help="Given by the dispatcher: where printed text goes.")
@click.option("--parent", type=int, hidden=True, help="Given by the dispatcher: whose end is ours.")
def command(lane: str, assignment: str | None, output: int | None, parent: int | None) -> int:
    settings = load_settings()
    if assignment is None or output is None or parent is None:
        return run_by_hand(settings, lane)
    told = Assignment.from_text(assignment)
    if not told.is_long:
        die_with_parent(parent)
    return run_assigned(told, settings, open_state_dir(settings), output)


def run_by_hand(settings: Settings, lane: str) -> int:
    """Planned, recorded and fenced like any other runner; it only has no dispatcher to end it."""
    database = bootstrap.open_database(settings)
    assignment = _assign(database, settings, lane)
    database.close()
    path = page_path(open_state_dir(settings), assignment.worker_id)
    page = StatusPage(path)
    log = open_log(settings, f"WORKER {assignment.worker_id}", echo=sys.stderr if sys.stderr.isatty() else None)
    code = run_runner(assignment, settings, page, log)
    seen = page.read()
    close_own_row(database, assignment.worker_id, page, code)
    click.echo(f"{assignment.worker_id}: {seen.done} jobs done, {seen.failed} failed")
    return code


def close_own_row(database: Database, worker_id: str, page: StatusPage, code: int) -> None:
    seen, now = page.read(), database.clock.now()
    ending = {exits.SUCCESS: "ok", exits.TIMEOUT: "timeout"}.get(code, "error")
    ended = EndedRunner(ending, exit_code=code, jobs_done=seen.done, jobs_failed=seen.failed)
    database.run(lambda connection: close_runner(connection, worker_id, ended, now))
    database.close()
    page.path.unlink(missing_ok=True)


def _assign(database: Database, settings: Settings, lane: str) -> Assignment:
    place, process, now = this_host(settings.host_name), this_process(), database.clock.now()
    usual = database.read(lambda connection: read_usual(connection, now)).of(lane)
    with planning(database, settings.host_name) as number:
        assignment = Assignment(
            worker_id=f"worker-{number}-1",
            lane=lane,
            cycle_id=number,
            deadline=monotonic() + settings.worker_timeout,
            window_seconds=settings.worker_timeout,
            lease_until=now + timedelta(seconds=settings.worker_timeout + timing().lease_grace_seconds),
            usual=usual,
        )

        def write(connection: Connection) -> None:
            finish_planning(connection, number)
            add_planned(connection, [assignment], place, process, now)

        database.run(write)
    return assignment


def main() -> None:
    """Ends as a forked runner does: whoever is still blocked in a thread is not waited for."""
    try:
        exits.run_command(command, "python -m runner")
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else exits.ERROR)
