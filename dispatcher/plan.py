"""Decide how many runners each lane gets this cycle, and by what each number was cut. Pure."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import psutil


@dataclass(frozen=True)
class LaneRules:
    """The settings of one lane, already resolved, as far as the plan needs them."""

    name: str
    batch_size: int
    max_workers: int
    min_workers: int = 1
    rank: int = 0  # smaller is served first
    pool: str | None = None
    external: bool = False  # pulled by external workers: never dispatched
    paused: str | None = None  # the reason as a cut shows it: "paused: the vendor is down"
    set_by: str | None = None  # the user who set max_workers at run time, if any

    @property
    def cap(self) -> str:
        """As a cut shows it."""
        return f"max_workers {self.max_workers}" + (f" set by {self.set_by}" if self.set_by else "")


@dataclass(frozen=True)
class LaneCount:
    """One lane as this cycle found it."""

    lane: LaneRules
    pending: int
    running: int = 0  # runners of this lane alive anywhere in the fleet
    busy: int = 0  # those of them that cannot be expected to take what is pending
    capped: bool = False  # pending is "at least": the count stopped there
    passed_over: int = 0  # cycles in a row, up to the last, in which Plan.passed_over() named it


@dataclass(frozen=True)
class Slots:
    """How many runners this host has room for."""

    free: int  # HOST_MAX_WORKERS less what runs on this host
    limit: int | None = None  # a tighter bound set by headroom
    limited_by: str = ""  # the reason as a cut shows it: "free memory 180 MB"

    @property
    def usable(self) -> int:
        return max(0, self.free if self.limit is None else min(self.free, self.limit))

    @property
    def reason(self) -> str:
        if self.limit is None or self.limit >= self.free:
            return f"host slots {self.free}"
        return self.limited_by or f"headroom {self.limit}"


@dataclass(frozen=True)
class PlannedLane:
    """What one lane gets, and by what that is less than its backlog asks for."""

    count: LaneCount
    wanted: int
    planned: int
    cuts: tuple[str, ...] = ()
    short: int = 0  # runners it would have too, had this host slots enough

    def cut_to(self, planned: int, reason: str) -> "PlannedLane":
        """The one way a number shrinks: no cut without its reason, no reason without a cut."""
        if planned >= self.planned:
            return self
        return replace(self, planned=planned, cuts=(*self.cuts, reason))


@dataclass(frozen=True)
class Plan:
    """Every lane that was counted: first those with runners to start, in the order they are served."""

    lanes: tuple[PlannedLane, ...]

    @property
    def runners(self) -> int:
        return sum(each.planned for each in self.lanes)

    @property
    def paused(self) -> tuple[str, ...]:
        """The lanes that have work and are paused."""
        return tuple(each.count.lane.name for each in self.lanes if each.count.lane.paused and each.count.pending)

    def passed_over(self) -> frozenset[str]:
        """The lanes that had runners to start and got none, for want of slots alone."""
        return frozenset(each.count.lane.name for each in self.lanes if each.short and not each.planned)


def plan_runners(counts: Sequence[LaneCount], pools: Mapping[str, int], slots: Slots) -> Plan:
    """Ask for what each lane's backlog needs, then cut it to its pool and to this host's slots.

    A pool that `pools` does not name has no cap.
    """
    asked = [_ask(count) for count in counts]
    return Plan(tuple(_fit_slots(_fit_pools(asked, pools), slots)))


def _ask(count: LaneCount) -> PlannedLane:
    lane = count.lane
    batches = -(-count.pending // lane.batch_size)
    if lane.external:
        return PlannedLane(count, wanted=0, planned=batches).cut_to(0, "external")
    if lane.paused is not None:
        return PlannedLane(count, wanted=0, planned=batches).cut_to(0, lane.paused)
    wanted = min(max(batches, lane.min_workers) + count.busy, lane.max_workers) if batches else 0
    asked = PlannedLane(count, wanted, planned=max(batches, wanted))
    capped = asked.cut_to(wanted, lane.cap)
    return capped.cut_to(max(0, wanted - count.running), f"{count.running} already running")


def _fit_pools(asked: Sequence[PlannedLane], pools: Mapping[str, int]) -> list[PlannedLane]:
    """Share out each pool strictly in the order of rank: a pool, unlike the host, owes no lane a turn."""
    room = dict(pools)
    for each in asked:
        if each.count.lane.pool in room:
            room[each.count.lane.pool] -= each.count.running
    fitted = []
    for each in sorted(asked, key=_rank):
        pool, fit = each.count.lane.pool, each
        if pool in room:
            fit = each.cut_to(max(0, min(each.planned, room[pool])), f"pool {pool} {pools[pool]}")
            room[pool] -= fit.planned
        fitted.append(fit)
    return fitted


def _fit_slots(lanes: Sequence[PlannedLane], slots: Slots) -> list[PlannedLane]:
    """One slot each as far as they reach; what is left goes by rank, in turns among equals."""
    queue = _serving_order([each for each in lanes if each.planned], slots.usable)
    served = queue[: slots.usable]
    extra = sorted((_rank(each), turn, place) for place, each in enumerate(served) for turn in range(1, each.planned))
    granted = Counter(range(len(served)))
    granted.update(place for _, _, place in extra[: slots.usable - len(served)])
    fitted = [
        replace(each.cut_to(granted[place], slots.reason), short=each.planned - granted[place])
        for place, each in enumerate(queue)
    ]
    return fitted + [each for each in lanes if not each.planned]


def _serving_order(waiting: Sequence[PlannedLane], slots: int) -> list[PlannedLane]:
    """By rank, as far as every lane is still served within ceil(lanes / slots) cycles."""
    queue = sorted(waiting, key=lambda each: (-each.count.passed_over, _rank(each)))
    bound = -(-len(queue) // max(1, slots))
    served = []
    for left in range(slots, max(0, slots - len(queue)), -1):
        candidates = range(_urgent(queue, bound, slots, left))
        served.append(queue.pop(min(candidates, key=lambda place: _rank(queue[place]))))
    return served + sorted(queue, key=_rank)


def _urgent(queue: Sequence[PlannedLane], bound: int, slots: int, left: int) -> int:
    """How many lanes at the head of the queue the next slot may go to."""
    # Before the i-th lane's turn runs out there are `left` slots in this cycle and `slots` in each further
    # one it can wait, and the i lanes up to it need i of them. While there are more for every i, any lane
    # may have the next slot; at the first i that needs them all, it must be one of these i. So each choice
    # leaves enough for every i, and so does the step to the next cycle: a lane that was served can wait the
    # whole bound again, and there are slots * bound for all lanes. Where the past left too few (slots went
    # away, or lanes did and the bound became tighter), the same rule takes those passed over longest.
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
    available_memory: int  # bytes that can be had without swapping
    load_per_core: float  # of the last minute


def measure() -> Headroom:
    one_minute, _, _ = os.getloadavg()
    return Headroom(psutil.virtual_memory().available, one_minute / (os.cpu_count() or 1))


def slots(
    headroom: Headroom, *, host_max_workers: int, running_here: int, min_free_memory: int, max_load: float
) -> Slots:
    """What is free, and what limits it more: memory (bytes a new runner needs) or load; 0 turns one off."""
    free = max(0, host_max_workers - running_here)
    limits = []
    if min_free_memory:
        text = f"free memory {headroom.available_memory // MEGABYTE} MB"
        limits.append((headroom.available_memory // min_free_memory, text))
    if max_load and headroom.load_per_core > max_load:
        limits.append((1, f"load {headroom.load_per_core:.1f} per core"))
    limit, limited_by = min(limits, key=lambda each: each[0], default=(free, ""))
    if not running_here:
        limit = max(1, limit)  # a host short of memory for good must still get its work done
    return Slots(free) if limit >= free else Slots(free, limit, limited_by)
