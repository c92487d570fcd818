"""How long a claim of 100 due jobs takes with many delayed and finished ones around it, against a small table."""

from datetime import timedelta

from mayfly.clock import monotonic
from mayfly.engine import Database
from mayfly.jobs.claim import Claimant, claim
from mayfly.schema import JOBS
from scripts.benchmark.measure import Figure, alternately
from scripts.benchmark.rows import add_rows

DUE = 100
GOAL = 2.0
ROUNDS_PER_RUN = 20


def measure(engine: str, large_url: str, small_url: str, rows: int, times: int) -> Figure:
    """`rows` delayed and as many done ones around the due ones, against the due ones alone."""
    large, small = Database(large_url), Database(small_url)
    add_rows(large, rows, status="pending", age=timedelta(days=-1))
    add_rows(large, rows, status="done", age=timedelta(days=1))
    for database in (large, small):
        add_rows(database, DUE, status="pending", age=timedelta(minutes=1))
    ours, yardstick = alternately(lambda: seconds_of_claims(large), lambda: seconds_of_claims(small), times)
    for database in (large, small):
        database.close()
    name = f"claim {DUE} among {2 * rows:,} rows"
    return Figure(name, engine, "ms", _milli(ours), _milli(yardstick), f"<= {GOAL:g}", at_most=GOAL)


def seconds_of_claims(database: Database) -> float:
    """The mean of some claims, each rolled back: the next one finds the same rows."""
    now = database.clock.now()
    claimant = Claimant("bench", "default", now + timedelta(minutes=1))
    spent = 0.0
    for _ in range(ROUNDS_PER_RUN):
        with database.engine.connect() as connection:
            started = monotonic()
            taken = claim(connection, JOBS, claimant, DUE, now)
            spent += monotonic() - started
            connection.rollback()
        assert len(taken) == DUE
    return spent / ROUNDS_PER_RUN


def _milli(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(each * 1000 for each in values)
