"""How the ids of a batch are named to a database: by ranges where they are neighbours, else one by one."""

from hypothesis import given
from hypothesis import strategies as st

from mayfly.db.connection import consecutive_runs, in_list


def test_neighbours_are_one_range() -> None:
    """A claim's jobs mostly are, and the database then reads one range of its primary key."""
    assert in_list("id", [7, 8, 9, 10]) == "(id BETWEEN 7 AND 10)"


def test_a_few_ranges_are_told_one_by_one() -> None:
    """What lies between them is somebody else's, and not touched."""
    assert in_list("id", [1, 2, 3, 4, 9, 10, 11, 12]) == "(id BETWEEN 1 AND 4 OR id BETWEEN 9 AND 12)"


def test_strangers_are_listed() -> None:
    """Ranges of one or two would be longer than the list."""
    assert in_list("id", [1, 5, 6, 9]) == "id IN (1,5,6,9)"


@given(st.sets(st.integers(1, 60), min_size=1))
def test_ranges_hold_every_id_and_no_other(ids: set[int]) -> None:
    """A row that is not ours is never within."""
    ranges = consecutive_runs(sorted(ids))

    assert {each for first, last in ranges for each in range(first, last + 1)} == ids
