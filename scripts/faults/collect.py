"""Collect the evidence after a run: from the database, the files of the history and the hosts."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mayfly.db.database import Database
from mayfly.limits.client import SlotLedger
from mayfly.limits.limit import LimitKey, concurrency
from mayfly.limits.store import LimitHolder
from scripts.faults.database import TortureDatabase
from scripts.faults.evidence import Bounds, Change, CycleRow, Evidence, JobState, RunnerChange, RunnerRow
from scripts.faults.history import read_history
from scripts.faults.hosts import HOST_MAX_WORKERS, MAX_WORKERS, Host
from scripts.faults.jobs import LIMIT, LIMIT_KEY

JOBS = "SELECT id, type, payload, status, max_attempts, group_key FROM mayfly_jobs"
AUDIT = (
    "SELECT at, job_id, old_status, new_status, old_claims, new_claims, interrupted, attempts, max_attempts,"
    " worker_id, run_at FROM torture_audit ORDER BY at, id"
)
RUNNERS = (
    "SELECT worker_id, cycle_id, lane, host, pid, planned_at, lease_until, finished_at, ending, exit_code,"
    " {signal} FROM mayfly_runners"
)
CYCLES = "SELECT id, host, started_at, finished_at, exit_code, note FROM mayfly_cycles"
TOTALS = (
    "SELECT type, outcome, SUM(jobs) FROM (SELECT type, outcome, jobs FROM mayfly_counters"
    " UNION ALL SELECT type, outcome, jobs FROM mayfly_totals WHERE worker_id > '') AS counted GROUP BY type, outcome"
)
ATTEMPTS = "SELECT DISTINCT worker_id, outcome FROM mayfly_attempts"
OPEN_RUNNERS = "SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL"


def collect(database: TortureDatabase, hosts: Sequence[Host], history: Path) -> Evidence:
    seconds = _converter()
    attempts = database.rows(ATTEMPTS)
    signal = "`signal`" if database.engine_name == "mariadb" else "signal"
    return Evidence(
        bounds=_bounds(hosts[0]),
        history=read_history(history),
        jobs=[_job(*row) for row in database.rows(JOBS)],
        audit=[_change(seconds, row) for row in database.rows(AUDIT)],
        ledger=Counter(row[0] for row in database.rows("SELECT job_id FROM torture_ledger")),
        totals={(type_name, outcome): int(jobs) for type_name, outcome, jobs in database.rows(TOTALS)},
        runners=[_runner(seconds, *row) for row in database.rows(RUNNERS.format(signal=signal))],
        runner_audit=[
            RunnerChange(seconds(at), worker_id, bool(is_open))
            for at, worker_id, is_open in database.rows("SELECT at, worker_id, is_open FROM torture_runners")
        ],
        timed_out=frozenset(worker_id for worker_id, outcome in attempts if outcome == "timed out"),
        crashed=frozenset(worker_id for worker_id, outcome in attempts if outcome == "crashed"),
        cycles=[
            CycleRow(number, host, seconds(started_at), finished_at and seconds(finished_at), code, note)
            for number, host, started_at, finished_at, code, note in database.rows(CYCLES)
        ],
        exits=[each for host in hosts for each in host.exits],
        free_slots=_free_slots(database.url),
        leftovers=list(_leftovers(database, hosts)),
    )


def _bounds(host: Host) -> Bounds:
    return Bounds(
        limit=LIMIT,
        lane_workers=MAX_WORKERS,
        host_workers=HOST_MAX_WORKERS,
        worker_timeout=host.pace.worker_timeout,
        dispatch_timeout=host.pace.dispatch_timeout,
        cycle_seconds=host.pace.max_cycle_seconds,
        aftermath_seconds=2 * host.pace.lease_seconds,
    )


def _free_slots(url: str) -> int:
    """Acquire the whole limit, as a runner with that many jobs would."""
    database = Database(url)
    now = database.clock.now()
    ledger = SlotLedger(LimitHolder("torture", now + timedelta(seconds=1)))
    request = (LimitKey(LIMIT_KEY, concurrency(LIMIT_KEY, LIMIT)),)
    refusals = ledger.acquire(database, [request] * LIMIT)
    ledger.release([request] * LIMIT)
    ledger.flush(database)
    database.close()
    return refusals.count(None)


def _leftovers(database: TortureDatabase, hosts: Sequence[Host]) -> Iterator[str]:
    for host in hosts:
        yield from (f"process {each.pid} on {host.name}" for each in host.processes())
        yield from (f"file {path.name} on {host.name}" for path in (host.home / "state").rglob("*.page"))
    for (worker_id,) in database.rows(OPEN_RUNNERS):
        yield f"open row of runner {worker_id}"
    if sessions := database.sessions():
        yield f"{sessions} sessions in the database"


def _converter() -> Callable[[Any], float]:
    """Converts times of the database to CLOCK_MONOTONIC: it runs on this machine, whose own clock is not stepped."""
    offset = time.time() - time.monotonic()

    def seconds(value: Any) -> float:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
        aware = found.replace(tzinfo=UTC) if found.tzinfo is None else found
        return float(aware.timestamp() - offset)

    return seconds


def _job(
    job_id: int, type_name: str, payload: Any, status: str, max_attempts: int, group_key: str | None
) -> JobState:  # fmt: skip
    loaded = payload if isinstance(payload, dict) else json.loads(payload)
    schedule = group_key if (group_key or "").startswith("schedule:") else None
    return JobState(job_id, type_name, loaded.get("key"), status, max_attempts, schedule)


def _change(seconds: Callable[[Any], float], row: Sequence[Any]) -> Change:
    at, *others, run_at = row
    return Change._make([seconds(at), *others, seconds(run_at)])


def _runner(
    seconds: Callable[[Any], float], worker_id: str, cycle_id: int, lane: str, host: str, pid: int, planned_at: Any,
    lease_until: Any, finished_at: Any, *end: Any,
) -> RunnerRow:  # fmt: skip
    times = seconds(planned_at), seconds(lease_until), finished_at and seconds(finished_at)
    return RunnerRow(worker_id, cycle_id, lane, host, pid, *times, *end)
