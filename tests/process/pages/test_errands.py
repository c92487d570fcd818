"""What is done to many jobs: it can be stopped between two slices, and ends with the console."""

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
def begun(serving: Serving) -> tuple[Api, Visitor, str]:
    """A console that has begun to cancel them, somebody who looks at it, and where."""
    api = serving()
    api.installation.enqueue("noop", lane="mail")
    columns = "type, lane, payload, run_at"
    for _ in range(DOUBLINGS):
        api.installation.execute(f"INSERT INTO mayfly_jobs ({columns}) SELECT {columns} FROM mayfly_jobs")
    visitor = Visitor(api.port).log_in()
    where = visitor.post("/jobs/act", verb="cancel", lane="mail").headers["location"]
    return api, visitor, where


def test_it_is_stopped_by_a_button(begun: tuple[Api, Visitor, str]) -> None:
    """After the slice that it is at; while it runs, the page says how far it is and looks again by itself."""
    api, visitor, where = begun
    running = visitor.get(where)
    visitor.post(f"{where}/stop")
    wait_until(lambda: "Stopped. What was done before stays done." in text_of(visitor.get(where)), "it has ended")

    found = api.installation.statuses()

    assert f"of {10_000:,}+ done…" in text_of(running)
    assert running.headers["refresh"] == f"2; url={where}"
    assert 0 < found["cancelled"] < MANY
    assert found["cancelled"] % SLICE == 0
    [deed] = api.installation.rows("SELECT jobs FROM mayfly_audit WHERE verb = 'cancel'")
    assert deed.jobs == found["cancelled"]


def test_it_ends_with_the_console(begun: tuple[Api, Visitor, str]) -> None:
    """Which does not wait for the rest, nor leave a slice half done; another console does not know of it."""
    api, visitor, where = begun

    api.process.terminate()
    _out, log = api.process.communicate(timeout=60)

    found = api.installation.statuses()
    assert api.process.returncode == 0
    assert "Traceback" not in log
    assert found.get("cancelled", 0) % SLICE == 0
    assert found["pending"] > 0
    api.process = api.start()
    assert "What was done is in the audit" in text_of(visitor.get(where))
