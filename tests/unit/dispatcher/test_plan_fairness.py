"""Who is served when the slots do not suffice: rank first, and yet nobody waits for ever."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.plan import LaneCount, LaneRules, Plan, Slots, plan_runners

RANKS = st.integers(-2, 2)
# Many cycles simulated on a busy machine take their time: that is no failure.


def make_count(name: str, rank: int = 0, pending: int = 1, passed_over: int = 0) -> LaneCount:
    lane = LaneRules(name, batch_size=1, max_workers=9, rank=rank)
    return LaneCount(lane, pending, passed_over=passed_over)


@st.composite
def crowds(draw: st.DrawFn, most: int = 12, longest_wait: int = 0) -> list[LaneCount]:
    """Lanes that all have work, of any rank, each with a past."""
    return [
        make_count(
            f"lane{number}",
            rank=draw(RANKS),
            pending=draw(st.integers(1, 9)),
            passed_over=draw(st.integers(0, longest_wait)),
        )
        for number in range(draw(st.integers(1, most)))
    ]


def cycles_to_serve(lanes: int, slots: int) -> int:
    return -(-lanes // slots)


def after(counts: Sequence[LaneCount], plan: Plan) -> list[LaneCount]:
    """The lanes as the next cycle counts them."""
    passed_over = plan.passed_over()
    return [
        replace(each, passed_over=each.passed_over + 1 if each.lane.name in passed_over else 0) for each in counts
    ]


def cycles(counts: Sequence[LaneCount], slots: int) -> Iterator[Plan]:
    """One cycle after the other, work never ending."""
    while True:
        plan = plan_runners(counts, {}, Slots(slots))
        yield plan
        counts = after(counts, plan)


def served(plan: Plan) -> list[str]:
    return [each.count.lane.name for each in plan.lanes if each.planned]


def granted(plan: Plan) -> dict[str, int]:
    return {each.count.lane.name: each.planned for each in plan.lanes if each.planned}


@given(crowds(longest_wait=8), st.integers(1, 6))
def test_every_waiting_lane_is_served_within_its_bound(counts: list[LaneCount], slots: int) -> None:
    """In any ceil(lanes / slots) cycles in a row each lane gets a runner, whatever its rank and the past."""
    bound = cycles_to_serve(len(counts), slots)
    history = [set(served(plan)) for plan, _ in zip(cycles(counts, slots), range(4 * bound), strict=False)]

    for start in range(len(history) - bound + 1):
        assert set().union(*history[start : start + bound]) == {each.lane.name for each in counts}


@given(crowds(most=10, longest_wait=4), st.integers(1, 4), st.data())
def test_lanes_that_come_and_go_delay_nobody(counts: list[LaneCount], slots: int, data: st.DataObject) -> None:
    """A lane that has work for ceil(lanes / slots) cycles in a row is served in them, whichever others do."""
    bound = cycles_to_serve(len(counts), slots)
    waited = dict.fromkeys((each.lane.name for each in counts), 0)
    busy_patterns = st.lists(st.booleans(), min_size=len(counts), max_size=len(counts))

    for _ in range(3 * bound):
        busy = data.draw(busy_patterns)
        today = [each if has_work else replace(each, pending=0) for each, has_work in zip(counts, busy, strict=True)]
        plan = plan_runners(today, {}, Slots(slots))
        passed_over = plan.passed_over()
        waited = {name: cycles + 1 if name in passed_over else 0 for name, cycles in waited.items()}
        counts = after(counts, plan)

        assert max(waited.values()) < bound


@given(crowds(most=10, longest_wait=4), st.integers(1, 3), st.data())
def test_slots_that_come_and_go_starve_nobody(counts: list[LaneCount], fewest: int, data: st.DataObject) -> None:
    """When slots change too, a lane is served within 2 ceil(lanes / s) cycles that had at least s of them."""
    bound = 2 * cycles_to_serve(len(counts), fewest)
    waited = dict.fromkeys((each.lane.name for each in counts), 0)

    for _ in range(2 * bound):
        slots = data.draw(st.just(0) | st.integers(fewest, 2 * fewest))
        plan = plan_runners(counts, {}, Slots(slots))
        passed_over = plan.passed_over()
        waited = {name: cycles + bool(slots) if name in passed_over else 0 for name, cycles in waited.items()}
        counts = after(counts, plan)

        assert max(waited.values()) < bound


@given(crowds(most=7), st.integers(1, 4), st.integers(0, 6))
def test_rank_decides_as_far_as_the_bound_allows(counts: list[LaneCount], slots: int, cycle: int) -> None:
    """No other choice that keeps everybody's bound would serve better ranks than the plan does."""
    for plan, _ in zip(cycles(counts, slots), range(cycle), strict=False):
        counts = after(counts, plan)
    count_of = {each.lane.name: each for each in counts}
    bound = cycles_to_serve(len(counts), slots)

    def keeps_every_bound(choice: Sequence[str]) -> bool:
        rest = [bound - 1 - each.passed_over for name, each in count_of.items() if name not in choice]
        return all(sum(can_wait <= further for can_wait in rest) <= slots * further for further in range(bound))

    def ranks(choice: Sequence[str]) -> list[int]:
        return sorted(count_of[name].lane.rank for name in choice)

    choices = combinations(count_of, min(slots, len(counts)))
    chosen = served(plan_runners(counts, {}, Slots(slots)))

    assert keeps_every_bound(chosen)
    assert ranks(chosen) == min(ranks(choice) for choice in choices if keeps_every_bound(choice))


def test_a_better_rank_is_served_every_cycle_while_others_take_turns() -> None:
    """With a slot to spare the better rank keeps it, and the rest share the other one in time."""
    counts = [make_count("slow"), make_count("late"), make_count("first", rank=-1)]
    history = [served(plan) for plan, _ in zip(cycles(counts, slots=2), range(4), strict=False)]

    assert history == [["first", "slow"], ["first", "late"], ["first", "slow"], ["first", "late"]]


def test_a_lane_out_of_time_goes_before_a_better_rank() -> None:
    """One slot and two lanes: the better rank has it in one cycle, the other in the next."""
    counts = [make_count("low", rank=5), make_count("high", rank=-5)]
    history = [served(plan) for plan, _ in zip(cycles(counts, slots=1), range(4), strict=False)]

    assert history == [["high"], ["low"], ["high"], ["low"]]


def test_among_equals_the_one_passed_over_longest_is_next() -> None:
    """Equal ranks take turns: who was passed over longest first, then as they were counted."""
    counts = [make_count("a"), make_count("b", passed_over=1), make_count("c", passed_over=1)]
    plan = plan_runners(counts, {}, Slots(1))

    assert [each.count.lane.name for each in plan.lanes] == ["b", "c", "a"]


def test_those_passed_over_wait_in_the_order_of_rank() -> None:
    """Behind those served stand those next in line for a slot set free, the better rank first."""
    counts = [make_count("old", rank=2, passed_over=1), make_count("low", rank=1), make_count("high")]
    plan = plan_runners([make_count("top", rank=-1), *counts], {}, Slots(1))

    assert [each.count.lane.name for each in plan.lanes] == ["top", "high", "low", "old"]


@given(crowds(), st.integers(0, 40))
def test_no_lane_has_two_while_another_has_none(counts: list[LaneCount], slots: int) -> None:
    """A second runner of any lane comes after the first one of every lane, whatever their ranks."""
    planned = [each.planned for each in plan_runners(counts, {}, Slots(slots)).lanes]

    assert max(planned) <= 1 or min(planned) >= 1


@given(crowds(), st.integers(0, 40))
def test_equals_differ_by_one_slot_at_most(counts: list[LaneCount], slots: int) -> None:
    """Among equal ranks nobody is two ahead of a lane that still lacks a runner."""
    lanes = plan_runners(counts, {}, Slots(slots)).lanes

    for lacking in lanes:
        for other in lanes:
            if lacking.short and other.count.lane.rank == lacking.count.lane.rank:
                assert other.planned <= lacking.planned + 1


@given(crowds(), st.integers(0, 40))
def test_slots_beyond_the_first_go_by_rank(counts: list[LaneCount], slots: int) -> None:
    """A lane has a second runner only if every better rank has all it wants."""
    lanes = plan_runners(counts, {}, Slots(slots)).lanes

    for better in lanes:
        for other in lanes:
            if better.short and better.count.lane.rank < other.count.lane.rank:
                assert other.planned <= 1


def test_slots_are_handed_out_in_rounds() -> None:
    """First one each, then the better rank's fill, then the others in turns."""
    counts = [make_count("x", pending=9), make_count("y", pending=9), make_count("top", rank=-1, pending=3)]
    plan = plan_runners(counts, {}, Slots(8))

    assert list(granted(plan).items()) == [("top", 3), ("x", 3), ("y", 2)]
