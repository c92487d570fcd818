"""`python -m dispatcher`: what cron starts every minute."""

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple, TextIO

import click

from dispatcher.assign import CountedWork, read_plan
from dispatcher.context import CycleContext
from dispatcher.cycle import describe, run_cycle
from dispatcher.linger import take_over
from dispatcher.lock import HostLock, take_lock
from dispatcher.notify import Notifier
from dispatcher.plan import Plan
from dispatcher.schedules import Preview, due_schedules
from dispatcher.summary import CycleSummary, summary_text, trouble_paragraph
from mayfly import bootstrap, log_messages
from mayfly.clock import host_now, monotonic
from mayfly.db.database import Database
from mayfly.errors import MayflyError, UnknownName
from mayfly.format import table
from mayfly.log import LOG_NAME, Log, open_log, silent_log
from mayfly.process import command_line, exits
from mayfly.process.identity import this_host, this_process
from mayfly.process.state_dir import lock_path, open_state_dir, state_dir
from mayfly.queue.count import find_lanes
from mayfly.schema.version import require_version
from mayfly.settings import Settings
from mayfly.stats.durations import TypeDurations


class Minute(NamedTuple):
    """What came before the command: when the minute began, and its settings if they have been read."""

    started: float
    settings: Settings | None = None


@click.command(
    help="Run one cycle: rescue, fire schedules, count, plan, start runners, supervise them, sum up. Meant for cron."
)
@click.option("--dry-run", is_flag=True, help="Print the plan and touch nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: print the plan as JSON.")
@click.option("--lane", "lanes", multiple=True, metavar="NAME", help="Serve only this lane; may be repeated.")
@click.pass_obj
def command(minute: Minute, dry_run: bool, as_json: bool, lanes: tuple[str, ...]) -> int:
    settings, warnings = (minute.settings, ()) if minute.settings is not None else _load()
    if dry_run:
        return show_plan(settings, frozenset(lanes), as_json, minute.started)
    if as_json:
        raise click.UsageError("--json goes with --dry-run.")
    return dispatch(settings, warnings, frozenset(lanes), minute.started, echo=_terminal(settings))


def dispatch(
    settings: Settings, warnings: Sequence[str], lanes: frozenset[str], started: float, echo: TextIO | None
) -> int:
    """Silent under cron when all went well; a paragraph on stderr, which cron mails, when not."""
    log = open_log(settings, "DISPATCHER", echo)
    log.say(log_messages.cycle_started(host_now(), settings.host_name))
    for warning in warnings:
        log.say(log_messages.setting_warning(warning))
    directory = open_state_dir(settings)
    lock = take_lock(lock_path(directory))
    if lock is None and (lock := take_over(lock_path(directory))) is not None:
        log.say(log_messages.took_over())
    if lock is None:
        log.say(log_messages.cycle_skipped())
        return exits.SUCCESS
    watchers = Notifier(settings, log)
    watchers.begin(let_go=lock.close)
    try:
        summary = run_locked(settings, log, lanes, started, lock)
    except Exception as error:
        log.say(log_messages.cycle_failed(describe(error)))
        watchers.end(exits.ERROR, describe(error))
        raise
    watchers.end(summary.exit_code, summary_text(summary, settings.host_name), summary)
    _complain(trouble_paragraph(summary, settings.host_name, _log_name(settings)), echo)
    return summary.exit_code


def run_locked(settings: Settings, log: Log, lanes: frozenset[str], started: float, lock: HostLock) -> CycleSummary:
    try:
        with closing(open_world(settings, log, lanes, started)) as world:
            return run_cycle(world, lock)
    finally:
        lock.close()


def open_world(settings: Settings, log: Log, lanes: frozenset[str], started: float) -> CycleContext:
    database = bootstrap.open_database(settings)
    world = CycleContext(
        settings=settings,
        database=database,
        log=log,
        directory=state_dir(settings),
        place=this_host(settings.host_name),
        process=this_process(),
        started=started,
        only_lanes=lanes,
    )
    world.statements.set(started + settings.dispatch_timeout)
    try:
        database.read(require_version)
        _refuse_unknown(lanes, settings, database)
    except MayflyError:
        world.close()
        raise
    return world


def show_plan(settings: Settings, lanes: frozenset[str], as_json: bool, started: float) -> int:
    missing = bootstrap.missing_embedded(settings.database_url.get_secret_value())
    if missing is not None:
        click.echo(
            f"There is no database at {missing} yet; nothing is pending. The first real cycle creates it.",
            err=True,
        )
        counted, plan, due, usual = CountedWork(), Plan(()), Preview(), TypeDurations()
    else:
        with closing(open_world(settings, silent_log(), lanes, started)) as world:
            due = due_schedules(world)
            counted, plan = read_plan(world, due.coming)
            usual = world.usual if plan.runners else TypeDurations()
    for problem in due.problems:
        click.echo(problem, err=True)
    if as_json:
        facts = {**plan_facts(settings, counted, plan, due.names, usual), "linger_seconds": settings.longest_linger}
        click.echo(json.dumps(facts, indent=2))
    else:
        told = [*usual_lines(plan, usual), *linger_lines(settings), *long_lines(settings)]
        lines = [plan_table(counted, plan, due.names), *told]
        click.echo("\n".join(lines))
    return exits.SUCCESS


def plan_facts(
    settings: Settings, counted: CountedWork, plan: Plan, schedules: Sequence[str], usual: TypeDurations
) -> dict[str, Any]:
    lanes = [
        {
            "lane": each.count.lane.name,
            "pending": each.count.pending,
            "pending_is_capped": each.count.capped,
            "running": each.count.running,
            "wanted": each.wanted,
            "planned": each.planned,
            "max_workers": each.count.lane.max_workers,
            "set_by": each.count.lane.set_by,
            "cuts": list(each.cuts),
            "long": settings.lane(each.count.lane.name).is_long,
            "usual_seconds": dict(usual.of(each.count.lane.name)),
        }
        for each in plan.lanes
    ]
    return {"pending": str(counted), "runners": plan.runners, "schedules": list(schedules), "lanes": lanes}


def plan_table(counted: CountedWork, plan: Plan, schedules: Sequence[str]) -> str:
    rows = [("lane", "pending", "running", "wanted", "planned", "cut by")]
    for each in plan.lanes:
        pending = f"{each.count.pending}+" if each.count.capped else str(each.count.pending)
        figures = (pending, str(each.count.running), str(each.wanted), str(each.planned))
        rows.append((each.count.lane.name, *figures, ", ".join(each.cuts) or "-"))
    by_hand = [f"Lane {lane.name}: {lane.cap}." for lane in (each.count.lane for each in plan.lanes) if lane.set_by]
    fired = [f"Schedules due, their jobs counted above: {', '.join(schedules)}."] if schedules else []
    last = f"Pending jobs: {counted}. Runners planned: {plan.runners}. Nothing was changed."
    return "\n".join([table(rows), "", *by_hand, *fired, last])


def usual_lines(plan: Plan, usual: TypeDurations) -> list[str]:
    """The types that a runner may defer."""
    lanes = [each.count.lane.name for each in plan.lanes if each.planned]
    long = [f"{name} {seconds:g} s" for lane in lanes for name, seconds in usual.of(lane).items()]
    return [f"Not started with less than their usual time left: {', '.join(long)}."] if long else []


def linger_lines(settings: Settings) -> list[str]:
    if not settings.longest_linger:
        return []
    own = {name: lane.linger for name, lane in settings.lanes.items() if lane.linger is not None}
    lanes = ", ".join(f"{name} {seconds:g} s" for name, seconds in {"all lanes": settings.linger, **own}.items())
    return [f"Then it lingers and looks every {settings.poll_interval:g} s: {lanes}."]


def long_lines(settings: Settings) -> list[str]:
    long = [settings.lane(name) for name in settings.lanes if settings.lane(name).is_long]
    lanes = ", ".join(f"{each.name} {each.worker_timeout:g} s" for each in long)
    return [f"Runners of long lanes may outlive it: {lanes}."] if lanes else []


def _refuse_unknown(lanes: frozenset[str], settings: Settings, database: Database) -> None:
    """A misspelled lane would be a cycle that does nothing, every minute."""
    if not lanes:
        return
    known = set(database.read(lambda connection: find_lanes(connection)))
    known |= settings.lanes.keys()
    for lane in sorted(lanes - known):
        raise UnknownName("lane", lane, "among the jobs or the settings", known)


def _terminal(settings: Settings) -> TextIO | None:
    """Where a person watches; a log that already goes to stdout is not said twice."""
    return sys.stderr if sys.stderr.isatty() and settings.log_to != "stdout" else None


def _complain(paragraph: str, echo: TextIO | None) -> None:
    """On a terminal the log has been shown already."""
    if paragraph and echo is None:
        click.echo(paragraph, err=True)


def _log_name(settings: Settings) -> str:
    return str(settings.log_dir / LOG_NAME) if settings.log_to == "file" else f"the log ({settings.log_to})"


def _load() -> tuple[Settings, Sequence[str]]:
    """The settings and the warnings about them; raises SettingsError."""
    from mayfly.settings import load  # here: it imports pydantic, and a snapshot usually spares that

    loaded = load()
    return loaded.settings, loaded.warnings


def main(minute: Minute | None = None) -> None:
    """`minute` is given where something else came first (see probe): the guard counts from its start."""
    command_line.run_command(command, "python -m dispatcher", minute or Minute(monotonic()))
