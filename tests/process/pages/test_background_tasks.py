"""Background tasks: they can be stopped between two slices, and end with the console."""

from collections.abc import Callable

import pytest

from tests.process.console.api import Api
from tests.process.installation import wait_until
from tests.process.pages.visitor import Visitor, text_of

DOUBLINGS = 16
MANY = 2**DOUBLINGS
SLICE = 1000

Serving = Callable[..., Api]


@pytest.fixture
def started_task(serving: Serving) -> tuple[Api, Visitor, str]:
    """A console that is cancelling many jobs, a visitor, and the path of the task."""
    api = serving()
    api.installation.enqueue("noop", lane="mail")
    columns = "type, lane, payload, run_at"
    for _ in range(DOUBLINGS):
        api.installation.execute(f"INSERT INTO mayfly_jobs ({columns}) SELECT {columns} FROM mayfly_jobs")
    visitor = Visitor(api.port).log_in()
    where = visitor.post("/jobs/act", verb="cancel", lane="mail").headers["location"]
    return api, visitor, where


def test_a_task_is_stopped_after_its_current_slice(started_task: tuple[Api, Visitor, str]) -> None:
    """While it runs, the page shows its progress and reloads itself."""
    api, visitor, where = started_task
    running = visitor.get(where)
    visitor.post(f"{where}/stop")
    wait_until(lambda: "Stopped. Jobs already changed stay changed." in text_of(visitor.get(where)), "it has ended")

    found = api.installation.statuses()

    assert f"of {10_000:,}+ jobs processed…" in text_of(running)
    assert running.headers["refresh"] == f"2; url={where}"
    assert 0 < found["cancelled"] < MANY
    assert found["cancelled"] % SLICE == 0
    [entry] = api.installation.rows("SELECT jobs FROM mayfly_audit WHERE verb = 'cancel'")
    assert entry.jobs == found["cancelled"]


def test_a_task_ends_with_the_console(started_task: tuple[Api, Visitor, str]) -> None:
    """Slices are never half done; a restarted console does not know the task."""
    api, visitor, where = started_task

    api.process.terminate()
    _out, log = api.process.communicate(timeout=60)

    found = api.installation.statuses()
    assert api.process.returncode == 0
    assert "Traceback" not in log
    assert found.get("cancelled", 0) % SLICE == 0
    assert found["pending"] > 0
    api.process = api.start()
    assert "The audit lists what was done" in text_of(visitor.get(where))
