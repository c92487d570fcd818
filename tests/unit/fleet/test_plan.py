"""What a lane asks for, what limits it, and that every cut is reported."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.fleet.plan import LaneCount, LaneRules, Plan, PlannedLane, Slots, plan_runners

ROOMY = Slots(free=1_000)
NO_POOLS: Mapping[str, int] = {}
POOLS = {"email": 3, "reports": 7, "closed": 0}


def make_count(name: str = "default", pending: int = 5, **changed: Any) -> LaneCount:
    """A lane of batch 5 and 1 to 5 workers; changes apply to the lane or to its count."""
    of_count = {
        key: changed.pop(key)
        for key in ("running", "busy", "capped", "passed_over", "expects_jobs", "refused")
        if key in changed
    }
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
        expects_jobs=draw(st.booleans()),
    )


@st.composite
def fleets(draw: st.DrawFn) -> list[LaneCount]:
    return [draw(lane_counts(f"lane{number}")) for number in range(draw(st.integers(0, 8)))]


host_slots = st.builds(Slots, free=st.integers(0, 20), limited_by=st.sampled_from(["", "load 14.2"]))


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
def test_the_number_of_runners_follows_the_table(pending: int, runners: int) -> None:
    """Batches of 5 and 1 to 5 workers give the runners of the design's table."""
    planned = only(plan_runners([make_count(pending=pending)], NO_POOLS, ROOMY))

    assert (planned.wanted, planned.planned) == (runners, runners)


@pytest.mark.parametrize(("pending", "wanted"), [(0, 0), (1, 3), (15, 3), (16, 4)])
def test_min_workers_raises_a_lane_with_work(pending: int, wanted: int) -> None:
    """It adds runners for a small backlog and starts none for an empty lane."""
    planned = only(plan_runners([make_count(pending=pending, min_workers=3)], NO_POOLS, ROOMY))

    assert (planned.wanted, planned.planned, planned.cuts) == (wanted, wanted, ())


@given(lane_counts())
def test_wanted_stays_between_the_bounds(count: LaneCount) -> None:
    """A lane with work wants 1 to MAX_WORKERS runners; an empty, external or paused one wants none."""
    wanted = only(plan_runners([count], POOLS, ROOMY)).wanted

    if (count.pending or count.expects_jobs) and not count.lane.external and not count.lane.paused:
        assert count.lane.min_workers <= wanted <= count.lane.max_workers
    else:
        assert wanted == 0


def test_without_lanes_the_plan_is_empty() -> None:
    """There are no runners, and no lane is passed over."""
    plan = plan_runners([], POOLS, ROOMY)

    assert (plan.lanes, plan.runners, plan.passed_over()) == ((), 0, frozenset())


@pytest.mark.parametrize(("running", "planned"), [(0, 5), (2, 3), (5, 0), (9, 0)])
def test_running_runners_are_subtracted(running: int, planned: int) -> None:
    """Live runners anywhere in the fleet count; the result is never negative."""
    lane = only(plan_runners([make_count(pending=25, running=running)], NO_POOLS, ROOMY))

    assert (lane.planned, lane.cuts) == (planned, (f"{running} already running",) if running else ())


def test_a_lane_with_all_its_runners_is_not_passed_over() -> None:
    """It misses nothing if the host is full."""
    plan = plan_runners([make_count(pending=5, running=1)], NO_POOLS, Slots(free=0))

    assert (cuts_by_name(plan), plan.passed_over()) == ({"default": ("1 already running",)}, frozenset())


@pytest.mark.parametrize(("running", "busy", "planned"), [(0, 0, 1), (1, 0, 0), (1, 1, 1), (5, 5, 0)])
def test_a_lane_that_expects_jobs_has_a_runner_that_is_not_busy(running: int, busy: int, planned: int) -> None:
    """Although nothing is pending; its maximum holds."""
    count = make_count(pending=0, running=running, busy=busy, expects_jobs=True)

    assert plan_runners([count], NO_POOLS, ROOMY).runners == planned


def test_a_lane_that_only_expects_jobs_is_never_passed_over() -> None:
    """It misses nothing if the host is full."""
    plan = plan_runners([make_count(pending=0, expects_jobs=True)], NO_POOLS, Slots(free=0))

    assert (plan.runners, plan.waiting, plan.passed_over()) == (0, (), frozenset())


def test_an_external_lane_is_never_dispatched() -> None:
    """External workers claim its jobs: it gets no runner, has this cut, and is not passed over."""
    plan = plan_runners([make_count(pending=25, external=True)], NO_POOLS, Slots(free=0))

    assert only(plan).wanted == plan.runners == 0
    assert only(plan).cuts == ("external",)
    assert plan.passed_over() == frozenset()


def test_a_paused_lane_gets_no_runner_and_shows_why() -> None:
    """However many slots are free; the pause is its only cut."""
    plan = plan_runners([make_count(pending=25, running=1, paused="paused: the vendor is down")], NO_POOLS, ROOMY)

    assert only(plan).wanted == plan.runners == 0
    assert only(plan).cuts == ("paused: the vendor is down",)
    assert (plan.paused, plan.passed_over()) == (("default",), frozenset())


def test_a_paused_lane_without_work_is_not_mentioned() -> None:
    """No job is waiting there."""
    plan = plan_runners([make_count(pending=0, paused="paused")], NO_POOLS, ROOMY)

    assert (only(plan).cuts, plan.paused) == ((), ())


def test_runners_of_a_paused_lane_count_in_its_pool() -> None:
    """They finish their jobs."""
    paused = make_count("paused", 25, running=2, pool="email", paused="paused")

    plan = plan_runners([paused, make_count("other", 25, pool="email")], POOLS, ROOMY)

    assert planned_by_name(plan) == {"other": 1, "paused": 0}


def test_a_capped_count_is_planned_like_its_number() -> None:
    """`1000+` is enough to want every worker."""
    planned = only(plan_runners([make_count(pending=1_001, capped=True)], NO_POOLS, ROOMY))

    assert (planned.planned, planned.cuts) == (5, ("max_workers 5",))


def test_a_pool_is_shared_in_order_of_rank() -> None:
    """The better rank takes what it wants of the cap, the next one gets the rest, with a cut."""
    digest = make_count("send_digest", pending=50, pool="email", rank=2)
    email = make_count("send_email", pending=10, pool="email", rank=1)
    plan = plan_runners([digest, email], POOLS, ROOMY)

    assert planned_by_name(plan) == {"send_email": 2, "send_digest": 1}
    assert cuts_by_name(plan) == {"send_email": (), "send_digest": ("max_workers 5", "pool email 3")}


def test_each_lane_of_a_pool_gets_a_runner_before_one_gets_two() -> None:
    """Even if the better rank wants them all."""
    first = make_count("send_email", pending=25, pool="email", rank=-1)
    second = make_count("send_digest", pending=1, pool="email")
    plan = plan_runners([first, second], POOLS, ROOMY)

    assert planned_by_name(plan) == {"send_email": 2, "send_digest": 1}


def test_a_lane_that_a_full_pool_passed_over_is_next() -> None:
    """Before a better rank, and also if its pool has just one runner."""
    email = make_count("send_email", 25, running=2, pool="email", rank=-1)
    digest = make_count("send_digest", 1, pool="email")
    first = plan_runners([email, digest], POOLS, ROOMY)
    second = plan_runners([email, replace(digest, passed_over=1)], POOLS, ROOMY)

    assert [planned_by_name(each) for each in (first, second)] == [
        {"send_email": 1, "send_digest": 0},
        {"send_email": 0, "send_digest": 1},
    ]
    assert [set(each.passed_over()) for each in (first, second)] == [{"send_digest"}, set()]


def test_a_pool_counts_every_runner_of_its_lanes() -> None:
    """Also runners of a lane without pending jobs."""
    drained = make_count("send_digest", pending=0, running=2, pool="email")
    plan = plan_runners([make_count("send_email", pending=25, pool="email"), drained], POOLS, ROOMY)

    assert planned_by_name(plan) == {"send_email": 1, "send_digest": 0}


def test_a_lane_with_runners_in_a_full_pool_is_not_passed_over() -> None:
    """It has what others of the pool wait for."""
    full = make_count("send_email", pending=25, running=3, pool="email")
    plan = plan_runners([full, make_count("other")], POOLS, Slots(free=0))

    assert plan.passed_over() == {"other"}


def test_a_pool_without_a_cap_limits_nothing() -> None:
    """Its lanes are unchanged."""
    plan = plan_runners([make_count(pending=25, pool="unheard of")], POOLS, ROOMY)

    assert (plan.runners, only(plan).cuts) == (5, ())


@pytest.mark.parametrize(
    ("slots", "reason"),
    [
        (Slots(free=2), "host slots 2"),
        (Slots(free=2, limited_by="free memory 180 MB"), "free memory 180 MB"),
    ],
)
def test_the_tighter_of_slots_and_headroom_is_named(slots: Slots, reason: str) -> None:
    """A lane cut for lack of slots shows whether the host's cap or its headroom was the reason."""
    planned = only(plan_runners([make_count(pending=15)], NO_POOLS, slots))

    assert (planned.planned, planned.cuts) == (2, (reason,))


@pytest.mark.parametrize("slots", [Slots(free=0), Slots(free=0, limited_by="load")])
def test_a_host_without_slots_starts_nothing(slots: Slots) -> None:
    """Every lane with runners to start is passed over with the reason."""
    waiting = [make_count(f"lane{number}") for number in range(5)]
    plan = plan_runners([*waiting, make_count("empty", pending=0)], NO_POOLS, slots)

    assert plan.runners == 0
    assert plan.passed_over() == {each.lane.name for each in waiting}
    assert all(each.cuts == ((slots.reason,) if each.count.pending else ()) for each in plan.lanes)


def test_all_cuts_are_reported_in_order() -> None:
    """A number that was cut four times has four reasons."""
    count = make_count(pending=50, running=1, pool="email")
    planned = only(plan_runners([count], {"email": 3}, Slots(free=1)))

    assert planned.cuts == ("max_workers 5", "1 already running", "pool email 3", "host slots 1")
    assert (planned.wanted, planned.planned, planned.short) == (5, 1, 1)


@given(fleets(), host_slots)
def test_the_slots_are_never_exceeded_nor_left_unused(counts: list[LaneCount], slots: Slots) -> None:
    """A plan starts what lanes and pools allow, up to the number of slots."""
    allowed = plan_runners(counts, POOLS, ROOMY).runners
    plan = plan_runners(counts, POOLS, slots)

    assert plan.runners == min(allowed, slots.free)


@given(fleets(), host_slots)
def test_no_lane_gets_more_than_it_wants(counts: list[LaneCount], slots: Slots) -> None:
    """Running and planned runners never exceed it, unless that many were running already."""
    plan = plan_runners(counts, POOLS, slots)

    for each in plan.lanes:
        assert 0 <= each.planned <= max(0, each.wanted - each.count.running)


@given(fleets(), host_slots)
def test_the_cap_of_a_pool_is_never_exceeded(counts: list[LaneCount], slots: Slots) -> None:
    """Running and planned runners stay within it; above it already, none is started."""
    plan = plan_runners(counts, POOLS, slots)

    for name, cap in POOLS.items():
        members = [each for each in plan.lanes if each.count.lane.pool == name]
        running = sum(each.count.running for each in members)
        assert sum(each.planned for each in members) <= max(0, cap - running)


@given(fleets(), host_slots, st.data())
def test_more_slots_or_more_work_never_start_fewer(
    counts: list[LaneCount], slots: Slots, data: st.DataObject
) -> None:
    """The total grows with the slots, with the caps of pools and with the backlog of any lane."""
    more_slots = replace(slots, free=slots.free + data.draw(st.integers(0, 5)))
    more_room = {name: cap + data.draw(st.integers(0, 5)) for name, cap in POOLS.items()}
    more_work = [replace(each, pending=each.pending + data.draw(st.integers(0, 20))) for each in counts]
    runners = plan_runners(counts, POOLS, slots).runners

    assert plan_runners(counts, POOLS, more_slots).runners >= runners
    assert plan_runners(counts, more_room, slots).runners >= runners
    assert plan_runners(more_work, POOLS, slots).runners >= runners


@given(fleets(), host_slots)
def test_a_lane_has_a_cut_if_and_only_if_it_was_cut(counts: list[LaneCount], slots: Slots) -> None:
    """With fewer runners than the backlog asks for, or jobs that are expected, there is a reason, otherwise none."""
    plan = plan_runners(counts, POOLS, slots)

    for each in plan.lanes:
        lane = each.count.lane
        batches = max(-(-each.count.pending // lane.batch_size), each.count.expects_jobs)
        asked = max(batches, lane.min_workers) if each.wanted else batches
        assert bool(each.cuts) == (each.planned < asked)
        assert all(each.cuts)


@given(fleets(), host_slots)
def test_a_lane_lacks_slots_if_and_only_if_its_cut_says_so(counts: list[LaneCount], slots: Slots) -> None:
    """`short` is what a host with free slots would add, and exactly these lanes have the reason."""
    roomy = planned_by_name(plan_runners(counts, POOLS, ROOMY))
    plan = plan_runners(counts, POOLS, slots)

    for each in plan.lanes:
        assert each.short == roomy[each.count.lane.name] - each.planned
        assert (slots.reason in each.cuts) == (each.short > 0)


@given(fleets(), host_slots)
def test_every_counted_lane_is_in_the_plan_once(counts: list[LaneCount], slots: Slots) -> None:
    """Lanes with runners to start come first."""
    plan = plan_runners(counts, POOLS, slots)
    with_work = [each.planned > 0 for each in plan.lanes]

    assert sorted(each.count.lane.name for each in plan.lanes) == sorted(each.lane.name for each in counts)
    assert with_work == sorted(with_work, reverse=True)


@given(fleets(), host_slots)
def test_the_plan_depends_on_its_arguments_alone(counts: list[LaneCount], slots: Slots) -> None:
    """Equal values give equal plans, and the arguments are not modified."""
    counts_before, pools = list(counts), dict(POOLS)
    first = plan_runners(counts, pools, slots)
    second = plan_runners(counts, pools, slots)

    assert first == second
    assert (counts, pools) == (counts_before, POOLS)


@pytest.mark.parametrize(
    ("pending", "running", "busy", "planned"),
    [(1, 1, 0, 0), (1, 1, 1, 1), (6, 2, 1, 1), (6, 3, 3, 2), (25, 5, 5, 0), (1, 4, 4, 1), (0, 3, 3, 0)],
)
def test_a_busy_runner_only_counts_against_the_maximum(pending: int, running: int, busy: int, planned: int) -> None:
    """New jobs are left to idle and new runners."""
    plan = plan_runners([make_count(pending=pending, running=running, busy=busy)], NO_POOLS, ROOMY)

    assert only(plan).planned == planned


def test_a_cap_set_by_an_operator_names_the_operator() -> None:
    """The cut shows it, since the cap is not in the settings."""
    lane = LaneRules("mail", batch_size=5, max_workers=2, set_by="ann")

    [planned] = plan_runners([LaneCount(lane, pending=100)], {}, Slots(free=32)).lanes

    assert (planned.planned, planned.cuts) == (2, ("max_workers 2 set by ann",))


def test_a_lane_of_a_launcher_needs_no_slots() -> None:
    """Its runners are on other machines; its own cap and its pool hold."""
    plan = plan_runners(
        [make_count("mail"), make_count("gpu", 100, launcher="slurm", pool="email")], POOLS, Slots(free=0)
    )

    assert planned_by_name(plan) == {"mail": 0, "gpu": 3}
    assert cuts_by_name(plan)["mail"] == ("host slots 0",)
    assert plan.passed_over() == {"mail"}


def test_after_a_refused_submit_a_lane_tries_once() -> None:
    """And shows the reason, even if one runner is enough."""
    reason = "launcher slurm refused the last submit: no such partition"
    for pending in (1, 100):
        planned = only(
            plan_runners([make_count(pending=pending, launcher="slurm", refused="no such partition")], {}, ROOMY)
        )

        assert (planned.planned, planned.cuts[-1]) == (1, reason)
