"""Find similar prospects by name and company among neighbours in a sorted list (sorted neighbourhood). Pure."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from handlers.prospects.match_keys import SEPARATOR
from handlers.prospects.merge import ProspectPair
from mayfly import Dead

EQUAL = 100.0


class Candidate(NamedTuple):
    """A prospect in the sorted list; its key has two parts, the first of which sorts."""

    id: int
    first: str
    second: str
    has_mail: bool


def candidate(prospect_id: int, key: str, mail_key: str | None) -> Candidate:
    first, _, second = key.partition(SEPARATOR)
    return Candidate(prospect_id, first, second, mail_key is not None)


def load_ratio() -> Any:
    try:
        from rapidfuzz.fuzz import ratio
    except ModuleNotFoundError:
        raise Dead("similarity needs rapidfuzz: pip install 'mayfly-jobs[prospects]'") from None
    return ratio


class SortedNeighbourhood:
    """A window over a sorted list. Each prospect is compared with the last ones in the window only, so the number of
    comparisons per prospect is constant, even if many share a name or a company."""

    def __init__(self, size: int, min_similarity: float, ratio: Any) -> None:
        self._size, self._min_similarity, self._ratio = size, min_similarity, ratio
        self._window: list[Candidate] = []

    @property
    def ids(self) -> list[int]:
        return [each.id for each in self._window]

    def restore(self, window: Iterable[Candidate]) -> None:
        """The window of the checkpoint, without comparing its prospects again."""
        self._window = list(window)

    def add(self, newcomer: Candidate) -> Iterator[ProspectPair]:
        """Yield the prospects that match the newcomer. The loser of each pair leaves the window."""
        staying, stays = [], True
        for each in self._window:
            score = self._score(each, newcomer) if stays else 0.0
            if score and each.id < newcomer.id:
                yield ProspectPair(each.id, newcomer.id, "similarity", score)
                stays = False
            elif score:
                yield ProspectPair(newcomer.id, each.id, "similarity", score)
                continue
            staying.append(each)
        if stays:
            staying.append(newcomer)
        self._window = staying[-self._size :]

    def _score(self, one: Candidate, other: Candidate) -> float:
        """The lower similarity of the two parts; 0 if it is below the minimum.

        Two prospects with different addresses match only if name and company are equal.
        """
        minimum = EQUAL if one.has_mail and other.has_mail else self._min_similarity
        first: float = self._ratio(one.first, other.first, score_cutoff=minimum)
        if not first:
            return 0.0
        second: float = self._ratio(one.second, other.second, score_cutoff=minimum)
        return min(first, second)
