"""kill -9 at random moments, fifteen times: all guarantees hold.

The moments are drawn from a seed that is printed with a failure: CHAOS_SEED=… repeats them.
"""

import os
import random
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest
from sqlalchemy import Row, insert

from mayfly import json_text
from mayfly.process.identity import start_time
from mayfly.schema import metadata as tables
from tests.process.installation import (
    Installation,
    StartedProcess,
    children_of,
    suspend,
    suspend_with_children,
    wait_until,
)
from tests.sqlalchemy_engines import run

KILLS = {"runner": 2, "runner in a job": 2, "dispatcher": 3, "both": 3}
BACKLOG = 30  # enough that a cycle still has work when it is killed
SETTINGS = {
    "WORKER_TIMEOUT": "6",
    "DISPATCH_TIMEOUT": "8",
    "MAX_WORKERS": "6",
    "HOST_MAX_WORKERS": "3",
    "BATCH_SIZE": "4",
    "BACKOFF_BASE": "0.05",
}
TABLE = "CREATE TABLE test_rows (job_id BIGINT)"  # without a key: a second row would be visible
TIMEOUT_SECONDS = 120.0


@dataclass
class Host:
    """A host whose cron starts the next cycle as soon as one has ended."""

    installation: Installation
    name: str
    killed_runners: set[str] = field(default_factory=set)  # directly, or with their dispatcher
    stderr: list[str] = field(default_factory=list)  # stderr of the cycles
    cycle: StartedProcess | None = None
    begun_before: int = 0

    def keep_running(self) -> StartedProcess:
        if self.cycle is not None and self.cycle.poll() is not None:
            self.wait_for_exit()
        if self.cycle is None:
            self.begun_before = self._cycles_begun()
            whoami = {"HOST_NAME": self.name, "LOG_DIR": self.name}
            self.cycle = self.installation.start("dispatcher", **SETTINGS, **whoami)
        return self.cycle

    @property
    def has_begun(self) -> bool:
        return self._cycles_begun() > self.begun_before

    def runners(self) -> list[psutil.Process]:
        try:
            children = children_of(self.keep_running().pid)
            return [each for each in children if each.status() != psutil.STATUS_ZOMBIE]
        except psutil.NoSuchProcess:
            return []

    def kill_runner(self, rng: random.Random, in_job: bool) -> bool:
        """False if none was left, or none was in the middle of a job."""
        alive = self.runners()
        rng.shuffle(alive)
        for victim in alive:
            with suppress(psutil.NoSuchProcess):
                suspend(victim.pid)
                if not in_job or self._runs_job(victim):
                    self.killed_runners.add(name_of(victim))
                    victim.kill()
                    return True
                victim.resume()
        return False

    def kill_dispatcher(self, with_runners: bool) -> bool:
        """False if it had already exited."""
        cycle = self.keep_running()
        if not self.has_begun:
            return False
        try:
            dispatcher, runners = suspend_with_children(cycle.pid)
            self.killed_runners |= {name_of(each) for each in runners}
            for each in [*runners, dispatcher] if with_runners else [dispatcher]:
                each.kill()
        except psutil.NoSuchProcess:
            return False
        self.wait_for_exit()
        return True

    def wait_for_exit(self) -> None:
        """Wait for the end of the cycle."""
        assert self.cycle is not None
        self.stderr.append(self.cycle.communicate(timeout=TIMEOUT_SECONDS)[1])
        self.cycle = None

    def _runs_job(self, runner: psutil.Process) -> bool:
        """Whether its handler has the file open to which it writes each run."""
        return str(self.installation.home / "runs") in {each.path for each in runner.open_files()}

    def _cycles_begun(self) -> int:
        log = self.installation.home / self.name / "dispatcher.log"
        return log.read_text().count("Dispatch cycle started") if log.exists() else 0


@dataclass
class Chaos:
    installation: Installation
    hosts: list[Host]
    rng: random.Random
    enqueued: int = 0
    kills: Mapping[str, int] = field(default_factory=lambda: KILLS)

    def kill_all(self) -> None:
        victims = [victim for victim, number in self.kills.items() for _ in range(number)]
        self.rng.shuffle(victims)
        while victims:
            if self._kill(victims[-1]):
                victims.pop()

    def settle_all(self) -> None:
        """Cycles until all jobs are settled, and then one more of each host."""

        def is_settled() -> bool:
            for host in self.hosts:
                host.keep_running()
                host.wait_for_exit()
            return self._has_ended()

        wait_until(is_settled, "everything done or dead", TIMEOUT_SECONDS)
        assert is_settled()

    def _has_ended(self) -> bool:
        return self.installation.statuses().keys() <= {"done", "dead"}

    def _kill(self, victim: str) -> bool:
        """False if there was nothing to kill."""
        host = self.rng.choice(self.hosts)
        if victim.startswith("runner"):
            wait_until(lambda: self._keep_running() and host.runners(), f"a runner of {host.name}", TIMEOUT_SECONDS)
            self._wait_for_run()
            self._pause(0.2)
            return host.kill_runner(self.rng, in_job=victim == "runner in a job")
        wait_until(lambda: self._keep_running() and host.has_begun, f"a cycle of {host.name}", TIMEOUT_SECONDS)
        self._wait_for_run()
        self._pause(0.6)
        return host.kill_dispatcher(with_runners=victim == "both")

    def _wait_for_run(self) -> None:
        """Half of the kills come after the start of a job: on a busy machine the others may all come before."""
        if self.rng.random() < 0.5:
            return
        before = self._runs_written()
        wait_until(
            lambda: self._keep_running() and self._runs_written() > before, "a job is started", TIMEOUT_SECONDS
        )

    def _runs_written(self) -> int:
        """By handlers, one line per run."""
        path = self.installation.home / "runs"
        return path.stat().st_size if path.exists() else 0

    def _pause(self, longest: float) -> None:
        """The random moment; the only wait here that is not for an event."""
        time.sleep(self.rng.uniform(0, longest))

    def _keep_running(self) -> bool:
        for host in self.hosts:
            host.keep_running()
        self._refill()
        return True

    def _refill(self) -> None:
        missing = BACKLOG - self.installation.statuses().get("pending", 0)
        if missing > 0:
            rows = [{"type": "locked_run", "payload": json_text.encode(self._payload())} for _ in range(missing)]
            run(self.installation.database, lambda connection: connection.execute(insert(tables.jobs), rows))
            self.enqueued += missing

    def _payload(self) -> dict[str, object]:
        """From a few milliseconds to a tenth of a second; less if a transaction is open.

        None is so short that its outcome would be kept in memory and written with others: of all jobs of a killed
        runner, only the last may be repeated.
        """
        if self.rng.random() < 0.5:
            return {"seconds": self.rng.uniform(0.007, 0.1)}
        return {"seconds": self.rng.uniform(0.007, 0.02), "insert": True}


@dataclass(frozen=True)
class Run:
    job_id: int
    claims: int
    runner: str
    alone: bool


@pytest.fixture
def chaos(installation: Installation) -> Chaos:
    """Two hosts on one database, and the seed."""
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(1 << 32))
    print(f"CHAOS_SEED={seed}")
    installation.execute(TABLE)
    return Chaos(installation, [Host(installation, "anna"), Host(installation, "bert")], random.Random(seed))


@pytest.mark.every_database
def test_kills_lose_nothing(chaos: Chaos, installation: Installation) -> None:
    """Each job is done once or dead by crashes, and each repeated run follows a kill."""
    chaos.kill_all()
    chaos.settle_all()

    jobs = installation.rows("SELECT * FROM mayfly_jobs")
    assert len(jobs) == chaos.enqueued
    for job in jobs:
        check_end(job)
    check_runs(installation, jobs, {name for host in chaos.hosts for name in host.killed_runners})
    check_rows(installation, jobs)
    check_nothing_left(installation)
    assert not [stderr for host in chaos.hosts for stderr in host.stderr if "Traceback" in stderr]
    assert not [host.name for host in chaos.hosts if "Traceback" in log_of(host)]


def check_end(job: Row[Any]) -> None:
    """A crash uses no attempt, and only the third one is final."""
    if job.status == "done":
        assert (job.attempts, job.crashes < 3) == (1, True), job
    else:
        assert (job.status, job.attempts, job.crashes) == ("dead", 0, 3), job
        assert job.last_error.startswith("crashed 3 times, last: the runner "), job


def check_runs(installation: Installation, jobs: Sequence[Row[Any]], killed_runners: set[str]) -> None:
    """A claim starts a job once, no two runs of a job overlap, and each repeated run was killed."""
    runs: dict[int, list[Run]] = defaultdict(list)
    last_of_runner: dict[str, Run] = {}
    for line in (installation.home / "runs").read_text().splitlines():
        job_id, number, runner, alone = line.split(maxsplit=3)
        run = Run(int(job_id), int(number), runner, alone == "alone")
        runs[run.job_id].append(run)
        last_of_runner[runner] = run
    for job in jobs:
        detail = f"{runs[job.id]}, interrupted {job.interruptions} times"
        claims = [run.claims for run in runs[job.id]]
        assert claims == sorted(set(claims)), f"a claim was started twice: {detail}"
        assert claims[-1] <= job.claims, detail
        assert all(run.alone for run in runs[job.id]), f"two runs overlapped: {detail}"
        killed = [run for run in runs[job.id] if run.runner in killed_runners and last_of_runner[run.runner] == run]
        attempts = max(job.attempts, 1)  # more than one if the handler has failed
        assert len(claims) <= attempts + len(killed) + job.interruptions, f"run again for no reason: {detail}"
    assert sum(job.crashes for job in jobs) > 0, "no kill has hit a job"


def check_rows(installation: Installation, jobs: Sequence[Row[Any]]) -> None:
    """One row per job done in its own transaction, and totals equal to the table."""
    inserted = Counter(row.job_id for row in installation.rows("SELECT job_id FROM test_rows"))
    assert inserted == {job.id: 1 for job in jobs if job.status == "done" and "insert" in job.payload}
    totals = installation.rows("SELECT outcome, SUM(jobs) AS jobs FROM mayfly_totals GROUP BY outcome")
    counted = {row.outcome: int(row.jobs) for row in totals if row.outcome in ("done", "dead")}
    assert counted == Counter(job.status for job in jobs)


def check_nothing_left(installation: Installation) -> None:
    """No open row of a runner, no lock, no process, no status page."""
    assert installation.rows("SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL") == []
    assert installation.rows("SELECT holder FROM mayfly_locks WHERE holder IS NOT NULL") == []
    assert installation.processes() == []
    assert list((installation.home / "state").rglob("*.page")) == []


def name_of(runner: psutil.Process) -> str:
    """A pid alone may be reused before the end of the test."""
    return f"{runner.pid}/{start_time(runner.pid)}"


def log_of(host: Host) -> str:
    return (host.installation.home / host.name / "dispatcher.log").read_text()
