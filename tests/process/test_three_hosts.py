"""Three hosts under load: caps hold at every moment, and no host with free slots stays idle while there is work.

FLEET_MINUTES=2 changes how long it takes. A minute of cron is shortened to TICK_SECONDS, and the timeouts with it.
"""

import os
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from sqlalchemy import insert, select

from mayfly.clock import monotonic
from mayfly.schema.metadata import jobs, runners
from tests.process.installation import Installation, most_at_once, wait_until
from tests.sqlalchemy_engines import run

MINUTES = float(os.environ.get("FLEET_MINUTES") or 10)
TICK_SECONDS = 17.0
HOSTS = ("anna", "bert", "cora")
CAPS = {"alpha": 4, "beta": 4, "gamma": 2}
HOST_MAX_WORKERS = 4
SETTINGS = {
    "WORKER_TIMEOUT": "12",
    "DISPATCH_TIMEOUT": "15",  # on a busy machine a server may need seconds for an answer
    "HOST_MAX_WORKERS": str(HOST_MAX_WORKERS),
    **{f"LANES__{lane.upper()}__MAX_WORKERS": str(cap) for lane, cap in CAPS.items()},
}
BACKLOG = 300  # of each lane: more than its runners finish in a cycle
START = datetime(2026, 1, 1, tzinfo=UTC)


class Interval(NamedTuple):
    """A runner from its plan to its end, or a cycle."""

    start: datetime
    end: datetime
    host: str
    lane: str = ""


class TickingHost(threading.Thread):
    """Cron on one host: a cycle per tick, or as soon as the last one has ended."""

    def __init__(self, installation: Installation, name: str, over: threading.Event) -> None:
        super().__init__()
        self.name = name
        self._installation = installation
        self._over = over
        self.cycles: list[Interval] = []
        self.failures: list[str] = []

    def run(self) -> None:
        own = {"HOST_NAME": self.name, "STATE_DIR": str(self._installation.home / self.name)}
        while not self._over.is_set():
            next_at, start = monotonic() + TICK_SECONDS, self._installation.now()
            ran = self._installation.dispatch(**own)
            self.cycles.append(Interval(start, self._installation.now(), self.name))
            if (ran.returncode, ran.stderr) != (0, ""):
                self.failures.append(f"{self.name} exited with {ran.returncode}: {ran.stderr}")
            self._over.wait(next_at - monotonic())


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_three_hosts_under_load(installation: Installation) -> None:
    """By the times in the table of runners, so that no moment between two samples is missed."""
    installation.settings = SETTINGS
    installation.now()  # measured before the threads use it
    refill(installation)
    over = threading.Event()
    hosts = [TickingHost(installation, name, over) for name in HOSTS]
    for each in hosts:
        each.start()
    try:
        end_at = monotonic() + 60 * MINUTES
        while monotonic() < end_at:
            refill(installation)
            over.wait(1)
    finally:
        over.set()
        for each in hosts:
            each.join()
    wait_until(lambda: installation.rows(select(runners).where(runners.c.finished_at.is_(None))) == [], "all ended")
    rows = installation.rows(select(runners))
    ran = [Interval(each.planned_at, each.finished_at, each.host, each.lane) for each in rows]
    cycles = [cycle for host in hosts for cycle in host.cycles]
    print(f"{len(cycles)} cycles, {len(ran)} runners, {installation.statuses().get('done', 0)} jobs")

    assert not any(each.earlier_lanes for each in rows), "a runner has changed its lane: its times say too little"
    assert {lane: most(ran, lane=lane) for lane in CAPS} == CAPS
    assert max(most(ran, host=name) for name in HOSTS) == HOST_MAX_WORKERS
    assert idle_stretches(ran, cycles) == []
    assert [failure for host in hosts for failure in host.failures] == []
    assert [row.id for row in installation.rows(select(jobs.c.id).where(jobs.c.attempts > 1))] == []


def refill(installation: Installation) -> None:
    counted = installation.rows(
        "SELECT lane, COUNT(*) AS number FROM mayfly_jobs WHERE status = 'pending' GROUP BY lane"
    )
    pending = {row.lane: row.number for row in counted}
    for lane in CAPS:
        if (missing := BACKLOG - pending.get(lane, 0)) > 0:
            rows = [{"type": "sleep", "payload": '{"seconds": 0.1}', "lane": lane}] * missing
            run(installation.database, lambda connection, rows=rows: connection.execute(insert(jobs), rows))  # type: ignore[misc]


def most(ran: Iterable[Interval], **wanted: str) -> int:
    """The most runners of a lane or host at any moment."""
    return most_at_once((each.start, each.end) for each in ran if wanted.items() <= each._asdict().items())


def idle_stretches(ran: Sequence[Interval], cycles: Sequence[Interval]) -> list[str]:
    """A host with a free slot starts nothing for more than one cycle, while a lane is below its cap all the time."""
    found = []
    for host in HOSTS:
        own = [each for each in ran if each.host == host]
        moments = sorted({moment for each in (*cycles, *ran) for moment in (each.start, each.end)})
        for lane, cap in CAPS.items():
            in_lane = [each for each in ran if each.lane == lane]
            since: datetime | None = None
            for moment in moments:
                has_slot = running(own, moment) < HOST_MAX_WORKERS
                starts = any(each.start == moment for each in own)
                if starts or not has_slot or running(in_lane, moment) >= cap:
                    since = None
                    continue
                since = since or moment
                missed = [each for each in cycles if each.host == host and since <= each.start and each.end <= moment]
                if len(missed) > 1:
                    found.append(f"{host} could have worked in {lane} from {since} to {moment}")
                    since = None
    return found


def running(ran: Iterable[Interval], moment: datetime) -> int:
    return sum(each.start <= moment < each.end for each in ran)


def at(start: float, end: float, host: str = "anna", lane: str = "alpha") -> Interval:
    return Interval(START + timedelta(seconds=start), START + timedelta(seconds=end), host, lane)


def test_an_idle_host_is_found() -> None:
    """Two of its cycles start nothing although all lanes are below their caps; one such cycle is allowed."""
    busy = [at(0, 60, "bert", lane) for lane in CAPS]
    cycles = [at(second, second + 1) for second in (10, 20, 30)]

    late, later = at(22, 60), at(32, 60)

    assert idle_stretches([*busy, late], cycles[:2]) != []
    assert idle_stretches([*busy, at(12, 60)], cycles[:1]) == []
    assert idle_stretches([*busy, later], cycles) != []
    assert idle_stretches([at(0, 60, "bert", lane) for lane, cap in CAPS.items() for _ in range(cap)], cycles) == []
