"""run_inline(): a handler runs as in a runner, without a runner or a database."""

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time
from pydantic import BaseModel

from mayfly import Cancel, Dead, Job, MayflyError, Retry, Snooze, enqueue, enqueue_many, handler
from mayfly.client import current_app
from mayfly.errors import BadPayload, NeedsTestDatabase, UnknownHandler
from mayfly.registry import forget_local
from mayfly.testing import run_inline
from tests.factories import NOON


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home without settings; handlers declared by a test are removed."""
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.setattr("mayfly.client._apps", {})
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    forget_local()


class Sum(BaseModel):
    left: int
    right: int = 1


def test_a_handler_is_given_by_its_type_or_itself() -> None:
    """The payload becomes the handler's model; the result is what would be stored."""

    @handler("add", lane="sums", max_attempts=7)
    def add(job: Job, given: Sum) -> dict[str, Any]:
        return {"sum": given.left + given.right, "of": (job.type, job.lane, job.attempt, job.max_attempts)}

    run = run_inline(add, {"left": 2})

    assert (run.kind, run.reason, run.error) == ("done", None, None)
    assert run.result == run_inline("add", {"left": 2}).result == {"sum": 3, "of": ["add", "sums", 1, 7]}


def test_a_job_without_a_row_is_never_cancelled() -> None:
    """A handler that checks job.cancelled needs no database."""

    @handler("look")
    def check(job: Job) -> bool:
        return job.cancelled

    assert run_inline(check).result is False


def test_an_invalid_payload_is_refused_as_by_enqueue() -> None:
    """The handler is not called."""

    @handler("add")
    def add(_job: Job, given: Sum) -> None:
        pytest.fail(f"called with {given}")

    with pytest.raises(BadPayload, match="left: Input should be a valid integer"):
        run_inline(add, {"left": "two"})


@pytest.mark.parametrize(
    ("control", "kind", "reason", "due_in"),
    [
        (Retry("busy", after=60), "failed", "busy", timedelta(seconds=60)),
        (Retry("busy"), "failed", "busy", timedelta(seconds=4)),
        (Snooze(after=90), "snoozed", None, timedelta(seconds=90)),
        (Cancel("not wanted"), "cancelled", "not wanted", None),
        (Dead("no such customer"), "dead", "no such customer", None),
    ],
)
def test_a_control_exception_is_the_outcome(
    control: Exception, kind: str, reason: str, due_in: timedelta | None
) -> None:
    """Nothing is raised, and the time of the next attempt has no jitter."""

    @handler("steered")
    def controlled(_job: Job) -> None:
        raise control

    with freeze_time(NOON):
        run = run_inline(controlled, attempt=2)

    assert (run.kind, run.reason, run.error) == (kind, reason, None)
    assert run.outcome.run_at == (None if due_in is None else NOON + due_in)


def test_an_error_is_raised_with_a_note() -> None:
    """The test fails at the handler's line, and the note has the arguments."""

    @handler("divide")
    def divide(job: Job) -> float:
        return 1 / int(job.payload["by"])

    with pytest.raises(ZeroDivisionError) as caught:
        run_inline(divide, {"by": 0})

    assert caught.value.__notes__ == [
        'job 1 (divide) attempt 1/5: failed: ZeroDivisionError: division by zero\npayload: {"by":0}'
    ]


def test_an_error_can_be_an_outcome() -> None:
    """A retry, and dead at the last attempt; sys.exit() is an error like any other."""

    @handler("leave")
    def leave(_job: Job) -> None:
        sys.exit("enough")

    runs = [run_inline(leave, attempt=each, max_attempts=3, raises=False) for each in (1, 3)]

    assert [(run.kind, run.reason, run.has_failed) for run in runs] == [
        ("failed", "SystemExit: enough", True),
        ("dead", "SystemExit: enough", True),
    ]
    assert isinstance(runs[0].error, SystemExit)


@pytest.mark.parametrize("error", [KeyboardInterrupt, pytest.fail.Exception])
def test_exceptions_for_the_test_are_not_outcomes(error: type[BaseException]) -> None:
    """Ctrl-C ends the tests, and pytest.fail() in a fake mail server fails the test."""

    @handler("interrupted")
    def interrupted(_job: Job) -> None:
        raise error

    with pytest.raises(error):
        run_inline(interrupted, raises=False)


def test_an_async_handler_is_awaited() -> None:
    """Also in a test that is itself a coroutine; a transaction is refused as in a runner."""

    @handler("ping")
    async def ping(job: Job) -> str:
        await asyncio.sleep(0)
        with pytest.raises(MayflyError, match="would block every other job on the event loop"):
            job.transaction()
        return "pong"

    async def test() -> Any:
        return run_inline(ping).result

    assert run_inline(ping).result == asyncio.run(test()) == "pong"


def test_a_handler_with_threads_runs_in_the_thread_of_the_test() -> None:
    """So it sees what the test has patched and opened."""

    @handler("threaded", threads=5)
    def threaded(_job: Job) -> bool:
        return threading.current_thread() is threading.main_thread()

    assert run_inline(threaded).result is True


def test_the_timeout_of_a_handler_is_not_enforced() -> None:
    """No alarm is set, so a breakpoint is not interrupted."""

    @handler("limited", timeout=0.5)
    def limited(_job: Job) -> tuple[float, float]:
        return signal.getitimer(signal.ITIMER_REAL)

    assert run_inline(limited).result == [0.0, 0.0]


def test_enqueued_jobs_are_listed_if_the_job_is_done() -> None:
    """They would be enqueued with its `done`; a job that will be retried has none."""

    @handler("breed")
    def enqueue_child(job: Job) -> None:
        assert enqueue("noop", {"number": 1}, lane="other") is None
        assert enqueue_many([{"type": "noop", "payload": {"number": each}, "delay": 60} for each in (2, 3)]) == 2
        if job.payload["fails"]:
            raise Retry("later")

    done, retried = run_inline(enqueue_child, {"fails": False}), run_inline(enqueue_child, {"fails": True})

    assert [(each.type, each.payload["number"], each.lane) for each in done.enqueued] == [
        ("noop", 1, "other"), ("noop", 2, "default"), ("noop", 3, "default"),
    ]  # fmt: skip
    assert retried.enqueued == ()


def test_the_database_of_the_settings_is_never_used(tmp_path: Path) -> None:
    """A handler that needs one gets an error, and no file is created."""

    @handler("needy")
    def needy(job: Job) -> None:
        with job.transaction():
            pass

    with pytest.raises(NeedsTestDatabase, match="use the fixture `mayfly_db`"):
        run_inline(needy)

    assert list(tmp_path.iterdir()) == []
    assert type(current_app()).__name__ == "App"


def test_an_unknown_handler_is_an_error() -> None:
    """The sentence has the nearest name, or asks for @handler."""

    def undeclared(_job: Job) -> None: ...

    @handler("send_letter")
    def send_letter(_job: Job) -> None: ...

    with pytest.raises(UnknownHandler, match=r"No handler for type 'send_leter'\. Did you mean 'send_letter'\?"):
        run_inline("send_leter")
    with pytest.raises(UnknownHandler, match=r"undeclared at 0x\w+>\. Is it declared with @handler\?"):
        run_inline(undeclared)


CALLS: list[str] = []


def before(job: Job) -> None:
    CALLS.append(f"before {job.type}")


def after(job: Job, outcome: Any) -> None:
    CALLS.append(f"after {job.type}: {outcome.kind}")
    raise RuntimeError("broken hook")


def test_hooks_are_called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the settings, as in a runner; their errors are on stderr."""
    CALLS.clear()
    monkeypatch.setenv("HOOKS_BEFORE", f"{__name__}:before")
    monkeypatch.setenv("HOOKS_AFTER", f"{__name__}:after")

    @handler("hooked")
    def hooked(_job: Job) -> None:
        CALLS.append("hooked")

    run = run_inline(hooked)

    assert (run.kind, CALLS) == ("done", ["before hooked", "hooked", "after hooked: done"])
    assert "after failed for job 1 (hooked); the job continues: RuntimeError: broken hook" in capsys.readouterr().err
