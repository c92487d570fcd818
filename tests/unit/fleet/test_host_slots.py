"""How many runners a host can start, and that an idle host can always start one."""

import os
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.fleet.plan import MEGABYTE, Headroom, Slots, measure, slots

EASY = Headroom(available_memory=8_000 * MEGABYTE, load_per_core=0.2)


def slots_of(headroom: Headroom, running_here: int = 0, **changed: float) -> Slots:
    """A host with 10 workers, 100 MB for each, and a maximum load of 4 per core."""
    bounds = {"host_max_workers": 10, "min_free_memory": 100 * MEGABYTE, "max_load": 4.0}
    settings: Any = SimpleNamespace(**{**bounds, **changed})
    return slots(headroom, settings, running_here)


def make_headroom(megabytes: int = 8_000, load: float = 0.2) -> Headroom:
    return Headroom(available_memory=megabytes * MEGABYTE, load_per_core=load)


@pytest.mark.parametrize(("running_here", "free"), [(0, 10), (3, 7), (10, 0), (12, 0)])
def test_runners_of_this_host_use_its_slots(running_here: int, free: int) -> None:
    """HOST_MAX_WORKERS minus the running ones is free, never below zero."""
    assert slots_of(EASY, running_here=running_here) == Slots(free)


@pytest.mark.parametrize(("megabytes", "limit"), [(180, 1), (200, 2), (399, 3), (999, 9)])
def test_memory_limits_the_runners(megabytes: int, limit: int) -> None:
    """Each runner needs its share of free memory, and the cut states how much there was."""
    assert slots_of(make_headroom(megabytes)) == Slots(limit, f"free memory {megabytes} MB")


def test_memory_for_all_limits_nothing() -> None:
    """Headroom above the free slots is not a limit."""
    assert slots_of(make_headroom(1_000)) == Slots(10)


@pytest.mark.parametrize("running_here", [0, 3])
def test_a_loaded_host_starts_one_runner_at_a_time(running_here: int) -> None:
    """Above MAX_LOAD one runner may start, and the cut states the load."""
    found = slots_of(make_headroom(load=14.23), running_here=running_here)

    assert found == Slots(1, "load 14.2 per core")


def test_a_load_at_its_bound_limits_nothing() -> None:
    """Only a load above MAX_LOAD counts."""
    assert slots_of(make_headroom(load=4.0)) == Slots(10)


@pytest.mark.parametrize(
    ("megabytes", "limit", "limited_by"),
    [(250, 1, "load 14.2 per core"), (150, 1, "free memory 150 MB"), (50, 0, "free memory 50 MB")],
)
def test_the_tighter_limit_is_named(megabytes: int, limit: int, limited_by: str) -> None:
    """Memory is named if memory and load allow the same number."""
    found = slots_of(make_headroom(megabytes, load=14.2), running_here=1)

    assert found == Slots(limit, limited_by)


def test_zero_disables_a_limit() -> None:
    """MIN_FREE_MEMORY=0 and MAX_LOAD=0 leave only the cap of the host."""
    assert slots_of(make_headroom(0, load=99.0), min_free_memory=0, max_load=0) == Slots(10)


def test_a_host_with_runners_may_wait_for_memory() -> None:
    """If there is no memory for one more, it starts none until its runners free some."""
    assert slots_of(make_headroom(50), running_here=1) == Slots(0, "free memory 50 MB")


@given(
    headroom=st.builds(Headroom, st.integers(0, 2_000 * MEGABYTE), st.floats(0, 100)),
    host_max_workers=st.integers(1, 20),
    running_here=st.integers(0, 20),
    min_free_memory=st.integers(0, 500 * MEGABYTE),
    max_load=st.floats(0, 20),
)
def test_an_idle_host_always_has_a_slot(
    headroom: Headroom, host_max_workers: int, running_here: int, min_free_memory: int, max_load: float
) -> None:
    """No shortage stops a host without runners, and no headroom adds slots."""
    found = slots_of(
        headroom, running_here, host_max_workers=host_max_workers, min_free_memory=min_free_memory, max_load=max_load
    )

    assert found.free >= 1 or running_here
    assert found.free <= max(0, host_max_workers - running_here)


def test_an_explicit_cap_of_zero_is_obeyed() -> None:
    """HOST_MAX_WORKERS=0 also stops an idle host, since an operator set it."""
    assert slots_of(make_headroom(50), host_max_workers=0).free == 0


def test_measuring_uses_available_memory_and_the_load_of_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory is what is available without swapping; load is the one-minute average per core."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=123, free=7, total=999))
    monkeypatch.setattr(os, "getloadavg", lambda: (6.0, 2.0, 1.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)

    assert measure() == Headroom(available_memory=123, load_per_core=1.5)


def test_a_host_without_a_core_count_has_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """The load is not divided."""
    monkeypatch.setattr(os, "getloadavg", lambda: (6.0, 2.0, 1.0))
    monkeypatch.setattr(os, "cpu_count", lambda: None)

    assert measure().load_per_core == 6.0
