"""The options of `python -m dispatcher`: --lane, and --dry-run, which prints the plan and changes nothing."""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from dispatcher.assign import CountedWork, read_plan
from dispatcher.context import CycleContext
from dispatcher.cycle import refuse_unknown_lanes, run_cycle
from dispatcher.plan import Plan
from mayfly import bootstrap
from mayfly.db.connection import Connection
from mayfly.format import table
from mayfly.log import silent_log
from mayfly.process import exits
from mayfly.process.state_dir import state_dir
from mayfly.schedules.next_due import schedule_files
from mayfly.schema.tables import require_version
from mayfly.settings import Settings, load_with_warnings

if TYPE_CHECKING:
    from mayfly.schedules.parse import ScheduleEntry


@click.command(
    help="Run one cycle: rescue, fire schedules, count, plan, start runners, supervise them, sum up. Meant for cron."
)
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: print the plan as JSON.")
@click.option("--lane", "lanes", multiple=True, metavar="NAME", help="Serve only this lane; may be repeated.")
@click.pass_obj
def command(started: float, dry_run: bool, as_json: bool, lanes: tuple[str, ...]) -> int:
    settings, warnings = load_with_warnings()
    if dry_run:
        return show_plan(settings, frozenset(lanes), as_json, started)
    if as_json:
        raise click.UsageError("--json goes with --dry-run.")
    return run_cycle(settings, warnings, started, frozenset(lanes))


def show_plan(settings: Settings, lanes: frozenset[str], as_json: bool, started: float) -> int:
    missing = bootstrap.missing_embedded(settings.database_url.get_secret_value())
    if missing is not None:
        click.echo(
            f"There is no database at {missing} yet; nothing is pending. The first real cycle creates it.",
            err=True,
        )
        counted, plan, due = CountedWork(), Plan(()), DueSchedules()
    else:
        with closing(_open_context(settings, lanes, started)) as context:
            due = due_schedules(context)
            counted, plan = read_plan(context, due.coming)
    for problem in due.problems:
        click.echo(problem, err=True)
    if as_json:
        facts = {**plan_facts(settings, counted, plan, due.names), "linger_seconds": settings.longest_linger}
        click.echo(json.dumps(facts, indent=2))
    else:
        notes = [*linger_lines(settings), *long_lines(settings)]
        lines = [plan_table(counted, plan, due.names), *notes]
        click.echo("\n".join(lines))
    return exits.SUCCESS


def _open_context(settings: Settings, lanes: frozenset[str], started: float) -> CycleContext:
    """Without a lock, a log or a new directory: a dry run leaves no trace."""
    database = bootstrap.open_database(settings)
    context = CycleContext(settings, database, silent_log(), state_dir(settings), started, lanes)
    context.statements.set(started + settings.dispatch_timeout)

    def verify(connection: Connection) -> None:
        require_version(connection)
        refuse_unknown_lanes(lanes, settings, connection)

    try:
        database.read(verify)
    except Exception:
        context.close()
        raise
    return context


@dataclass(frozen=True)
class DueSchedules:
    """The schedules that a cycle would fire now."""

    due: "tuple[tuple[ScheduleEntry, datetime], ...]" = ()
    problems: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [entry.name for entry, _ in self.due]

    @property
    def coming(self) -> Counter[str]:
        """By lane, the number of jobs that would be due at once."""
        return Counter(entry.lane for entry, _ in self.due if not entry.jitter)


def due_schedules(context: CycleContext) -> DueSchedules:
    settings = context.settings
    files = schedule_files(settings)
    if not files:
        return DueSchedules()
    from mayfly.schedules.files import read_schedules  # here: most installations do without cronsim
    from mayfly.schedules.fire import decide_all, load_known

    schedules = read_schedules(files, settings.home, settings.payload_limit)
    known = context.database.read(load_known)
    decisions = decide_all(schedules.entries, known, context.database.clock.now())
    due = ((each.entry, due) for each in decisions for due in each.due)
    return DueSchedules(tuple(due), tuple(map(str, schedules.problems)))


def plan_facts(settings: Settings, counted: CountedWork, plan: Plan, schedules: Sequence[str]) -> dict[str, Any]:
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
    set_by_user = [
        f"Lane {lane.name}: {lane.cap}." for lane in (each.count.lane for each in plan.lanes) if lane.set_by
    ]
    fired = [f"Schedules due, their jobs counted above: {', '.join(schedules)}."] if schedules else []
    last = f"Pending jobs: {counted}. Runners planned: {plan.runners}. Nothing was changed."
    return "\n".join([table(rows), "", *set_by_user, *fired, last])


def linger_lines(settings: Settings) -> list[str]:
    if not settings.longest_linger:
        return []
    own = {name: lane.linger for name, lane in settings.lanes.items() if lane.linger is not None}
    lanes = ", ".join(f"{name} {seconds:g} s" for name, seconds in {"all lanes": settings.linger, **own}.items())
    return [f"Then it lingers and polls every {settings.poll_interval:g} s: {lanes}."]


def long_lines(settings: Settings) -> list[str]:
    long = [settings.lane(name) for name in settings.lanes if settings.lane(name).is_long]
    lanes = ", ".join(f"{each.name} {each.worker_timeout:g} s" for each in long)
    return [f"Runners of long lanes may outlive it: {lanes}."] if lanes else []
