"""kill -9 at random moments, fifteen times over: what is promised holds all the same.

The moments are drawn from a seed that is printed with a failure: CHAOS_SEED=… draws them again.
"""

import os
import random
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest
from sqlalchemy import Row, insert

from mayfly import json_text
from mayfly.process.identity import start_time
from mayfly.schema import metadata as tables
from tests.process.installation import Installation, StartedProcess, wait_until
from tests.sqlalchemy_engines import run

KILLS = {"runner": 5, "dispatcher": 5, "both": 5}
BACKLOG = 30  # so that a cycle still has something to do when it is killed
SETTINGS = {
    "WORKER_TIMEOUT": "6",
    "DISPATCH_TIMEOUT": "8",
    "MAX_WORKERS": "6",
    "HOST_MAX_WORKERS": "3",
    "BATCH_SIZE": "4",
    "BACKOFF_BASE": "0.05",
}
LEDGER = "CREATE TABLE test_ledger (job_id BIGINT)"  # without a key: a second row would be seen
PATIENCE_SECONDS = 120.0


@dataclass
class Host:
    """A host whose cron starts the next cycle as soon as one has ended."""

    installation: Installation
    name: str
    doomed: set[str] = field(default_factory=set)  # runners that were killed, or whose dispatcher was
    said: list[str] = field(default_factory=list)  # by cycles, on stderr
    cycle: StartedProcess | None = None
    begun_before: int = 0

    def tend(self) -> StartedProcess:
        if self.cycle is not None and self.cycle.poll() is not None:
            self.bury()
        if self.cycle is None:
            self.begun_before = self._begun()
            whoami = {"HOST_NAME": self.name, "LOG_DIR": self.name}
            self.cycle = self.installation.start("dispatcher", **SETTINGS, **whoami)
        return self.cycle

    @property
    def has_begun(self) -> bool:
        return self._begun() > self.begun_before

    def runners(self) -> list[psutil.Process]:
        try:
            children = psutil.Process(self.tend().pid).children()
            return [each for each in children if each.status() != psutil.STATUS_ZOMBIE]
        except psutil.NoSuchProcess:
            return []

    def kill_runner(self, chance: random.Random) -> bool:
        """False if none was left."""
        alive = self.runners()
        if not alive:
            return False
        victim = chance.choice(alive)
        try:
            self.doomed.add(name_of(victim))
            victim.kill()
        except psutil.NoSuchProcess:
            return False
        return True

    def kill_dispatcher(self, with_runners: bool) -> bool:
        """False if it had ended by itself."""
        cycle = self.tend()
        if not self.has_begun:
            return False
        try:
            dispatcher = psutil.Process(cycle.pid)
            dispatcher.suspend()  # or it might fork one more between the look and the kill
            runners = dispatcher.children()
            self.doomed |= {name_of(each) for each in runners}
            for each in [*runners, dispatcher] if with_runners else [dispatcher]:
                each.kill()
        except psutil.NoSuchProcess:
            return False
        self.bury()
        return True

    def bury(self) -> None:
        """Wait for the cycle's end."""
        assert self.cycle is not None
        self.said.append(self.cycle.communicate(timeout=PATIENCE_SECONDS)[1])
        self.cycle = None

    def _begun(self) -> int:
        log = self.installation.home / self.name / "dispatcher.log"
        return log.read_text().count("Dispatch cycle started") if log.exists() else 0


@dataclass
class Chaos:
    installation: Installation
    hosts: list[Host]
    chance: random.Random
    enqueued: int = 0

    def kill_all(self) -> None:
        victims = [victim for victim, number in KILLS.items() for _ in range(number)]
        self.chance.shuffle(victims)
        while victims:
            if self._kill(victims[-1]):
                victims.pop()

    def calm_down(self) -> None:
        """Cycles until all is settled, and then one more of each host."""

        def is_calm() -> bool:
            for host in self.hosts:
                host.tend()
                host.bury()
            return self.installation.statuses().keys() <= {"done", "dead"}

        wait_until(is_calm, "everything done or dead", PATIENCE_SECONDS)
        assert is_calm()

    def _kill(self, victim: str) -> bool:
        """False if it came too late."""
        host = self.chance.choice(self.hosts)
        if victim == "runner":
            wait_until(lambda: self._tend() and host.runners(), f"a runner of {host.name}", PATIENCE_SECONDS)
            self._await_run()
            self._pause(0.2)
            return host.kill_runner(self.chance)
        wait_until(lambda: self._tend() and host.has_begun, f"a cycle of {host.name}", PATIENCE_SECONDS)
        self._await_run()
        self._pause(0.6)
        return host.kill_dispatcher(with_runners=victim == "both")

    def _await_run(self) -> None:
        """Half of the kills come after the start of a job: on a busy machine the others may all come before."""
        if self.chance.random() < 0.5:
            return
        before = self._written()
        wait_until(lambda: self._tend() and self._written() > before, "a job is started", PATIENCE_SECONDS)

    def _written(self) -> int:
        """By handlers, one line for each run."""
        path = self.installation.home / "runs"
        return path.stat().st_size if path.exists() else 0

    def _pause(self, longest: float) -> None:
        """The random moment, and the only wait here that is not for an event."""
        time.sleep(self.chance.uniform(0, longest))

    def _tend(self) -> bool:
        for host in self.hosts:
            host.tend()
        missing = BACKLOG - self.installation.statuses().get("pending", 0)
        if missing > 0:
            rows = [{"type": "witnessed", "payload": json_text.encode(self._payload())} for _ in range(missing)]
            run(self.installation.database, lambda connection: connection.execute(insert(tables.jobs), rows))
            self.enqueued += missing
        return True

    def _payload(self) -> dict[str, object]:
        """From a few milliseconds to a tenth of a second; less where a transaction is open all the while.

        None is so short that its outcome would be kept for a while to be written with others: of all that a killed
        runner ran, only the last may be repeated.
        """
        if self.chance.random() < 0.5:
            return {"seconds": self.chance.uniform(0.007, 0.1)}
        return {"seconds": self.chance.uniform(0.007, 0.02), "booked": True}


@dataclass(frozen=True)
class Run:
    job_id: int
    claims: int
    runner: str
    alone: bool


@pytest.fixture
def chaos(installation: Installation) -> Chaos:
    """Two hosts on one database, and the seed of all that will happen to them."""
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(1 << 32))
    print(f"CHAOS_SEED={seed}")
    installation.execute(LEDGER)
    return Chaos(installation, [Host(installation, "anna"), Host(installation, "bert")], random.Random(seed))


@pytest.mark.every_database
def test_nothing_is_lost_by_kills(chaos: Chaos, installation: Installation) -> None:
    """Whatever is killed whenever: each job is done once or dead by crashes, and each repeated run was a kill's."""
    chaos.kill_all()
    chaos.calm_down()

    jobs = installation.rows("SELECT * FROM mayfly_jobs")
    assert len(jobs) == chaos.enqueued
    for job in jobs:
        check_end(job)
    check_runs(installation, jobs, {name for host in chaos.hosts for name in host.doomed})
    check_books(installation, jobs)
    check_nothing_left(installation)
    assert not [said for host in chaos.hosts for said in host.said if "Traceback" in said]
    assert not [host.name for host in chaos.hosts if "Traceback" in log_of(host)]


def check_end(job: Row[Any]) -> None:
    """A crash spends no attempt, and only the third one is the end."""
    if job.status == "done":
        assert (job.attempts, job.crashes < 3) == (1, True), job
    else:
        assert (job.status, job.attempts, job.crashes) == ("dead", 0, 3), job
        assert job.last_error.startswith("crashed 3 times, at last: the runner "), job


def check_runs(installation: Installation, jobs: Sequence[Row[Any]], doomed: set[str]) -> None:
    """One claim is started once, no two runs of a job were alive together, and each that was repeated was killed."""
    runs: dict[int, list[Run]] = defaultdict(list)
    last_of_runner: dict[str, Run] = {}
    for line in (installation.home / "runs").read_text().splitlines():
        job_id, number, runner, alone = line.split(maxsplit=3)
        run = Run(int(job_id), int(number), runner, alone == "alone")
        runs[run.job_id].append(run)
        last_of_runner[runner] = run
    for job in jobs:
        told = f"{runs[job.id]}, interrupted {job.interruptions} times"
        claims = [run.claims for run in runs[job.id]]
        assert claims == sorted(set(claims)), f"a claim was started twice: {told}"
        assert claims[-1] <= job.claims, told
        assert all(run.alone for run in runs[job.id]), f"two runs overlapped: {told}"
        killed = [run for run in runs[job.id] if run.runner in doomed and last_of_runner[run.runner] == run]
        assert len(claims) <= 1 + len(killed) + job.interruptions, f"run again for no reason: {told}"
    assert sum(job.crashes for job in jobs) > 0, "no kill has hit a job"


def check_books(installation: Installation, jobs: Sequence[Row[Any]]) -> None:
    """One row for each job that is done in its own transaction, and totals that agree with the table."""
    booked = Counter(row.job_id for row in installation.rows("SELECT job_id FROM test_ledger"))
    assert booked == {job.id: 1 for job in jobs if job.status == "done" and "booked" in job.payload}
    totals = installation.rows("SELECT outcome, SUM(jobs) AS jobs FROM mayfly_totals GROUP BY outcome")
    counted = {row.outcome: int(row.jobs) for row in totals if row.outcome in ("done", "dead")}
    assert counted == Counter(job.status for job in jobs)


def check_nothing_left(installation: Installation) -> None:
    """No open row of a runner, no lock, no process, no page."""
    assert installation.rows("SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL") == []
    assert installation.rows("SELECT holder FROM mayfly_locks WHERE holder IS NOT NULL") == []
    assert installation.processes() == []
    assert list((installation.home / "state").rglob("*.page")) == []


def name_of(runner: psutil.Process) -> str:
    """A pid alone may be given again before the test is over."""
    return f"{runner.pid}/{start_time(runner.pid)}"


def log_of(host: Host) -> str:
    return (host.installation.home / host.name / "dispatcher.log").read_text()
