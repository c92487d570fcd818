"""Views as text: tables and paragraphs for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from mayfly import json_text
from mayfly.admin import AuditView, CycleView, DeadGroups, JobLine, JobView, LaneView, RunnerView, Status
from mayfly.format import DIM, GREEN, RED, YELLOW, format_duration, moment, one_line, painted, plain, table

TEXT_WIDTH = 60  # of an error in a table
MEBIBYTE = 1 << 20


def status_text(status: Status, colour: bool) -> str:
    complaints = list(status.complaints())
    parts = [lanes_text(status.lanes, status.now), hosts_text(status)]
    verdict = "All is well." if not complaints else "\n".join(complaints)
    hue = {0: GREEN, 1: YELLOW}.get(status.exit_code, RED)
    return "\n\n".join([*parts, painted(plain(verdict), hue, colour)])


def lanes_text(lanes: Sequence[LaneView], now: datetime) -> str:
    if not lanes:
        return "There are no lanes yet: nothing was ever enqueued."
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


def hosts_text(status: Status) -> str:
    if not status.hosts:
        return "No host had a cycle within a day."
    rows = [("host", "last cycle", "took", "exit")]
    for each in status.hosts:
        ago = f"{format_duration(timedelta(seconds=each.age_seconds))} ago"
        rows.append((each.host, ago, _milliseconds(each.last.duration_ms), _or_dash(each.last.exit_code)))
    return table(rows)


def jobs_text(jobs: Sequence[JobLine], now: datetime) -> str:
    rows = [("id", "status", "lane", "type", "tries", "due", "age", "")]
    for each in jobs:
        told = each.error if each.status in ("dead", "cancelled") else each.waiting_for or each.error
        due = f"in {format_duration(each.run_at - now)}" if each.status == "pending" and each.run_at > now else "-"
        tries = f"{each.attempts}/{each.max_attempts}"
        age = format_duration(now - each.created_at)
        rows.append(
            (str(each.id), each.status, each.lane, each.type, tries, due, age, one_line(told or "", TEXT_WIDTH))
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


def deeds_text(deeds: Sequence[AuditView]) -> str:
    if not deeds:
        return "Nobody has done anything by hand."
    rows = [("when (UTC)", "who", "via", "what", "to", "jobs", "why")]
    for each in deeds:
        when = f"{each.done_at:%Y-%m-%d %H:%M:%S}"
        subject, reason = one_line(each.subject, TEXT_WIDTH), one_line(each.reason or "", TEXT_WIDTH)
        rows.append((when, each.done_by, each.via, each.verb, subject, _or_dash(each.jobs), reason))
    return table(rows)


# --- one job ----------------------------------------------------------------------------------------------

SHOWN = (
    "lane", "priority", "run_at", "attempts", "max_attempts", "crashes", "claims", "worker_id", "lease_until",
    "unique_key", "group_key", "expires_at", "waiting_for", "cancel_reason", "slices", "created_at", "started_at",
    "finished_at", "duration_ms", "trace_context", "parent_id", "payload", "progress", "checkpoint", "result",
)  # fmt: skip


def job_text(view: JobView, colour: bool) -> str:
    row = view.row
    hue = {"done": GREEN, "dead": RED, "cancelled": DIM}.get(row["status"], YELLOW)
    head = f"Job {row['id']} ({row['type']}, lane {row['lane']}) is {row['status']}."
    parts = [painted(plain(head), hue, colour), *(f"  {plain(each.text)}" for each in view.reasons)]
    return "\n".join([*parts, "", *_columns(row), *_around(view), *_timeline(view), *_attempts(view)])


def _columns(row: Mapping[str, Any]) -> Iterator[str]:
    width = max(map(len, SHOWN))
    for name in SHOWN:
        if row[name] not in (None, 0):
            yield f"{name.ljust(width)}  {plain(_told(row[name]))}"


def _told(value: Any) -> str:
    if isinstance(value, datetime):
        return moment(value)
    return json_text.encode(value) if isinstance(value, dict | list) else str(value)


def _around(view: JobView) -> Iterator[str]:
    if view.batch:
        ended = "complete" if view.batch.completed_at else "open"
        counted = ", ".join(f"{number} {status}" for status, number in sorted(view.batch.by_status.items()))
        yield plain(f"\nBatch {view.batch.batch} is {ended}: {view.batch.jobs} jobs ({counted}).")
    if view.steps:
        yield plain(f"\nIn its chain follow: {', '.join(view.steps)}.")


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
