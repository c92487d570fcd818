"""Views of the admin package as text: tables and paragraphs for a terminal."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from mayfly import json_text
from mayfly.admin.actions import MAX_MATCHING_COUNTED
from mayfly.admin.audit import AuditView
from mayfly.admin.batches import ListedBatch
from mayfly.admin.fleet import CycleView, HostView, RunnerView
from mayfly.admin.health import Status
from mayfly.admin.job import JobView
from mayfly.admin.jobs import DeadGroups, JobLine
from mayfly.admin.lanes import LaneView, LimitView
from mayfly.admin.schedules import ScheduleView
from mayfly.admin.why import JobRow, Reason
from mayfly.format import DIM, GREEN, RED, YELLOW, format_duration, moment, one_line, painted, plain, plural, table
from mayfly.schedules.parse import ScheduleEntry

TEXT_WIDTH = 60  # of an error in a table
MEBIBYTE = 1 << 20


def status_text(status: Status, colour: bool) -> str:
    snapshot = status.snapshot
    parts = [lanes_text(snapshot.lanes, snapshot.now), hosts_text(snapshot.hosts)]
    hue = {0: GREEN, 1: YELLOW}.get(status.exit_code, RED)
    return "\n\n".join([*parts, painted(plain(status.text), hue, colour)])


def lanes_text(lanes: Sequence[LaneView], now: datetime) -> str:
    if not lanes:
        return "There are no lanes yet: no job was ever enqueued."
    heading = ("lane", "pending", "oldest", "running", "runners", "done/h", "failed/h", "dead", "next run", "")
    return table([heading, *(tuple(_lane(each, now)) for each in lanes)])


def _lane(lane: LaneView, now: datetime) -> Iterator[str]:
    yield lane.lane
    yield str(lane.pending)
    yield "-" if lane.wait_seconds is None else format_duration(timedelta(seconds=lane.wait_seconds))
    yield str(lane.running)
    yield "external" if lane.external else f"{lane.runners}/{lane.max_workers}"
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


def hosts_text(hosts: Sequence[HostView]) -> str:
    if not hosts:
        return "No host has run a cycle in the last day."
    rows = [("host", "last cycle", "took", "exit")]
    for each in hosts:
        ago = f"{format_duration(timedelta(seconds=each.age_seconds))} ago"
        rows.append((each.host, ago, _milliseconds(each.last.duration_ms), _or_dash(each.last.exit_code)))
    return table(rows)


def jobs_text(jobs: Sequence[JobLine], now: datetime) -> str:
    rows = [("id", "status", "lane", "type", "attempts", "due", "age", "")]
    for each in jobs:
        note = each.error if each.status in ("dead", "cancelled") else each.waiting_for or each.error
        due = f"in {format_duration(each.run_at - now)}" if each.status == "pending" and each.run_at > now else "-"
        attempts = f"{each.attempts}/{each.max_attempts}"
        age = format_duration(now - each.created_at)
        rows.append(
            (str(each.id), each.status, each.lane, each.type, attempts, due, age, one_line(note or "", TEXT_WIDTH))
        )
    return table(rows)


def dead_text(found: DeadGroups, now: datetime) -> str:
    if not found.groups:
        return "No job is dead."
    rows = [("jobs", "type", "error", "last", "newest", "")]
    for each in found.groups:
        last = "-" if each.last_at is None else f"{format_duration(now - each.last_at)} ago"
        message = one_line(each.message or "", TEXT_WIDTH)
        rows.append((f"{each.jobs:,}", each.type, each.error or "-", last, str(each.newest_id), message))
    return table(rows)


def cycles_text(cycles: Sequence[CycleView]) -> str:
    if not cycles:
        return "No cycle has run yet."
    heading = ("cycle", "host", "began (UTC)", "took", "exit", "pending", "runners", "ok", "failed", "rescued", "")
    rows: list[tuple[str, ...]] = [heading]
    for each in cycles:
        figures = map(str, (each.pending, each.spawned, each.successful, each.failed, each.rescued))
        began, took = f"{each.started_at:%Y-%m-%d %H:%M:%S}", _milliseconds(each.duration_ms)
        note = one_line(each.note or "", TEXT_WIDTH)
        rows.append((str(each.id), each.host, began, took, _or_dash(each.exit_code), *figures, note))
    return table(rows)


def runners_text(runners: Sequence[RunnerView], now: datetime) -> str:
    if not runners:
        return "No runner is known."
    rows = [("runner", "host", "pid", "lane", "began", "ending", "done", "failed", "memory", "cpu")]
    for each in runners:
        memory = "-" if each.peak_memory is None else f"{each.peak_memory // MEBIBYTE} MiB"
        ending = "alive" if each.finished_at is None else _ending(each)
        began, figures = f"{format_duration(now - each.planned_at)} ago", (str(each.jobs_done), str(each.jobs_failed))
        cpu = _milliseconds(each.cpu_ms)
        rows.append((each.worker_id, each.host, str(each.pid), each.lane, began, ending, *figures, memory, cpu))
    return table(rows)


def _ending(runner: RunnerView) -> str:
    how = f" signal {runner.signal}" if runner.signal else f" {runner.exit_code}" if runner.exit_code else ""
    return f"{runner.ending}{how}"


def audit_text(entries: Sequence[AuditView]) -> str:
    if not entries:
        return "No manual actions."
    rows = [("when (UTC)", "who", "via", "what", "to", "jobs", "why")]
    for each in entries:
        when = f"{each.done_at:%Y-%m-%d %H:%M:%S}"
        subject, reason = one_line(each.subject, TEXT_WIDTH), one_line(each.reason or "", TEXT_WIDTH)
        rows.append((when, each.done_by, each.via, each.verb, subject, _or_dash(each.jobs), reason))
    return table(rows)


def counted_jobs(number: int) -> str:
    """From a count that stops at MAX_MATCHING_COUNTED + 1."""
    return f"{MAX_MATCHING_COUNTED:,}+ jobs" if number > MAX_MATCHING_COUNTED else plural(number, "job")


def batches_text(listed: Sequence[ListedBatch]) -> str:
    if not listed:
        return "There are no batches. See docs/batches.md."
    rows: list[tuple[str, ...]] = [("batch", "state", "left", "done", "dead", "cancelled", "since (UTC)")]
    for each in listed:
        more = "+" if each.is_capped else ""
        figures = (f"{number}{more}" for number in (each.left, each.done, each.dead, each.cancelled))
        rows.append((each.batch, each.state, *figures, f"{each.since:%Y-%m-%d %H:%M:%S}"))
    return table(rows)


def limits_text(limits: Sequence[LimitView]) -> str:
    if not limits:
        return "No such limit is in use."
    rows = [("key", "per", "used", "most", "opens at (UTC)")]
    for each in limits:
        opens_at = f"{each.opens_at:%Y-%m-%d %H:%M:%S}" if each.opens_at else ""
        rows.append((each.key, each.span, str(each.used), str(each.most), opens_at))
    return table(rows)


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

SHOWN = (
    "lane", "priority", "run_at", "attempts", "max_attempts", "crashes", "claims", "worker_id", "lease_until",
    "unique_key", "group_key", "expires_at", "waiting_for", "cancel_reason", "slices", "created_at", "started_at",
    "finished_at", "duration_ms", "trace_context", "parent_id", "payload", "progress", "checkpoint", "result",
)  # fmt: skip


def job_text(view: JobView, colour: bool) -> str:
    row = view.row
    hue = {"done": GREEN, "dead": RED, "cancelled": DIM}.get(row.status, YELLOW)
    parts = [painted(plain(_headline(row)), hue, colour), *(f"  {plain(each.text)}" for each in view.reasons)]
    return "\n".join([*parts, "", *_columns(row), *_batch_and_chain(view), *_timeline(view), *_attempts(view)])


def explained_text(row: JobRow, reasons: Sequence[Reason]) -> str:
    return "\n".join([_headline(row), *(f"  {each.text}" for each in reasons)])


def explained_facts(row: JobRow, reasons: Sequence[Reason]) -> dict[str, Any]:
    listed = [{"why": each.name, "text": each.text} for each in reasons]
    return {"id": row.id, "type": row.type, "lane": row.lane, "status": row.status, "reasons": listed}


def _headline(row: JobRow) -> str:
    return f"Job {row.id} ({row.type}, lane {row.lane}) is {row.status}."


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
        yield plain(f"\nBatch {view.batch.batch} is {ended}: {view.batch.jobs} jobs ({counted}).")
    if view.steps:
        yield plain(f"\nNext in its chain: {', '.join(view.steps)}.")


def _timeline(view: JobView) -> Iterator[str]:
    yield "\nTimeline"
    for each in view.timeline:
        yield f"  {moment(each.at)}  {one_line(each.text)}"


def _attempts(view: JobView) -> Iterator[str]:
    for each in view.attempts:
        took = "" if each.duration_ms is None else f" after {_milliseconds(each.duration_ms)}"
        yield f"\nAttempt {each.attempt} {each.outcome}{took}, error {each.fingerprint or '-'}"
        yield "  " + plain(each.error).replace("\n", "\n  ")


def _milliseconds(given: int | None) -> str:
    return "-" if given is None else format_duration(given / 1000, precise=True)


def _or_dash(given: object) -> str:
    return "-" if given is None else str(given)
