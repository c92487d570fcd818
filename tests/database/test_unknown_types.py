"""A type without a handler: a producer is warned once; if its handler may be in a broken module, it is refused."""

import logging

import pytest

import mayfly
from mayfly.client import App
from mayfly.db.database import Database
from mayfly.errors import HandlerNotImported
from mayfly.queue.followups import step
from mayfly.schema.metadata import jobs
from tests.database.factories import rows_of
from tests.factories import get_row

UNCHECKED = {"lane": "billing", "max_attempts": 3}


@pytest.fixture
def _broken_module(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> App:
    """A producer that cannot import one of its modules."""
    monkeypatch.setenv("HANDLERS", "tests.basic_handlers,no_such_module")
    app: App = request.getfixturevalue("app")
    return app


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if (each.name, each.levelno) == ("mayfly", logging.WARNING)]


@pytest.mark.usefixtures("_broken_module")
@pytest.mark.parametrize("options", [{}, {"lane": "billing"}, {"max_attempts": 3}], ids=str)
def test_a_broken_module_refuses_unknown_types(database: Database, options: dict[str, object]) -> None:
    """Lane, maximum of attempts and the model of the payload are in the module, which the error names."""
    with pytest.raises(HandlerNotImported) as caught:
        mayfly.enqueue("invoice", **options)  # type: ignore[arg-type]

    reason = "no_such_module cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"
    assert str(caught.value).startswith(f"No handler for type 'invoice'. {reason}.")
    assert "or pass lane= and max_attempts=" in str(caught.value)
    assert rows_of(database, jobs) == []


@pytest.mark.usefixtures("_broken_module")
def test_every_way_to_enqueue_is_refused(database: Database) -> None:
    """Nothing is enqueued, no part of a chain either."""
    for enqueue in (
        lambda: mayfly.enqueue_many([{"type": "noop"}, {"type": "invoice"}]),
        lambda: mayfly.chain("noop", "invoice"),
        lambda: mayfly.chain("noop", step("invoice", lane="billing")),
        lambda: mayfly.batch("month", on_complete="invoice"),
    ):
        with pytest.raises(HandlerNotImported, match="no_such_module cannot be imported"):
            enqueue()

    assert rows_of(database, jobs) == []


@pytest.mark.usefixtures("_broken_module")
def test_a_job_with_lane_and_max_attempts_needs_no_handler(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """So do steps of chains and callbacks of batches. A warning names the module."""
    job_id = mayfly.enqueue("invoice", **UNCHECKED)  # type: ignore[arg-type]
    mayfly.chain("noop", step("invoice", **UNCHECKED))  # type: ignore[arg-type]
    mayfly.batch("month", on_complete=step("invoice", **UNCHECKED))  # type: ignore[arg-type]

    assert (get_row(database, job_id).lane, get_row(database, job_id).max_attempts) == ("billing", 3)
    [warning] = warnings(caplog)
    assert "no handler for type 'invoice'; cannot be imported: no_such_module" in warning


@pytest.mark.usefixtures("_broken_module")
def test_known_types_are_enqueued_by_a_producer_with_a_broken_module(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Their handlers are in other modules."""
    job_id = mayfly.enqueue("noop")

    assert (get_row(database, job_id).type, warnings(caplog)) == ("noop", [])


@pytest.mark.usefixtures("app")
def test_a_type_without_a_handler_is_logged_once(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """Through Python's logging, with the nearest type. The job is enqueued: another host may have the handler."""
    for _ in range(3):
        mayfly.enqueue("slep")
    mayfly.enqueue_many([{"type": "slep"}, {"type": "noop"}])
    mayfly.chain("noop", "slep", "invoice")
    mayfly.batch("month", on_complete="invoice")

    assert warnings(caplog) == [
        "This process has no handler for type 'slep'; payloads are not checked. Did you mean 'sleep'?",
        "This process has no handler for type 'invoice'; payloads are not checked.",
    ]
    assert len(rows_of(database, jobs)) == 6
