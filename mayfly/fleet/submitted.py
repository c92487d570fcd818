"""The rows of submitted runners: written with the plan, taken over by the process that a launcher has started.

The lease of such a runner decides whether it is alive; its engine only explains why it has ended.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.fleet.runners import Death
from mayfly.process.identity import Host, Process

SUBMITTED = "submitted"  # in the figures of a cycle, beside the endings
NOT_STARTED = "not started"
REFUSED = "refused"
CANCELLED = "cancelled"
UNSTARTED_LEASE = timedelta(minutes=2)  # after its deadline for starting: a host without the launcher closes the row
FOLLOW_UP_FOR = timedelta(hours=1)  # a cancel that fails, and a query of the cause, are repeated for this long
REFUSED_FOR = timedelta(minutes=10)  # how long a refused submit limits its lane to one try per cycle

UNSTARTED = "launcher IS NOT NULL AND heartbeat_at IS NULL AND finished_at IS NULL"
TAKE_OVER_UNSTARTED = (
    "UPDATE mayfly_runners SET host = :host, machine = :machine, pid = :pid, pid_started = :pid_started,"
    " heartbeat_at = :now, lease_until = :lease_until"
    f" WHERE worker_id = :worker_id AND {UNSTARTED} AND start_by > :now"
)
FIND_ROW = (
    "SELECT lane, cycle_id, host, machine, pid, pid_started, finished_at, ending, heartbeat_at"
    " FROM mayfly_runners WHERE worker_id = :worker_id AND launcher IS NOT NULL"
)
ENGINE_COLUMNS = "worker_id, lane, engine_step, external_id, heartbeat_at, finished_at, cause"
LIVE_ROWS = (
    f"SELECT {ENGINE_COLUMNS} FROM mayfly_runners WHERE finished_at IS NULL AND launcher = :launcher"
    " AND engine_step IS NOT NULL ORDER BY worker_id"
)
ENDED_ROWS = (
    f"SELECT {ENGINE_COLUMNS} FROM mayfly_runners WHERE finished_at > :since AND launcher = :launcher"
    " AND engine_step IN ('cancel', 'explain') ORDER BY finished_at, worker_id"
)
ENDED_WORK = (
    "SELECT launcher FROM mayfly_runners WHERE finished_at > :since AND engine_step IN ('cancel', 'explain') LIMIT 1"
)
# A submit is begun once: whatever happens afterwards, it is searched for by name and never repeated.
BEGIN_SUBMIT = (
    "UPDATE mayfly_runners SET engine_step = 'find'"
    " WHERE worker_id = :worker_id AND engine_step = 'submit' AND finished_at IS NULL"
)
# The process may have started, and even ended, before its submit was answered.
NOTE_FOUND = (
    "UPDATE mayfly_runners SET external_id = :external_id,"
    " cause = CASE WHEN engine_step = 'find' THEN NULL ELSE cause END,"
    " engine_step = CASE WHEN engine_step = 'find' THEN 'watch' ELSE engine_step END WHERE worker_id = :worker_id"
)
NOTE_CAUSE = "UPDATE mayfly_runners SET cause = :cause WHERE worker_id = :worker_id"
END_STEP = "UPDATE mayfly_runners SET engine_step = NULL WHERE worker_id = :worker_id AND engine_step = :step"
NOTE_OUTPUT = "UPDATE mayfly_runners SET output = :output WHERE worker_id = :worker_id"
CLOSE_UNSTARTED = (
    "UPDATE mayfly_runners SET finished_at = :now, ending = :ending, cause = :cause,"
    " engine_step = CASE WHEN engine_step = 'submit' THEN NULL ELSE :step END"
    f" WHERE worker_id = :worker_id AND {UNSTARTED}"
)
OVERDUE = f"SELECT worker_id, lane, launcher FROM mayfly_runners WHERE {UNSTARTED} AND start_by <= :now"
QUEUED_BY_LANE = f"SELECT lane, COUNT(*) FROM mayfly_runners WHERE {UNSTARTED} GROUP BY lane"
# The last ones to be submitted are the last in the queue of most engines.
QUEUED_IN = (
    f"SELECT worker_id, launcher FROM mayfly_runners WHERE {UNSTARTED} AND lane = :lane"
    " ORDER BY planned_at DESC, worker_id DESC LIMIT :number"
)
REFUSALS = (
    "SELECT lane, launcher, cause, planned_at, finished_at FROM mayfly_runners"
    " WHERE finished_at > :since AND ending = 'refused' ORDER BY planned_at"
)
ACCEPTED = (
    "SELECT lane, MAX(planned_at) FROM mayfly_runners"
    " WHERE external_id IS NOT NULL AND (finished_at IS NULL OR finished_at > :since) GROUP BY lane"
)
OF_HOST = (
    "launcher IS NOT NULL AND finished_at IS NULL AND cycle_id IN (SELECT id FROM mayfly_cycles WHERE host = :host)"
)
REQUEST_STOP = f"UPDATE mayfly_runners SET stop_requested_at = :now WHERE stop_requested_at IS NULL AND {OF_HOST}"
LIVE_OF_HOST = (
    f"SELECT worker_id, lane, launcher, external_id, heartbeat_at FROM mayfly_runners WHERE {OF_HOST}"
    " ORDER BY worker_id"
)
STOP_REQUESTED = "SELECT stop_requested_at FROM mayfly_runners WHERE worker_id = :worker_id"


class EngineStep(StrEnum):
    """What to do next in the engine."""

    SUBMIT = "submit"
    FIND = "find"  # a submit was begun, and its answer is unknown
    WATCH = "watch"
    CANCEL = "cancel"  # the row is closed, but the engine may still start the process
    EXPLAIN = "explain"  # the runner has failed: read its cause and its output


@dataclass(frozen=True)
class Submission:
    """A runner that a launcher starts."""

    worker_id: str
    lane: str
    cycle_id: int
    launcher: str
    start_by: datetime
    log_file: str | None = None


class SubmittedRunner(NamedTuple):
    """The columns of a row that a round in its engine needs."""

    worker_id: str
    lane: str
    step: EngineStep
    external_id: str | None = None
    has_started: bool = False
    finished_at: datetime | None = None
    cause: str | None = None  # in the step FIND: why its submit has failed; later: why it ended, by its engine


class RefusedSubmit(NamedTuple):
    """The last submit of a lane was refused."""

    launcher: str
    reason: str
    at: datetime
    times: int = 1


def add_submitted(connection: Connection, submissions: Sequence[Submission], now: datetime) -> None:
    """Until the process has taken over its row, its host is the launcher: no process of any host is meant."""
    rows = [
        {
            **asdict(each),
            "host": each.launcher,
            "machine": "",
            "pid": 0,
            "pid_started": 0,
            "planned_at": now,
            "lease_until": each.start_by + UNSTARTED_LEASE,
            "engine_step": EngineStep.SUBMIT.value,
        }
        for each in submissions
    ]
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_runners", ("worker_id",), rows[0]), rows)


# --- the process ------------------------------------------------------------------------------------------


class TakenOver(NamedTuple):
    lane: str
    cycle_id: int


def take_over_submitted(
    connection: Connection, worker_id: str, host: Host, process: Process, now: datetime, lease_until: datetime
) -> TakenOver | str:
    """Once, and before the deadline for starting; otherwise returns why this process may not claim."""
    own = {"host": host.name, "machine": host.machine, "pid": process.pid, "pid_started": process.started}
    connection.execute(TAKE_OVER_UNSTARTED, {**own, "worker_id": worker_id, "now": now, "lease_until": lease_until})
    found = connection.execute(FIND_ROW, {"worker_id": worker_id}).first()
    if found is None:
        return "this database has no such runner"
    lane, cycle_id, *owner, finished_at, ending, heartbeat_at = found
    if finished_at is not None:
        return f"its row is closed ({ending})"
    if heartbeat_at is None:
        return "it has started too late"
    if tuple(owner) != tuple(own.values()):  # ours also if the reply to a first UPDATE was lost
        return f"process {owner[2]} on {owner[0]} has taken over its row"
    return TakenOver(lane, cycle_id)


def note_death(connection: Connection, worker_id: str, death: Death, now: datetime) -> bool:
    """Ends its lease: the next cycle settles its jobs. False if its row is closed."""
    running = json_text.encode({job_id: at.isoformat() for job_id, at in death.running.items()})
    changes = {**asdict(death), "running": running, "lease_until": now, "heartbeat_at": now}
    assigned = connection.dialect.assignments(changes)
    noting = f"UPDATE mayfly_runners SET {assigned} WHERE worker_id = :worker_id AND finished_at IS NULL"
    return connection.execute(noting, {**changes, "worker_id": worker_id}).rowcount == 1


def must_stop(connection: Connection, worker_id: str) -> bool:
    return connection.execute(STOP_REQUESTED, {"worker_id": worker_id}).scalar() is not None


# --- the engine -------------------------------------------------------------------------------------------


def engine_rows(connection: Connection, launcher: str, now: datetime) -> list[SubmittedRunner]:
    """Live runners of a launcher, and ended ones with a step that is left in its engine."""
    values = {"launcher": launcher}
    found = [
        *connection.execute(LIVE_ROWS, values).all(),
        *connection.execute(ENDED_ROWS, {**values, "since": now - FOLLOW_UP_FOR}).all(),
    ]
    return [
        SubmittedRunner(
            worker_id, lane, EngineStep(step), external_id, beat is not None, end and utc_from_driver(end), cause
        )
        for worker_id, lane, step, external_id, beat, end, cause in found
    ]


def has_ended_work(connection: Connection, now: datetime) -> bool:
    """Whether a step is left in an engine for a runner that has ended."""
    return connection.execute(ENDED_WORK, {"since": now - FOLLOW_UP_FOR}).first() is not None


def begin_submit(connection: Connection, worker_id: str) -> bool:
    """True if this process may submit it."""
    return connection.execute(BEGIN_SUBMIT, {"worker_id": worker_id}).rowcount == 1


def note_found(connection: Connection, worker_id: str, external_id: str) -> None:
    connection.execute(NOTE_FOUND, {"worker_id": worker_id, "external_id": external_id})


def note_cause(connection: Connection, worker_id: str, cause: str) -> None:
    connection.execute(NOTE_CAUSE, {"worker_id": worker_id, "cause": cause})


def note_output(connection: Connection, worker_id: str, output: str) -> None:
    connection.execute(NOTE_OUTPUT, {"worker_id": worker_id, "output": output})


def end_step(connection: Connection, worker_id: str, step: EngineStep) -> None:
    connection.execute(END_STEP, {"worker_id": worker_id, "step": step.value})


def close_unstarted(
    connection: Connection, worker_id: str, ending: str, cause: str, now: datetime, step: EngineStep | None
) -> bool:
    """True if this call closed the row; False if the process has taken it over."""
    values = {"worker_id": worker_id, "ending": ending, "cause": cause, "now": now, "step": step and step.value}
    return connection.execute(CLOSE_UNSTARTED, values).rowcount == 1


def close_overdue(connection: Connection, now: datetime) -> list[tuple[str, str, str]]:
    """Close the rows of runners that have not started in time: worker id, lane and launcher of each."""
    found = connection.execute(OVERDUE, {"now": now}).all()
    cause = "it did not start in time"
    return [
        tuple(each)
        for each in found
        if close_unstarted(connection, each[0], NOT_STARTED, cause, now, EngineStep.CANCEL)
    ]


# --- the plan ---------------------------------------------------------------------------------------------


def queued_by_lane(connection: Connection) -> dict[str, int]:
    """Submitted runners that have not started."""
    return dict(connection.execute(QUEUED_BY_LANE).all())


def close_surplus(connection: Connection, lane: str, number: int, now: datetime) -> list[tuple[str, str]]:
    """Close the rows of this many runners of a lane that have not started: worker id and launcher of each."""
    found = connection.execute(QUEUED_IN, {"lane": lane, "number": number}).all()
    cause = "no jobs were left for it"
    return [
        tuple(each)
        for each in found
        if close_unstarted(connection, each[0], CANCELLED, cause, now, EngineStep.CANCEL)
    ]


def refusals(connection: Connection, now: datetime) -> dict[str, RefusedSubmit]:
    """By lane, where the last submit was refused."""
    since = {"since": now - REFUSED_FOR}
    found: dict[str, tuple[RefusedSubmit, Any]] = {}
    for lane, launcher, cause, planned_at, at in connection.execute(REFUSALS, since).all():
        times = found[lane][0].times + 1 if lane in found else 1
        found[lane] = RefusedSubmit(launcher, cause or "", utc_from_driver(at), times), planned_at
    accepted = dict(connection.execute(ACCEPTED, since).all()) if found else {}
    return {
        lane: refusal
        for lane, (refusal, planned_at) in found.items()
        if lane not in accepted or accepted[lane] < planned_at
    }


# --- interrupt --------------------------------------------------------------------------------------------


class LiveSubmitted(NamedTuple):
    worker_id: str
    lane: str
    launcher: str
    external_id: str | None
    has_started: bool


def live_of_host(connection: Connection, host: str) -> list[LiveSubmitted]:
    """Those that the cycles of a host have submitted."""
    found = connection.execute(LIVE_OF_HOST, {"host": host}).all()
    return [
        LiveSubmitted(worker_id, lane, launcher, external_id, beat is not None)
        for worker_id, lane, launcher, external_id, beat in found
    ]


def request_stop(connection: Connection, host: str, now: datetime) -> list[LiveSubmitted]:
    """Those that have started stop by themselves, the others never start; returns all of them."""
    connection.execute(REQUEST_STOP, {"host": host, "now": now})
    found = live_of_host(connection, host)
    for each in found:
        if not each.has_started:
            close_unstarted(connection, each.worker_id, CANCELLED, "interrupted", now, EngineStep.CANCEL)
    return found
