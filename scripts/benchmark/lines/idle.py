"""The CPU time of a minute with nothing to do, against a script that imports the driver, connects and asks once."""

from collections.abc import Iterator

from scripts.benchmark.figures import Figure, Finding, alternately, at_most
from scripts.benchmark.lab import Lab
from scripts.benchmark.stage import Failed, Spent, Stage

CYCLES_PER_RUN = 10
LOOK = (
    "import {driver}; connection = {driver}.connect(**{address!r}); cursor = connection.cursor();"
    " cursor.execute('SELECT 1'); cursor.fetchone()"
)
GOALS = {"mariadb": at_most(2.5), "sqlite": at_most(2.5)}


def measure(lab: Lab) -> Iterator[Finding]:
    with lab.stage() as stage:
        idle(stage)  # the first cycle on a new database has something to do
        script = LOOK.format(driver=stage.engine.driver, address=dict(stage.engine.address(stage.url)))
        lab.say("idle cycles and bare scripts")
        ours, theirs = alternately(
            lambda: idle(stage).cpu_seconds * 1000,
            lambda: stage.run("-c", script).cpu_seconds * 1000,
            lab.times * CYCLES_PER_RUN,
        )
    yield Figure("idle cycle: CPU", "ms", tuple(ours), tuple(theirs), GOALS.get(lab.engine.name))


def idle(stage: Stage) -> Spent:
    """A cycle that must have nothing to do."""
    spent = stage.dispatch()
    if stage.value("SELECT COUNT(*) FROM mayfly_runners"):
        raise Failed("The cycle was not idle.")
    return spent
