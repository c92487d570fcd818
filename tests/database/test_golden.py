"""The statements as they are really sent, kept in tests/golden, one file a database, and reviewed like code.

UPDATE_GOLDEN=1 pytest tests/database/test_golden.py writes them anew.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from difflib import unified_diff
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.event import listen, remove

from mayfly.clock import milliseconds
from mayfly.engine import Database
from mayfly.fleet.cycles import add_up_totals, close_cycle, note_passed_over, open_cycle, passed_over_counts
from mayfly.fleet.planning import finish_planning, planning
from mayfly.fleet.runners import Ended, beat, close_runner, live_by_lane, live_on_host, live_runners
from mayfly.jobs.claim import has_due
from mayfly.jobs.count import count_due
from mayfly.jobs.enqueue import Door, NewJob, insert_job, insert_jobs
from mayfly.jobs.prune import Keep, prune
from mayfly.jobs.rescue import expired_jobs, held_jobs
from mayfly.jobs.settle import settle
from mayfly.jobs.settlement import Settlement
from mayfly.outcome import DONE, RELEASED, Kind, Outcome
from mayfly.schedules.fire import fire_due
from mayfly.schedules.parse import parse_line
from mayfly.schedules.store import pause, resume
from mayfly.schema import JOBS, schedules, totals
from mayfly.version import require_version
from tests.database.factories import change_job, claim_jobs, insert_runner, make_settler, rows_of
from tests.factories import insert_row, insert_rows

IDS = re.compile(r"IN \(\d[\d, ]*\)")  # written out in the statement, and others in every database
GOLDEN = Path(__file__).parents[1] / "golden"
KEYED = NewJob("noop", "{}", "default", 5, 1, unique_key="key")
PLAIN = NewJob("noop", "{}", "mail", 5, 1)
FAILED = Outcome(Kind.FAILED, error="no", fingerprint="f", attempt_ending=Kind.FAILED)


@pytest.mark.parametrize("engine_name", ["sqlite", "mariadb", "postgres"], indirect=True)
def test_the_statements_are_those_that_were_reviewed(database: Database, engine_name: str) -> None:
    """Whoever changes one sees here how it reads on each database."""
    path = GOLDEN / f"{engine_name}.sql"

    sent = "\n".join(chapters(database))

    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(sent)
    known = path.read_text() if path.exists() else ""
    difference = unified_diff(known.splitlines(), sent.splitlines(), str(path), "as sent now", lineterm="")
    assert sent == known, "\n".join(["UPDATE_GOLDEN=1 writes it anew", *difference])


def chapters(database: Database) -> Iterator[str]:
    """One a deed, each of them in the state that those before it have left."""
    now = database.clock.now()
    recording = Recording(database)
    yield recording.of("version", lambda: database.read(require_version))
    yield recording.of("enqueue", lambda: database.run(lambda c: insert_job(c, JOBS, PLAIN)))
    yield recording.of("enqueue with a key", lambda: database.run(lambda c: insert_job(c, JOBS, KEYED)))
    yield recording.of("enqueue with a key that is held", lambda: database.run(lambda c: insert_job(c, JOBS, KEYED)))
    yield recording.of("enqueue two", lambda: database.run(lambda c: insert_jobs(c, JOBS, [PLAIN, PLAIN])))
    yield recording.of("enqueue two with keys", lambda: database.run(lambda c: insert_jobs(c, JOBS, [KEYED, KEYED])))
    yield recording.of("count two lanes", lambda: database.read(lambda c: count_due(c, JOBS, database.clock.now())))
    insert_rows(database, 2)
    yield recording.of("claim", lambda: claim_jobs(database, 2))
    yield recording.of("look for more", lambda: database.read(lambda c: has_due(c, JOBS, "default", now)))
    yield recording.of("jobs of a runner", lambda: database.run(lambda c: held_jobs(c, JOBS, "default", "worker-1")))
    yield recording.of("expired jobs", lambda: database.run(lambda c: expired_jobs(c, JOBS, ["default"], now)))
    yield from settling(database, recording)
    yield from fleet(database, recording)
    yield from scheduling(database, recording)
    yield from cleaning(database, recording)


def settling(database: Database, recording: "Recording") -> Iterator[str]:
    settler = make_settler(cycle_id=milliseconds(database.clock.now()))
    outcomes = [DONE, DONE, FAILED, RELEASED]
    insert_rows(database, len(outcomes), lane="settled")
    batch = claim_jobs(database, len(outcomes), lane="settled")
    settlements = [Settlement(job, outcome, 1) for job, outcome in zip(batch, outcomes, strict=True)]
    yield recording.of("settle", lambda: settle(database, JOBS, settler, settlements, {}))


def fleet(database: Database, recording: "Recording") -> Iterator[str]:
    now = database.clock.now()
    [total, *_] = rows_of(database, totals)

    def plan() -> None:
        with planning(database, "host") as number:
            database.run(lambda c: finish_planning(c, number))

    def end() -> None:
        database.run(lambda c: close_runner(c, "worker-1", Ended("ok", exit_code=0), now))

    def close() -> None:
        database.run(lambda c: close_cycle(c, total.cycle_id, {"exit_code": 0}, now))

    yield recording.of("plan", plan)
    yield recording.of("open a cycle", lambda: database.run(lambda c: open_cycle(c, total.cycle_id, "host", now)))
    yield recording.of("plan a runner", lambda: insert_runner(database))
    yield recording.of("note lanes", lambda: database.run(lambda c: note_passed_over(c, {"served": 1}, ["waiting"])))
    yield recording.of("lanes passed over", lambda: database.read(passed_over_counts))
    yield recording.of("live runners", lambda: database.read(live_runners))
    yield recording.of("live by lane", lambda: database.read(live_by_lane))
    yield recording.of("live on host", lambda: database.read(lambda c: live_on_host(c, "here")))
    yield recording.of("beat", lambda: database.run(lambda c: beat(c, "worker-1", now)))
    yield recording.of("end of a runner", end)
    yield recording.of("add up", lambda: database.run(lambda c: add_up_totals(c, total.cycle_id)))
    yield recording.of("close a cycle", close)


def scheduling(database: Database, recording: "Recording") -> Iterator[str]:
    door, now = Door(1 << 16, 5), database.clock.now()
    entries = [parse_line(f"@yearly {line}") for line in ("a", "b", "c overlap=skip")]
    past = update(schedules).values(dealt_until=now - timedelta(days=400))
    yield recording.of("see schedules", lambda: fire_due(database, entries, door))
    database.run(lambda c: c.execute(past))
    yield recording.of("fire schedules", lambda: fire_due(database, entries, door))
    yield recording.of("no schedule due", lambda: fire_due(database, entries, door))
    yield recording.of("pause", lambda: database.run(lambda c: pause(c, entries[0], now, None, "ann", None)))
    yield recording.of("resume", lambda: database.run(lambda c: resume(c, "a", now)))


def cleaning(database: Database, recording: "Recording") -> Iterator[str]:
    """With one old job in one lane, so that the searches of the others are the same statements."""
    old = database.clock.now() - timedelta(days=400)
    for _ in range(2):
        change_job(database, insert_row(database, run_at=old), status="done", finished_at=old)
    yield recording.of("prune", lambda: prune(database, JOBS, Keep(dead=30)))


class Recording:
    """Writes down what a database is sent."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, deed: str, act: Callable[[], object]) -> str:
        with self._listening() as sent:
            act()
        lines = [f"-- {deed}"]
        for statement, equal in groupby(sent):
            times = len(list(equal))
            lines += [f"-- {times} times:"] if times > 1 else []
            lines += [line.rstrip() for line in statement.strip().splitlines()]
            lines[-1] += ";"
        return "\n".join([*lines, ""])

    @contextmanager
    def _listening(self) -> Iterator[list[str]]:
        sent: list[str] = []

        def keep(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if statement != "BEGIN":  # that of one who only reads on SQLite, before each and every SELECT
                sent.append(IDS.sub("IN (…)", statement))

        listen(self._database.engine, "before_cursor_execute", keep)
        yield sent
        remove(self._database.engine, "before_cursor_execute", keep)
