"""Hooks in real runners: which are called, with which values, and that a bad hook harms no job."""

import json
from typing import Any

import pytest

from mayfly import json_text
from mayfly.process import Timing
from tests.factories import NOON
from tests.process.installation import Installation, handler_modules, wait_until

HERE = "tests.process.sample_handlers.hooks"
HANDLERS = handler_modules("misbehaving", "outcomes", "hooks")
BOTH = {"HANDLERS": HANDLERS, "HOOKS_BEFORE": f"{HERE}:before", "HOOKS_AFTER": f"{HERE}:after"}
SEEN = ("seen_plain", "seen_async", "seen_thread")


def hook_calls(installation: Installation, hook: str) -> list[dict[str, Any]]:
    path = installation.home / "hook_calls"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [each for each in lines if each["hook"] == hook]


# --- around each job --------------------------------------------------------------------------------------


@pytest.mark.parametrize("spawn", ["fork", "exec"])
def test_hooks_are_called_before_and_after_every_job(embedded: Installation, spawn: str) -> None:
    """Once each, for plain functions, tasks and threads, and in runners with shared imports."""
    ids = [job_id for each in SEEN for job_id in embedded.enqueue(each, count=4)]

    cycle = embedded.dispatch(BATCH_SIZE="5", SPAWN=spawn, **BOTH)

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert sorted(each["job"] for each in hook_calls(embedded, "before")) == ids
    assert sorted(each["job"] for each in hook_calls(embedded, "after")) == ids
    assert {(each["kind"], each["main"]) for each in hook_calls(embedded, "after")} == {("done", True)}


@pytest.mark.parametrize("type_name", SEEN)
def test_a_handler_sees_the_context_of_the_before_hook(embedded: Installation, type_name: str) -> None:
    """A context variable, as tracing libraries use it; each concurrent job has its own."""
    ids = embedded.enqueue(type_name, count=3)

    embedded.dispatch(MAX_WORKERS="1", **BOTH)

    assert [json_text.decode(embedded.job(each).result) for each in ids] == [f"span of {each}" for each in ids]


def test_the_after_hook_gets_the_outcome(embedded: Installation) -> None:
    """Its kind is a word of the totals, its error is that of the row."""
    expected = {
        "noop": ("done", None),
        "answer": ("done", None),
        "snooze": ("snoozed", None),
        "cancel": ("cancelled", "no longer wanted"),
        "give_up": ("dead", "no such customer"),
        "retry_later": ("failed", "the other side is busy"),
        "sleep": ("dead", "the payload does not match tests.basic_handlers.sleep"),
    }
    for each in expected:
        embedded.enqueue(each, '{"seconds": "long"}')

    embedded.dispatch(**BOTH)

    calls = {each["type"]: each for each in hook_calls(embedded, "after")}
    assert {name: each["kind"] for name, each in calls.items()} == {
        name: kind for name, (kind, _) in expected.items()
    }
    assert all((error or "") in (calls[name]["error"] or "") for name, (_, error) in expected.items())
    assert {each["type"] for each in hook_calls(embedded, "before")} == expected.keys()


def test_hooks_are_not_called_for_an_unknown_type(embedded: Installation) -> None:
    """No handler runs, so nothing comes before or after it."""
    embedded.enqueue("no_such_type")

    embedded.dispatch(**BOTH)

    assert not (embedded.home / "hook_calls").exists()


# --- bad hooks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_name", SEEN)
def test_a_hook_that_raises_breaks_no_job(embedded: Installation, type_name: str) -> None:
    """The first error is logged and the others are counted; the other hooks are called as usual."""
    ids = embedded.enqueue(type_name, count=3)

    cycle = embedded.dispatch(
        MAX_WORKERS="1",
        HANDLERS=HANDLERS,
        HOOKS_BEFORE=f"{HERE}:raise_before,{HERE}:before",
        HOOKS_AFTER=f"{HERE}:raise_after,{HERE}:after",
    )

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert {embedded.job(each).status for each in ids} == {"done"}
    assert embedded.log.count(f"Hook {HERE}:raise_before failed for job ") == 1
    assert f"({type_name}); the job continues: RuntimeError: no span for {type_name}" in embedded.log
    assert "the job continues: SystemExit: no more" in embedded.log
    assert embedded.log.count("failed 3 times in total") == 2
    assert len(hook_calls(embedded, "before")) == len(hook_calls(embedded, "after")) == 3


@pytest.mark.parametrize("type_name", SEEN)
def test_a_hook_that_hangs_after_a_job_is_interrupted_with_its_runner(embedded: Installation, type_name: str) -> None:
    """The job is settled with the outcome of its handler."""
    job_id = embedded.enqueue(type_name)[0]

    embedded.dispatch(WORKER_TIMEOUT="4", DISPATCH_TIMEOUT="20", HANDLERS=HANDLERS, HOOKS_AFTER=f"{HERE}:hang_after")

    assert (embedded.job(job_id).status, embedded.job(job_id).attempts) == ("done", 1)
    assert "the job continues: Interrupted" in embedded.log


def test_the_timeout_of_a_job_includes_its_before_hook(embedded: Installation) -> None:
    """The timeout ends both: a job that should be traced and cannot be is not run untraced."""
    job_id = embedded.enqueue("short_timeout", max_attempts=1)[0]
    embedded.timing = Timing(hard_exit_seconds=20)

    embedded.dispatch(HANDLERS=HANDLERS, HOOKS_BEFORE=f"{HERE}:hang_before")

    job = embedded.job(job_id)
    assert (job.status, job.result) == ("dead", None)
    assert job.last_error.startswith("timed out after 1 s")  # not the window's 50
    assert "in hang_before" in job.last_error


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no_such_module:before", "no_such_module cannot be imported: ModuleNotFoundError: "),
        (f"{HERE}:befor", f"{HERE} has no function 'befor' (did you mean 'before'?)."),
        (f"{HERE}:async_hook", "it is an `async def`; hooks must be plain functions."),
        (f"{HERE}:after", "it must take (job)."),
    ],
)
def test_an_unusable_hook_is_reported_and_skipped(embedded: Installation, name: str, sentence: str) -> None:
    """By each runner and by `mayfly doctor`; the jobs are run."""
    ids = embedded.enqueue("noop", count=2)
    settings = {**BOTH, "HOOKS_BEFORE": name}

    cycle = embedded.dispatch(**settings)
    doctor = embedded.run("mayfly", "doctor", **settings)

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert {embedded.job(each).status for each in ids} == {"done"}
    assert f"ERROR: Hook skipped: HOOKS_BEFORE={name}: {sentence}" in embedded.log
    assert f"HOOKS_BEFORE={name}: {sentence}" in doctor.stdout
    assert (doctor.returncode, "Traceback" in doctor.stderr) == (1, False)
    assert ["ok", "hooks", f"HOOKS_AFTER={HERE}:after"] in [line.split() for line in doctor.stdout.splitlines()]
    assert len(hook_calls(embedded, "after")) == 2


def test_an_invalid_hook_name_is_refused(embedded: Installation) -> None:
    """With an error message and exit code 64, like any other invalid setting."""
    cycle = embedded.dispatch(HOOKS_ON_DEAD="myapp.alerts.dead")

    assert (cycle.returncode, cycle.stdout) == (64, "")
    assert "HOOKS_ON_DEAD=myapp.alerts.dead (environment): must be module:function" in cycle.stderr


# --- deaths -----------------------------------------------------------------------------------------------

ALARM = {"HANDLERS": HANDLERS, "HOOKS_ON_DEAD": f"{HERE}:dead"}


def test_the_dead_hook_is_called_for_every_dead_job(installation: Installation) -> None:
    """For deaths settled by the runner, and for crashes and killed handlers, which only the dispatcher sees."""
    reasons = {
        installation.enqueue("give_up", '{"customer": 7}')[0]: "no such customer",
        installation.enqueue("always_fail", max_attempts=1)[0]: "RuntimeError: failed at attempt 1",
        installation.enqueue("no_such_type", unknown_since=NOON)[0]: "no handler for type 'no_such_type'",
        installation.enqueue("crash", lane="crash", crashes=2, suspect=1)[0]: "crashed 3 times, last: ",
        installation.enqueue("uninterruptible", lane="stuck", max_attempts=1, interruptions=3)[0]: "timed out after ",
    }
    installation.enqueue("noop", count=5)

    def are_called() -> bool:
        installation.dispatch(LANES__STUCK__WORKER_TIMEOUT="4", **ALARM)
        return {each["job"] for each in hook_calls(installation, "dead")} == reasons.keys()

    wait_until(are_called, "every dead job has called the hook")

    calls = {each["job"]: each for each in hook_calls(installation, "dead")}
    assert calls.keys() == reasons.keys()
    assert len(hook_calls(installation, "dead")) == len(calls)
    assert all(calls[job_id]["error"].startswith(reason) for job_id, reason in reasons.items())
    assert next(each["payload"] for each in calls.values() if each["type"] == "give_up") == {"customer": 7}
    assert installation.rows("SELECT lane, status FROM mayfly_jobs WHERE type = 'mayfly.on_dead'") == [
        ("mayfly", "done")
    ] * len(reasons)


def test_a_failed_dead_hook_is_retried(embedded: Installation) -> None:
    """With backoff, like any failed job; the other hook is not called again."""
    job_id = embedded.enqueue("give_up")[0]
    settings = {**ALARM, "HOOKS_ON_DEAD": f"{HERE}:fail_first,{HERE}:dead", "BACKOFF_BASE": "0.01"}

    wait_until(
        lambda: embedded.dispatch(**settings) and embedded.statuses() == {"dead": 1, "done": 2}, "both are done"
    )

    assert [each["job"] for each in hook_calls(embedded, "dead")] == [job_id, job_id]
    assert "(mayfly.on_dead) attempt 1/20: failed: ConnectionError: the pager is away" in embedded.log


def test_a_dead_hook_job_calls_no_hook(embedded: Installation) -> None:
    """Otherwise a hook that always fails would cause calls without end."""
    embedded.enqueue("give_up")
    embedded.dispatch(**{**ALARM, "HOOKS_ON_DEAD": f"{HERE}:missing"})
    embedded.execute("UPDATE mayfly_jobs SET attempts = 19, run_at = created_at WHERE type = 'mayfly.on_dead'")

    embedded.dispatch(**{**ALARM, "HOOKS_ON_DEAD": f"{HERE}:missing"})

    hook_jobs = embedded.rows("SELECT status, last_error FROM mayfly_jobs WHERE type = 'mayfly.on_dead'")
    assert [(each.status, "has no function 'missing'" in each.last_error) for each in hook_jobs] == [("dead", True)]


def test_only_configured_hooks_are_called(embedded: Installation) -> None:
    """A row names a job and a hook, and cannot name any other function."""
    dead = embedded.enqueue("give_up", status="dead")[0]
    payload = json_text.encode({"job": dead, "hook": f"{HERE}:before"})
    forged = embedded.enqueue("mayfly.on_dead", payload, lane="mayfly")[0]

    embedded.dispatch(**ALARM)

    assert embedded.job(forged).status == "cancelled"
    assert not (embedded.home / "hook_calls").exists()


def test_without_dead_hooks_nothing_is_enqueued(embedded: Installation) -> None:
    """HOOKS_ON_DEAD is empty."""
    embedded.enqueue("give_up")
    embedded.enqueue("crash", lane="crash", crashes=2, suspect=1)

    embedded.dispatch()

    assert embedded.statuses() == {"dead": 2}
