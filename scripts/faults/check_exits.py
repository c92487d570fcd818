"""Exit codes: 0 success, 1 error, 2 timeout, and a signal only from the nemesis. Pure: evidence in, violations out.

Each code is compared with the rows of the process and with the history of faults.
"""

from collections import defaultdict
from collections.abc import Iterator

from mayfly.process import exits
from scripts.faults.evidence import DATABASE_FAULTS, CycleRow, DispatcherExit, Evidence, RunnerRow

KILLED = -9
ENDING_CODES = {"ok": exits.SUCCESS, "error": exits.ERROR}
# Another host or a later cycle has closed the row: what its dispatcher observed is unknown.
UNSEEN = ("lost", None)
MARGIN_SECONDS = 1.0
TOO_SLOW = "did not answer in time"


def exit_codes_of_runners_fit(evidence: Evidence) -> Iterator[str]:
    interrupted = {each.worker_id for each in evidence.audit if each.interrupted > 0} | evidence.timed_out
    for row in evidence.runners:
        name = f"runner {row.worker_id} on {row.host}"
        if row.ending in ENDING_CODES and (row.exit_code, row.signal) != (ENDING_CODES[row.ending], None):
            yield f"{name} is {row.ending} with code {row.exit_code} and signal {row.signal}"
        if row.ending == "ok" and row.worker_id in evidence.timed_out | evidence.crashed:
            yield f"{name} exited with 0, but one of its jobs timed out or crashed"
        if row.ending == "error" and not _has_database_fault(evidence, row.planned_at, row.finished_at, row.host):
            yield f"{name} exited with 1 without a fault of the database"
        if row.ending == "timeout" and row.exit_code == exits.TIMEOUT and row.worker_id not in interrupted:
            yield f"{name} exited with 2, but none of its jobs was interrupted"
        if row.ending == "crash" and not _was_killed(evidence, row):
            yield f"{name} crashed (code {row.exit_code}, signal {row.signal}), but was not killed"
        if row.ending == "timeout" and row.signal is not None and not _reached_its_deadline(evidence, row):
            yield f"{name} was killed by signal {row.signal} before its deadline"
        if row.ending == "lost" and not (
            evidence.faults_between(row.planned_at, row.finished_at or 0, row.host)
            or _ran_out_of_time_at(evidence, row.host, row.planned_at)
        ):
            yield f"{name} was lost without a fault on its host"


def exit_codes_of_cycles_fit(evidence: Evidence) -> Iterator[str]:
    """Compares the row of a cycle with those of its runners."""
    runners = defaultdict(list)
    for row in evidence.runners:
        runners[row.cycle_id].append(row.ending)
    for cycle in evidence.cycles:
        name, endings = f"cycle {cycle.id} on {cycle.host}", runners[cycle.id]
        if cycle.finished_at is None:
            if not evidence.faults_between(cycle.started_at, cycle.started_at + _longest(evidence), cycle.host):
                yield f"{name} has no recorded end, but there was no fault"
        elif cycle.exit_code not in _fitting_codes(evidence, cycle, endings):
            yield f"{name} ended with {cycle.exit_code}; its runners: {sorted(map(str, endings))}, note: {cycle.note}"
        elif cycle.note is not None and not (
            _has_database_fault(evidence, cycle.started_at, cycle.finished_at, cycle.host)
            or (TOO_SLOW in cycle.note and _ran_out_of_time_at(evidence, cycle.host, cycle.started_at))
        ):
            yield f"{name} failed without a fault of the database: {cycle.note}"


def exit_codes_of_dispatchers_fit(evidence: Evidence) -> Iterator[str]:
    """Compares the process with the row that it wrote. Without a row it was skipped, or could not write it."""
    killed = {event["process"] for event in evidence.signals("SIGKILL")}
    for each in evidence.exits:
        name, rows = f"dispatcher {each.pid} on {each.host}", _rows_of(evidence, each)
        codes = {row.exit_code for row in rows if row.finished_at is not None}
        if each.exit_code == KILLED and each.pid not in killed:
            yield f"{name} was killed, but not by the nemesis"
        elif each.exit_code not in (KILLED, exits.SUCCESS, exits.ERROR, exits.TIMEOUT):
            yield f"{name} exited with {each.exit_code}"
        elif each.exit_code == exits.ERROR and exits.ERROR not in codes and not _ran_out_of_time(evidence, each):
            if not _has_database_fault(evidence, each.started_at, each.ended_at, each.host):
                yield f"{name} exited with 1 without a failed cycle or a fault of the database"
        elif each.exit_code == exits.TIMEOUT and not codes & {exits.TIMEOUT}:
            unwritten = _has_database_fault(evidence, each.started_at, each.ended_at, each.host)
            if codes or not unwritten:
                yield f"{name} exited with 2; its cycle: {sorted(map(str, codes))}"
    for row in evidence.cycles:
        candidates = _dispatchers_at(evidence, row.host, row.started_at)
        if row.finished_at is not None and row.exit_code not in {each.exit_code for each in candidates}:
            if any(each.exit_code == KILLED for each in candidates):
                continue  # killed after it had written its row
            found = [each.exit_code for each in candidates]
            yield f"cycle {row.id} on {row.host} has {row.exit_code}; the processes of that time exited with {found}"


def _fitting_codes(evidence: Evidence, cycle: CycleRow, endings: list[str | None]) -> set[int]:
    """An error takes precedence over a timeout. If the dispatcher may have seen another ending, any code fits."""
    if cycle.note is not None or {"error", "crash"} & set(endings):
        return {exits.ERROR}
    if set(UNSEEN) & set(endings):
        return {exits.SUCCESS, exits.ERROR, exits.TIMEOUT}
    if "timeout" in endings:
        return {exits.TIMEOUT}
    assert cycle.finished_at is not None
    reached_guard = cycle.finished_at - cycle.started_at >= evidence.bounds.worker_timeout
    return {exits.SUCCESS, exits.TIMEOUT} if reached_guard and endings else {exits.SUCCESS}


def _rows_of(evidence: Evidence, process: DispatcherExit) -> list[CycleRow]:
    """More than one only if it overlaps with another process of its host; then one of them was skipped."""
    return [each for each in evidence.cycles if each.host == process.host and process.lived_at(each.started_at)]


def _was_killed(evidence: Evidence, row: RunnerRow) -> bool:
    """Its process was killed; or, before its first claim, a process of its dispatcher, whose pid its row has then."""
    ended_at = row.finished_at if row.finished_at is not None else row.lease_until
    during = [each for each in evidence.signals("SIGKILL") if row.planned_at - MARGIN_SECONDS <= each.at <= ended_at]
    dispatchers = {each.pid for each in evidence.exits if each.host == row.host}
    return any(each["process"] == row.pid or row.pid in dispatchers for each in during)


def _reached_its_deadline(evidence: Evidence, row: RunnerRow) -> bool:
    """Counted from the start of the process that planned it; on a busy machine that is seconds before the plan."""
    started_at = min((each.started_at for each in _dispatchers_at(evidence, row.host, row.planned_at)), default=0.0)
    ended_at = row.finished_at if row.finished_at is not None else row.lease_until
    return ended_at - started_at >= evidence.bounds.worker_timeout - MARGIN_SECONDS


def _dispatchers_at(evidence: Evidence, host: str, at: float) -> list[DispatcherExit]:
    return [each for each in evidence.exits if each.host == host and each.lived_at(at)]


def _ran_out_of_time(evidence: Evidence, process: DispatcherExit) -> bool:
    """The machine was so busy that a statement had not ended by DISPATCH_TIMEOUT; the cycle may have no row then."""
    lived = process.ended_at - process.started_at
    return process.exit_code == exits.ERROR and lived >= evidence.bounds.dispatch_timeout


def _ran_out_of_time_at(evidence: Evidence, host: str, at: float) -> bool:
    return any(_ran_out_of_time(evidence, each) for each in _dispatchers_at(evidence, host, at))


def _has_database_fault(evidence: Evidence, begin: float, end: float | None, host: str) -> bool:
    return evidence.faults_between(
        begin, end if end is not None else begin + _longest(evidence), host, DATABASE_FAULTS
    )


def _longest(evidence: Evidence) -> float:
    return evidence.bounds.cycle_seconds
