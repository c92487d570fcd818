"""How many jobs may run concurrently."""

from collections import Counter

import pytest

from mayfly.job import Job
from mayfly.registry import Handler
from runner.concurrent_batch import claimable, free_slots


def plain(job: Job) -> None: ...


ASYNC = Handler("fetch", plain, is_async=True)
FEW = Handler("resize", plain, threads=3)
MANY = Handler("upload", plain, threads=500)


@pytest.mark.parametrize(
    ("handler", "running", "free"),
    [
        (ASYNC, {}, 10),
        (ASYNC, {"fetch": 4}, 6),
        (ASYNC, {"fetch": 4, "resize": 3}, 3),
        (ASYNC, {"fetch": 10}, 0),
        (FEW, {}, 3),
        (FEW, {"resize": 2}, 1),
        (FEW, {"resize": 3}, 0),
        (FEW, {"fetch": 9}, 1),
        (MANY, {"upload": 4}, 6),
    ],
)
def test_a_slot_must_be_free_in_the_lane_and_for_the_type(
    handler: Handler, running: dict[str, int], free: int
) -> None:
    """The tighter of the two limits counts."""
    assert free_slots(handler, 10, Counter(running)) == free


@pytest.mark.parametrize(
    ("handlers", "running", "room"),
    [
        ([], {}, 0),
        ([ASYNC], {"fetch": 4}, 6),
        ([ASYNC, FEW], {"fetch": 4}, 3),
        ([ASYNC, FEW], {"resize": 3}, 0),
        ([ASYNC], {"fetch": 10}, 0),
    ],
)
def test_a_claim_fits_jobs_of_any_type(handlers: list[Handler], running: dict[str, int], room: int) -> None:
    """A claim cannot choose types: a job without a slot would block while other runners could run it."""
    assert claimable(handlers, 10, Counter(running)) == room
