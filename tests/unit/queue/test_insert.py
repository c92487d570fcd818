"""Many jobs in few statements."""

from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mayfly.queue.insert import BYTES_PER_STATEMENT, ROWS_PER_STATEMENT, NewJob, slices

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def make_new(payload_bytes: int = 2, **changes: object) -> NewJob:
    return NewJob("noop", "x" * payload_bytes, "default", 5, 1, **changes)  # type: ignore[arg-type]


new_jobs = st.builds(
    make_new,
    payload_bytes=st.sampled_from([2, 100, BYTES_PER_STATEMENT // 3]),
    run_at=st.none() | st.just(NOON),
    unique_key=st.none() | st.sampled_from(["a", "b"]),
    group_key=st.none() | st.just("g"),
)


@given(st.lists(new_jobs, max_size=12))
def test_slices_keep_the_order_and_all_jobs(new: list[NewJob]) -> None:
    """Concatenated they are the input, and none is empty."""
    cut = list(slices(new))

    assert [job for part in cut for job in part] == new
    assert all(cut)


@given(st.lists(new_jobs, max_size=12))
def test_a_slice_is_one_statement(new: list[NewJob]) -> None:
    """All its rows have the same columns and together fit a packet; a job too large for that is alone."""
    for part in slices(new):
        assert len({frozenset(job.row) for job in part}) == 1
        assert len(part) == 1 or sum(job.statement_bytes for job in part) <= BYTES_PER_STATEMENT


@given(st.lists(new_jobs, max_size=12))
def test_a_slice_is_as_long_as_possible(new: list[NewJob]) -> None:
    """It ends only where the next job differs in columns or exceeds the rows or bytes."""
    for part, following in pairwise(slices(new)):
        grown = sum(job.max_bytes for job in [*part, following[0]])

        assert (
            part[0].row.keys() != following[0].row.keys()
            or len(part) == ROWS_PER_STATEMENT
            or grown > BYTES_PER_STATEMENT
        )


@given(st.text())
def test_the_estimated_size_of_a_job_is_an_upper_bound(payload: str) -> None:
    """Quotes and backslashes are escaped, and a character has at most four bytes."""
    job = make_new()._replace(payload=payload.encode("utf-8", "replace").decode())

    assert job.statement_bytes <= job.max_bytes


def test_a_thousand_rows_share_a_statement() -> None:
    """Not more: 2,500 small jobs take three round trips."""
    parts = [len(part) for part in slices(make_new() for _ in range(2500))]

    assert parts == [1000, 1000, 500]


def test_no_jobs_make_no_statement() -> None:
    """Not an empty one."""
    assert list(slices([])) == []


def test_jobs_are_read_one_slice_at_a_time() -> None:
    """A million lines from a pipe are never in memory at once."""
    source = iter([make_new() for _ in range(3000)])
    next(slices(source))

    assert len(list(source)) == 1999


def test_escaped_characters_are_counted() -> None:
    """Quotes and backslashes are sent as two bytes each."""
    plain, quoted = make_new(8), NewJob("noop", "\"'\\\"'\\\"'", "default", 5, 1)

    assert quoted.statement_bytes == plain.statement_bytes + 8


def test_bytes_are_counted_not_characters() -> None:
    """Four-byte characters count four."""
    assert NewJob("noop", "💥" * 10, "default", 5, 1).statement_bytes == make_new(40).statement_bytes
