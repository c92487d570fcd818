"""Decide how many runners each lane gets, and what limited each number. Pure, except for `measure`."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import psutil

from mayfly.fleet.cycles import KnownLane
from mayfly.queue.pauses import Pause
from mayfly.settings import Settings


@dataclass(frozen=True)
class LaneRules:
    """The resolved settings of one lane that the plan needs."""

    name: str
    batch_size: int
    max_workers: int
    min_workers: int = 1
    rank: int = 0  # lower ranks are served first
    pool: str | None = None
    external: bool = False  # pulled by external workers: never dispatched
    paused: str | None = None  # the reason as shown in a cut: "paused: the vendor is down"
    set_by: str | None = None  # the user who set max_workers at run time, if any
    launcher: str | None = None  # starts its runners on other machines; None: this host

    @property
    def cap(self) -> str:
        """As shown in a cut."""
        return f"max_workers {self.max_workers}" + (f" set by {self.set_by}" if self.set_by else "")


def lane_rules(settings: Settings, name: str, known: KnownLane, pause: Pause | None = None) -> LaneRules:
    """A max_workers that an operator has set applies to every host and overrides the settings."""
    resolved = settings.lane(name)
    return LaneRules(
        name,
        resolved.batch_size,
        known.max_workers or resolved.max_workers,
        resolved.min_workers,
        resolved.rank,
        resolved.pool,
        resolved.external,
        pause.words if pause else None,
        known.set_by,
        resolved.launcher,
    )


@dataclass(frozen=True)
class LaneCount:
    """One lane as the planner found it."""

    lane: LaneRules
    pending: int
    running: int = 0  # runners of this lane alive anywhere in the fleet
    busy: int = 0  # those of them that will probably not claim the pending jobs
    capped: bool = False  # the count stopped at `pending`: there may be more
    passed_over: int = 0  # cycles in a row, up to the last, in which it was in Plan.passed_over()
    expects_jobs: bool = False  # it gets a runner even if nothing is pending
    queued: int = 0  # those of the running ones that wait in the queue of a launcher
    refused: str | None = None  # why its launcher has refused the last submit

    @property
    def pending_text(self) -> str:
        return f"{self.pending}+" if self.capped else str(self.pending)


@dataclass(frozen=True)
class Slots:
    """How many runners this host has room for."""

    free: int
    limited_by: str = ""  # "free memory 180 MB", if that allows less than HOST_MAX_WORKERS

    @property
    def reason(self) -> str:
        """As shown in a cut."""
        return self.limited_by or f"host slots {self.free}"


@dataclass(frozen=True)
class PlannedLane:
    """The runners of one lane, and why they are fewer than its backlog needs."""

    count: LaneCount
    wanted: int
    planned: int
    cuts: tuple[str, ...] = ()
    short: int = 0  # further runners that it would get if this host had more slots
    crowded_out: bool = False  # it has no runner because other lanes use its whole pool

    def cut_to(self, planned: int, reason: str) -> "PlannedLane":
        """The only way to reduce `planned`: every cut has a reason."""
        if planned >= self.planned:
            return self
        return replace(self, planned=planned, cuts=(*self.cuts, reason))


@dataclass(frozen=True)
class Plan:
    """Every counted lane: first those with runners to start, in the order in which they are served."""

    lanes: tuple[PlannedLane, ...]

    @property
    def runners(self) -> int:
        return sum(each.planned for each in self.lanes)

    @property
    def paused(self) -> tuple[str, ...]:
        """The lanes that have work and are paused."""
        return tuple(each.count.lane.name for each in self.lanes if each.count.lane.paused and each.count.pending)

    @property
    def waiting(self) -> tuple[PlannedLane, ...]:
        """The lanes that have work and got no runner only because this host or their pool had no slot left."""
        without = (each for each in self.lanes if not each.planned and (each.short or each.crowded_out))
        return tuple(each for each in without if each.count.pending)

    def passed_over(self) -> frozenset[str]:
        return frozenset(each.count.lane.name for each in self.waiting)


def plan_runners(counts: Sequence[LaneCount], pools: Mapping[str, int], slots: Slots) -> Plan:
    """Compute what each lane's backlog needs, then cut it to its pool and to this host's slots.

    A pool that is not in `pools` has no cap.
    """
    wanted = [_want(count) for count in counts]
    return Plan(tuple(_fit_host(_fit_pools(wanted, pools), slots)))


def _want(count: LaneCount) -> PlannedLane:
    lane = count.lane
    batches = max(-(-count.pending // lane.batch_size), int(count.expects_jobs))
    if lane.external:
        return PlannedLane(count, wanted=0, planned=batches).cut_to(0, "external")
    if lane.paused is not None:
        return PlannedLane(count, wanted=0, planned=batches).cut_to(0, lane.paused)
    wanted = min(max(batches, lane.min_workers) + count.busy, lane.max_workers) if batches else 0
    capped = PlannedLane(count, wanted, planned=max(batches, wanted)).cut_to(wanted, lane.cap)
    return _try_once(capped.cut_to(max(0, wanted - count.running), f"{count.running} already running"))


def _try_once(lane: PlannedLane) -> PlannedLane:
    """After a refused submit: one try per cycle, and its reason is shown even if one runner is enough."""
    if lane.count.refused is None or not lane.planned:
        return lane
    cut = f"launcher {lane.count.lane.launcher} refused the last submit: {lane.count.refused}"
    return replace(lane, planned=1, cuts=(*lane.cuts, cut))


def _fit_pools(wanted: Sequence[PlannedLane], pools: Mapping[str, int]) -> list[PlannedLane]:
    """Share each pool like the slots of a host."""
    fitted = {each.count.lane.name: each for each in wanted}
    for pool, cap in pools.items():
        lanes = [each for each in wanted if each.count.lane.pool == pool]
        room = max(0, cap - sum(each.count.running for each in lanes))
        for each, granted in _shared(lanes, room):
            crowded_out = bool(each.planned) and not granted and not each.count.running
            cut = each.cut_to(granted, f"pool {pool} {cap}")
            fitted[each.count.lane.name] = replace(cut, crowded_out=crowded_out)
    return sorted(fitted.values(), key=_rank)


def _fit_host(lanes: Sequence[PlannedLane], slots: Slots) -> list[PlannedLane]:
    """Runners of launchers need no slots of this host."""
    elsewhere = [each for each in lanes if each.count.lane.launcher is not None]
    here = _fit_slots([each for each in lanes if each.count.lane.launcher is None], slots)
    return sorted([*here, *elsewhere], key=lambda each: not each.planned) if elsewhere else here


def _fit_slots(lanes: Sequence[PlannedLane], slots: Slots) -> list[PlannedLane]:
    return [
        replace(each.cut_to(granted, slots.reason), short=each.planned - granted)
        for each, granted in _shared(lanes, slots.free)
    ]


def _shared(lanes: Sequence[PlannedLane], slots: int) -> list[tuple[PlannedLane, int]]:
    """The slots of each lane, in the order in which they are served, then the lanes that need none.

    One slot per lane while there are enough; the rest by rank, round robin among lanes of the same rank.
    """
    queue = _serving_order([each for each in lanes if each.planned], slots)
    served = queue[:slots]
    extra = sorted((_rank(each), turn, place) for place, each in enumerate(served) for turn in range(1, each.planned))
    granted = Counter(range(len(served)))
    granted.update(place for _, _, place in extra[: slots - len(served)])
    return [
        *((each, granted[place]) for place, each in enumerate(queue)),
        *((each, 0) for each in lanes if not each.planned),
    ]


def _serving_order(waiting: Sequence[PlannedLane], slots: int) -> list[PlannedLane]:
    """By rank, as long as every lane is still served within ceil(lanes / slots) cycles."""
    queue = sorted(waiting, key=lambda each: (-each.count.passed_over, _rank(each)))
    bound = -(-len(queue) // max(1, slots))
    served = []
    for left in range(slots, max(0, slots - len(queue)), -1):
        candidates = range(_urgent(queue, bound, slots, left))
        served.append(queue.pop(min(candidates, key=lambda place: _rank(queue[place]))))
    return served + sorted(queue, key=_rank)


def _urgent(queue: Sequence[PlannedLane], bound: int, slots: int, left: int) -> int:
    """How many lanes at the head of the queue are candidates for the next slot."""
    # Until the i-th lane must be served there are `left` slots in this cycle and `slots` in each further cycle
    # that it can wait; the first i lanes need i of them. If there are more for every i, any lane may get the
    # next slot; at the first i that needs all of them, one of these i lanes must get it. So each choice leaves
    # enough for every i. The next cycle starts with enough, too: a lane that was served can wait the whole bound
    # again, and there are slots * bound for all lanes. If there are too few (a host has lost slots, or fewer
    # lanes have made the bound smaller), the same rule picks the lanes that were passed over longest.
    for i, each in enumerate(queue, start=1):
        cycles_it_can_wait = bound - 1 - each.count.passed_over
        if i >= left + slots * cycles_it_can_wait:
            return i
    return len(queue)


def _rank(each: PlannedLane) -> int:
    return each.count.lane.rank


MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class Headroom:
    available_memory: int  # bytes, without swapping
    load_per_core: float  # of the last minute


def measure() -> Headroom:
    one_minute, _, _ = os.getloadavg()
    return Headroom(psutil.virtual_memory().available, one_minute / (os.cpu_count() or 1))


def slots(headroom: Headroom, settings: Settings, running_here: int) -> Slots:
    """The free slots of HOST_MAX_WORKERS, limited by free memory and by load; 0 disables either check."""
    free = max(0, settings.host_max_workers - running_here)
    limits = []
    if settings.min_free_memory:
        text = f"free memory {headroom.available_memory // MEGABYTE} MB"
        limits.append((headroom.available_memory // settings.min_free_memory, text))
    if settings.max_load and headroom.load_per_core > settings.max_load:
        limits.append((1, f"load {headroom.load_per_core:.1f} per core"))
    limit, limited_by = min(limits, key=lambda each: each[0], default=(free, ""))
    if not running_here:
        limit = max(1, limit)  # a host that is always short of memory must still make progress
    return Slots(limit, limited_by) if limit < free else Slots(free)
