"""Runners of the preset ssh, with a real sshd on the loopback."""

from collections.abc import Iterator

import psutil
import pytest

from mayfly.settings.launcher_model import PRESETS, SSH
from tests.process.installation import Installation, wait_until
from tests.process.launcher_settings import COMMAND, as_toml, rows, write_toml
from tests.servers.sshd import Sshd

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sshd() -> Iterator[Sshd]:
    made = Sshd()
    made.start()
    yield made
    made.remove()


@pytest.fixture
def remote(embedded: Installation, sshd: Sshd) -> Installation:
    """The lane `remote` runs on the other host: the commands of the preset, with the options of the private sshd."""
    lines = {
        name: ["ssh", *sshd.options, *line[1:]] for name, line in PRESETS["ssh"].items() if line[: len(SSH)] == SSH
    }
    commands = "\n".join(f"{name} = {literal(line)}" for name, line in lines.items())
    launcher = f'[launchers.ssh]\nhost = "{sshd.user}@127.0.0.1"\ncommand = {COMMAND}\n{commands}\n'
    write_toml(embedded, f'{launcher}\n[lanes.remote]\nlauncher = "ssh"\n')
    return embedded


def literal(arguments: list[str]) -> str:
    """The preset has quotes and backslashes."""
    return as_toml(arguments) if not any("\\" in each for each in arguments) else str(arguments)


def test_a_runner_of_another_host_drains_its_lane(remote: Installation) -> None:
    """Its id in the engine is its pid there, and what it prints is in a file there."""
    remote.enqueue("gated", lane="remote")

    remote.dispatch()

    remote.wait_for_gate()
    [runner] = rows(remote)
    process = psutil.Process(int(runner.external_id))
    assert process.cmdline()[-2:] == ["--worker", runner.worker_id]
    assert "WORKER" in (remote.home / f"logs/runners/{runner.worker_id}.log").read_text()
    remote.dispatch()
    remote.open_gate()
    wait_until(lambda: remote.statuses() == {"done": 1}, "the job is done")
    wait_until(lambda: rows(remote)[0].ending == "ok", "the runner has closed its row")


def test_the_output_of_a_failed_runner_is_read_from_the_other_host(remote: Installation) -> None:
    """It was killed with its lease keeper."""
    [job_id] = remote.enqueue("die_always", lane="remote")
    remote.dispatch()
    wait_until(lambda: rows(remote)[0].ending == "crash", "the lease keeper has noted the crash")

    remote.dispatch()

    [runner] = rows(remote)
    assert (runner.ending, runner.signal, remote.job(job_id).crashes) == ("crash", 9, 1)
    assert "Starting ephemeral worker" in runner.output


def test_interrupt_ends_a_runner_of_another_host(remote: Installation) -> None:
    """By its row: the processes of the other host cannot be signalled from here."""
    remote.enqueue("gated", lane="remote")
    remote.dispatch()
    remote.wait_for_gate()
    interrupt = remote.start("mayfly", "interrupt")
    wait_until(lambda: "An operator has requested a stop" in remote.log, "it is stopped")

    remote.open_gate()

    assert interrupt.communicate(timeout=60)[1] == ""
    assert (interrupt.returncode, rows(remote)[0].ending) == (0, "ok")


def test_a_host_that_refuses_the_login_is_a_refused_submit(remote: Installation, sshd: Sshd) -> None:
    """With the reason of ssh. Whether the runner was submitted is known as soon as the status can be asked."""
    (sshd.home / "key.pub").rename(sshd.home / "hidden")
    try:
        remote.enqueue("noop", lane="remote")

        remote.dispatch()
    finally:
        (sshd.home / "hidden").rename(sshd.home / "key.pub")

    assert "Permission denied" in remote.log
    assert remote.statuses() == {"pending": 1}
    remote.dispatch()
    assert rows(remote)[0].ending == "refused"
    remote.dispatch()
    wait_until(lambda: remote.statuses() == {"done": 1}, "the next submit is accepted")
