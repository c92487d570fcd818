"""Which lanes get a runner if the slots do not suffice: by rank, but no lane waits forever."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from mayfly.fleet.plan import LaneCount, LaneRules, Plan, Slots, plan_runners

RANKS = st.integers(-2, 2)
# simulating many cycles on a busy machine takes time


def make_count(name: str, rank: int = 0, pending: int = 1, passed_over: int = 0) -> LaneCount:
    lane = LaneRules(name, batch_size=1, max_workers=9, rank=rank)
    return LaneCount(lane, pending, passed_over=passed_over)


@st.composite
def waiting_lanes(draw: st.DrawFn, max_lanes: int = 12, longest_wait: int = 0) -> list[LaneCount]:
    """Lanes with work, of any rank, which may have been passed over before."""
    return [
        make_count(
            f"lane{number}",
            rank=draw(RANKS),
            pending=draw(st.integers(1, 9)),
            passed_over=draw(st.integers(0, longest_wait)),
        )
        for number in range(draw(st.integers(1, max_lanes)))
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
    """Consecutive cycles; the work never ends."""
    while True:
        plan = plan_runners(counts, {}, Slots(slots))
        yield plan
        counts = after(counts, plan)


def cycles_of_pool(counts: Sequence[LaneCount], cap: int) -> Iterator[Plan]:
    """The same for lanes that share a pool, on a host with enough slots."""
    counts = [replace(each, lane=replace(each.lane, pool="misc")) for each in counts]
    while True:
        plan = plan_runners(counts, {"misc": cap}, Slots(100))
        yield plan
        counts = after(counts, plan)


def served(plan: Plan) -> list[str]:
    return [each.count.lane.name for each in plan.lanes if each.planned]


def granted(plan: Plan) -> dict[str, int]:
    return {each.count.lane.name: each.planned for each in plan.lanes if each.planned}


@given(waiting_lanes(longest_wait=8), st.integers(1, 6))
def test_every_waiting_lane_is_served_within_its_bound(counts: list[LaneCount], slots: int) -> None:
    """In any ceil(lanes / slots) consecutive cycles each lane gets a runner, with any rank and history."""
    bound = cycles_to_serve(len(counts), slots)
    history = [set(served(plan)) for plan, _ in zip(cycles(counts, slots), range(4 * bound), strict=False)]

    for start in range(len(history) - bound + 1):
        assert set().union(*history[start : start + bound]) == {each.lane.name for each in counts}


@given(waiting_lanes(longest_wait=8), st.integers(1, 6))
def test_no_lane_starves_within_a_pool(counts: list[LaneCount], cap: int) -> None:
    """In any ceil(lanes / cap) consecutive cycles each lane of the pool gets a runner, with any rank and history."""
    bound = cycles_to_serve(len(counts), cap)
    history = [set(served(plan)) for plan, _ in zip(cycles_of_pool(counts, cap), range(4 * bound), strict=False)]

    for start in range(len(history) - bound + 1):
        assert set().union(*history[start : start + bound]) == {each.lane.name for each in counts}


@given(waiting_lanes(max_lanes=10, longest_wait=4), st.integers(1, 4), st.data())
def test_lanes_that_come_and_go_delay_no_other_lane(counts: list[LaneCount], slots: int, data: st.DataObject) -> None:
    """A lane with work for ceil(lanes / slots) consecutive cycles is served in them."""
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


@given(waiting_lanes(max_lanes=10, longest_wait=4), st.integers(1, 3), st.data())
def test_slots_that_come_and_go_starve_no_lane(counts: list[LaneCount], fewest: int, data: st.DataObject) -> None:
    """A lane is served within 2 ceil(lanes / s) cycles that had at least s slots."""
    bound = 2 * cycles_to_serve(len(counts), fewest)
    waited = dict.fromkeys((each.lane.name for each in counts), 0)

    for _ in range(2 * bound):
        slots = data.draw(st.just(0) | st.integers(fewest, 2 * fewest))
        plan = plan_runners(counts, {}, Slots(slots))
        passed_over = plan.passed_over()
        waited = {name: cycles + bool(slots) if name in passed_over else 0 for name, cycles in waited.items()}
        counts = after(counts, plan)

        assert max(waited.values()) < bound


@given(waiting_lanes(max_lanes=7), st.integers(1, 4), st.integers(0, 6))
def test_rank_decides_within_the_bound(counts: list[LaneCount], slots: int, cycle: int) -> None:
    """No other choice that keeps every bound would serve better ranks."""
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


def test_the_best_rank_is_served_every_cycle_while_others_take_turns() -> None:
    """If a slot can be spared the best rank keeps it, and the others share the rest."""
    counts = [make_count("slow"), make_count("late"), make_count("first", rank=-1)]
    history = [served(plan) for plan, _ in zip(cycles(counts, slots=2), range(4), strict=False)]

    assert history == [["first", "slow"], ["first", "late"], ["first", "slow"], ["first", "late"]]


def test_a_lane_at_its_bound_comes_before_a_better_rank() -> None:
    """With one slot and two lanes, the better rank gets it in one cycle and the other in the next."""
    counts = [make_count("low", rank=5), make_count("high", rank=-5)]
    history = [served(plan) for plan, _ in zip(cycles(counts, slots=1), range(4), strict=False)]

    assert history == [["high"], ["low"], ["high"], ["low"]]


def test_among_equal_ranks_the_lane_passed_over_longest_is_next() -> None:
    """Then the order of counting decides."""
    counts = [make_count("a"), make_count("b", passed_over=1), make_count("c", passed_over=1)]
    plan = plan_runners(counts, {}, Slots(1))

    assert [each.count.lane.name for each in plan.lanes] == ["b", "c", "a"]


def test_lanes_passed_over_are_listed_in_order_of_rank() -> None:
    """After those served, the next ones for a free slot, the better rank first."""
    counts = [make_count("old", rank=2, passed_over=1), make_count("low", rank=1), make_count("high")]
    plan = plan_runners([make_count("top", rank=-1), *counts], {}, Slots(1))

    assert [each.count.lane.name for each in plan.lanes] == ["top", "high", "low", "old"]


@given(waiting_lanes(), st.integers(0, 40))
def test_no_lane_gets_two_runners_while_another_has_none(counts: list[LaneCount], slots: int) -> None:
    """A second runner of any lane comes after the first one of every lane, with any ranks."""
    planned = [each.planned for each in plan_runners(counts, {}, Slots(slots)).lanes]

    assert max(planned) <= 1 or min(planned) >= 1


@given(waiting_lanes(), st.integers(0, 40))
def test_equal_ranks_differ_by_at_most_one_slot(counts: list[LaneCount], slots: int) -> None:
    """Unless the lane behind has all the runners it wants."""
    lanes = plan_runners(counts, {}, Slots(slots)).lanes

    for lacking in lanes:
        for other in lanes:
            if lacking.short and other.count.lane.rank == lacking.count.lane.rank:
                assert other.planned <= lacking.planned + 1


@given(waiting_lanes(), st.integers(0, 40))
def test_further_slots_are_given_by_rank(counts: list[LaneCount], slots: int) -> None:
    """A lane has a second runner only if every better rank has all it wants."""
    lanes = plan_runners(counts, {}, Slots(slots)).lanes

    for better in lanes:
        for other in lanes:
            if better.short and better.count.lane.rank < other.count.lane.rank:
                assert other.planned <= 1


def test_slots_are_given_in_rounds() -> None:
    """One each first, then all the best rank wants, then the others in turns."""
    counts = [make_count("x", pending=9), make_count("y", pending=9), make_count("top", rank=-1, pending=3)]
    plan = plan_runners(counts, {}, Slots(8))

    assert list(granted(plan).items()) == [("top", 3), ("x", 3), ("y", 2)]
