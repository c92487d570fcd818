"""Which problems a status view has. Pure."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mayfly.admin.fleet import CycleView, HostView
from mayfly.admin.health import HealthSnapshot, ProblemKind, Severity, Status, problems
from mayfly.admin.jobs import CappedCount
from mayfly.admin.lanes import LaneView
from mayfly.fleet.cycles import UnrecordedCycle
from mayfly.settings import Settings, load
from tests.factories import NOON

MINUTE = 60


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    given = {"LANES__MAIL__LATENCY_TARGET": "5m", "HEALTH_DEAD_LIMIT": "2"}
    return load({"MAYFLY_HOME": str(tmp_path), **given}).settings


def host(name: str = "web-1", age: float = 50, exit_code: int = 0) -> HostView:
    figures = (NOON, exit_code, 0, 0, 0, 0, 0, 0, 0, 0, 0, 80, None)
    return HostView(name, CycleView(1, name, NOON, *figures), age)


def lane(name: str = "mail", waited: float | None = None, **changes: Any) -> LaneView:
    view = LaneView(
        lane=name, pending=CappedCount(2), oldest_due_at=None, wait_seconds=waited, claimed=CappedCount(), running=0,
        runners=1, max_workers=5, cap=5, pool=None, set_by=None, set_at=None, done_last_hour=0, failed_last_hour=0,
        dead=CappedCount(), next_run_at=None, paused=None, paused_until=None, paused_by=None, external=False,
    )  # fmt: skip
    return view._replace(**changes)


def snapshot(*lanes: LaneView, hosts: tuple[HostView, ...] = (host(),), **changes: Any) -> HealthSnapshot:
    return HealthSnapshot(NOON, lanes, hosts, **changes)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (snapshot(), []),
        (snapshot(hosts=(), has_cycles=False), ["No cycle has run yet: is cron set up? Run `mayfly cron install`."]),
        (
            snapshot(hosts=()),
            ["No known host has started a cycle in the last day: is cron running? See `mayfly doctor`."],
        ),
        (
            snapshot(hosts=(host(), host("web-2", 4 * MINUTE))),
            ["The last cycle of host web-2 began 4 min ago: is cron running there?"],
        ),
        (snapshot(hosts=(host(exit_code=1),)), ["The last cycle of host web-1 ended with code 1: see its log."]),
        (
            snapshot(unrecorded=UnrecordedCycle(NOON - timedelta(minutes=2), "its disk is full.")),
            ["The last cycle of this host, 2 min ago, could not be recorded: its disk is full."],
        ),
        (snapshot(lane(waited=5 * MINUTE)), []),
        (
            snapshot(lane(waited=6 * MINUTE)),
            ["The oldest due job of lane mail has waited for 6 min; the target is 5 min."],
        ),
        (snapshot(lane(waited=6 * MINUTE, paused="paused: down")), ["Lane mail is paused: down."]),
        (snapshot(dead={"mail": 2}), []),
        (
            snapshot(dead={"mail": 2, "images": 1}),
            ["3 jobs died in the last hour: 1 in lane images, 2 in lane mail. See `mayfly dead`."],
        ),
        (
            snapshot(lane("other", 4 * MINUTE, runners=0)),
            ["Lane other has 2 due jobs, the oldest for 4 min, and no runners."],
        ),
        (snapshot(lane("other", 3 * MINUTE, runners=0)), []),
        (snapshot(lane("other", 4 * MINUTE, runners=0, claimed=CappedCount(1))), []),
        (snapshot(lane("other", 4 * MINUTE, runners=0), active_lanes=frozenset({"other"})), []),
    ],
)
def test_each_problem_is_a_sentence(seen: HealthSnapshot, expected: list[str], settings: Settings) -> None:
    """There is no problem up to three minutes, up to the target and up to the limit."""
    assert [each.text for each in problems(seen, settings)] == expected


@pytest.mark.parametrize(
    ("seen", "exit_code"),
    [
        (snapshot(), 0),
        (snapshot(lane(paused="paused")), 0),
        (snapshot(dead={"mail": 3}), 0),
        (snapshot(hosts=(host(exit_code=1),)), 0),
        (snapshot(lane("other", 4 * MINUTE, runners=0)), 0),
        (snapshot(lane(waited=6 * MINUTE)), 1),
        (snapshot(unrecorded=UnrecordedCycle(NOON, "its disk is full.")), 1),
        (snapshot(hosts=(host(), host("web-2", 4 * MINUTE))), 1),
        (snapshot(hosts=(host(age=4 * MINUTE), host("web-2", 5 * MINUTE))), 2),
        (snapshot(hosts=()), 2),
    ],
)
def test_the_status_decides_the_exit_code(seen: HealthSnapshot, exit_code: int, settings: Settings) -> None:
    """It is 2 only if no host runs cycles, and 0 as long as the status is ok, whatever the warnings."""
    status = Status(seen, tuple(problems(seen, settings)))

    assert (status.exit_code, status.name) == (exit_code, "degraded" if exit_code else "ok")


def test_dead_jobs_are_a_warning(settings: Settings) -> None:
    """They are listed, and do not degrade: the installation works."""
    seen = snapshot(lane("other", paused="paused"), lane(waited=6 * MINUTE), dead={"mail": 3})

    facts = Status(seen, tuple(problems(seen, settings))).facts()

    assert facts["warnings"] == ["3 jobs died in the last hour: 3 in lane mail. See `mayfly dead`."]
    assert facts["notices"] == ["Lane other is paused."]
    assert [each[:15] for each in facts["complaints"]] == ["The oldest due "]
    assert (facts["status"], facts["exit_code"]) == ("degraded", 1)


def test_a_pause_or_an_idle_backlog_does_not_degrade(settings: Settings) -> None:
    """They are below the threshold at which /health answers 503."""
    seen = snapshot(lane(paused="paused"), lane("other", 4 * MINUTE, runners=0))

    found = problems(seen, settings)

    assert [(each.kind, each.subject) for each in found] == [
        (ProblemKind.BACKLOG, "other"),
        (ProblemKind.PAUSED, "mail"),
    ]
    assert max(each.severity for each in found) < Severity.DEGRADED


def test_a_broken_source_degrades_the_status(settings: Settings) -> None:
    """Its rows are not processed; the sentence is that of the source."""
    [found] = problems(snapshot(broken_sources={"posts": "The source posts cannot be used: no."}), settings)

    assert found == (ProblemKind.SOURCE, Severity.DEGRADED, "The source posts cannot be used: no.", "posts")
