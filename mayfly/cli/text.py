"""Views of the admin package as text for a terminal."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from mayfly import json_text
from mayfly.admin.auth import AuditView
from mayfly.admin.fleet import CycleView, HostView, RunnerDetail, RunnerView
from mayfly.admin.health import Severity, Status
from mayfly.admin.job import JobView, ListedBatch
from mayfly.admin.jobs import DeadGroups, JobLine, facts_of
from mayfly.admin.lanes import LaneView, LimitView
from mayfly.admin.schedules import ScheduleView
from mayfly.admin.sources import SourceView
from mayfly.admin.why import JobRow
from mayfly.format import DIM, GREEN, RED, YELLOW, format_duration, moment, one_line, painted, plain, table
from mayfly.schedules.parse import ScheduleEntry
from mayfly.schema.tables import CANCELLED, CLAIMED, DEAD, RUNNING

TEXT_WIDTH = 60  # of errors and reasons in a table
MEBIBYTE = 1 << 20
NO_SOURCES = "No sources. `mayfly sources suggest TABLE` prints a draft; see docs/how-to/sources.md."


def status_text(status: Status, colour: bool) -> str:
    snapshot = status.snapshot
    parts = [lanes_text(snapshot.lanes, snapshot.now), hosts_text(snapshot.hosts)]
    hue = {None: GREEN, Severity.DOWN: RED}.get(status.worst, YELLOW)
    return "\n\n".join([*parts, painted(plain(status.text), hue, colour)])


def lanes_text(lanes: Sequence[LaneView], now: datetime) -> str:
    jobs = ("pending", "oldest", "claimed", "running")
    heading = ("lane", *jobs, "runners", "done/h", "failed/h", "dead", "next run", "")
    rows = [heading, *(tuple(_lane(each, now)) for each in lanes)]
    return table(rows) if lanes else "No lanes yet: no job has been enqueued."


def _lane(lane: LaneView, now: datetime) -> Iterator[str]:
    yield lane.lane
    yield str(lane.pending)
    yield "-" if lane.wait_seconds is None else format_duration(timedelta(seconds=lane.wait_seconds))
    yield str(lane.claimed)
    yield f"{lane.running:,}"
    yield "external" if lane.external else f"{lane.runners}/{lane.cap}"
    yield f"{lane.done_last_hour:,}"
    yield f"{lane.failed_last_hour:,}"
    yield str(lane.dead)
    yield "-" if lane.next_run_at is None else f"in {format_duration(lane.next_run_at - now)}"
    yield "; ".join(_lane_notes(lane))


def _lane_notes(lane: LaneView) -> Iterator[str]:
    if lane.paused:
        until = f", until {moment(lane.paused_until)}" if lane.paused_until else ""
        yield f"{lane.paused} (by {lane.paused_by}{until})"
    if lane.set_by:
        yield f"max_workers set by {lane.set_by}"
    if lane.cap < lane.max_workers:
        yield f"pool {lane.pool} allows {lane.cap} of {lane.max_workers}"


def hosts_text(hosts: Sequence[HostView]) -> str:
    rows = [("host", "last cycle", "duration", "exit", "")]
    for each in hosts:
        ago, note = f"{format_duration(timedelta(seconds=each.age_seconds))} ago", "silent" if each.is_stale else ""
        rows.append((each.host, ago, _milliseconds(each.last.duration_ms), _or_dash(each.last.exit_code), note))
    return table(rows) if rows[1:] else "No known host has started a cycle in the last day."


def jobs_text(jobs: Sequence[JobLine], now: datetime) -> str:
    has_rows = any(each.row for each in jobs)
    heading = ("row",) if has_rows else ()
    rows: list[tuple[str, ...]] = [("id", "status", "lane", "type", *heading, "attempts", "due", "age", "")]
    for each in jobs:
        row = (one_line(str(each.row or "-"), TEXT_WIDTH),) if has_rows else ()
        due = f"in {format_duration(each.run_at - now)}" if each.status == "pending" and each.run_at > now else "-"
        attempts = f"{each.attempts}/{each.max_attempts}"
        age, note = format_duration(now - each.created_at), one_line(_note(each, now), TEXT_WIDTH)
        rows.append((str(each.id), each.state, each.lane, each.type, *row, attempts, due, age, note))
    return table(rows)


def _note(job: JobLine, now: datetime) -> str:
    if job.state == CLAIMED:
        return f"by {job.worker_id}"
    if job.state == RUNNING and job.started_at is not None:
        return f"since {moment(job.started_at)} ({format_duration(now - job.started_at)})"
    is_ended = job.status in (DEAD, CANCELLED)
    return (None if is_ended else job.waiting_for) or job.error or ""


def dead_text(found: DeadGroups, now: datetime) -> str:
    rows = [("jobs", "type", "error", "last", "newest", "")]
    for each in found.groups:
        last = "-" if each.last_at is None else f"{format_duration(now - each.last_at)} ago"
        message = one_line(each.message or "", TEXT_WIDTH)
        rows.append((f"{each.jobs:,}", each.type, each.error or "-", last, str(each.newest_id), message))
    return table(rows) if rows[1:] else "No dead jobs."


def cycles_text(cycles: Sequence[CycleView]) -> str:
    counts = ("pending", "runners", "ok", "failed", "rescued")
    rows: list[tuple[str, ...]] = [("cycle", "host", "started (UTC)", "duration", "exit", *counts, "")]
    for each in cycles:
        figures = map(str, (each.pending, each.spawned, each.successful, each.failed, each.rescued))
        started, took = f"{each.started_at:%Y-%m-%d %H:%M:%S}", _milliseconds(each.duration_ms)
        note = one_line(each.note or "", TEXT_WIDTH)
        rows.append((str(each.id), each.host, started, took, _or_dash(each.exit_code), *figures, note))
    return table(rows) if rows[1:] else "No cycle has run yet."


def runners_text(runners: Sequence[RunnerView], now: datetime) -> str:
    figures = ("done", "failed", "average", "memory", "cpu", "uptime")
    rows: list[tuple[str, ...]] = [("runner", "host", "pid", "lane", "started", "state", "job", *figures)]
    for each in runners:
        ending = _live_state(each) if each.finished_at is None else _ending(each)
        started = f"{format_duration(now - each.planned_at)} ago"
        lane = f"{each.lane} +{len(each.earlier_lanes)}" if each.earlier_lanes else each.lane
        known = (each.worker_id, each.host, str(each.pid), lane, started, ending, _current_jobs(each, now))
        rows.append((*known, *_figures(each)))
    return table(rows) if rows[1:] else "No runners."


def runner_text(detail: RunnerDetail) -> str:
    """One line per known fact, then the output."""
    facts = [(name, value) for name, value in facts_of(detail.runner).items() if value not in (None, [], ())]
    lines = table([(name.replace("_", " "), one_line(str(value), TEXT_WIDTH)) for name, value in facts])
    return lines if detail.output is None else f"{lines}\n\n{detail.output}"


def _figures(runner: RunnerView) -> Iterator[str]:
    yield str(runner.jobs_done)
    yield str(runner.jobs_failed)
    yield _milliseconds(runner.average_ms)
    yield "-" if runner.peak_memory is None else f"{runner.peak_memory // MEBIBYTE} MiB"
    yield _milliseconds(runner.cpu_ms)
    yield _milliseconds(runner.uptime_ms)


def _current_jobs(runner: RunnerView, now: datetime) -> str:
    """The job that has been running longest, for how long, and the number of others."""
    if not runner.running:
        return "-"
    job_id, started_at = runner.running[0]
    others = f" +{len(runner.running) - 1}" if runner.running[1:] else ""
    return f"{job_id} ({format_duration(now - started_at)}){others}"


def _live_state(runner: RunnerView) -> str:
    return "queued" if runner.launcher is not None and runner.heartbeat_at is None else "alive"


def _ending(runner: RunnerView) -> str:
    how = f" signal {runner.signal}" if runner.signal else f" {runner.exit_code}" if runner.exit_code else ""
    return f"{runner.ending}{how}"


def audit_text(entries: Sequence[AuditView]) -> str:
    rows = [("time (UTC)", "user", "via", "action", "subject", "jobs", "reason")]
    for each in entries:
        when = f"{each.done_at:%Y-%m-%d %H:%M:%S}"
        subject, reason = one_line(each.subject, TEXT_WIDTH), one_line(each.reason or "", TEXT_WIDTH)
        rows.append((when, each.done_by, each.via, each.verb, subject, _or_dash(each.jobs), reason))
    return table(rows) if rows[1:] else "No manual actions."


def batches_text(listed: Sequence[ListedBatch]) -> str:
    rows: list[tuple[str, ...]] = [("batch", "state", "left", "done", "dead", "cancelled", "created (UTC)")]
    for each in listed:
        more = "+" if each.is_capped else ""
        figures = (f"{number}{more}" for number in (each.left, each.done, each.dead, each.cancelled))
        rows.append((each.batch, each.state, *figures, f"{each.since:%Y-%m-%d %H:%M:%S}"))
    return table(rows) if rows[1:] else "No batches. See docs/how-to/batches-and-chains.md."


def limits_text(limits: Sequence[LimitView]) -> str:
    rows = [("key", "per", "used", "max", "opens at (UTC)")]
    for each in limits:
        opens_at = f"{each.opens_at:%Y-%m-%d %H:%M:%S}" if each.opens_at else ""
        rows.append((each.key, each.per, str(each.used), str(each.most), opens_at))
    return table(rows) if rows[1:] else "No matching limits."


def sources_text(sources: Sequence[SourceView]) -> str:
    rows: list[tuple[str, ...]] = [
        ("source", "table", "lane", "type", "pending", "oldest due", "running", "dead", "")
    ]
    for each in sources:
        known = (each.source, each.table, each.lane, each.type)
        if each.problem is not None:
            rows.append((*known, "-", "-", "-", "-", each.problem))
            continue
        oldest = "-" if each.wait_seconds is None else f"{format_duration(each.wait_seconds)} ago"
        rows.append((*known, str(each.pending), oldest, str(each.running), str(each.dead), ""))
    return table(rows) if sources else NO_SOURCES


def paused_text(what: str, until: datetime | None) -> str:
    end = f" until {until.isoformat(timespec='minutes')}" if until else ""
    return f"Paused {what}{end}."


def schedule_text(view: ScheduleView) -> str:
    entry, pause = view.entry, view.pause
    lines = [f"{entry.name}  {entry.expression}  {entry.tz}  {entry.what}  ({entry.where})"]
    if pause is not None:
        until = f" until {_both_zones(entry, pause.paused_until)}" if pause.paused_until else ""
        reason = f": {pause.pause_reason}" if pause.pause_reason else ""
        lines.append(f"  paused by {pause.paused_by}{until}{reason}")
    lines.append(f"  last  {_both_zones(entry, view.last) if view.last else 'never'}")
    lines += [
        f"  {'next' if number == 0 else '    '}  {_both_zones(entry, at)}" for number, at in enumerate(view.next)
    ]
    return "\n".join(lines)


def _both_zones(entry: ScheduleEntry, at: datetime | None) -> str:
    """Local time first, then UTC, with its date where it differs."""
    if at is None:
        return "-"
    local, utc = at.astimezone(entry.zone), at.astimezone(UTC)
    if local.utcoffset() == utc.utcoffset():
        return f"{utc:%a %Y-%m-%d %H:%M} UTC"
    other = f"{utc:%H:%M}" if local.date() == utc.date() else f"{utc:%Y-%m-%d %H:%M}"
    return f"{local:%a %Y-%m-%d %H:%M %Z} ({other} UTC)"


# --- one job ----------------------------------------------------------------------------------------------

SHOWN = [name for name in JobRow._fields if name not in ("id", "type", "status", "last_error")]


def job_text(view: JobView, colour: bool) -> str:
    row = view.row
    hue = {"done": GREEN, "dead": RED, "cancelled": DIM}.get(row.status, YELLOW)
    parts = [painted(plain(_headline(row)), hue, colour), *(f"  {plain(each.text)}" for each in view.reasons)]
    return "\n".join([*parts, "", *_columns(row), *_batch_and_chain(view), *_timeline(view), *_attempts(view)])


def explained_text(view: JobView) -> str:
    return "\n".join([_headline(view.row), *(f"  {each.text}" for each in view.reasons)])


def _headline(row: JobRow) -> str:
    return f"Job {row.id} ({row.type}, lane {row.lane}) is {row.state}."


def _columns(row: JobRow) -> Iterator[str]:
    width = max(map(len, SHOWN))
    for name in SHOWN:
        value = getattr(row, name)
        if value not in (None, 0):
            yield f"{name.ljust(width)}  {plain(_value_text(value))}"


def _value_text(value: Any) -> str:
    if isinstance(value, datetime):
        return moment(value)
    return json_text.encode(value) if isinstance(value, dict | list) else str(value)


def _batch_and_chain(view: JobView) -> Iterator[str]:
    if view.batch:
        ended = "complete" if view.batch.completed_at else "open"
        counted = ", ".join(f"{number} {status}" for status, number in sorted(view.batch.by_status.items()))
        yield plain(f"\nBatch {view.batch.batch} is {ended}: {view.batch.jobs.plural('job')} ({counted}).")
    if view.steps:
        yield plain(f"\nNext in its chain: {', '.join(view.steps)}.")


def _timeline(view: JobView) -> Iterator[str]:
    yield "\nTimeline"
    for each in view.timeline:
        yield f"  {moment(each.at)}  {one_line(each.text)}"


def _attempts(view: JobView) -> Iterator[str]:
    for each in view.attempts:
        took = "" if each.duration_ms is None else f" after {_milliseconds(each.duration_ms)}"
        error = f", error {each.fingerprint}" if each.fingerprint else ""
        yield f"\nAttempt {each.attempt} {each.outcome}{took}{error}"
        if each.error:
            yield "  " + plain(each.error).replace("\n", "\n  ")


def _milliseconds(given: float | None) -> str:
    return "-" if given is None else format_duration(given / 1000, precise=True)


def _or_dash(given: object) -> str:
    return "-" if given is None else str(given)
