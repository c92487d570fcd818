"""Decide who is the same person by name and company, among those that stand near each other in a list. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from handlers.prospects.keys import BETWEEN
from handlers.prospects.merging import Pair
from mayfly import Dead

EQUAL = 100.0


class Entry(NamedTuple):
    """A prospect's place in the list: its key has two parts, of which it is sorted by the first."""

    id: int
    first: str
    second: str
    has_mail: bool


def entry(prospect_id: int, key: str, mail_key: str | None) -> Entry:
    first, _, second = key.partition(BETWEEN)
    return Entry(prospect_id, first, second, mail_key is not None)


def load_ratio() -> Any:
    try:
        from rapidfuzz.fuzz import ratio
    except ModuleNotFoundError:
        raise Dead("likeness needs rapidfuzz: pip install 'mayfly-jobs[prospects]'") from None
    return ratio


class Neighbourhood:
    """The last so many of a sorted list. Each newcomer is compared with them and no others: the work is so many
    comparisons a prospect, however many share a name or a company."""

    def __init__(self, most: int, likeness: float, ratio: Any) -> None:
        self._most, self._likeness, self._ratio = most, likeness, ratio
        self._entries: list[Entry] = []

    @property
    def ids(self) -> list[int]:
        return [each.id for each in self._entries]

    def settle(self, entries: Iterable[Entry]) -> None:
        """Those that were there before, without comparing them again."""
        self._entries = list(entries)

    def welcome(self, newcomer: Entry) -> Iterator[Pair]:
        """Who is the same as the newcomer. The losers of each pair leave."""
        staying, stays = [], True
        for each in self._entries:
            score = self._alike(each, newcomer) if stays else 0.0
            if score and each.id < newcomer.id:
                yield Pair(each.id, newcomer.id, "likeness", score)
                stays = False
            elif score:
                yield Pair(newcomer.id, each.id, "likeness", score)
                continue
            staying.append(each)
        if stays:
            staying.append(newcomer)
        self._entries = staying[-self._most :]

    def _alike(self, one: Entry, other: Entry) -> float:
        """How alike, by the part that is less so; 0 for too little.

        Two that have an address each, and not the same, are two people unless nothing else differs.
        """
        least = EQUAL if one.has_mail and other.has_mail else self._likeness
        first: float = self._ratio(one.first, other.first, score_cutoff=least)
        if not first:
            return 0.0
        second: float = self._ratio(one.second, other.second, score_cutoff=least)
        return min(first, second)
