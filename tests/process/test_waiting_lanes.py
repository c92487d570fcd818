"""More lanes than slots: a runner whose lane is empty continues in the next one, and lanes stay within their caps."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from mayfly import json_text
from mayfly.schema.metadata import jobs, runners
from tests.process.installation import Installation, handler_modules, most_at_once, wait_until
from tests.process.test_limits import spans
from tests.process.test_several_hosts import start_hosts

MAX_LOCKED = 4
LANES = [f"customer-{number:02}" for number in range(12)]


@pytest.mark.every_database
def test_few_runners_serve_many_lanes(installation: Installation) -> None:
    """Two slots and twelve lanes: two processes. Rows, log and summary name the lanes that each has served.

    MariaDB locks the first job of the next lane for a moment. Then its runner leaves the job to a later plan.
    """
    enqueue_in(installation, LANES, count=2)

    cycle = installation.dispatch(HOST_MAX_WORKERS="2")

    assert (cycle.returncode, cycle.stderr, installation.statuses()) == (0, "", {"done": 24})
    first, second, *others = lanes_served(installation)
    assert {*first, *second} == {*LANES}
    assert len(others) <= MAX_LOCKED
    assert installation.log.count("Continuing with lane=") >= 10
    assert "Lanes served by runners of other lanes: 10" in installation.log
    assert {line["lane"]: line["done"] for line in installation.lane_lines()} == dict.fromkeys(LANES, "2")
    assert not list((installation.home / "state").glob("*/*.lanes"))


@pytest.mark.every_database
def test_a_runner_killed_in_its_second_lane_costs_no_other_lane(installation: Installation) -> None:
    """Its jobs there are rescued at once, and the lanes after it are served. The job waits for its next attempt."""
    installation.enqueue("noop", count=2, lane="a")
    [crashing] = installation.enqueue("die_once", lane="b")
    installation.enqueue("noop", count=2, lane="b")
    installation.enqueue("noop", count=2, lane="c")

    cycle = installation.dispatch(HOST_MAX_WORKERS="1")

    assert cycle.returncode == 1  # a runner crashed
    assert installation.statuses() == {"done": 6, "pending": 1}
    assert (installation.job(crashing).crashes, installation.job(crashing).claims) == (1, 1)
    first, *others = ended(installation)
    assert (first.ending, first.lane, json_text.decode(first.earlier_lanes)[0]) == ("crash", "b", "a")
    assert {each.ending for each in others} == {"ok"}
    crashed = next(line for line in installation.lane_lines() if line["lane"] == "b")
    assert crashed["runners_crash"] == "1"


@pytest.mark.every_database
def test_a_lane_stays_within_its_cap_at_every_moment(installation: Installation) -> None:
    """Two hosts with two slots each, and MAX_WORKERS=1: no two jobs of a lane run at the same time, and each once."""
    enqueue_in(installation, LANES, "sleep", '{"seconds": 0.03}', count=3)

    hosts = start_hosts(installation, HOST_MAX_WORKERS="2", MAX_WORKERS="1", BATCH_SIZE="1")
    outputs = [host.communicate() for host in hosts]

    assert outputs == [("", ""), ("", "")]
    assert installation.statuses() == {"done": 36}
    ran = installation.rows(
        select(jobs.c.lane, jobs.c.started_at, jobs.c.finished_at, jobs.c.claims, jobs.c.worker_id)
    )
    assert {each.claims for each in ran} == {1}
    for lane in LANES:
        spans = runner_spans([each for each in ran if each.lane == lane])
        assert most_at_once(spans) == 1
    assert most_at_once(runner_spans(ran)) <= 4


def test_a_lane_with_other_settings_has_runners_of_its_own(embedded: Installation) -> None:
    """A runner is started for settings such as the time limit and the memory of its lane."""
    enqueue_in(embedded, ["a", "b", "own"], count=2)

    cycle = embedded.dispatch(HOST_MAX_WORKERS="1", LANES__OWN__WORKER_TIMEOUT="30")

    assert (cycle.returncode, embedded.statuses()) == (0, {"done": 6})
    assert Counter(map(tuple, lanes_served(embedded))) == {("a", "b"): 1, ("own",): 1}


def test_a_slow_lane_does_not_hold_up_the_others(embedded: Installation) -> None:
    """The lanes behind it are taken by other runners."""
    embedded.enqueue("gated", lane="a-slow")
    enqueue_in(embedded, LANES, count=1)

    cycle = embedded.start("dispatcher", HOST_MAX_WORKERS="2")
    embedded.wait_for_gate()
    wait_until_done(embedded, len(LANES))
    embedded.open_gate()

    assert cycle.communicate() == ("", "")
    assert embedded.statuses() == {"done": 1 + len(LANES)}


def test_a_dry_run_shows_how_many_runners_serve_how_many_lanes(embedded: Installation) -> None:
    """As text and as JSON."""
    enqueue_in(embedded, LANES, count=2)

    shown = embedded.dispatch("--dry-run", HOST_MAX_WORKERS="2").stdout
    facts = json.loads(embedded.dispatch("--dry-run", "--json", HOST_MAX_WORKERS="2").stdout)

    assert "Runners planned: 2, which serve 12 lanes one after the other." in shown
    assert (facts["runners"], facts["shared_lanes"]) == (2, 10)


@pytest.mark.parametrize("kind", ["plain", "thread", "async"])
def test_limits_hold_in_lanes_that_share_runners(embedded: Installation, kind: str) -> None:
    """The jobs of all lanes share a limit of two; its slots are free when a runner leaves its lane."""
    embedded.settings = {"HANDLERS": handler_modules("limits"), "BACKOFF_BASE": "0.05"}
    enqueue_in(embedded, LANES[:6], f"use_{kind}", '{"vendor": 1, "seconds": 0.02}', count=3)

    def are_done() -> bool:
        embedded.dispatch(HOST_MAX_WORKERS="3")
        return embedded.statuses() == {"done": 18}

    wait_until(are_done, "all jobs are done", seconds=120)

    ran = spans(embedded)
    assert len(ran) == len({job for job, *_ in ran}) == 18
    assert most_at_once((began, end) for _job, began, end in ran) <= 2  # type: ignore[misc]
    assert any(len(lanes) > 1 for lanes in lanes_served(embedded))
    assert embedded.rows("SELECT * FROM mayfly_slots") == []


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_a_runner_leaves_its_lane_when_all_of_its_concurrent_jobs_have_ended(
    embedded: Installation, kind: str
) -> None:
    """It works in one lane at a time, also with several jobs in flight, and serves all lanes in its process."""
    embedded.settings = {"HANDLERS": handler_modules("limits")}
    for number, lane in enumerate(LANES[:6]):
        for vendor in (2 * number, 2 * number + 1):  # no job waits for another
            embedded.enqueue(f"use_{kind}", f'{{"vendor": {vendor}, "seconds": 0.03}}', count=2, lane=lane)

    cycle = embedded.dispatch(HOST_MAX_WORKERS="1")

    assert (cycle.returncode, cycle.stderr, embedded.statuses()) == (0, "", {"done": 24})
    [served] = lanes_served(embedded)
    assert sorted(served) == LANES[:6]
    lane_of = {each.id: each.lane for each in embedded.rows("SELECT id, lane FROM mayfly_jobs")}
    began, ended_at = defaultdict(list), defaultdict(list)
    for job, begin, end in spans(embedded):
        began[lane_of[job]].append(begin)
        ended_at[lane_of[job]].append(end)
    in_lanes = [(min(began[lane]), max(ended_at[lane])) for lane in served]
    assert most_at_once(in_lanes) == 1  # type: ignore[arg-type]
    assert most_at_once((begin, end) for _job, begin, end in spans(embedded)) > 1  # type: ignore[misc]


def enqueue_in(
    installation: Installation, lanes: Sequence[str], type_name: str = "noop", payload: str = "{}", count: int = 1
) -> None:
    for lane in lanes:
        installation.enqueue(type_name, payload, count=count, lane=lane)


def ended(installation: Installation) -> list[Any]:
    return list(installation.rows(select(runners).order_by(runners.c.planned_at)))


def lanes_served(installation: Installation) -> list[list[str]]:
    """By runner."""
    return [[*json_text.decode(each.earlier_lanes or "[]"), each.lane] for each in ended(installation)]


def runner_spans(ran: Sequence[Any]) -> list[tuple[Any, Any]]:
    """From the start of a job to its end. The start is computed from a duration in whole milliseconds."""
    rounding = timedelta(milliseconds=1)
    return [(each.started_at + rounding, each.finished_at) for each in ran]


def wait_until_done(installation: Installation, count: int) -> None:
    wait_until(lambda: installation.statuses().get("done") == count, "the other lanes are empty")
