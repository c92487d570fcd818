"""`python -m runner`: started by SPAWN=exec, or by hand to run one lane here and now."""

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
from mayfly.queue.count import interrupted_jobs
from mayfly.settings import Settings, load_settings
from runner.lease_keeper import run_with_keeper
from runner.main import Inherited, run_runner


def run_assigned(
    assignment: Assignment, settings: Settings, directory: Path, output: int, inherited: Inherited | None = None
) -> int:
    """A runner that a dispatcher started. What handlers print goes to the dispatcher."""
    log = inherited.log if inherited else None
    log = (log or print_to(output, settings)).named(f"WORKER {assignment.worker_id}")
    page = StatusPage(page_path(directory, assignment.worker_id))
    for each in (1, 2):
        os.dup2(output, each)
    if not assignment.is_long:
        return run_runner(assignment, settings, page, log, inherited)
    database = inherited.database if inherited else bootstrap.open_database(settings)
    database.close()

    def run() -> int:
        code = run_runner(assignment, settings, page, log, inherited)
        with suppress(MayflyError):  # the database does not answer: the next cycle finds the page
            close_own_row(database, assignment.worker_id, page, code)  # the dispatcher may have exited before
        return code

    return run_with_keeper(assignment, run, page, database, log, settings.worker_memory)


def print_to(output: int, settings: Settings) -> Log:
    """Redirect stdin from /dev/null and output to the dispatcher; the log, opened before that."""
    os.dup2(output, 2)  # before the log is opened: the dispatcher has reported already if that fails
    log = open_log(settings, "WORKER")  # before stdout is replaced: it may be the log
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    return log


@click.command(help="Run the due jobs of one lane in this process, until it is empty or the guard ends it.")
@click.option("--lane", default="default", show_default=True, help="The lane whose jobs to run.")
@click.option("--assignment", hidden=True, help="Given by the dispatcher: the assignment as JSON.")
@click.option("--output", type=int, hidden=True, help="Given by the dispatcher: descriptor for printed text.")
@click.option("--parent", type=int, hidden=True, help="Given by the dispatcher: its pid.")
def command(lane: str, assignment: str | None, output: int | None, parent: int | None) -> int:
    settings = load_settings()
    if assignment is None or output is None or parent is None:
        return run_by_hand(settings, lane)
    assigned = Assignment.from_text(assignment)
    if not assigned.is_long:
        die_with_parent(parent)
    return run_assigned(assigned, settings, open_state_dir(settings), output)


def run_by_hand(settings: Settings, lane: str) -> int:
    """Planned, recorded and fenced like any other runner, but without a dispatcher's guard."""
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
    interrupted = database.read(lambda connection: interrupted_jobs(connection, lane, now, 1))
    with planning(database, settings.host_name) as number:
        assignment = Assignment(
            worker_id=f"worker-{number}-1",
            lane=lane,
            cycle_id=number,
            deadline=monotonic() + settings.worker_timeout,
            window_seconds=settings.worker_timeout,
            lease_until=now + timedelta(seconds=settings.worker_timeout + timing().lease_grace_seconds),
            begins_with=next(iter(interrupted), None),
        )

        def write(connection: Connection) -> None:
            finish_planning(connection, number)
            add_planned(connection, [assignment], place, process, now)

        database.run(write)
    return assignment


def main() -> None:
    """Exit as a forked runner does: blocked threads are not joined."""
    try:
        exits.run_command(command, "python -m runner")
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else exits.ERROR)
