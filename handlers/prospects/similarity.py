"""Find similar names and companies among neighbours in a sorted list (sorted neighbourhood method). Pure."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from handlers.prospects.match_keys import SEPARATOR, phone_key, profile_key
from handlers.prospects.merge import ProspectPair
from mayfly import Dead

EQUAL = 100.0


class Candidate(NamedTuple):
    """A prospect in the sorted list. Its key has two parts; the list is sorted by the first."""

    id: int
    first: str
    second: str
    mail: str | None = None  # keys, like the next two
    phone: str | None = None
    profile: str | None = None

    def shares_identity(self, other: "Candidate") -> bool:
        """Whether both have the same address, phone or profile."""
        own, others = (self.mail, self.phone, self.profile), (other.mail, other.phone, other.profile)
        return any(one is not None and one == two for one, two in zip(own, others, strict=True))

    def has_other_mail(self, other: "Candidate") -> bool:
        return None not in (self.mail, other.mail) and self.mail != other.mail


def candidate(prospect_id: int, key: str, mail_key: str | None, phone: str | None, profile: str | None) -> Candidate:
    first, _, second = key.partition(SEPARATOR)
    return Candidate(prospect_id, first, second, mail_key, phone_key(phone), profile_key(profile))


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
        """Restore the window of the checkpoint without comparing its prospects again."""
        self._window = list(window)

    def add(self, newcomer: Candidate) -> Iterator[ProspectPair]:
        """Yield the prospects that match the newcomer. The loser of a certain pair leaves the window."""
        staying, stays = [], True
        for each in self._window:
            score = self._score(each, newcomer) if stays else 0.0
            if score:
                is_certain = _is_certain(each, newcomer, score)
                winner, loser = min(each.id, newcomer.id), max(each.id, newcomer.id)
                yield ProspectPair(winner, loser, "similarity", score, is_certain)
                if is_certain and newcomer.id < each.id:
                    continue
                stays = not is_certain
            staying.append(each)
        if stays:
            staying.append(newcomer)
        self._window = staying[-self._size :]

    def _score(self, one: Candidate, other: Candidate) -> float:
        """The lower similarity of the two parts; 0 if it is below the minimum.

        Two prospects with different addresses match only if name and company are equal, or they share a phone or
        profile.
        """
        is_strict = one.has_other_mail(other) and not one.shares_identity(other)
        minimum = EQUAL if is_strict else self._min_similarity
        first: float = self._ratio(one.first, other.first, score_cutoff=minimum)
        if not first:
            return 0.0
        second: float = self._ratio(one.second, other.second, score_cutoff=minimum)
        return min(first, second)


def _is_certain(one: Candidate, other: Candidate, score: float) -> bool:
    """Similar names alone do not make two people one: Christian and Christina Weber of one company have 93.3."""
    return one.shares_identity(other) and (score == EQUAL or not one.has_other_mail(other))
