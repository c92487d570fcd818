"""Two releases of Mayfly side by side on one database, while it is migrated from the one to the other."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import func, select

from mayfly.schema.metadata import cycles, jobs, totals
from mayfly.schema.migrations import migrate
from mayfly.schema.tables import VERSION
from tests.databases import Databases
from tests.next_release import copy_source, number_after
from tests.process.installation import CHECKOUT, Installation, wait_until

BURST = 40  # jobs at once
MIN_PAUSE_SECONDS = 0.5  # between bursts: a cycle finds the lane empty, and ends


@pytest.fixture
def installation(engine_name: str, databases: Databases, tmp_path: Path) -> Iterator[Installation]:
    """With a database of its own, whose tables are changed."""
    with databases.fresh(engine_name, migrate) as url:
        made = Installation(tmp_path, url, {"HOST_NAME": "old"}, new_interpreters=True)
        yield made
        made.end()


@pytest.fixture
def next_release(installation: Installation, tmp_path: Path) -> Iterator[Installation]:
    """Another host with the same database and the next release."""
    source = copy_source(tmp_path / "next")
    settings = {"HOST_NAME": "new", "PYTHONPATH": f"{source}:{CHECKOUT}"}
    made = Installation(tmp_path, installation.url, settings, new_interpreters=True)
    yield made
    made.end()


@contextmanager
def running(work: Callable[[], object], pause_seconds: float = 0.0) -> Iterator[list[BaseException]]:
    """Repeat it in a thread while the block runs; yields what it has raised."""
    over, failures = threading.Event(), list[BaseException]()

    def repeat() -> None:
        try:
            while not over.wait(pause_seconds):
                work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield failures
    finally:
        over.set()
        thread.join()


def enqueue_burst(host: Installation) -> None:
    """Unless jobs of the last one are left: on a busy machine they would become more and more."""
    if host.statuses().keys() <= {"done"}:
        host.enqueue("sleep", '{"seconds": 0.01}', count=BURST)


def run_cycle(host: Installation) -> None:
    ran = host.dispatch()
    assert (ran.returncode, ran.stderr) == (0, "")


def cycles_of(host: Installation, name: str) -> int:
    """Those that have started runners."""
    return int(host.rows(select(func.count()).where(cycles.c.host == name, cycles.c.spawned > 0))[0][0])


@pytest.mark.parametrize(
    ("engine_name", "rounds"),
    [("mariadb", 1), ("mariadb", 15), ("postgres", 15)],
    indirect=["engine_name"],
)
@pytest.mark.slow
def test_hosts_of_two_releases_share_the_work_during_a_migration(
    installation: Installation, next_release: Installation, rounds: int
) -> None:
    """Under load: the old host runs before, during and after the migration, and the new one after it; no cycle fails,
    no job is lost, and none runs twice."""
    refused = next_release.dispatch()
    with (
        running(lambda: enqueue_burst(installation), MIN_PAUSE_SECONDS) as load,
        running(lambda: run_cycle(installation)) as old_host,
    ):
        wait_until(lambda: old_host or cycles_of(installation, "old") >= 1, "the old host works")

        migrated = next_release.run("mayfly", "migrate")

        with running(lambda: run_cycle(next_release)) as new_host:
            before = cycles_of(installation, "old")
            wait_until(
                lambda: old_host or new_host
                or (cycles_of(installation, "old") >= before + rounds and cycles_of(installation, "new") >= rounds),
                "both hosts work after the migration",
                seconds=60 + 20 * rounds,
            )  # fmt: skip
    for host in (installation, next_release):
        run_cycle(host)  # what is left: few jobs

    assert f"The database has schema version {VERSION}, this Mayfly needs {number_after(1)}. Run" in refused.stderr
    assert migrated.stdout == f"Migrated the schema from version {VERSION} to {number_after(1)}.\n"
    assert load == old_host == new_host == []
    assert installation.statuses().keys() == {"done"}
    done = select(func.sum(totals.c.jobs)).where(totals.c.outcome == "done")
    assert installation.rows(done) == [(installation.statuses()["done"],)]
    assert installation.rows(select(func.max(jobs.c.attempts))) == [(1,)]
    started = select(cycles.c.host, cycles.c.schema_version, func.sum(cycles.c.spawned) > 0)
    by_host = installation.rows(started.group_by(cycles.c.host, cycles.c.schema_version))
    assert {tuple(each) for each in by_host} == {("old", VERSION, True), ("new", number_after(1), True)}


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
def test_going_back_needs_no_migration(installation: Installation, next_release: Installation) -> None:
    """The older code runs jobs that the newer one has enqueued, and its own `mayfly migrate` succeeds."""
    next_release.run("mayfly", "migrate")
    next_release.run("mayfly", "enqueue", "noop")

    migrated = installation.run("mayfly", "migrate")
    run_cycle(installation)
    doctor = installation.run("mayfly", "doctor")

    assert migrated.stdout == f"The schema is up to date (version {number_after(1)}).\n"
    assert installation.statuses() == {"done": 1}
    assert f"version {number_after(1)}, newer than the {VERSION} of this code, which can use it" in doctor.stdout
