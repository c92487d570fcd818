"""A million jobs behind a key that is used up: what they cost another lane, while they are put off and afterwards."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from mayfly.db.dialects import utc_from_driver
from scripts.benchmark.figures import Figure, Finding, alternately, at_most
from scripts.benchmark.lab import Lab
from scripts.benchmark.rows import Rows, insert_rows
from scripts.benchmark.stage import JOBS, Failed, Spent, Stage

BEHIND = 1_000_000
OTHERS = 20_000
NOTHING = at_most(1.3)  # a second's drain is never twice the same
SETTINGS = {"HANDLERS": f"{JOBS},scripts.benchmark.jobs.limited"}
LIMITED, ACCOUNT = "limited", '{"account": 42}'
WAITING = f"SELECT COUNT(*), COUNT(waiting_for) FROM mayfly_jobs WHERE lane = '{LIMITED}'"
LEFT = "SELECT COUNT(*) FROM mayfly_jobs WHERE lane = 'default' AND status <> 'done'"
SPAN = "SELECT MIN(locked_at), MAX(finished_at) FROM mayfly_jobs WHERE lane = 'default'"


def measure(lab: Lab) -> Iterator[Finding]:
    """While they are put off, once: that is a cycle or two. Afterwards in turns with a table without them."""
    behind, others = lab.scaled(BEHIND), lab.scaled(OTHERS, 100)
    with lab.stage() as crowded_stage, lab.stage() as bare_stage:
        crowded, bare = Lanes(lab, crowded_stage), Lanes(lab, bare_stage)
        for each in (crowded, bare):
            each.drain_others(others)  # the first is slower than all that follow
        alone = bare.drain_others(others)
        crowded.add(behind, limited=True)
        beside = crowded.drain_others(others)
        seconds = crowded.cycle_seconds + crowded.put_off_the_rest(behind)
        with_them, without = alternately(
            lambda: crowded.drain_others(others), lambda: bare.drain_others(others), lab.times
        )
    yield Figure(f"put off {behind:,} jobs behind one key", "jobs/s", (behind / seconds,))
    yield Figure(f"drain {others:,} jobs while {behind:,} are put off", "s", (beside,), (alone,), NOTHING)
    yield Figure(f"drain {others:,} jobs with {behind:,} put off", "s", tuple(with_them), tuple(without), NOTHING)


@dataclass
class Lanes:
    """Another lane, drained again and again, with or without the lane of those that must wait beside it."""

    lab: Lab
    stage: Stage
    next_id: int = 1
    cycle_seconds: float = 0.0  # of the last drain's cycles

    def add(self, count: int, limited: bool = False) -> None:
        first_at = datetime.now(UTC) - timedelta(hours=1, milliseconds=count)
        rows = Rows(self.next_id, count, first_at)
        if limited:
            rows = replace(rows, type_name=LIMITED, lane=LIMITED, payload=ACCOUNT)
        self.lab.say(f"filling {count:,} rows")
        with self.stage.connect() as connection:
            insert_rows(connection, self.stage.engine, rows, lambda _: self.lab.progress.tick())
        self.next_id = rows.next_id
        self.stage.rest()

    def drain_others(self, others: int) -> float:
        """From the first claim in the other lane to its last job's end, by the database's clock."""
        with self.stage.connect() as connection:
            connection.execute(text("DELETE FROM mayfly_jobs WHERE lane = 'default'"))
        self.add(others)
        self.lab.say(f"draining {others:,} jobs of another lane")
        self.cycle_seconds = self._dispatch(others).seconds
        while self.stage.value(LEFT):
            self.cycle_seconds += self._dispatch(others).seconds
        first, last = map(utc_from_driver, self.stage.rows(SPAN)[0])
        return (last - first).total_seconds()

    def put_off_the_rest(self, behind: int) -> float:
        """The seconds of the cycles that it took; all but the one that was let in wait."""
        seconds = 0.0
        while True:
            known, waiting = self.stage.rows(WAITING)[0]
            if waiting >= behind - 1:
                break
            self.lab.say(f"{waiting:,} of {behind:,} jobs put off")
            seconds += self._dispatch(0).seconds
        if (known, waiting) != (behind, behind - 1):
            raise Failed(f"Of {known} jobs {waiting} wait.")
        return seconds

    def _dispatch(self, others: int) -> Spent:
        _ledgers, environment = self.stage.new_ledgers(others)
        return self.stage.dispatch({**SETTINGS, **environment})
