"""What operators look at, on a table of ten million rows: every answer within a tenth of a second."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from mayfly import admin
from mayfly.admin import health
from mayfly.admin.filters import JobFilter
from mayfly.clock import milliseconds, monotonic
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.monitoring.alerts import detect
from mayfly.monitoring.metrics import read_metric_values
from mayfly.monitoring.prometheus import prometheus_text
from mayfly.registry import Registry
from mayfly.schema.tables import CANCELLED, DEAD, DONE, PENDING
from mayfly.settings import Settings, load
from scripts.benchmark.figures import Figure, Finding, Goal
from scripts.benchmark.lab import Lab
from scripts.benchmark.rows import Rows, insert_rows
from scripts.benchmark.stage import Stage

LARGE = 10_000_000
SHARES = {DONE: 0.8, DEAD: 0.05, CANCELLED: 0.05, PENDING: 0.1}
GROUPED = 0.01
FINGERPRINTS = 10
CYCLES, TYPES = 1440, 20
LOOKS_PER_RUN = 5
GOAL = Goal(at_most=100, of_ratio=False)

View = Callable[[Connection], object]


def measure(lab: Lab) -> Iterator[Finding]:
    rows = lab.scaled(LARGE)
    with lab.stage() as stage:
        fill(lab, stage, rows)
        database = stage.database()
        settings = load({"MAYFLY_HOME": str(stage.home), "LANES__DEFAULT__LATENCY_TARGET": "5m"}).settings
        for name, view in views(database, settings, rows).items():
            lab.say(f"{name} at {rows:,} rows")
            yield Figure(
                f"{name} at {rows:,} rows", "ms", timed(database, view, lab.times * LOOKS_PER_RUN), goal=GOAL
            )
        database.close()


def views(database: Database, settings: Settings, rows: int) -> Mapping[str, View]:
    now, registry = database.clock.now(), Registry()
    first = database.read(lambda connection: admin.list_jobs(connection, JobFilter(status=DEAD)))

    def jobs(which: JobFilter, words: str | None = None, after: str | None = None) -> View:
        return lambda connection: admin.list_jobs(connection, which, words, after=after)

    return {
        "status": lambda connection: admin.read_status(connection, settings, now),
        "newest jobs": jobs(JobFilter()),
        "jobs in the middle": jobs(JobFilter(), after=str(rows // 2)),
        "jobs of a lane": jobs(JobFilter(lane="default")),
        "dead jobs, second page": jobs(JobFilter(status=DEAD), after=first.next),
        "jobs of a group": jobs(JobFilter(group_key="campaign")),
        "jobs of a type that is not there": jobs(JobFilter(type="none")),
        "dead jobs of such a type": jobs(JobFilter(status=DEAD, type="none")),
        "jobs by error": jobs(JobFilter(error="error-1")),
        "jobs by text that is not there": jobs(JobFilter(), "nowhere"),
        "jobs older than a year": jobs(JobFilter(created_before=now - timedelta(days=365))),
        "one job": lambda connection: admin.read_job(connection, rows // 2, settings, registry, now),
        "dead by error": lambda connection: admin.list_dead(connection),
        "cycles": admin.list_cycles,
        "runners": admin.list_runners,
        "audit": admin.list_audit,
        "metrics": lambda connection: prometheus_text(read_metric_values(connection, settings, now)),
        "health": lambda connection: health.read_snapshot(connection, settings, now),
        "looks for alerts": lambda connection: detect(connection, settings, now),
    }


def timed(database: Database, view: View, times: int) -> tuple[float, ...]:
    """Milliseconds of each look; the first is not counted."""
    database.read(view)
    found = []
    for _ in range(times):
        started = monotonic()
        database.read(view)
        found.append((monotonic() - started) * 1000)
    return tuple(found)


def fill(lab: Lab, stage: Stage, rows: int) -> None:
    """Finished jobs of the last days, half of the pending ones due, and what belongs to them in other tables."""
    now, next_id = datetime.now(UTC), 1
    for status, share in SHARES.items():
        count = int(rows * share)
        span = timedelta(milliseconds=count)
        first_at = now - span / 2 if status == PENDING else now - timedelta(days=3) - span

        def said(done: int, status: str = status) -> None:
            lab.say(f"filling {done:,} {status} rows")

        new = Rows(next_id, count, first_at, status)
        with stage.connect() as connection:
            insert_rows(connection, stage.engine, new, said)
        next_id = new.next_id
    lab.say("filling what belongs to them")
    with stage.connect() as connection:
        for statement in (*_attempts(rows), _group(rows), *_history(stage, now)):
            connection.execute(text(statement))
    stage.rest()


def _attempts(rows: int) -> Iterator[str]:
    """Of each dead job one."""
    first, dead = int(rows * SHARES[DONE]) + 1, int(rows * SHARES[DEAD])
    columns = "job_id, attempt, worker_id, outcome, error, fingerprint, finished_at"
    for begin in range(first, first + dead, 100_000):
        end = min(begin + 100_000, first + dead)
        for number in range(FINGERPRINTS):
            values = f"id, 1, 'worker-1700000000000-1', 'failed', 'ValueError: no', 'error-{number}', finished_at"
            where = f"id >= {begin} AND id < {end} AND id % {FINGERPRINTS} = {number}"
            yield f"INSERT INTO mayfly_attempts ({columns}) SELECT {values} FROM mayfly_jobs WHERE {where}"


def _group(rows: int) -> str:
    return f"UPDATE mayfly_jobs SET group_key = 'campaign' WHERE id <= {max(1, int(rows * GROUPED))}"


def _history(stage: Stage, now: datetime) -> Iterator[str]:
    """A day of cycles with totals, and as many runners and deeds."""
    first = milliseconds(now) - CYCLES * 60_000
    minutes, at = stage.engine.numbers(1, CYCLES), stage.engine.moment(now - timedelta(days=1))
    yield f"INSERT INTO mayfly_cycles (id, host, started_at) SELECT {first} + n * 60000, 'host', {at} FROM {minutes}"
    deed = f"{at}, 'ann', 'terminal', 'retry', 'type=nothing', 7"
    yield f"INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs) SELECT {deed} FROM {minutes}"
    columns = "worker_id, cycle_id, lane, host, machine, pid, pid_started, planned_at, lease_until, finished_at"
    runner = f"CAST(n AS CHAR(9)), {first} + n * 60000, 'default', 'host', 'm', 1, 1, {at}, {at}, {at}"
    yield f"INSERT INTO mayfly_runners ({columns}) SELECT {runner} FROM {minutes}"
    columns = "cycle_id, lane, type, outcome, worker_id, jobs, durations, waits"
    for number in range(TYPES):
        total = f"{first} + n * 60000, 'default', 'type-{number}', 'done', '', 1000, '{{}}', '{{}}'"
        yield f"INSERT INTO mayfly_totals ({columns}) SELECT {total} FROM {minutes}"
