"""The options of `python -m dispatcher`: --lane, and --dry-run, which prints the plan and changes nothing."""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import click

from dispatcher.assign import CountedWork, LaneConditions, count_work, make_plan
from dispatcher.context import CycleContext
from dispatcher.cycle import run_cycle, verify_database
from dispatcher.waiting_lanes import shared_lanes
from mayfly import schema
from mayfly.db.database import Database
from mayfly.fleet.plan import Plan
from mayfly.format import table
from mayfly.log import silent_log
from mayfly.process import exits
from mayfly.process.state_dir import state_dir
from mayfly.schedules.files import read_schedules
from mayfly.schedules.fire import decide_all, load_known
from mayfly.schedules.next_due import schedule_files
from mayfly.schedules.parse import ScheduleEntry
from mayfly.settings import Settings, load_with_warnings


@click.command(
    help="Run one cycle, as cron does every minute.\n\nRescue, fire schedules, count, plan, start runners, supervise "
    "them, sum up."
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
        raise click.UsageError("--json requires --dry-run.")
    return run_cycle(settings, warnings, started, frozenset(lanes))


def show_plan(settings: Settings, lanes: frozenset[str], as_json: bool, started: float) -> int:
    """Takes no lock, writes no log and creates no directory: a dry run changes nothing."""
    url = settings.database_url.get_secret_value()
    missing = schema.missing_embedded(url)
    counted, plan, due, problems = CountedWork(), Plan(()), list[ScheduleEntry](), list[str]()
    if missing is not None:
        text = f"There is no database at {missing} yet; nothing is pending. The first real cycle creates it."
        click.echo(text, err=True)
    else:
        context = CycleContext(settings, Database(url), silent_log(), state_dir(settings), started, lanes)
        context.tried_sources.update(settings.sources)  # the trial of a claim takes locks
        with closing(context):
            context.database.set_deadline(started + settings.dispatch_timeout)
            verify_database(context)
            due, problems = due_schedules(context)
            coming = Counter(entry.lane for entry in due if not entry.jitter)  # the others are due later
            counted = count_work(context).plus(coming)
            plan = make_plan(context, counted, LaneConditions())
    for problem in problems:
        click.echo(problem, err=True)
    names = [entry.name for entry in due]
    if as_json:
        click.echo(json.dumps(plan_facts(settings, counted, plan, names), indent=2))
    else:
        click.echo("\n".join([plan_table(settings, counted, plan, names), *lane_notes(settings)]))
    return exits.SUCCESS


def due_schedules(context: CycleContext) -> tuple[list[ScheduleEntry], list[str]]:
    """The schedules that a cycle would fire now, once per job, and the problems of their files."""
    settings = context.settings
    files = schedule_files(settings)
    if not files:
        return [], []
    schedules = read_schedules(files, settings.home, settings.payload_limit)
    known = context.database.read(load_known)
    decisions = decide_all(schedules.entries, known, context.database.clock.now())
    due = [each.entry for each in decisions for _ in each.due]
    return due, list(map(str, schedules.problems))


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
            "launcher": each.count.lane.launcher,
        }
        for each in plan.lanes
    ]
    runners = {"runners": plan.runners, "shared_lanes": shared_lanes(settings, plan)}
    facts = {"pending": str(counted), **runners, "schedules": list(schedules), "lanes": lanes}
    return {**facts, "linger_seconds": settings.longest_linger}


def plan_table(settings: Settings, counted: CountedWork, plan: Plan, schedules: Sequence[str]) -> str:
    lanes = [each.count.lane for each in plan.lanes]
    has_launcher = any(lane.launcher for lane in lanes)
    names = ("launcher",) if has_launcher else ()
    rows: list[tuple[str, ...]] = [("lane", "pending", "running", "wanted", "planned", *names, "cut by")]
    for each in plan.lanes:
        figures = (each.count.pending_text, str(each.count.running), str(each.wanted), str(each.planned))
        launcher = (each.count.lane.launcher or "-",) if has_launcher else ()
        rows.append((each.count.lane.name, *figures, *launcher, ", ".join(each.cuts) or "-"))
    set_by_user = [f"Lane {lane.name}: {lane.cap}." for lane in lanes if lane.set_by]
    fired = [f"Schedules due, their jobs counted above: {', '.join(schedules)}."] if schedules else []
    shared = shared_lanes(settings, plan)
    runners = f"Runners planned: {plan.runners}"
    if shared:
        served = sum(1 for each in plan.lanes if each.planned) + shared
        runners += f", which serve {served} lanes one after the other"
    last = f"Pending jobs: {counted}. {runners}. Nothing was changed."
    return "\n".join([table(rows), "", *set_by_user, *fired, last])


def lane_notes(settings: Settings) -> list[str]:
    """About lanes that linger and long lanes."""
    lanes = [settings.lane(name) for name in settings.lanes]
    lingering = {
        "all lanes": settings.linger,
        **{each.name: each.linger for each in lanes if each.linger != settings.linger},
    }
    long = [f"{each.name} {each.worker_timeout:g} s" for each in lanes if each.is_long]
    notes = []
    if settings.longest_linger:
        times = ", ".join(f"{name} {seconds:g} s" for name, seconds in lingering.items())
        notes.append(f"Then it lingers and polls for new jobs: {times}.")
    if long:
        notes.append(f"Runners of long lanes may outlive it: {', '.join(long)}.")
    return notes
