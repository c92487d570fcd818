"""Hooks around jobs, in real runners: who is told what, and what a bad hook cannot do."""

import json
from typing import Any

import pytest

from mayfly import json_text
from mayfly.process.timing import Timing
from tests.process.installation import Installation, handler_modules, wait_until

HERE = "tests.process.sample_handlers.hooks"
HANDLERS = handler_modules("misbehaving", "outcomes", "hooks")
BOTH = {"HANDLERS": HANDLERS, "HOOKS_BEFORE": f"{HERE}:before", "HOOKS_AFTER": f"{HERE}:after"}
SEEN = ("seen_plain", "seen_async", "seen_thread")


def heard(installation: Installation, hook: str) -> list[dict[str, Any]]:
    path = installation.home / "heard"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [each for each in lines if each["hook"] == hook]


# --- around each job --------------------------------------------------------------------------------------


@pytest.mark.parametrize("spawn", ["fork", "exec"])
def test_every_job_is_told_before_and_after(embedded: Installation, spawn: str) -> None:
    """Once each, plain functions, tasks and threads alike, also by runners whose import is shared."""
    ids = [job_id for each in SEEN for job_id in embedded.enqueue(each, count=4)]

    cycle = embedded.dispatch(BATCH_SIZE="5", SPAWN=spawn, **BOTH)

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert sorted(each["job"] for each in heard(embedded, "before")) == ids
    assert sorted(each["job"] for each in heard(embedded, "after")) == ids
    assert {(each["kind"], each["main"]) for each in heard(embedded, "after")} == {("done", True)}


@pytest.mark.parametrize("type_name", SEEN)
def test_a_handler_sees_what_before_has_left_in_its_context(embedded: Installation, type_name: str) -> None:
    """A context variable, as tracing libraries use them; jobs side by side have one each."""
    ids = embedded.enqueue(type_name, count=3)

    embedded.dispatch(MAX_WORKERS="1", **BOTH)

    assert [json_text.decode(embedded.job(each).result) for each in ids] == [f"span of {each}" for each in ids]


def test_after_is_told_what_became_of_the_job(embedded: Installation) -> None:
    """The words are those of the totals, the error that of the row."""
    expected = {
        "noop": ("done", None),
        "answer": ("done", None),
        "snooze": ("snoozed", None),
        "cancel": ("cancelled", "nobody wants it any more"),
        "give_up": ("dead", "no such customer"),
        "come_back": ("failed", "the other side is busy"),
        "sleep": ("dead", "the payload does not fit tests.basic_handlers.sleep"),
    }
    for each in expected:
        embedded.enqueue(each, '{"seconds": "long"}')

    embedded.dispatch(**BOTH)

    told = {each["type"]: each for each in heard(embedded, "after")}
    assert {name: each["kind"] for name, each in told.items()} == {name: kind for name, (kind, _) in expected.items()}
    assert all((error or "") in (told[name]["error"] or "") for name, (_, error) in expected.items())
    assert {each["type"] for each in heard(embedded, "before")} == expected.keys()


def test_a_job_that_nobody_can_run_is_not_told(embedded: Installation) -> None:
    """No handler was called, so there is nothing before and after it."""
    embedded.enqueue("no_such_type")

    embedded.dispatch(**BOTH)

    assert not (embedded.home / "heard").exists()


# --- bad hooks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_name", SEEN)
def test_a_hook_that_raises_breaks_no_job(embedded: Installation, type_name: str) -> None:
    """The first time is told with the reason, the others are counted; the hooks beside it are called as ever."""
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
    assert len(heard(embedded, "before")) == len(heard(embedded, "after")) == 3


@pytest.mark.parametrize("type_name", SEEN)
def test_a_hook_that_hangs_after_a_job_is_interrupted_with_its_runner(embedded: Installation, type_name: str) -> None:
    """The job is settled as its handler ended it."""
    job_id = embedded.enqueue(type_name)[0]

    embedded.dispatch(WORKER_TIMEOUT="4", DISPATCH_TIMEOUT="20", HANDLERS=HANDLERS, HOOKS_AFTER=f"{HERE}:hang_after")

    assert (embedded.job(job_id).status, embedded.job(job_id).attempts) == ("done", 1)
    assert "the job continues: Interrupted" in embedded.log


def test_a_hook_that_hangs_before_a_job_is_on_the_jobs_time(embedded: Installation) -> None:
    """Its time-out ends both: who should be traced and cannot be is not run unseen."""
    job_id = embedded.enqueue("impatient", max_attempts=1)[0]
    embedded.timing = Timing(hard_exit_seconds=20)

    embedded.dispatch(HANDLERS=HANDLERS, HOOKS_BEFORE=f"{HERE}:hang_before")

    job = embedded.job(job_id)
    assert (job.status, job.result) == ("dead", None)
    assert 1 <= float(job.last_error.removeprefix("timed out after ").removesuffix(" s")) < 20  # not the window's 50


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no_such_module:before", "no_such_module cannot be imported: ModuleNotFoundError: "),
        (f"{HERE}:befor", f"{HERE} has no function 'befor' (did you mean 'before'?)."),
        (f"{HERE}:too_late", "it is an `async def`, and hooks are plain functions."),
        (f"{HERE}:after", "it must take (job)."),
    ],
)
def test_a_hook_that_cannot_be_used_is_told_and_left_out(embedded: Installation, name: str, sentence: str) -> None:
    """By each runner, and by `mayfly doctor`; the jobs are run."""
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
    assert len(heard(embedded, "after")) == 2


def test_a_name_that_cannot_be_one_is_refused(embedded: Installation) -> None:
    """Like every other setting: a sentence, and 64."""
    cycle = embedded.dispatch(HOOKS_ON_DEAD="myapp.alerts.dead")

    assert (cycle.returncode, cycle.stdout) == (64, "")
    assert "HOOKS_ON_DEAD=myapp.alerts.dead (environment): must be module:function" in cycle.stderr


# --- deaths -----------------------------------------------------------------------------------------------

ALARM = {"HANDLERS": HANDLERS, "HOOKS_ON_DEAD": f"{HERE}:dead"}


def test_every_death_is_told_whoever_settled_it(installation: Installation) -> None:
    """The runner's, and those that only the dispatcher sees: a crash, and a handler that had to be killed."""
    reasons = {
        installation.enqueue("give_up", '{"customer": 7}')[0]: "no such customer",
        installation.enqueue("stumble", max_attempts=1)[0]: "RuntimeError: stumbled at attempt 1",
        installation.enqueue("no_such_type", max_attempts=1)[0]: "no handler for type 'no_such_type'",
        installation.enqueue("crash", lane="crash", crashes=2, suspect=1)[0]: "crashed 3 times, at last: ",
        installation.enqueue("deaf", lane="deaf", max_attempts=1, interruptions=3)[0]: "timed out after ",
    }
    installation.enqueue("noop", count=5)

    def are_told() -> bool:
        installation.dispatch(LANES__DEAF__WORKER_TIMEOUT="4", **ALARM)
        return {each["job"] for each in heard(installation, "dead")} == reasons.keys()

    wait_until(are_told, "all are told: what died at the end of a cycle, in the next")

    told = {each["job"]: each for each in heard(installation, "dead")}
    assert told.keys() == reasons.keys()
    assert len(heard(installation, "dead")) == len(told)
    assert all(told[job_id]["error"].startswith(reason) for job_id, reason in reasons.items())
    assert next(each["payload"] for each in told.values() if each["type"] == "give_up") == {"customer": 7}
    assert installation.rows("SELECT lane, status FROM mayfly_jobs WHERE type = 'mayfly.on_dead'") == [
        ("mayfly", "done")
    ] * len(reasons)


def test_an_alarm_in_vain_is_repeated(embedded: Installation) -> None:
    """With backoff, like any job that fails; the hook beside it is not called again."""
    job_id = embedded.enqueue("give_up")[0]
    settings = {**ALARM, "HOOKS_ON_DEAD": f"{HERE}:first_in_vain,{HERE}:dead", "BACKOFF_BASE": "0.01"}

    wait_until(
        lambda: embedded.dispatch(**settings) and embedded.statuses() == {"dead": 1, "done": 2}, "both are done"
    )

    assert [each["job"] for each in heard(embedded, "dead")] == [job_id, job_id]
    assert "(mayfly.on_dead) attempt 1/20: failed: ConnectionError: the pager is away" in embedded.log


def test_an_alarm_that_nobody_hears_raises_none(embedded: Installation) -> None:
    """Or a hook that always fails would be told of that for ever."""
    embedded.enqueue("give_up")
    embedded.dispatch(**{**ALARM, "HOOKS_ON_DEAD": f"{HERE}:nobody"})
    embedded.execute("UPDATE mayfly_jobs SET attempts = 19, run_at = created_at WHERE type = 'mayfly.on_dead'")

    embedded.dispatch(**{**ALARM, "HOOKS_ON_DEAD": f"{HERE}:nobody"})

    told = embedded.rows("SELECT status, last_error FROM mayfly_jobs WHERE type = 'mayfly.on_dead'")
    assert [(each.status, "has no function 'nobody'" in each.last_error) for each in told] == [("dead", True)]


def test_only_what_the_settings_name_is_called(embedded: Installation) -> None:
    """A row names a job and a hook, and cannot choose its own."""
    dead = embedded.enqueue("give_up", status="dead")[0]
    payload = json_text.encode({"job": dead, "hook": f"{HERE}:before"})
    forged = embedded.enqueue("mayfly.on_dead", payload, lane="mayfly")[0]

    embedded.dispatch(**ALARM)

    assert embedded.job(forged).status == "cancelled"
    assert not (embedded.home / "heard").exists()


def test_deaths_leave_no_jobs_where_nobody_wants_to_know(embedded: Installation) -> None:
    """Without HOOKS_ON_DEAD nothing is written."""
    embedded.enqueue("give_up")
    embedded.enqueue("crash", lane="crash", crashes=2, suspect=1)

    embedded.dispatch()

    assert embedded.statuses() == {"dead": 2}
