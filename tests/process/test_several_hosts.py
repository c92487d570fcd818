"""Several hosts on one database: together they start what one would have, and no job runs twice."""

from collections import Counter
from itertools import repeat

import pytest
from sqlalchemy import func, select

from mayfly.schema.metadata import cycles, jobs, runners
from tests.process.installation import Installation, StartedProcess, most_at_once, wait_until

ROUNDS = 2


@pytest.mark.every_database
def test_two_hosts_never_exceed_a_lanes_cap(installation: Installation) -> None:
    """Two dispatchers started at one instant, again and again: never more than MAX_WORKERS, each job once."""
    for _ in repeat(None, ROUNDS):
        installation.enqueue("sleep", '{"seconds": 0.05}', count=24)
        hosts = start_hosts(installation, MAX_WORKERS="3", BATCH_SIZE="2")

        assert [host.communicate() for host in hosts] == [("", ""), ("", "")]
        assert [host.returncode for host in hosts] == [0, 0]

    assert installation.statuses() == {"done": 24 * ROUNDS}
    assert installation.rows(select(func.min(jobs.c.claims), func.max(jobs.c.claims))) == [(1, 1)]
    lives = installation.rows(select(runners))
    assert most_at_once((each.planned_at, each.finished_at) for each in lives) == 3
    assert len(installation.rows(select(cycles))) == 2 * ROUNDS


def test_hosts_share_a_lane_that_has_room_for_both(embedded: Installation) -> None:
    """A host whose slots are full leaves the rest of a lane's workers to the other one."""
    embedded.enqueue("latch", count=40)

    hosts = start_hosts(embedded, HOST_MAX_WORKERS="2", MAX_WORKERS="4", BATCH_SIZE="2")
    wait_until(lambda: len(embedded.runner_pids()) == 4, "four runners work")
    by_host = Counter(each.host for each in embedded.rows(select(runners)))
    embedded.release_latch()
    said = [host.communicate() for host in hosts]

    assert said == [("", ""), ("", "")]
    assert embedded.statuses() == {"done": 40}
    assert by_host == {"a": 2, "b": 2}
    lives = embedded.rows(select(runners))
    for name in ("a", "b"):
        assert most_at_once((each.planned_at, each.finished_at) for each in lives if each.host == name) == 2


def start_hosts(installation: Installation, **settings: str) -> list[StartedProcess]:
    """Two machines, as far as Mayfly can tell, each with a directory of its own for its lock and pages."""
    return [
        installation.start("dispatcher", HOST_NAME=name, STATE_DIR=str(installation.home / name), **settings)
        for name in ("a", "b")
    ]
