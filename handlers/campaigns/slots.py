"""Distribute messages over slots of business hours, at most n per slot and sender. Pure: times are arguments."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zlib import crc32
from zoneinfo import ZoneInfo

from mayfly import BusinessHours

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Of each slot. A job starts up to a minute after its time, and a message counts for the slot in which it is sent.
USED_SHARE = 0.8


@dataclass(frozen=True)
class SlotSender:
    """A sender account, as far as slots concern it."""

    id: int
    zone: ZoneInfo
    limit: int  # messages per day of its zone
    usable_from: datetime | None = None  # the end of its cooldown


class SlotAssignment(NamedTuple):
    slot_at: datetime
    at: datetime  # a random instant within the slot
    sender_id: int


class _ZoneSlots:
    """The slots of one zone, computed as far as they are needed. `find` skips those that were full before."""

    def __init__(self, starts: Iterator[datetime]) -> None:
        self._more = starts
        self._starts: list[datetime] = []
        self._next: list[int] = []  # from each slot to one that may be free; itself until it is full

    def at_or_after(self, at: datetime) -> int:
        while not self._starts or self._starts[-1] < at:
            self._extend()
        return bisect_left(self._starts, at)

    def find(self, index: int) -> int:
        """Compresses the path, so that a long row of full slots is skipped in one step."""
        path = []
        while self._target(index) != index:
            path.append(index)
            index = self._target(index)
        for each in path:
            self._next[each] = index
        return index

    def start(self, index: int) -> datetime:
        self._target(index)
        return self._starts[index]

    def mark_full(self, index: int) -> None:
        self._next[index] = index + 1

    def _target(self, index: int) -> int:
        while index >= len(self._starts):
            self._extend()
        return self._next[index]

    def _extend(self) -> None:
        self._next.append(len(self._starts))
        self._starts.append(next(self._more))


@dataclass
class SlotBoard:
    """Which slots and days of which senders are in use, and the next free slot for a contact."""

    hours: BusinessHours
    length: timedelta
    per_slot: int
    senders: Sequence[SlotSender]
    begin: datetime
    by_slot: Counter[tuple[int, datetime]] = field(default_factory=Counter)  # sender and slot: messages
    by_day: Counter[tuple[int, str]] = field(default_factory=Counter)  # sender and its date: messages
    _zones: dict[str, _ZoneSlots] = field(default_factory=dict)
    _dates: dict[tuple[int, datetime], str] = field(default_factory=dict)
    _turn: int = 0

    def occupy(self, used: Mapping[tuple[int, datetime], int]) -> None:
        """Count messages that are planned already."""
        zones = {each.id: each.zone for each in self.senders}
        for (sender_id, slot_at), number in used.items():
            self.by_slot[sender_id, slot_at] += number
            self.by_day[sender_id, self._date(sender_id, zones[sender_id], slot_at)] += number

    def assign(self, zone: str | None, earliest: datetime, key: str) -> SlotAssignment:
        """The first slot with room. The key decides the instant within the slot: the same key, the same instant."""
        slots = self._slots_of(zone)
        index = slots.find(slots.at_or_after(max(earliest, self.begin)))
        while (sender := self._sender_with_room(slots.start(index))) is None:
            slots.mark_full(index)
            index = slots.find(index)
        slot_at = slots.start(index)
        self.by_slot[sender.id, slot_at] += 1
        self.by_day[sender.id, self._date(sender.id, sender.zone, slot_at)] += 1
        return SlotAssignment(slot_at, slot_at + USED_SHARE * jitter(key) * self.length, sender.id)

    def _sender_with_room(self, slot_at: datetime) -> SlotSender | None:
        """In turn, so that all senders get the same number of messages."""
        for offset in range(len(self.senders)):
            sender = self.senders[(self._turn + offset) % len(self.senders)]
            if self._has_room(sender, slot_at):
                self._turn += offset + 1
                return sender
        return None

    def _has_room(self, sender: SlotSender, slot_at: datetime) -> bool:
        if self.by_slot[sender.id, slot_at] >= self.per_slot:
            return False
        if sender.usable_from is not None and slot_at < sender.usable_from:
            return False
        return self.by_day[sender.id, self._date(sender.id, sender.zone, slot_at)] < sender.limit

    def _date(self, sender_id: int, zone: ZoneInfo, slot_at: datetime) -> str:
        key = sender_id, slot_at
        if key not in self._dates:
            self._dates[key] = local_date(slot_at, zone)
        return self._dates[key]

    def _slots_of(self, zone: str | None) -> _ZoneSlots:
        name = zone or str(self.hours.zone)
        if name not in self._zones:
            hours = self.hours if not zone else self.hours.in_zone(zone)
            self._zones[name] = _ZoneSlots(hours.slots(self.begin, self.length))
        return self._zones[name]


def slot_start(at: datetime, length: timedelta) -> datetime:
    """Of the slot with this instant. As in BusinessHours.slots, slots are multiples of their length since 1970."""
    return EPOCH + (at - EPOCH) // length * length


def jitter(key: str) -> float:
    """From 0 to below 1: a repeated or previewed plan has the same times."""
    return crc32(key.encode()) / (1 << 32)


def local_date(at: datetime, zone: ZoneInfo) -> str:
    return at.astimezone(zone).date().isoformat()
