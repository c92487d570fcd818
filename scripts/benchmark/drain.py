"""Drain a lane of no-op jobs with default settings, against a bare five-process loop on the same table."""

from datetime import timedelta

from scripts.benchmark.measure import Figure, alternately
from scripts.benchmark.rows import add_rows
from scripts.benchmark.stage import Stage

PROCESSES = 5
GOALS = {"sqlite": 0.7, "mariadb": 0.85, "postgres": 0.85}
BATCHES = {"sqlite": 1000, "mariadb": 1000, "postgres": 100}  # the best of each, see the design's limits


def measure(stage: Stage, rows: int, times: int) -> Figure:
    return _measure(stage, rows, times, "nothing", "batch", GOALS[stage.engine], f"drain {rows:,} jobs")


def measure_each(stage: Stage, rows: int, times: int) -> Figure:
    """Every outcome committed before the next job starts."""
    return _measure(stage, rows, times, "nothing_each", "each", 0.85, f'drain {rows:,} jobs, ack="each"')


def _measure(stage: Stage, rows: int, times: int, type_name: str, mode: str, goal: float, name: str) -> Figure:
    ours, yardstick = alternately(
        lambda: _mayfly(stage, rows, type_name), lambda: _bare(stage, rows, type_name, mode), times
    )
    return Figure(name, stage.engine, "jobs/s", ours, yardstick, f">= {goal:g}", at_least=goal)


def _mayfly(stage: Stage, rows: int, type_name: str) -> float:
    """The whole life of `python -m dispatcher`; cycles follow each other until all is drained."""
    _fill(stage, rows, type_name)
    seconds = 0.0
    while stage.value("SELECT COUNT(*) FROM mayfly_jobs WHERE status <> 'done'"):
        seconds += stage.dispatch().seconds
    _verify(stage, rows)
    return rows / seconds


def _bare(stage: Stage, rows: int, type_name: str, mode: str) -> float:
    _fill(stage, rows, type_name)
    spent = stage.run("-m", "scripts.benchmark.bare", str(PROCESSES), str(BATCHES[stage.engine]), mode)
    assert stage.value("SELECT COUNT(*) FROM mayfly_jobs WHERE status = 'done' AND claims = 1") == rows
    return rows / spent.seconds


def _fill(stage: Stage, rows: int, type_name: str) -> None:
    stage.clear()
    database = stage.database()
    add_rows(database, rows, status="pending", age=timedelta(hours=1), type_name=type_name)
    database.close()


def _verify(stage: Stage, rows: int) -> None:
    """Every job ran exactly once: by the table, and by what the runners counted on their pages."""
    assert stage.value("SELECT COUNT(*) FROM mayfly_jobs WHERE status = 'done' AND claims = 1") == rows
    assert stage.value("SELECT SUM(jobs_done) FROM mayfly_runners") == rows
