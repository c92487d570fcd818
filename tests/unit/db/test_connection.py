"""How the ids of a batch are sent to a database: as ranges if they are consecutive, otherwise as a list."""

from hypothesis import given
from hypothesis import strategies as st

from mayfly.db.connection import consecutive_runs, in_list


def test_consecutive_ids_are_one_range() -> None:
    """The ids of a claim usually are, and the database then reads one range of its primary key."""
    assert in_list("id", [7, 8, 9, 10]) == "(id BETWEEN 7 AND 10)"


def test_a_few_ranges_are_listed() -> None:
    """The ids between them belong to other claims and are not touched."""
    assert in_list("id", [1, 2, 3, 4, 9, 10, 11, 12]) == "(id BETWEEN 1 AND 4 OR id BETWEEN 9 AND 12)"


def test_scattered_ids_are_a_list() -> None:
    """Ranges of one or two ids would be longer than the list."""
    assert in_list("id", [1, 5, 6, 9]) == "id IN (1,5,6,9)"


@given(st.sets(st.integers(1, 60), min_size=1))
def test_ranges_contain_every_id_and_no_other(ids: set[int]) -> None:
    """They never include the row of another claim."""
    ranges = consecutive_runs(sorted(ids))

    assert {each for first, last in ranges for each in range(first, last + 1)} == ids
