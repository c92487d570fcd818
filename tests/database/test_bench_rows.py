"""The benchmarks' rows are jobs like any others, on every database."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from mayfly.engine import Database
from mayfly.jobs.claim import Claimant, claim, jobs_from
from mayfly.schema import DONE, JOBS
from scripts.benchmark import rows as filling
from scripts.benchmark.engines import ENGINES
from scripts.benchmark.rows import Rows, insert_rows
from tests.looking import run
from tests.tables import jobs

LONG_AGO = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("engine_name", sorted(ENGINES), indirect=True)
def test_rows_are_made_inside_the_database(
    engine_name: str, migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In slices, with the ids asked for, due a millisecond apart in their order; finished ones as if they had run."""
    monkeypatch.setattr(filling, "SLICE", 100)
    engine, database = ENGINES[engine_name], Database(migrated_url)
    said: list[int] = []

    def fill(connection):  # type: ignore[no-untyped-def]
        engine.empty(connection)
        insert_rows(connection, engine, Rows(11, 250, LONG_AGO, type_name="nothing"), said.append)
        insert_rows(connection, engine, Rows(261, 30, LONG_AGO, DONE))

    run(database, fill)
    now = database.clock.now()
    claimant = Claimant("bench", "default", now + timedelta(minutes=1))
    found = database.run(lambda connection: claim(connection, JOBS, claimant, 1000, now))
    taken = jobs_from(found, "default")
    finished = run(
        database,
        lambda connection: connection.execute(
            select(func.count(), func.min(jobs.c.finished_at), func.max(jobs.c.run_at)).where(jobs.c.status == DONE)
        ).one(),
    )
    database.close()

    assert said == [100, 200, 250]
    assert [each.id for each in taken] == list(range(11, 261))
    assert {(each.type, each.payload_text) for each in taken} == {("nothing", "{}")}
    assert taken[0].run_at == LONG_AGO + timedelta(milliseconds=1)
    assert taken[-1].run_at == LONG_AGO + timedelta(milliseconds=250)
    assert tuple(finished) == (30, LONG_AGO + timedelta(milliseconds=1), LONG_AGO + timedelta(milliseconds=30))
