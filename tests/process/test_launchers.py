"""Launchers: an engine starts the runners of a lane; the lease decides, the engine explains."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from mayfly.fleet.cycles import Dispatcher
from mayfly.process.identity import Process, start_time
from tests.process import engine
from tests.process.installation import CHECKOUT, Installation, wait_until
from tests.process.launcher_settings import COMMAND, PYTHON, as_toml, rows, write_toml

TOML = """
[launchers.fake]
submit = [{engine}, "submit", "{{worker_id}}", "{{command}}"]
status = [{engine}, "status", "{{worker_ids...}}"]
cancel = [{engine}, "cancel", "{{external_ids...}}"]
output = [{engine}, "output", "{{worker_id}}"]
command = {command}
start_timeout = "{start_timeout}"
[lanes.remote]
launcher = "fake"
"""


class FakeEngine:
    """The engine of a test, and an installation whose lane `remote` has it as launcher."""

    def __init__(self, installation: Installation, start_timeout: str = "5m") -> None:
        self.installation = installation
        self.directory = installation.home / "engine"
        self.directory.mkdir()
        command = [PYTHON, str(CHECKOUT / "tests/process/engine.py"), str(self.directory)]
        quoted = as_toml(command)[1:-1]
        write_toml(installation, TOML.format(engine=quoted, command=COMMAND, start_timeout=start_timeout))
        self._server = subprocess.Popen([*command, "serve"])
        wait_until((self.directory / engine.SOCKET).exists, "the engine has started")

    def set(self, fault: str, text: str = "") -> None:
        (self.directory / fault).write_text(text)

    def clear(self, fault: str) -> None:
        (self.directory / fault).unlink()

    def jobs(self) -> list[str]:
        """Name, id and state of each."""
        found: list[str] = engine.request(self.directory, "status", [])
        return found

    def states(self) -> list[str]:
        return [each.split()[2] for each in self.jobs()]

    def close(self) -> None:
        for each in psutil.Process(self._server.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it has just ended by itself
                each.kill()
        self._server.kill()
        self._server.wait()


@pytest.fixture
def fake(embedded: Installation) -> Iterator[FakeEngine]:
    made = FakeEngine(embedded)
    yield made
    made.close()


def row(installation: Installation) -> Any:
    [found] = rows(installation)
    return found


def test_a_submitted_runner_drains_its_lane(embedded: Installation, fake: FakeEngine) -> None:
    """Its row has the launcher and the id of the engine, and it closes it itself, with its exit code."""
    embedded.enqueue("noop", lane="remote", count=20)

    first = embedded.dispatch()

    assert (first.returncode, first.stderr) == (0, "")
    wait_until(lambda: embedded.statuses() == {"done": 20}, "the lane is drained")
    wait_until(lambda: all(each.finished_at for each in rows(embedded)), "the runners have closed their rows")
    found = rows(embedded)
    assert len(found) == 4
    ends = {(each.launcher, each.ending, each.exit_code, each.engine_step) for each in found}
    assert ends == {("fake", "ok", 0, None)}
    assert sorted(each.external_id for each in found) == sorted(each.split()[1] for each in fake.jobs())
    assert "Runners of launchers submitted: 4" in embedded.log
    assert embedded.dispatch().returncode == 0
    assert "Rescued" not in embedded.log


def test_submitted_runners_count_as_running(embedded: Installation, fake: FakeEngine) -> None:
    """Also while they wait in the queue of the engine, and for every host."""
    fake.set("hold")
    embedded.enqueue("noop", lane="remote", count=10)
    embedded.dispatch()

    embedded.dispatch(HOST_NAME="another")

    assert fake.states() == ["PENDING", "PENDING"]
    assert "cut by 2 already running" in embedded.log


def test_a_lane_of_a_launcher_needs_no_slots_of_this_host(embedded: Installation, fake: FakeEngine) -> None:
    """Its runners are elsewhere."""
    fake.set("hold")
    embedded.enqueue("noop", lane="remote", count=15)
    embedded.enqueue("noop", count=5)

    embedded.dispatch(HOST_MAX_WORKERS="1")

    assert len(fake.jobs()) == 3
    assert embedded.statuses() == {"pending": 15, "done": 5}


def test_a_dry_run_shows_the_launcher(embedded: Installation, fake: FakeEngine) -> None:
    """And submits nothing."""
    embedded.enqueue("noop", lane="remote")

    shown = embedded.dispatch("--dry-run").stdout

    assert [line.split() for line in shown.splitlines()][:2] == [
        ["lane", "pending", "running", "wanted", "planned", "launcher", "cut", "by"],
        ["remote", "1", "0", "1", "1", "fake", "-"],
    ]
    assert fake.jobs() == []


def test_a_lost_answer_is_found_by_name(embedded: Installation, fake: FakeEngine) -> None:
    """The engine has the job, but its program did not answer in time: it is not submitted again."""
    embedded.timing = embedded.timing._replace(engine_seconds=1.0)
    fake.set("hold")
    fake.set("lose")
    embedded.enqueue("noop", lane="remote")

    embedded.dispatch()
    embedded.dispatch()

    [job] = fake.jobs()
    assert row(embedded).external_id == job.split()[1]
    assert f"Found {job.split()[0]} lane=remote in fake" in embedded.log
    fake.clear("hold")
    wait_until(lambda: embedded.statuses() == {"done": 1}, "the job is done")


def test_a_dispatcher_killed_after_its_submit_does_not_repeat_it(embedded: Installation, fake: FakeEngine) -> None:
    """A later cycle finds the runner by its name."""
    fake.set("hold")
    fake.set("lose")
    embedded.enqueue("noop", lane="remote")
    dispatcher = embedded.start("dispatcher")
    wait_until(lambda: len(fake.jobs()) == 1, "the engine has the job")
    for each in [*psutil.Process(dispatcher.pid).children(recursive=True), psutil.Process(dispatcher.pid)]:
        each.kill()
    dispatcher.wait(60)
    fake.clear("lose")
    assert row(embedded).external_id is None

    embedded.dispatch()

    [job] = fake.jobs()
    assert row(embedded).external_id == job.split()[1]


def test_a_refused_submit_is_reported_everywhere(embedded: Installation, fake: FakeEngine) -> None:
    """In the log, in the next plan, and by `why`; other lanes are not affected. Then one try per cycle."""
    fake.set("refuse", "sbatch: error: invalid partition specified: gpu")
    [job_id] = embedded.enqueue("noop", lane="remote")
    embedded.enqueue("noop", lane="remote", count=20)
    embedded.enqueue("noop")

    embedded.dispatch()
    refused = len(rows(embedded))
    embedded.dispatch()

    assert embedded.statuses() == {"pending": 21, "done": 1}
    reason = "sbatch: error: invalid partition specified: gpu"
    assert f"lane=remote was refused by fake: {reason}" in embedded.log
    assert f"cut by launcher fake refused the last submit: {reason}" in embedded.log
    assert "Runners of launchers refused: 5" in embedded.log
    assert {each.ending for each in rows(embedded) if each.lane == "remote"} == {"refused"}
    assert len(rows(embedded)) == refused + 1
    why = embedded.run("mayfly", "why", str(job_id)).stdout
    assert reason in why
    fake.clear("refuse")
    embedded.dispatch()
    wait_until(lambda: embedded.statuses() == {"done": 22}, "the lane is drained")


def test_a_dispatcher_that_lingers_tries_a_refused_submit_once(embedded: Installation, fake: FakeEngine) -> None:
    """Although its lane has due jobs all the time."""
    fake.set("refuse", "sbatch: error: invalid partition specified: gpu")
    embedded.enqueue("noop", lane="remote")

    embedded.dispatch(LINGER="4")

    assert [each.ending for each in rows(embedded)] == ["refused"]
    assert "Polls while lingering" in embedded.log


def test_a_runner_that_does_not_start_is_planned_again(embedded: Installation, tmp_path: Path) -> None:
    """It is cancelled in the engine; a late process exits without claiming."""
    fake = FakeEngine(embedded, start_timeout="2s")
    try:
        fake.set("hold")
        embedded.enqueue("noop", lane="remote")
        embedded.dispatch()
        [first] = rows(embedded)
        wait_until(lambda: embedded.now() > first.start_by, "its time to start is over")

        embedded.dispatch()

        old, new = rows(embedded)
        assert (old.ending, new.ending, new.heartbeat_at) == ("not started", None, None)
        assert fake.states() == ["CANCELLED", "PENDING"]
        assert "Runners of launchers submitted: 1, not started: 1" in embedded.log
        late = embedded.run("runner", "--worker", old.worker_id)
        assert (late.returncode, embedded.statuses()) == (0, {"pending": 1})
        assert "Exiting without a claim: its row is closed (not started)" in embedded.log
    finally:
        fake.close()


def test_only_one_process_takes_over_a_row(embedded: Installation, fake: FakeEngine) -> None:
    """A second one with the same id exits without claiming."""
    embedded.enqueue("gated", lane="remote")
    embedded.enqueue("noop", lane="remote")
    embedded.dispatch()
    embedded.wait_for_gate()
    [job] = fake.jobs()

    second = embedded.run("runner", "--worker", job.split()[0])

    assert (second.returncode, "has taken over its row" in embedded.log) == (0, True)
    embedded.open_gate()
    wait_until(lambda: embedded.statuses() == {"done": 2}, "both are done by the first")
    assert len(rows(embedded)) == 1


def test_a_crash_of_a_submitted_runner_is_a_crash_of_its_job(embedded: Installation, fake: FakeEngine) -> None:
    """Its lease keeper ends its lease; the next cycle settles its jobs and asks the engine why."""
    fake.set("ending", "OUT_OF_MEMORY")
    [job_id] = embedded.enqueue("die_always", lane="remote")
    embedded.dispatch()
    wait_until(lambda: fake.states() == ["OUT_OF_MEMORY"], "the runner has crashed")

    embedded.dispatch()

    job, found = embedded.job(job_id), rows(embedded)[0]
    assert (job.crashes, job.attempts) == (1, 0)
    assert "killed by signal 9" in job.last_error
    assert (found.ending, found.signal, found.cause) == ("crash", 9, "out of memory")
    assert "Starting ephemeral worker" in found.output
    cause = f"Its last runner, {found.worker_id} of the launcher fake, ended: out of memory."
    assert cause in embedded.run("mayfly", "why", str(job_id)).stdout


def test_runners_that_no_job_waits_for_are_cancelled(embedded: Installation, fake: FakeEngine) -> None:
    """Nothing stays in the queue of the engine after a lane is drained."""
    fake.set("hold")
    ids = embedded.enqueue("noop", lane="remote", count=10)
    embedded.dispatch()
    embedded.run("mayfly", "cancel", *map(str, ids), "--yes")

    embedded.dispatch()

    assert fake.states() == ["CANCELLED", "CANCELLED"]
    assert {each.ending for each in rows(embedded)} == {"cancelled"}


def test_an_engine_that_hangs_delays_no_local_lane(embedded: Installation, fake: FakeEngine) -> None:
    """Its commands run beside the local runners, and are ended in time."""
    embedded.timing = embedded.timing._replace(engine_seconds=30.0, launch_seconds=4.0)
    fake.set("down")
    embedded.enqueue("noop", lane="remote")
    embedded.enqueue("noop")
    dispatcher = embedded.start("dispatcher")

    wait_until(lambda: embedded.statuses() == {"done": 1, "pending": 1}, "the local lane is drained")

    assert dispatcher.poll() is None
    dispatcher.communicate(timeout=60)
    assert "The commands of fake were ended after" in embedded.log
    assert dispatcher.returncode == 0


def test_interrupt_reaches_submitted_runners(embedded: Installation, fake: FakeEngine) -> None:
    """Those that wait are cancelled; those that run finish their job and claim no more."""
    embedded.enqueue("gated", lane="remote")
    embedded.enqueue("noop", lane="remote", count=9)
    embedded.dispatch(LANES__REMOTE__MAX_WORKERS="1", BATCH_SIZE="1")
    embedded.wait_for_gate()
    fake.set("hold")
    embedded.dispatch(LANES__REMOTE__MAX_WORKERS="2", BATCH_SIZE="1")
    assert fake.states() == ["RUNNING", "PENDING"]
    interrupt = embedded.start("mayfly", "interrupt")
    wait_until(lambda: fake.states() == ["RUNNING", "CANCELLED"], "the waiting one is cancelled")
    wait_until(lambda: "An operator has requested a stop" in embedded.log, "the running one is stopped")

    embedded.open_gate()

    assert interrupt.communicate(timeout=60)[1] == ""
    assert interrupt.returncode == 0
    assert sorted(each.ending for each in rows(embedded)) == ["cancelled", "ok"]
    assert embedded.statuses()["done"] < 10


def test_interrupt_ends_dispatchers_without_the_database(tmp_path: Path) -> None:
    """It needs the database for the runners of launchers only."""
    away = Installation(tmp_path, "mysql://shop:hunter2@127.0.0.1:1/shop")
    write_toml(away, '[launchers.slurm]\nsubmit = ["sbatch", "{command}"]\n[lanes.a]\nlauncher = "slurm"\n')
    away.dispatch()
    [lock] = (tmp_path / "state").rglob("dispatcher.lock")
    dispatcher = subprocess.Popen(["sleep", "600"])
    try:
        lock.write_text(Dispatcher(Process(dispatcher.pid, start_time(dispatcher.pid) or 0)).as_text())

        ended = away.run("mayfly", "interrupt")

        assert dispatcher.wait(60) == -signal.SIGTERM
        assert (ended.returncode, "can't be reached" in ended.stderr) == (1, True)
    finally:
        dispatcher.kill()
        dispatcher.wait()


def test_no_secret_is_in_a_command_line_or_an_environment(embedded: Installation, fake: FakeEngine) -> None:
    """Of the submitting program and of the runner."""
    embedded.enqueue("gated", lane="remote")
    embedded.dispatch(API_KEY="s3cret-of-an-application")
    embedded.wait_for_gate()

    wait_until(lambda: row(embedded).heartbeat_at, "the runner has taken over its row")

    runner = psutil.Process(row(embedded).pid)
    assert runner.cmdline()[-2:] == ["--worker", row(embedded).worker_id]
    texts = [*runner.cmdline(), *runner.environ().values()]
    assert not [each for each in texts if "s3cret" in each or embedded.url in each]
    embedded.open_gate()
    wait_until(lambda: embedded.statuses() == {"done": 1}, "the job is done")


def test_a_submitted_runner_is_rescued_when_its_lease_has_ended(embedded: Installation, fake: FakeEngine) -> None:
    """Not before, although its engine reports its end at once. The engine supplies the cause."""
    fake.set("ending", "NODE_FAIL")
    [job_id] = embedded.enqueue("gated", lane="remote")
    embedded.dispatch()
    embedded.wait_for_gate()
    keeper = psutil.Process(row(embedded).pid).parent()
    assert keeper is not None
    keeper.kill()  # its runner dies with it
    wait_until(lambda: fake.states() == ["NODE_FAIL"], "the engine has seen its end")
    embedded.dispatch()
    assert (embedded.job(job_id).status, embedded.job(job_id).releases) == ("processing", 0)
    embedded.execute("UPDATE mayfly_runners SET lease_until = planned_at")

    embedded.dispatch()

    assert (embedded.job(job_id).releases, rows(embedded)[0].ending) == (1, "lost")
    assert embedded.job(job_id).last_error.endswith("(its dispatcher or host died): node failed")
    fake.clear("ending")
    embedded.open_gate()
    wait_until(lambda: embedded.statuses() == {"done": 1}, "the next runner has done the job")


def test_a_runner_is_shown_with_its_cause_and_its_output(embedded: Installation, fake: FakeEngine) -> None:
    """By `mayfly runners ID`, also as JSON. Secrets in the output are masked, control characters replaced."""
    embedded.enqueue("die_always", lane="remote")
    embedded.dispatch()
    wait_until(lambda: fake.states() == ["FAILED"], "the runner has crashed")
    [first] = rows(embedded)
    output = fake.directory / f"{first.worker_id}.out"
    output.write_bytes(b"x" * 100_000 + b"\xff\x1b[2Jmysql://me:s3cret@db/app token=s3cret-too\n")

    embedded.dispatch()

    text = embedded.run("mayfly", "runners", first.worker_id).stdout
    facts = json.loads(embedded.run("mayfly", "runners", first.worker_id, "--json").stdout)
    assert (facts["launcher"], facts["external_id"], facts["ending"]) == ("fake", first.external_id, "crash")
    assert len(facts["output"].encode()) <= 64 << 10
    for shown in (text, facts["output"]):
        assert "[2Jmysql://me:***@db/app token=•••" in shown
        assert "s3cret" not in shown
        assert "\x1b" not in shown
    assert embedded.run("mayfly", "runners", "worker-9").returncode == 64


def test_doctor_checks_the_programs_of_launchers(embedded: Installation, fake: FakeEngine) -> None:
    """Without submitting anything."""
    assert f"fake: {PYTHON} found; lanes remote" in embedded.run("mayfly", "doctor").stdout
    write_toml(
        embedded, '[launchers.slurm]\nsubmit = ["no-such-program", "{command}"]\n[lanes.a]\nlauncher = "slurm"\n'
    )

    shown = embedded.run("mayfly", "doctor")

    assert "slurm: no-such-program" in shown.stdout
    assert shown.returncode == 1
    assert fake.jobs() == []
