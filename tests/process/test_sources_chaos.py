"""kill -9 at random moments over rows of a table that its application changes at the same time: all guarantees hold.

The moments are drawn from a seed that is printed with a failure: CHAOS_SEED=… repeats them.
"""

import os
import random
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from sqlalchemy import Row, String, select

from mayfly.schema.metadata import jobs
from tests.process.installation import Installation
from tests.process.source_tables import HANDLERS, PostTable
from tests.process.test_chaos import Chaos, Host, check_nothing_left, check_runs, log_of

KILLS = {"runner": 1, "runner in a job": 2, "dispatcher": 1, "both": 2}
BACKLOG = 30  # enough that a cycle still has work when it is killed
ROWS = 80
MANY_ROWS = 2000
MORE_KILLS = {"runner": 15, "runner in a job": 15, "dispatcher": 10, "both": 10}


@dataclass
class Application:
    """Archives, deletes and repeats rows at random, in its own thread, as long as kills go on."""

    posts: PostTable
    rng: random.Random
    stopped: Event = field(default_factory=Event)
    last_changes: dict[str, str] = field(default_factory=dict)  # by key: archived, deleted or pending

    def start(self) -> None:
        self._thread = Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self.stopped.wait(self.rng.uniform(0, 0.1)):
            keys = sorted(self.posts.statuses())
            if keys:
                self._change(self.rng.choice(keys))

    def _change(self, key: str) -> None:
        change = self.rng.choice(["archived", "deleted", "pending"])
        if change == "deleted":
            self.posts.delete(key)
        else:
            self.posts.change(key, status=change)
        self.last_changes[key] = change


@dataclass
class RowChaos(Chaos):
    posts: PostTable = field(kw_only=True)
    application: Application = field(kw_only=True)
    inserted: int = 0

    def insert(self, rows: int) -> None:
        """Text keys. Rows of a second or less; some fail once, some write a ledger in job.transaction()."""
        for _ in range(rows):
            key = f"post-{self.inserted:05}"
            kind = self.rng.choice(["plain", "fail", "ledger"])
            self.posts.insert(key, kind=kind, seconds=self.rng.uniform(0.007, 0.05))
            self.inserted += 1

    def _refill(self) -> None:
        pending = Counter(self.posts.statuses().values())["pending"]
        self.insert(max(0, BACKLOG - pending))

    def _has_ended(self) -> bool:
        is_live = self.installation.statuses().keys() & {"pending", "processing"}
        return not is_live and not {"pending", "processing"} & set(self.posts.statuses().values())


@pytest.fixture
def chaos(migrated_url: str, tmp_path: Path) -> Iterator[RowChaos]:
    """Two hosts on one database, the application, and the seed."""
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(1 << 32))
    print(f"CHAOS_SEED={seed}")
    installation = Installation(tmp_path, migrated_url, HANDLERS)
    posts = PostTable(installation, "publish_at_random", String(60))
    application = Application(posts, random.Random(seed + 1))
    hosts = [Host(installation, "anna"), Host(installation, "bert")]
    yield RowChaos(installation, hosts, random.Random(seed), kills=KILLS, posts=posts, application=application)
    application.stopped.set()
    installation.end()


@pytest.mark.every_database
def test_kills_and_changes_lose_no_row(chaos: RowChaos) -> None:
    """Every row has one final status or that of the application; each repeated run follows a kill."""
    run_chaos(chaos, ROWS)

    check(chaos)


@pytest.mark.slow
@pytest.mark.every_database
def test_many_kills_lose_none_of_many_rows(chaos: RowChaos) -> None:
    """The same with 2,000 rows and 50 kills."""
    chaos.kills = MORE_KILLS

    run_chaos(chaos, MANY_ROWS)

    check(chaos)


def run_chaos(chaos: RowChaos, rows: int) -> None:
    chaos.application.start()
    chaos.kill_all()
    chaos.insert(max(0, rows - chaos.inserted))
    chaos.application.stop()
    chaos.settle_all()


def check(chaos: RowChaos) -> None:
    installation, posts = chaos.installation, chaos.posts
    companions = installation.rows(select(jobs))
    check_statuses(chaos)
    for job in companions:
        check_end(job)
    handled = started(installation)
    check_runs(installation, [job for job in companions if job.id in handled], killed_runners(chaos))
    check_ledger(posts, companions)
    check_nothing_left(installation)
    assert not [stderr for host in chaos.hosts for stderr in host.stderr if "Traceback" in stderr]
    assert not [host.name for host in chaos.hosts if "Traceback" in log_of(host)]


def started(installation: Installation) -> set[int]:
    """The jobs whose handler has run. Some were cancelled before, or their runner was killed."""
    return {int(line.split()[0]) for line in (installation.home / "runs").read_text().splitlines()}


def killed_runners(chaos: RowChaos) -> set[str]:
    return {name for host in chaos.hosts for name in host.killed_runners}


def check_statuses(chaos: RowChaos) -> None:
    """What the application has archived or deleted stays so; all other rows have ended."""
    changes, statuses = chaos.application.last_changes, chaos.posts.statuses()
    deleted = {key for key, change in changes.items() if change == "deleted"}
    assert len(statuses) + len(deleted) == chaos.inserted
    for key, status in statuses.items():
        expected = {"archived"} if changes.get(key) == "archived" else {"published", "failed"}
        assert status in expected, (key, status, changes.get(key))


def check_end(job: Row[Any]) -> None:
    """Done, cancelled because of a change, or dead after three crashes."""
    assert job.status in ("done", "cancelled", "dead"), job
    if job.status == "cancelled":
        assert job.last_error.startswith("row changed"), job
    if job.status == "dead":
        assert job.last_error.startswith("crashed 3 times, last: the runner "), job


def check_ledger(posts: PostTable, companions: Sequence[Row[Any]]) -> None:
    """One entry per done job that writes one in its transaction, none for any other."""
    written = Counter(posts.installation.rows("SELECT job_id FROM ledger"))
    assert {job_id: number for (job_id,), number in written.items()} == {
        job.id: 1 for job in companions if job.status == "done" and '"ledger"' in job.payload
    }
