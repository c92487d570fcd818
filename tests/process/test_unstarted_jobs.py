"""Jobs that wait behind a slow one of the same claim: its runner drops them, and another runner runs them."""

import os
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType

import pytest

from mayfly.process import Timing
from mayfly.process.fork import RECLAIM
from mayfly.process.status_page import StatusPage, read_status_page
from runner.batch import PauseCache, SkipCheck, UnstartedJobs
from tests.factories import make_job
from tests.process.installation import Installation, StartedProcess, handler_modules, wait_until

LINGERING = {"LINGER": "40", "POLL_INTERVAL": "0.1"}
SOON = Timing(slow_job_seconds=0.2)
RELEASED = "because it is busy with another job"
KILLS = 8
ROUNDS = 300


def is_done(installation: Installation, job_ids: list[int]) -> bool:
    return all(installation.job(each).status == "done" for each in job_ids)


def is_settled(installation: Installation) -> bool:
    return installation.statuses().keys() <= {"done", "dead"}


def end(dispatcher: StartedProcess) -> None:
    dispatcher.send_signal(signal.SIGTERM)
    dispatcher.communicate(timeout=60)


@pytest.mark.every_database
@pytest.mark.parametrize("linger", [{}, LINGERING], ids=["one plan", "lingering"])
def test_quick_jobs_do_not_wait_for_a_slow_one(installation: Installation, linger: dict[str, str]) -> None:
    """They were claimed together; another runner claims the quick ones, and the first claim uses no attempt."""
    [slow] = installation.enqueue("gated")
    quick = installation.enqueue("record_run", count=4)
    dispatcher = installation.start("dispatcher", **linger)
    installation.wait_for_gate()

    wait_until(lambda: is_done(installation, quick), "the quick jobs are done")

    running = installation.job(slow)
    assert (running.status, running.claims) == ("processing", 1)
    assert [(each.attempts, each.claims) for each in map(installation.job, quick)] == [(1, 2)] * 4
    installation.open_gate()
    wait_until(lambda: is_done(installation, [slow]), "the slow job is done")
    end(dispatcher)
    assert len((installation.home / "recorded_runs").read_text().splitlines()) == 4
    assert f"Released 4 unstarted jobs of {running.worker_id} {RELEASED}" in installation.log
    assert "Unstarted jobs released: 4" in installation.log
    assert "lost lease" not in installation.log


def test_jobs_without_limits_do_not_wait_for_a_slow_one(embedded: Installation) -> None:
    """Also in a runner whose other types have limits: it acquires limits for several jobs at a time."""
    embedded.enqueue("noop", count=4, priority=0)
    [slow] = embedded.enqueue("gated")
    quick = embedded.enqueue("record_run", count=3)
    handlers = handler_modules("misbehaving", "outcomes", "limits")
    dispatcher = embedded.start("dispatcher", HANDLERS=handlers, BATCH_SIZE="8")
    embedded.wait_for_gate()

    wait_until(lambda: is_done(embedded, quick), "the quick jobs are done")

    assert embedded.job(slow).status == "processing"
    embedded.open_gate()
    dispatcher.communicate(timeout=60)
    assert embedded.job(slow).status == "done"


def test_nothing_is_released_without_an_acknowledgement(embedded: Installation) -> None:
    """A handler blocked in C code runs no signal handler: the other job waits until its runner has ended."""
    embedded.timing = Timing(slow_job_seconds=0.2, hard_exit_seconds=0.5)
    embedded.enqueue("blocked", max_attempts=1)
    embedded.enqueue("noop")

    cycle = embedded.dispatch(WORKER_TIMEOUT="3", DISPATCH_TIMEOUT="8")

    assert cycle.returncode == 2
    assert embedded.log.count("requesting its 1 unstarted job") == 1
    assert RELEASED not in embedded.log


def test_jobs_of_a_full_lane_stay_with_their_runner(embedded: Installation) -> None:
    """Without a free slot no other runner could run them earlier."""
    embedded.timing = SOON
    embedded.enqueue("gated", lane="full")
    [kept] = embedded.enqueue("noop", lane="full")
    dispatcher = embedded.start("dispatcher", LANES__FULL__MAX_WORKERS="1", **LINGERING)
    embedded.wait_for_gate()
    embedded.enqueue("gated", lane="free")
    dropped = embedded.enqueue("noop", lane="free")
    wait_until(lambda: is_done(embedded, dropped), "the job of the other lane is done")

    waiting = embedded.job(kept)

    assert (waiting.status, waiting.claims) == ("processing", 1)
    assert "lane=full" not in embedded.log.partition("requesting")[2]
    embedded.open_gate()
    wait_until(lambda: is_done(embedded, [kept]), "its own runner runs it")
    end(dispatcher)
    assert embedded.job(kept).claims == 1


def test_an_idle_runner_is_a_free_slot(embedded: Installation) -> None:
    """In a lane that cannot have more runners, the one that waits for work runs the jobs."""
    embedded.timing = Timing(slow_job_seconds=0.2, idle_runner_seconds=60)
    embedded.enqueue("noop", count=2)
    dispatcher = embedded.start("dispatcher", BATCH_SIZE="1", MAX_WORKERS="2", **LINGERING)
    wait_until(lambda: embedded.statuses() == {"done": 2}, "two runners wait for work")
    due_together = embedded.now() + timedelta(seconds=0.5)
    [slow] = embedded.enqueue("gated", run_at=due_together)
    quick = embedded.enqueue("noop", run_at=due_together, count=2)

    embedded.wait_for_gate()
    wait_until(lambda: is_done(embedded, quick), "the quick jobs are done")

    running = embedded.job(slow)
    assert (running.status, running.claims) == ("processing", 1)
    embedded.open_gate()
    wait_until(lambda: is_done(embedded, [slow]), "the slow job is done")
    end(dispatcher)
    assert len(embedded.rows("SELECT worker_id FROM mayfly_runners")) == 2


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_plain_jobs_do_not_wait_for_a_concurrent_one(embedded: Installation, kind: str) -> None:
    """A runner runs them after its concurrent jobs; the one that dropped them does not claim them again."""
    embedded.timing = SOON
    [slow] = embedded.enqueue(f"wait_{kind}", '{"gate": "go"}')
    quick = embedded.enqueue("noop", count=3)
    dispatcher = embedded.start("dispatcher", HANDLERS=handler_modules("concurrent"), **LINGERING)

    wait_until(lambda: is_done(embedded, quick), "the plain jobs are done")

    running = embedded.job(slow)
    assert (running.status, running.claims) == ("processing", 1)
    assert {embedded.job(each).worker_id for each in quick} != {running.worker_id}
    embedded.open_gate()
    wait_until(lambda: is_done(embedded, [slow]), "the slow job is done")
    end(dispatcher)


def test_jobs_of_a_dispatcher_that_has_handed_over_go_to_the_next(embedded: Installation) -> None:
    """Its runner claims nothing more and would release them only after its slow job; the first has no free slot."""
    embedded.timing = SOON
    [slow] = embedded.enqueue("gated")
    quick = embedded.enqueue("noop", count=2)
    first = embedded.start("dispatcher", MAX_WORKERS="1", **LINGERING)
    embedded.wait_for_gate()

    second = embedded.start("dispatcher", **LINGERING)
    wait_until(lambda: is_done(embedded, quick), "a runner of the next dispatcher has run them")

    running = embedded.job(slow)
    assert (running.status, running.claims) == ("processing", 1)
    assert "Handed over" in embedded.log
    embedded.open_gate()
    first.communicate(timeout=60)
    end(second)


@pytest.mark.every_database
def test_no_claim_starts_a_job_twice(installation: Installation) -> None:
    """Under load, while runners are killed at random moments: no run is repeated without a new claim."""
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(1 << 32))
    print(f"CHAOS_SEED={seed}")
    rng = random.Random(seed)
    installation.timing = Timing(slow_job_seconds=0.03, idle_runner_seconds=1)
    for _ in range(30):
        installation.enqueue("locked_run", f'{{"seconds": {rng.choice([0.2, 0.4])}}}')
        installation.enqueue("locked_run", '{"seconds": 0.005}', count=rng.randrange(2, 6))
    settings = {"BATCH_SIZE": "8", "MAX_WORKERS": "4", "BACKOFF_BASE": "0.05", **LINGERING}
    dispatcher = installation.start("dispatcher", **settings)

    for _ in range(KILLS):
        wait_until(lambda: busy_runners(installation) or is_settled(installation), "a runner runs jobs")
        time.sleep(rng.uniform(0, 0.3))  # the random moment; the only wait here that is not for an event
        for pid in busy_runners(installation)[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    end(dispatcher)

    while not is_settled(installation):  # retries of crashed jobs
        installation.dispatch(**settings | {"LINGER": "0"})

    runs = [line.split() for line in (installation.home / "runs").read_text().splitlines()]
    started = Counter((job_id, claims) for job_id, claims, *_ in runs)
    assert set(started.values()) == {1}, started.most_common(3)
    assert {alone for *_, alone in runs} == {"alone"}
    assert RELEASED in installation.log, "no unstarted job was released"
    assert "lost lease" not in installation.log
    assert "Traceback" not in installation.log


def busy_runners(installation: Installation) -> list[int]:
    """Pids of runners that have started a job: after a death before that, the lane gets no more runners."""
    live = "SELECT worker_id, pid FROM mayfly_runners WHERE finished_at IS NULL AND heartbeat_at IS NOT NULL"
    pages = {path.stem: read_status_page(path) for path in (installation.home / "state").rglob("*.page")}
    found = [(row.pid, pages.get(row.worker_id)) for row in installation.rows(live)]
    return [pid for pid, status in found if status is not None and (status.running or status.done)]


class LoudJob:
    """A job's handler with a signal handler of its own that raises, wherever its process is at that moment."""

    is_running = False

    def on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_running:
            raise TimeoutError

    def run(self) -> None:
        try:
            self.is_running = True
            sum(range(1000))
        except TimeoutError:
            return
        finally:
            self.is_running = False


@contextmanager
def signals_at_random_moments(loud: LoudJob) -> Iterator[None]:
    """RECLAIM and SIGALRM, some thousand times per second, from another process: a thread would wait for the GIL."""
    before = signal.signal(signal.SIGALRM, loud.on_alarm)
    parent, sender = os.getpid(), os.fork()
    while sender == 0:
        time.sleep(random.uniform(0, 0.001))
        if os.getppid() != parent:
            os._exit(0)
        os.kill(parent, random.choice([RECLAIM, signal.SIGALRM]))
    try:
        yield
    finally:
        os.kill(sender, signal.SIGKILL)
        os.waitpid(sender, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(RECLAIM, signal.SIG_IGN)


@pytest.mark.parametrize("missing", [{}, {"another_type": ["KEY"]}], ids=["nothing to check", "each job is checked"])
def test_a_signal_at_any_moment_drops_a_job_or_leaves_it(
    embedded: Installation, missing: dict[str, list[str]]
) -> None:
    """However the signal and the loop interleave: every job is started once or acknowledged, never both."""
    embedded.enqueue("noop")
    check = SkipCheck(embedded.database, PauseCache("default", embedded.database), missing)
    batch = [make_job(id=number, claims=1) for number in range(1, 301)]
    loud = LoudJob()
    cut = 0
    signal.signal(RECLAIM, signal.SIG_IGN)

    with signals_at_random_moments(loud):
        for number in range(ROUNDS):
            page = StatusPage(embedded.home / f"{number}.page")
            unstarted = UnstartedJobs(page)
            unstarted.install()
            started = []
            for job in check.admit(unstarted.hold(batch), lambda *_: pytest.fail("rejected")):
                started.append(job.id)
                loud.run()
            unstarted.acknowledge()
            dropped = {job_id for job_id, _claims in page.dropped_since(0)}
            assert sorted([*started, *dropped]) == [job.id for job in batch]
            cut += bool(started and dropped)

    assert cut, "no signal arrived in the middle of a batch"
