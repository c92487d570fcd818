"""What a lane asks for, what cuts it, and that every cut is told."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.plan import LaneCount, LaneRules, Plan, PlannedLane, Slots, plan_runners

ROOMY = Slots(free=1_000)
NO_POOLS: Mapping[str, int] = {}
POOLS = {"email": 3, "reports": 7, "closed": 0}


def make_count(name: str = "default", pending: int = 5, **changed: Any) -> LaneCount:
    """A lane of batch 5 and 1 to 5 workers; what is changed may belong to the lane or to its count."""
    of_count = {key: changed.pop(key) for key in ("running", "busy", "capped", "passed_over") if key in changed}
    lane = {"batch_size": 5, "max_workers": 5, **changed}
    return LaneCount(LaneRules(name, **lane), pending, **of_count)


@st.composite
def lane_counts(draw: st.DrawFn, name: str = "default") -> LaneCount:
    max_workers = draw(st.integers(1, 8))
    lane = LaneRules(
        name,
        batch_size=draw(st.integers(1, 10)),
        max_workers=max_workers,
        min_workers=draw(st.integers(1, max_workers)),
        rank=draw(st.integers(-1, 1)),
        pool=draw(st.sampled_from([None, *POOLS])),
        external=draw(st.integers(0, 9)) == 9,
        paused=draw(st.sampled_from([None] * 9 + ["paused"])),
    )
    return LaneCount(
        lane,
        pending=draw(st.integers(0, 60)),
        running=draw(st.integers(0, 4)),
        passed_over=draw(st.integers(0, 5)),
    )


@st.composite
def fleets(draw: st.DrawFn) -> list[LaneCount]:
    return [draw(lane_counts(f"lane{number}")) for number in range(draw(st.integers(0, 8)))]


host_slots = st.builds(
    Slots, free=st.integers(0, 20), limit=st.none() | st.integers(0, 20), limited_by=st.just("load 14.2")
)


def only(plan: Plan) -> PlannedLane:
    (planned,) = plan.lanes
    return planned


def planned_by_name(plan: Plan) -> dict[str, int]:
    return {each.count.lane.name: each.planned for each in plan.lanes}


def cuts_by_name(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {each.count.lane.name: each.cuts for each in plan.lanes}


SCALING = [
    (0, 0),
    *((pending, 1) for pending in range(1, 6)),
    *((pending, 2) for pending in range(6, 11)),
    *((pending, 3) for pending in range(11, 16)),
    *((pending, 4) for pending in range(16, 21)),
    *((pending, 5) for pending in range(21, 26)),
    (26, 5),
    (50, 5),
]


@pytest.mark.parametrize(("pending", "runners"), SCALING)
def test_the_scaling_table_holds_row_by_row(pending: int, runners: int) -> None:
    """Batches of 5 and 1 to 5 workers give the runners that the design's table promises."""
    planned = only(plan_runners([make_count(pending=pending)], NO_POOLS, ROOMY))

    assert (planned.wanted, planned.planned) == (runners, runners)


@pytest.mark.parametrize(("pending", "wanted"), [(0, 0), (1, 3), (15, 3), (16, 4)])
def test_min_workers_lifts_a_lane_that_has_work(pending: int, wanted: int) -> None:
    """MIN_WORKERS raises a small backlog's runners and starts nothing for an empty lane."""
    planned = only(plan_runners([make_count(pending=pending, min_workers=3)], NO_POOLS, ROOMY))

    assert (planned.wanted, planned.planned, planned.cuts) == (wanted, wanted, ())


@given(lane_counts())
def test_wanted_stays_between_the_bounds(count: LaneCount) -> None:
    """A lane with work wants at least one and at most MAX_WORKERS runners; an empty, external or paused one none."""
    wanted = only(plan_runners([count], POOLS, ROOMY)).wanted

    if count.pending and not count.lane.external and not count.lane.paused:
        assert count.lane.min_workers <= wanted <= count.lane.max_workers
    else:
        assert wanted == 0


def test_nothing_counted_is_an_empty_plan() -> None:
    """No lanes, no runners, nobody passed over."""
    plan = plan_runners([], POOLS, ROOMY)

    assert (plan.lanes, plan.runners, plan.passed_over()) == ((), 0, frozenset())


@pytest.mark.parametrize(("running", "planned"), [(0, 5), (2, 3), (5, 0), (9, 0)])
def test_what_already_runs_is_taken_off(running: int, planned: int) -> None:
    """Runners alive anywhere in the fleet count against what the lane wants, never below none."""
    lane = only(plan_runners([make_count(pending=25, running=running)], NO_POOLS, ROOMY))

    assert (lane.planned, lane.cuts) == (planned, (f"{running} already running",) if running else ())


def test_a_lane_that_fully_runs_is_not_passed_over() -> None:
    """A lane that already has the runners it wants misses nothing when the host is full."""
    plan = plan_runners([make_count(pending=5, running=1)], NO_POOLS, Slots(free=0))

    assert (cuts_by_name(plan), plan.passed_over()) == ({"default": ("1 already running",)}, frozenset())


def test_an_external_lane_is_never_dispatched() -> None:
    """Outside workers pull an external lane: it gets no runner, says so, and is not passed over."""
    plan = plan_runners([make_count(pending=25, external=True)], NO_POOLS, Slots(free=0))

    assert only(plan).wanted == plan.runners == 0
    assert only(plan).cuts == ("external",)
    assert plan.passed_over() == frozenset()


def test_a_paused_lane_is_not_dispatched_and_says_why() -> None:
    """No runner however much room there is; what already runs there is not counted as a cut of its own."""
    plan = plan_runners([make_count(pending=25, running=1, paused="paused: the vendor is down")], NO_POOLS, ROOMY)

    assert only(plan).wanted == plan.runners == 0
    assert only(plan).cuts == ("paused: the vendor is down",)
    assert (plan.paused, plan.passed_over()) == (("default",), frozenset())


def test_a_paused_lane_without_work_is_not_worth_a_word() -> None:
    """Nothing is held up there."""
    plan = plan_runners([make_count(pending=0, paused="paused")], NO_POOLS, ROOMY)

    assert (only(plan).cuts, plan.paused) == ((), ())


def test_what_a_paused_lane_runs_still_fills_its_pool() -> None:
    """Its runners end in their own time."""
    paused = make_count("paused", 25, running=2, pool="email", paused="paused")

    plan = plan_runners([paused, make_count("other", 25, pool="email")], POOLS, ROOMY)

    assert planned_by_name(plan) == {"other": 1, "paused": 0}


def test_a_capped_count_is_planned_like_its_number() -> None:
    """A count that stopped at `1000+` is enough to want every worker."""
    planned = only(plan_runners([make_count(pending=1_001, capped=True)], NO_POOLS, ROOMY))

    assert (planned.planned, planned.cuts) == (5, ("max_workers 5",))


def test_a_pool_is_shared_in_the_order_of_rank() -> None:
    """The better rank takes what it wants of the pool's cap, the next one gets the rest and says why."""
    digest = make_count("send_digest", pending=50, pool="email", rank=2)
    email = make_count("send_email", pending=10, pool="email", rank=1)
    plan = plan_runners([digest, email], POOLS, ROOMY)

    assert planned_by_name(plan) == {"send_email": 2, "send_digest": 1}
    assert cuts_by_name(plan) == {"send_email": (), "send_digest": ("max_workers 5", "pool email 3")}


def test_a_pool_is_shared_among_equals_in_the_order_given() -> None:
    """Among equal ranks the lane counted first takes from the pool first, however long others waited."""
    first = make_count("send_email", pending=10, pool="email")
    second = make_count("send_digest", pending=10, pool="email", passed_over=9)
    plan = plan_runners([first, second], POOLS, ROOMY)

    assert planned_by_name(plan) == {"send_email": 2, "send_digest": 1}


def test_a_pool_counts_every_runner_of_its_lanes() -> None:
    """Runners of a lane that has nothing pending any more still fill the pool."""
    drained = make_count("send_digest", pending=0, running=2, pool="email")
    plan = plan_runners([make_count("send_email", pending=25, pool="email"), drained], POOLS, ROOMY)

    assert planned_by_name(plan) == {"send_email": 1, "send_digest": 0}


def test_a_lane_that_its_pool_holds_back_is_not_passed_over() -> None:
    """Only want of slots passes a lane over: one behind a full pool would get nothing from a roomy host."""
    full = make_count("send_email", pending=25, running=3, pool="email")
    plan = plan_runners([full, make_count("other")], POOLS, Slots(free=0))

    assert plan.passed_over() == {"other"}


def test_a_pool_without_a_cap_cuts_nothing() -> None:
    """A pool that is not among the caps leaves its lanes as they are."""
    plan = plan_runners([make_count(pending=25, pool="unheard of")], POOLS, ROOMY)

    assert (plan.runners, only(plan).cuts) == (5, ())


@pytest.mark.parametrize(
    ("slots", "reason"),
    [
        (Slots(free=2), "host slots 2"),
        (Slots(free=2, limit=6, limited_by="load 14.2 per core"), "host slots 2"),
        (Slots(free=6, limit=2, limited_by="free memory 180 MB"), "free memory 180 MB"),
        (Slots(free=6, limit=2), "headroom 2"),
    ],
)
def test_the_tighter_of_slots_and_headroom_cuts_and_is_named(slots: Slots, reason: str) -> None:
    """A lane that gets less for want of slots says whether the host's cap or its headroom was it."""
    planned = only(plan_runners([make_count(pending=15)], NO_POOLS, slots))

    assert (planned.planned, planned.cuts) == (2, (reason,))


@pytest.mark.parametrize("slots", [Slots(free=-3), Slots(free=0), Slots(free=4, limit=0, limited_by="load")])
def test_a_host_without_slots_starts_nothing(slots: Slots) -> None:
    """Without a slot every lane with runners to start is passed over, each with the reason."""
    waiting = [make_count(f"lane{number}") for number in range(5)]
    plan = plan_runners([*waiting, make_count("empty", pending=0)], NO_POOLS, slots)

    assert plan.runners == 0
    assert plan.passed_over() == {each.lane.name for each in waiting}
    assert all(each.cuts == ((slots.reason,) if each.count.pending else ()) for each in plan.lanes)


def test_all_cuts_are_told_in_the_order_they_were_made() -> None:
    """A number that was cut four times says so four times."""
    count = make_count(pending=50, running=1, pool="email")
    planned = only(plan_runners([count], {"email": 3}, Slots(free=1)))

    assert planned.cuts == ("max_workers 5", "1 already running", "pool email 3", "host slots 1")
    assert (planned.wanted, planned.planned, planned.short) == (5, 1, 1)


@given(fleets(), host_slots)
def test_the_slots_are_never_exceeded_nor_left_unused(counts: list[LaneCount], slots: Slots) -> None:
    """A plan starts what lanes and pools allow, or as many as there are slots, whichever is less."""
    allowed = plan_runners(counts, POOLS, ROOMY).runners
    plan = plan_runners(counts, POOLS, slots)

    assert plan.runners == min(allowed, slots.free, slots.free if slots.limit is None else slots.limit)


@given(fleets(), host_slots)
def test_no_lane_gets_more_than_it_would_alone(counts: list[LaneCount], slots: Slots) -> None:
    """What runs and what is planned of a lane never exceed what it wants, unless that many ran already."""
    plan = plan_runners(counts, POOLS, slots)

    for each in plan.lanes:
        assert 0 <= each.planned <= max(0, each.wanted - each.count.running)


@given(fleets(), host_slots)
def test_the_cap_of_a_pool_is_never_exceeded(counts: list[LaneCount], slots: Slots) -> None:
    """A pool's runners, running and planned, stay within its cap; above it already, it starts none."""
    plan = plan_runners(counts, POOLS, slots)

    for name, cap in POOLS.items():
        members = [each for each in plan.lanes if each.count.lane.pool == name]
        running = sum(each.count.running for each in members)
        assert sum(each.planned for each in members) <= max(0, cap - running)


@given(fleets(), host_slots, st.data())
def test_more_room_or_more_work_never_starts_fewer(
    counts: list[LaneCount], slots: Slots, data: st.DataObject
) -> None:
    """The sum of the plan grows with the slots, with the caps of pools and with any lane's backlog."""
    more_slots = replace(slots, free=slots.free + data.draw(st.integers(0, 5)))
    more_room = {name: cap + data.draw(st.integers(0, 5)) for name, cap in POOLS.items()}
    more_work = [replace(each, pending=each.pending + data.draw(st.integers(0, 20))) for each in counts]
    runners = plan_runners(counts, POOLS, slots).runners

    assert plan_runners(counts, POOLS, more_slots).runners >= runners
    assert plan_runners(counts, more_room, slots).runners >= runners
    assert plan_runners(more_work, POOLS, slots).runners >= runners


@given(fleets(), host_slots)
def test_a_lane_tells_a_cut_if_and_only_if_it_was_cut(counts: list[LaneCount], slots: Slots) -> None:
    """Less than the backlog asks for has a reason that is not empty; all of it has none."""
    plan = plan_runners(counts, POOLS, slots)

    for each in plan.lanes:
        lane = each.count.lane
        batches = -(-each.count.pending // lane.batch_size)
        asked = max(batches, lane.min_workers) if each.wanted else batches
        assert bool(each.cuts) == (each.planned < asked)
        assert all(each.cuts)


@given(fleets(), host_slots)
def test_a_lane_lacks_slots_if_and_only_if_it_says_so(counts: list[LaneCount], slots: Slots) -> None:
    """`short` is what a roomy host would have added, and the reason stands with exactly those lanes."""
    roomy = planned_by_name(plan_runners(counts, POOLS, ROOMY))
    plan = plan_runners(counts, POOLS, slots)

    for each in plan.lanes:
        assert each.short == roomy[each.count.lane.name] - each.planned
        assert (slots.reason in each.cuts) == (each.short > 0)


@given(fleets(), host_slots)
def test_every_lane_that_was_counted_is_in_the_plan_once(counts: list[LaneCount], slots: Slots) -> None:
    """The plan shows each counted lane once, those with runners to start before those without."""
    plan = plan_runners(counts, POOLS, slots)
    with_work = [each.planned > 0 for each in plan.lanes]

    assert sorted(each.count.lane.name for each in plan.lanes) == sorted(each.lane.name for each in counts)
    assert with_work == sorted(with_work, reverse=True)


@given(fleets(), host_slots)
def test_the_plan_depends_on_its_arguments_alone(counts: list[LaneCount], slots: Slots) -> None:
    """The same values give the same plan, and are left as they were."""
    counts_before, pools = list(counts), dict(POOLS)
    first = plan_runners(counts, pools, slots)
    second = plan_runners(counts, pools, slots)

    assert first == second
    assert (counts, pools) == (counts_before, POOLS)


@pytest.mark.parametrize(
    ("pending", "running", "busy", "planned"),
    [(1, 1, 0, 0), (1, 1, 1, 1), (6, 2, 1, 1), (6, 3, 3, 2), (25, 5, 5, 0), (1, 4, 4, 1), (0, 3, 3, 0)],
)
def test_a_busy_runner_takes_nothing_but_its_place(pending: int, running: int, busy: int, planned: int) -> None:
    """What has come is for the others and for new ones; the busy ones count against the lane's maximum."""
    plan = plan_runners([make_count(pending=pending, running=running, busy=busy)], NO_POOLS, ROOMY)

    assert only(plan).planned == planned


def test_a_cap_that_somebody_set_says_by_whom() -> None:
    """As the cut of a plan, so that nobody looks for it in the settings."""
    lane = LaneRules("mail", batch_size=5, max_workers=2, set_by="ann")

    [planned] = plan_runners([LaneCount(lane, pending=100)], {}, Slots(free=32)).lanes

    assert (planned.planned, planned.cuts) == (2, ("max_workers 2 set by ann",))
