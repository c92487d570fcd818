"""What 62 schedules that are due in one minute cost its cycle: the same 62 jobs, fired by it or already there."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from scripts.benchmark.figures import Figure, Finding, Goal, alternately
from scripts.benchmark.lab import Lab
from scripts.benchmark.rows import Rows, insert_rows
from scripts.benchmark.stage import Failed, Stage

ENTRIES = 62
RUNS = 5
GOAL = Goal(at_most=50, of_ratio=False)
DEALT = "UPDATE mayfly_schedules SET dealt_until = :at"
DONE = "SELECT COUNT(*) FROM mayfly_jobs WHERE status = 'done'"


def measure(lab: Lab) -> Iterator[Finding]:
    with lab.stage() as firing, lab.stage() as plain:
        file = firing.home / "cron.d" / "schedule"
        file.parent.mkdir()
        file.write_text("".join(f"* * * * * nothing name=entry-{number}\n" for number in range(ENTRIES)))
        firing.dispatch()  # takes note of them
        lab.say(f"cycles that fire {ENTRIES} schedules, and cycles that need not")
        fired, given = alternately(lambda: _fired(firing), lambda: _given(plain), lab.times * RUNS)
    more = tuple(ours - theirs for ours, theirs in zip(fired, given, strict=True))
    yield Figure(f"cycle that fires {ENTRIES} schedules", "ms", tuple(fired), tuple(given))
    yield Figure(f"cycle that fires {ENTRIES} schedules: more than without", "ms", more, goal=GOAL)


def _fired(stage: Stage) -> float:
    _owe_a_minute(stage)
    for note in stage.home.glob("state/*/schedules"):
        note.unlink()  # it says that nothing is due
    return _cycle(stage)


def _owe_a_minute(stage: Stage) -> None:
    """By Mayfly's own connection: a time without a zone is one of the server's zone otherwise."""
    database = stage.database()
    at = database.clock.now().replace(second=0, microsecond=0) - timedelta(minutes=1)
    database.run(lambda connection: connection.execute(DEALT, {"at": at}))
    database.close()


def _given(stage: Stage) -> float:
    first_id = round(stage.value("SELECT MAX(id) FROM mayfly_jobs")) + 1
    with stage.connect() as connection:
        rows = Rows(first_id, ENTRIES, datetime.now(UTC) - timedelta(minutes=1))
        insert_rows(connection, stage.engine, rows)
    return _cycle(stage)


def _cycle(stage: Stage) -> float:
    """Milliseconds of a cycle in which 62 jobs are run, whoever has enqueued them."""
    done = stage.value(DONE)
    _ledgers, environment = stage.new_ledgers(ENTRIES)
    spent = stage.dispatch(environment)
    if stage.value(DONE) != done + ENTRIES:
        raise Failed(f"Not {ENTRIES} jobs were run, but {stage.value(DONE) - done:.0f}.")
    return spent.seconds * 1000
