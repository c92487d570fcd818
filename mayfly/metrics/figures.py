"""Read what metrics tell: from counters, and by a few looks that stop early. No view of a whole table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mayfly.connection import Connection
from mayfly.fleet.counted import Cycles, read_cycles
from mayfly.jobs.browse.lanes import LaneView, list_lanes
from mayfly.jobs.counters import read_counters
from mayfly.schema import JOBS
from mayfly.settings import Settings
from mayfly.tally import Tally


@dataclass(frozen=True)
class Figures:
    """As they were at one time."""

    counters: Tally  # of all times, as the cycles are
    cycles: Sequence[Cycles]
    lanes: Sequence[LaneView]
    targets: Mapping[str, float]  # seconds


def read_figures(connection: Connection, settings: Settings, now: datetime) -> Figures:
    targets = {lane: each.latency_target for lane, each in settings.lanes.items()}
    return Figures(
        counters=read_counters(connection),
        cycles=read_cycles(connection),
        lanes=list_lanes(connection, JOBS, settings, now),
        targets={lane: target for lane, target in targets.items() if target is not None},
    )
