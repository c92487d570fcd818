"""Offer the lanes that wait for a slot to runners whose lane is empty."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import inf
from zlib import crc32

from dispatcher.context import CycleContext
from mayfly.clock import monotonic
from mayfly.fleet.cycles import cycles_still_supervised
from mayfly.fleet.lane_queue import LaneQueue, WaitingLane
from mayfly.fleet.plan import Plan, PlannedLane
from mayfly.process.state_dir import lane_queue_path, lane_queue_paths
from mayfly.settings import Settings

REPLAN_SECONDS = 1.0  # while lanes wait: new jobs of a lane with a better rank come first then


def shared_settings(settings: Settings, lane: str) -> str | None:
    """Runners may serve any lane with the same text; None if a lane has runners of its own.

    A runner of a long lane may outlive the dispatcher, one of a launcher is elsewhere, and the rows of a source are
    claimed by runners of its lane.
    """
    resolved = settings.lane(lane)
    if resolved.is_long or resolved.launcher is not None or lane in settings.lanes_of_sources:
        return None
    own = vars(settings.lanes[lane]) if lane in settings.lanes else {}
    given = sorted((name, value) for name, value in own.items() if value is not None)
    return blake2b(str(given).encode(), digest_size=16).hexdigest()  # short: it is in every record of the list


def in_order(settings: Settings, waiting: Sequence[PlannedLane]) -> list[str]:
    """As they are served: lanes with the same settings together where rank and waiting time are equal.

    Lanes whose pool has no slot come last, because no free slot of this host helps them. The rest is shuffled: on
    MySQL a claim also locks the first job of the next lane by name, so neighbours should not be claimed at once.
    """
    first: dict[str | None, int] = {}

    def key(each: PlannedLane) -> tuple[bool, int, int, int, int]:
        name = each.count.lane.name
        group = first.setdefault(shared_settings(settings, name), len(first))
        return each.crowded_out, each.count.lane.rank, -each.count.passed_over, group, crc32(name.encode())

    return [each.count.lane.name for each in sorted(waiting, key=key)]


def shared_lanes(settings: Settings, plan: Plan) -> int:
    """How many waiting lanes the planned runners may serve after their own."""
    runners = {shared_settings(settings, each.count.lane.name) for each in plan.lanes if each.planned} - {None}
    return sum(shared_settings(settings, each.count.lane.name) in runners for each in plan.waiting)


class WaitingLanes:
    """The list of one cycle. Without waiting lanes there is no file."""

    def __init__(self, context: CycleContext) -> None:
        self._context = context
        self._queue: LaneQueue | None = None
        self._listed: list[str] = []  # in the file
        self._numbers: dict[str, int] = {}
        self._taken: list[str] = []  # by runners, from earlier lists
        self._offered_at = inf
        self._begins_with: Mapping[str, int] = {}
        self.names: list[str] = []  # by number, which begins with 1

    @property
    def must_replan(self) -> bool:
        return bool(self._listed) and monotonic() >= self._offered_at + REPLAN_SECONDS

    @property
    def taken(self) -> list[str]:
        """The lanes that runners have taken so far, in this order."""
        return self._taken + (self._listed[: self._queue.taken] if self._queue else [])

    @property
    def served(self) -> list[str]:
        """Each lane once: one that was listed again, and then had no jobs, was taken twice."""
        return list(dict.fromkeys(self.taken))

    def offer(
        self, cycle_id: int, plan: Plan, known_taken: int = 0, begins_with: Mapping[str, int] | None = None
    ) -> None:
        """List the lanes that wait according to this plan, except for those that were taken while it was made.

        `known_taken` lanes were taken before; `begins_with` has the interrupted jobs of the lanes, if they were read.
        """
        self._begins_with = self._begins_with if begins_with is None else begins_with
        self._offered_at = monotonic()
        if self._queue is None and not plan.waiting:
            return
        if self._queue is None:
            self._remove_old()
            self._queue = LaneQueue(lane_queue_path(self._context.directory, cycle_id), creates=True)
        self._list(self._queue, in_order(self._context.settings, plan.waiting), known_taken)

    def close(self) -> None:
        """Runners that still run take no further lanes."""
        if self._queue is not None:
            self._list(self._queue, [], 0)
            self._queue.remove()
            self._queue = None

    def _list(self, queue: LaneQueue, lanes: Sequence[str], known_taken: int) -> None:
        def new(taken: int) -> list[WaitingLane]:
            self._taken += self._listed[:taken]
            gone = set(self._taken[known_taken:])
            self._listed = [lane for lane in lanes if lane not in gone]
            return [self._record(lane) for lane in self._listed]

        queue.replace(new)

    def _record(self, lane: str) -> WaitingLane:
        if lane not in self._numbers:
            self.names.append(lane)
            self._numbers[lane] = len(self.names)
        settings = shared_settings(self._context.settings, lane)
        return WaitingLane(lane, self._numbers[lane], settings or "", self._begins_with.get(lane))

    def _remove_old(self) -> None:
        """Lists of dispatchers that were killed."""
        living = cycles_still_supervised(self._context.directory)
        for path in lane_queue_paths(self._context.directory):
            if int(path.stem) not in living:
                path.unlink(missing_ok=True)
