"""The handlers of a lane are imported once, in a preload process; a problem there affects only that lane."""

import os
import signal
from collections.abc import Iterator

import pytest
from sqlalchemy import select

from mayfly import json_text
from mayfly.process import Timing
from mayfly.schema.metadata import runners
from tests.process.installation import Installation, handler_modules, wait_until

NOTES = "import os, pathlib; home = pathlib.Path(os.environ['MAYFLY_HOME'])\n"
COUNTED = NOTES + "with (home / 'imports').open('a') as file: file.write(f'{os.getpid()}\\n')\n"
# The first process that imports it behaves differently, whichever lane it belongs to.
FIRST = (
    NOTES + "try: (home / 'first').touch(exist_ok=False)\nexcept FileExistsError: first = False\nelse: first = True\n"
)
WAITING = COUNTED + "import time\n(home / 'reached').touch()\nwhile not (home / 'go').exists(): time.sleep(0.01)\n"


def write_module(installation: Installation, source: str) -> dict[str, str]:
    """A module of handlers that does something when it is imported; returns the settings that name it."""
    (installation.home / "sample.py").write_text(source)
    return {"HANDLERS": f"sample,{handler_modules('misbehaving', 'outcomes')}", "BATCH_SIZE": "1"}


def imports(installation: Installation) -> list[int]:
    return [int(line) for line in (installation.home / "imports").read_text().split()]


def endings(installation: Installation) -> list[tuple[str, int | None, int | None]]:
    return [(row.ending, row.exit_code, row.signal) for row in installation.rows(select(runners))]


def assert_untouched(installation: Installation, job_ids: list[int]) -> None:
    jobs = [installation.job(each) for each in job_ids]
    assert {(job.status, job.attempts, job.crashes, job.claims) for job in jobs} == {("pending", 0, 0, 0)}


# --- once -------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_five_runners_import_once(installation: Installation) -> None:
    """Each is a separate process with its own row; the shared modules were imported before the fork."""
    settings = write_module(installation, COUNTED)
    installation.enqueue("record_run", '{"seconds": 0.1}', count=10)

    cycle = installation.dispatch(**settings)

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert installation.statuses() == {"done": 10}
    ended = installation.rows(select(runners))
    assert [(each.ending, each.exit_code) for each in ended] == [("ok", 0)] * 5
    assert len({each.pid for each in ended}) == 5
    assert sum(each.jobs_done for each in ended) == 10
    ran = [line.split() for line in (installation.home / "recorded_runs").read_text().splitlines()]
    assert {int(pid) for _job, _claims, pid in ran} <= {each.pid for each in ended}
    assert len({job for job, _claims, _pid in ran}) == len(ran) == 10
    assert len(imports(installation)) == 1
    assert not {each.pid for each in ended} & set(imports(installation))


def test_each_lane_has_a_preload_process_and_one_runner_needs_none(embedded: Installation) -> None:
    """Two lanes with two runners each import twice; the runner of a lane with one job imports itself."""
    settings = write_module(embedded, COUNTED)
    for lane, number in {"first": 2, "second": 2, "third": 1}.items():
        embedded.enqueue("record_run", count=number, lane=lane)

    cycle = embedded.dispatch(**settings)

    assert (cycle.returncode, embedded.statuses()) == (0, {"done": 5})
    alone = embedded.rows(select(runners.c.pid).where(runners.c.lane == "third"))[0].pid
    assert len(set(imports(embedded))) == 3
    assert alone in imports(embedded)


def test_later_runners_of_the_cycle_are_forked_there_too(embedded: Installation) -> None:
    """The slots of two crashed runners are filled from the preload process of their lane."""
    settings = write_module(embedded, COUNTED)
    embedded.enqueue("crash", count=2, priority=0)
    embedded.enqueue("record_run")

    cycle = embedded.dispatch(**settings, MAX_WORKERS="2")

    assert cycle.returncode == 1
    assert embedded.statuses() == {"pending": 2, "done": 1}
    assert sorted(row.ending for row in embedded.rows(select(runners))) == ["crash", "crash", "ok"]
    assert len(imports(embedded)) == 1


def test_an_expensive_import_is_paid_once(embedded: Installation) -> None:
    """Twenty runners of handlers that take 0.4 s of CPU to import use far less than twenty times that."""
    settings = write_module(embedded, COUNTED + "import time\nwhile time.process_time() < 0.4: pass\n")
    embedded.enqueue("noop", count=20)

    cycle = embedded.dispatch(**settings, MAX_WORKERS="20")

    assert (cycle.returncode, embedded.statuses()) == (0, {"done": 20})
    assert len(imports(embedded)) == 1
    ended = embedded.rows(select(runners))
    assert len(ended) == 20
    assert sum(each.cpu_ms for each in ended) < 20 * 400 / 2


# --- isolation --------------------------------------------------------------------------------------------


def test_a_runner_inherits_no_descriptors_of_others(embedded: Installation) -> None:
    """No socket, no lock, and no pipe but its own output."""
    source = (
        "import os\nfrom mayfly import handler\n@handler('descriptors')\ndef descriptors(job):\n"
        "    return [os.readlink(f'/proc/self/fd/{each}') for each in os.listdir('/proc/self/fd')[:-1]]\n"
    )
    job_ids = embedded.enqueue("descriptors", count=3)

    cycle = embedded.dispatch(**write_module(embedded, source))

    assert cycle.returncode == 0
    found = [json_text.decode(embedded.job(each).result) for each in job_ids]
    pipes = [{each for each in seen if each.startswith("pipe:")} for seen in found]
    assert [len(each) for each in pipes] == [1, 1, 1]
    assert not [each for seen in found for each in seen if each.startswith("socket:") or each.endswith(".lock")]


def test_preloaded_runners_are_ended_in_time(embedded: Installation) -> None:
    """A handler that ignores the guard is killed, with its children."""
    settings = write_module(embedded, COUNTED)
    embedded.enqueue("stubborn_parent", count=2)
    embedded.timing = Timing(hard_exit_seconds=0.5, min_window_seconds=60)

    cycle = embedded.dispatch(**settings, WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="30")

    assert cycle.returncode == 2
    assert {ending for ending, _code, _signal in endings(embedded)} == {"timeout"}
    assert len(imports(embedded)) == 1
    wait_until(lambda: not embedded.processes(), "nothing is left")


def test_each_runner_reports_a_broken_module(embedded: Installation) -> None:
    """As if it had imported it itself; jobs of the module wait, and a runner that claimed one exits with 1."""
    job_ids = embedded.enqueue("invoice", count=2)

    cycle = embedded.dispatch(**write_module(embedded, "import no_such_module\n"))

    assert cycle.returncode == 1
    assert ("error", 1, None) in endings(embedded)
    assert {(embedded.job(each).status, embedded.job(each).attempts) for each in job_ids} == {("pending", 0)}
    assert embedded.log.count("Handler module sample cannot be imported: ModuleNotFoundError") == 2


def test_output_of_an_import_is_logged_and_bounded(embedded: Installation) -> None:
    """With the name of its lane; bytes over the bound are counted. Also with a log on stdout."""
    embedded.enqueue("printer", count=2)

    cycle = embedded.dispatch(
        **write_module(embedded, "print('hello from sample')\nprint('x' * 1000000)\n"), LOG_TO="stdout"
    )

    assert cycle.returncode == 0
    assert "[DISPATCHER] Importing the handlers of lane=default printed: hello from sample" in cycle.stdout
    assert "more bytes, which were dropped" in cycle.stdout
    assert len(cycle.stdout) < 128 << 10
    for worker in [row.worker_id for row in embedded.rows(select(runners))]:
        assert f"[WORKER {worker}] Starting ephemeral worker" in cycle.stdout
    assert cycle.stdout.count(" printed: printed by a handler") == 2


# --- imports that cannot be shared ------------------------------------------------------------------------

TRACES = {
    "thread": ("import threading as t\nt.Thread(target=t.Event().wait, name='poll', daemon=True).start()\n",
               "a thread (poll)"),
    "socket": ("import socket\nkept = socket.socketpair()\n", "an open descriptor (socket:"),
    "file": ("kept = (home / 'data').open('w+')\n", "an open descriptor (/"),
    "child": ("import subprocess\nkept = subprocess.Popen(['sleep', '60'])\n", "a child process"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "leftover"), TRACES.values(), ids=TRACES)
def test_an_unsafe_import_is_not_shared(embedded: Installation, source: str, leftover: str) -> None:
    """Forks have no threads and would share streams: each runner imports itself, and the log has the reason."""
    settings = write_module(embedded, COUNTED + source)
    embedded.enqueue("record_run", '{"seconds": 0.1}', count=3)

    cycle = embedded.dispatch(**settings, MAX_WORKERS="3")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert embedded.statuses() == {"done": 3}
    assert f"Handler preloading disabled for lane=default: importing the handlers leaves {leftover}" in embedded.log
    pids = {row.pid for row in embedded.rows(select(runners))}
    assert len(pids) == 3
    assert pids < set(imports(embedded))
    wait_until(lambda: not embedded.processes(), "nothing is left")


def test_an_append_only_file_may_be_shared(embedded: Installation) -> None:
    """Forks have no common position in it."""
    settings = write_module(embedded, COUNTED + "kept = (home / 'own.log').open('a')\n")
    embedded.enqueue("record_run", '{"seconds": 0.1}', count=3)

    cycle = embedded.dispatch(**settings)

    assert (cycle.returncode, len(imports(embedded))) == (0, 1)


# --- failed imports ---------------------------------------------------------------------------------------

DEATHS = {
    "segfault": ("os.kill(os.getpid(), 11)", ("crash", None, 11)),
    "exit": ("os._exit(0)", ("error", 1, None)),
    "interrupt": ("raise KeyboardInterrupt", ("error", 1, None)),
}


@pytest.mark.parametrize(("death", "ending"), DEATHS.values(), ids=DEATHS)
def test_a_crashing_import_affects_only_its_lane(
    embedded: Installation, death: str, ending: tuple[str, int | None, int | None]
) -> None:
    """No job is blamed, and no other runner is started there in the cycle; the next one runs all jobs."""
    settings = write_module(embedded, FIRST + f"if first: {death}\n")
    lanes = {lane: embedded.enqueue("noop", count=2, lane=lane) for lane in ("one", "other")}

    cycle = embedded.dispatch(**settings)

    assert cycle.returncode == 1
    rows = embedded.rows(select(runners))
    [unlucky] = {row.lane for row in rows if row.ending != "ok"}
    assert [(row.ending, row.exit_code, row.signal) for row in rows if row.lane == unlucky] == [ending] * 2
    assert_untouched(embedded, lanes[unlucky])
    assert embedded.statuses() == {"done": 2, "pending": 2}
    assert f"ERROR: The preload process of lane={unlucky} " in embedded.log
    assert "before it started 2 workers" in embedded.log
    assert embedded.log.count("Dispatch Summary:") == 1

    assert embedded.dispatch(**settings).returncode == 0
    assert embedded.statuses() == {"done": 4}


def test_a_hanging_import_affects_only_its_lane(embedded: Installation) -> None:
    """Its runners time out before they start; the log shows where it hangs, before the guard's deadline."""
    settings = write_module(embedded, FIRST + "import time\nif first: time.sleep(3600)\n")
    lanes = {lane: embedded.enqueue("noop", count=2, lane=lane) for lane in ("one", "other")}
    embedded.timing = Timing(min_window_seconds=60)

    cycle = embedded.dispatch(**settings, WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="30")

    assert cycle.returncode == 2
    assert "Exceeded" not in embedded.log, "the dispatcher's guard had nothing to do"
    rows = embedded.rows(select(runners))
    [unlucky] = {row.lane for row in rows if row.ending != "ok"}
    assert [row.ending for row in rows if row.lane == unlucky] == ["timeout"] * 2
    assert_untouched(embedded, lanes[unlucky])
    assert "sample.py" in embedded.log
    assert_nothing_left(embedded)

    assert embedded.dispatch(**settings).returncode == 0
    assert embedded.statuses() == {"done": 4}


def test_an_import_that_uses_too_much_memory_is_ended(embedded: Installation) -> None:
    """WORKER_MEMORY applies to the preload process too."""
    settings = write_module(embedded, "import time\nhoard = bytearray(400 << 20)\ntime.sleep(3600)\n")
    job_ids = embedded.enqueue("noop", count=2)

    cycle = embedded.dispatch(**settings, WORKER_MEMORY="300M")

    assert cycle.returncode == 1
    assert endings(embedded) == [("crash", None, 9)] * 2
    assert "its memory grew above WORKER_MEMORY" in embedded.log
    assert_untouched(embedded, job_ids)


# --- kills and signals ------------------------------------------------------------------------------------


@pytest.fixture
def importing(embedded: Installation) -> Iterator[Installation]:
    """Two runners will be forked when their import, which has begun, may continue."""
    embedded.settings = write_module(embedded, WAITING)
    embedded.enqueue("noop", count=2)
    yield embedded
    assert_nothing_left(embedded)


def test_killing_a_preload_process_ends_no_runner(embedded: Installation) -> None:
    """Forked runners belong to the dispatcher: they continue, and their exits are seen."""
    settings = write_module(embedded, COUNTED)
    embedded.enqueue("gated", count=2)
    dispatcher = embedded.start("dispatcher", **settings)
    wait_until(lambda: len(embedded.runner_pids()) == 2, "both runners work")

    os.kill(imports(embedded)[0], signal.SIGKILL)
    wait_until(lambda: "was killed by signal 9; no workers affected" in embedded.log, "the dispatcher has seen it")
    embedded.open_gate()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    assert endings(embedded) == [("ok", 0, None)] * 2
    assert embedded.statuses() == {"done": 2}


def test_killing_a_preload_process_before_it_forks(importing: Installation) -> None:
    """Its runners have crashed before their first job; nothing was claimed."""
    dispatcher = importing.start("dispatcher")
    importing.wait_for_gate()

    os.kill(imports(importing)[0], signal.SIGKILL)

    dispatcher.communicate()
    assert dispatcher.returncode == 1
    assert endings(importing) == [("crash", None, 9)] * 2
    assert importing.statuses() == {"pending": 2}


def test_killing_a_dispatcher_during_the_import(importing: Installation) -> None:
    """The kernel ends the preload process with it; the next cycle runs the jobs."""
    dispatcher = importing.start("dispatcher")
    importing.wait_for_gate()

    dispatcher.kill()
    dispatcher.communicate()

    assert_nothing_left(importing)
    importing.open_gate()
    assert importing.dispatch().returncode == 0
    assert importing.statuses() == {"done": 2}


def test_killing_a_dispatcher_ends_preloaded_runners(embedded: Installation) -> None:
    """Although the preload process forked them."""
    settings = write_module(embedded, COUNTED)
    embedded.enqueue("gated", count=2)
    dispatcher = embedded.start("dispatcher", **settings)
    wait_until(lambda: len(embedded.runner_pids()) == 2, "both runners work")

    dispatcher.kill()
    dispatcher.communicate()

    assert_nothing_left(embedded)


def test_stopping_a_dispatcher_during_the_import(importing: Installation) -> None:
    """The runners are forked, stopped, and exit without a claim."""
    dispatcher = importing.start("dispatcher")
    importing.wait_for_gate()

    wait_until(lambda: importing.log.count("Spawning worker:") == 2, "both runners are requested")
    dispatcher.send_signal(signal.SIGTERM)
    wait_until(lambda: "Received SIGTERM: stopping 2 workers" in importing.log, "the dispatcher has received it")
    importing.open_gate()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    assert endings(importing) == [("ok", 0, None)] * 2
    assert importing.statuses() == {"pending": 2}


def assert_nothing_left(installation: Installation) -> None:
    wait_until(lambda: not installation.processes(), "nothing is left")
