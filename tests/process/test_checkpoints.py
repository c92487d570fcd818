"""Long jobs in short windows: an import continues from its checkpoint, however its last runner ended."""

import os
import signal
from collections import Counter
from collections.abc import Mapping

import pytest
from sqlalchemy import select

from mayfly.process import Timing
from mayfly.schema.metadata import jobs, runners
from tests.process.installation import Installation, wait_until

LONG = {"HANDLERS": "tests.process.sample_handlers.long_jobs", "BACKOFF_BASE": "0.000001"}
# A runner on a busy machine has started its job before this window ends. The dispatcher's guard comes much later.
SHORT: Mapping[str, str] = {**LONG, "WORKER_TIMEOUT": "5", "DISPATCH_TIMEOUT": "30"}
ONE_PLAN = Timing(min_window_seconds=60)  # the rest of a window is not used for another plan
ROWS = 60
IMPORT = f'{{"rows": {ROWS}, "seconds": 0.1}}'  # six seconds of steps
ENDLESS = '{"rows": 1000, "seconds": 0.1}'


def rows_in(installation: Installation) -> list[int]:
    path = installation.home / "rows"
    return [int(each) for each in path.read_text().split()] if path.exists() else []


def run_until_done(installation: Installation, most: int = 12) -> list[int]:
    """The exit codes of the cycles it took."""
    installation.timing = ONE_PLAN
    codes: list[int] = []
    while installation.statuses() != {"done": sum(installation.statuses().values())}:
        assert len(codes) < most, installation.log
        codes.append(installation.dispatch(**SHORT).returncode)
    return codes


def test_an_import_runs_in_slices(installation: Installation) -> None:
    """Each window does what fits, no step is repeated, no attempt is used, no cycle fails, and slices are counted."""
    job_id = installation.enqueue("import_plain", IMPORT)[0]

    codes = run_until_done(installation)

    job = installation.job(job_id)
    assert rows_in(installation) == list(range(ROWS))
    assert set(codes) == {0}
    assert (job.attempts, job.slices, job.claims) == (1, len(codes) - 1, len(codes))
    assert len(codes) >= 2
    assert job.progress == f'{{"done":{ROWS},"total":{ROWS},"text":"rows"}}'
    assert [line.get("sliced", "0") for line in installation.lane_lines()] == [*("1" * (len(codes) - 1)), "0"]
    assert f"Job {job_id} (import_plain): slice 1 ended after" in installation.log


@pytest.mark.parametrize("type_name", ["import_thread", "import_async", "import_limited"])
def test_every_kind_of_handler_runs_in_slices(embedded: Installation, type_name: str) -> None:
    """In a thread, on the event loop, and with a timeout of its own."""
    job_id = embedded.enqueue(type_name, IMPORT)[0]

    codes = run_until_done(embedded)

    assert rows_in(embedded) == list(range(ROWS))
    assert (set(codes), embedded.job(job_id).attempts) == ({0}, 1)
    assert embedded.job(job_id).slices == len(codes) - 1 >= 1


def test_a_slice_is_not_repeated_in_its_cycle(embedded: Installation) -> None:
    """The runner continues with the next jobs, and no runner is started for it: no loop of short slices."""
    long = embedded.enqueue("import_limited", IMPORT)[0]
    embedded.enqueue("noop", count=3)

    first = embedded.dispatch(**LONG)

    assert (first.returncode, embedded.statuses()) == (0, {"done": 3, "pending": 1})
    assert len(embedded.rows(select(runners))) == 1
    assert (embedded.job(long).claims, embedded.job(long).slices) == (1, 1)


@pytest.mark.every_database
def test_an_import_survives_kill_9(installation: Installation) -> None:
    """Any number of times while it makes progress; at most the step that was killed is repeated."""
    kills = 4
    job_id = installation.enqueue("import_plain", IMPORT)[0]
    for number in range(1, kills + 1):
        dispatcher = installation.start("dispatcher", **LONG)
        wait_until(lambda: len(rows_in(installation)) >= 6 * number, "it makes progress")  # noqa: B023 - called here
        os.kill(installation.runner_pids()[0], signal.SIGKILL)
        wait_until(lambda: len(installation.log.split("crashed:")) > number, "the crash is logged")  # noqa: B023
        dispatcher.kill()
        dispatcher.wait()
        wait_until(lambda: not installation.processes(), "nothing of that cycle is left")

    run_until_done(installation)

    counted = Counter(rows_in(installation))
    assert set(counted) == set(range(ROWS))
    assert sum(counted.values()) <= ROWS + 2 * kills  # one step each for killed runner and dispatcher
    assert (installation.job(job_id).status, installation.job(job_id).attempts) == ("done", 1)


def test_a_stopped_runner_ends_a_slice_at_the_next_checkpoint(embedded: Installation) -> None:
    """A deploy does not wait for the end of the window, and loses nothing."""
    job_id = embedded.enqueue("import_plain", ENDLESS)[0]
    dispatcher = embedded.start("dispatcher", **LONG)
    wait_until(lambda: len(rows_in(embedded)) >= 3, "it runs")

    dispatcher.send_signal(signal.SIGTERM)

    dispatcher.communicate(timeout=60)
    job = embedded.job(job_id)
    assert (dispatcher.returncode, job.status, job.attempts, job.slices) == (0, "pending", 0, 1)
    rows = len(rows_in(embedded)) + 5
    assert rows < 1000
    embedded.execute(f'UPDATE mayfly_jobs SET payload = \'{{"rows"\\: {rows}, "seconds"\\: 0}}\'')
    run_until_done(embedded)
    assert rows_in(embedded) == list(range(rows))


@pytest.mark.parametrize(("type_name", "ending"), [("step_then_hang", "timeout"), ("step_then_ignore", "timeout")])
def test_a_forced_end_after_a_checkpoint_is_a_slice(embedded: Installation, type_name: str, ending: str) -> None:
    """Whether the guard interrupts the job or ends its process from C, no attempt is used."""
    job_id = embedded.enqueue(type_name)[0]
    embedded.timing = ONE_PLAN._replace(hard_exit_seconds=0.5)

    cycle = embedded.dispatch(**SHORT)

    job = embedded.job(job_id)
    assert (cycle.returncode, job.status, job.attempts, job.slices) == (2, "pending", 0, 1)
    assert (job.checkpoint, job.stalled) == ('"begun"', 0)
    assert [row.ending for row in embedded.rows(select(runners))] == [ending]


def test_twenty_slices_without_progress_are_dead(embedded: Installation) -> None:
    """With that reason."""
    job_id = embedded.enqueue("no_progress", checkpoint='"here"', slices=19, stalled=19)[0]
    embedded.timing = ONE_PLAN

    embedded.dispatch(**SHORT)

    job = embedded.job(job_id)
    assert (job.status, job.last_error) == ("dead", "20 slices without a changed checkpoint")


@pytest.mark.every_database
def test_twenty_crashes_without_a_finished_slice_are_dead(installation: Installation) -> None:
    """Sixteen are written into the row, four are real."""
    job_id = installation.enqueue("step_then_crash", checkpoint="16", forgiven=15, crashes=1, suspect=1)[0]

    wait_until(lambda: dispatched(installation) and installation.job(job_id).status == "dead", "it ends")

    job = installation.job(job_id)
    assert (job.checkpoint, job.claims, job.forgiven, job.crashes) == ("20", 4, 19, 1)
    assert job.last_error.startswith("crashed 20 times, last:")


def dispatched(installation: Installation) -> bool:
    return installation.dispatch(**SHORT).returncode == 1


def test_a_finished_slice_resets_the_crashes(embedded: Installation) -> None:
    """So an import of weeks survives any number of kills if a slice ends now and then."""
    job_id = embedded.enqueue("import_plain", IMPORT, checkpoint="1", forgiven=19)[0]
    embedded.timing = ONE_PLAN

    embedded.dispatch(**SHORT)

    job = embedded.job(job_id)
    assert (job.status, job.slices, job.forgiven) == ("pending", 1, 0)


def test_a_cancelled_import_ends_at_its_next_checkpoint(embedded: Installation) -> None:
    """By the flag in its row, with the reason given there."""
    job_id = embedded.enqueue("import_plain", ENDLESS)[0]
    dispatcher = embedded.start("dispatcher", **LONG)
    wait_until(lambda: len(rows_in(embedded)) >= 3, "it runs")

    embedded.execute(f"UPDATE mayfly_jobs SET cancel_reason = 'the customer left' WHERE id = {job_id}")

    dispatcher.communicate(timeout=60)
    [job] = embedded.rows(select(jobs))
    assert (job.status, job.last_error) == ("cancelled", "the customer left")
