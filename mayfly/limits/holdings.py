"""What one runner has taken of limited keys. Shared by its main thread and the threads of its handlers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING

from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.limits.decide import Denial, Room, Window
from mayfly.limits.limit import AT_ONCE, Need, Wish
from mayfly.limits.store import Holder, add_missing, lock_windows, slots_of_others, write_slots, write_windows

if TYPE_CHECKING:
    from mayfly.clock import Clock

UNKNOWN = -1  # what a commit has written whose answer nobody heard


class _Missing(Exception):
    """Keys that nobody has taken before have no rows to lock."""


class Holdings:
    def __init__(self, holder: Holder) -> None:
        self._holder = holder
        self._lock = Lock()
        self._in_use: Counter[str] = Counter()  # slots of jobs that run, or are about to
        self._written: dict[str, int] = {}  # what our rows say

    def take(self, database: Database, wishes: Sequence[Wish], in_turn: bool = False) -> list[Denial | None]:
        """All that each wish names, or none of it and why: for several in one short transaction."""
        needs = {need.place: need for wish in wishes for need in wish}
        if not needs:
            return [None] * len(wishes)
        with self._lock:
            while True:
                ready = _Taking(self._holder, self._in_use, self._written, needs, wishes, in_turn, database.clock)
                self._written |= dict.fromkeys(ready.slot_keys, UNKNOWN)
                try:
                    denials, room = database.run(ready.write)
                except _Missing:
                    database.run(lambda connection: add_missing(connection, needs.values(), database.clock.now()))
                else:
                    self._in_use = room.ours
                    self._note_written(ready.slot_keys)
                    return denials

    def put_down(self, wishes: Iterable[Wish]) -> None:
        """Jobs have ended. Their slots are free for ours at once, and for others by the next `take` or `release`."""
        with self._lock:
            for wish in wishes:
                for need in wish:
                    if need.limit.span == AT_ONCE:
                        self._in_use[need.key] = max(0, self._in_use[need.key] - 1)

    def uses(self, key: str) -> bool:
        return self._in_use[key] > 0

    def release(self, database: Database) -> None:
        """Let others have what ours use no more."""
        with self._lock:
            changes = self._changes()
            if changes:
                self._written |= dict.fromkeys(changes, UNKNOWN)
                database.run(lambda connection: write_slots(connection, self._holder, changes))
                self._note_written(changes)

    def _changes(self) -> dict[str, int]:
        return {key: self._in_use[key] for key, written in self._written.items() if self._in_use[key] != written}

    def _note_written(self, keys: Iterable[str]) -> None:
        self._written |= {key: self._in_use[key] for key in keys}
        self._written = {key: held for key, held in self._written.items() if held}


class _Taking:
    """One transaction: lock, look, decide, write. It may be repeated, and begins with the same values each time."""

    def __init__(
        self,
        holder: Holder,
        in_use: Counter[str],
        written: Mapping[str, int],
        needs: Mapping[tuple[str, str], Need],
        wishes: Sequence[Wish],
        in_turn: bool,
        clock: "Clock",
    ) -> None:
        self._holder, self._in_use, self._wishes, self._in_turn, self._clock = holder, in_use, wishes, in_turn, clock
        self._needs = needs
        self._written = dict(written)
        wanted = {need.key for need in needs.values() if need.limit.span == AT_ONCE}
        idle = {key for key, held in written.items() if held != in_use[key]}
        self.slot_keys = sorted(wanted | idle)

    def write(self, connection: Connection) -> tuple[list[Denial | None], Room]:
        before = lock_windows(connection, sorted({key for key, _span in self._needs}))
        if not self._needs.keys() <= before.keys():
            raise _Missing
        now = self._clock.now()  # under the lock: who has waited for it past a window's end is in the next one
        room = self._room(connection, dict(before), now)
        denials = room.decide(self._wishes, now, self._in_turn)
        counted = [need for place, need in self._needs.items() if _has_changed(need, before[place], room)]
        write_windows(connection, counted, room.windows)
        changes = {key: room.ours[key] for key in self.slot_keys if room.ours[key] != self._written.get(key, 0)}
        write_slots(connection, self._holder, changes)
        return denials, room

    def _room(self, connection: Connection, windows: dict[tuple[str, str], Window], now: datetime) -> Room:
        keys = sorted({key for key, span in self._needs if span == AT_ONCE})
        others = slots_of_others(connection, keys, self._holder.worker_id, now) if keys else Counter[str]()
        return Room(windows, others, Counter(self._in_use))


def _has_changed(need: Need, before: Window, room: Room) -> bool:
    """By what was granted, by a window that has opened, or by another declaration."""
    return before != room.windows[need.place] or before.most != need.limit.most
