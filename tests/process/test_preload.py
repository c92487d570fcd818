"""A lane's handlers are imported once, in a process of their own; whatever happens there costs that lane only."""

import os
import signal
from collections.abc import Iterator

import pytest
from sqlalchemy import select

from mayfly import json_text
from mayfly.process.timing import Timing
from mayfly.schema.metadata import runners
from tests.process.installation import Installation, handler_modules, wait_until

NOTES = "import os, pathlib; home = pathlib.Path(os.environ['MAYFLY_HOME'])\n"
COUNTED = NOTES + "with (home / 'imports').open('a') as file: file.write(f'{os.getpid()}\\n')\n"
# The first who imports it, whichever lane that is, does what the others do not.
FIRST = (
    NOTES + "try: (home / 'first').touch(exist_ok=False)\nexcept FileExistsError: first = False\nelse: first = True\n"
)
WAITING = COUNTED + "import time\n(home / 'reached').touch()\nwhile not (home / 'go').exists(): time.sleep(0.01)\n"


def give(installation: Installation, source: str) -> dict[str, str]:
    """A module of handlers that does something when it is imported; the settings that name it."""
    (installation.home / "odd.py").write_text(source)
    return {"HANDLERS": f"odd,{handler_modules('misbehaving', 'outcomes')}", "BATCH_SIZE": "1"}


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
    """Each is a process of its own with a row of its own; what they have in common was imported before them."""
    settings = give(installation, COUNTED)
    installation.enqueue("ledger", '{"seconds": 0.1}', count=10)

    cycle = installation.dispatch(**settings)

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert installation.statuses() == {"done": 10}
    lives = installation.rows(select(runners))
    assert [(each.ending, each.exit_code) for each in lives] == [("ok", 0)] * 5
    assert len({each.pid for each in lives}) == 5
    assert sum(each.jobs_done for each in lives) == 10
    ran = [line.split() for line in (installation.home / "ledger").read_text().splitlines()]
    assert {int(pid) for _job, _claims, pid in ran} <= {each.pid for each in lives}
    assert len({job for job, _claims, _pid in ran}) == len(ran) == 10
    assert len(imports(installation)) == 1
    assert not {each.pid for each in lives} & set(imports(installation))


def test_each_lane_has_a_preload_process_and_one_runner_needs_none(embedded: Installation) -> None:
    """Two lanes of two runners import twice; the lane with one job has a runner that imports by itself."""
    settings = give(embedded, COUNTED)
    for lane, number in {"first": 2, "second": 2, "third": 1}.items():
        embedded.enqueue("ledger", count=number, lane=lane)

    cycle = embedded.dispatch(**settings)

    assert (cycle.returncode, embedded.statuses()) == (0, {"done": 5})
    alone = embedded.rows(select(runners.c.pid).where(runners.c.lane == "third"))[0].pid
    assert len(set(imports(embedded))) == 3
    assert alone in imports(embedded)


def test_who_comes_later_in_the_cycle_is_born_there_too(embedded: Installation) -> None:
    """A slot that two crashed runners have freed is filled from the preload process of their lane."""
    settings = give(embedded, COUNTED)
    embedded.enqueue("crash", count=2, priority=0)
    embedded.enqueue("ledger")

    cycle = embedded.dispatch(**settings, MAX_WORKERS="2")

    assert cycle.returncode == 1
    assert embedded.statuses() == {"pending": 2, "done": 1}
    assert sorted(row.ending for row in embedded.rows(select(runners))) == ["crash", "crash", "ok"]
    assert len(imports(embedded)) == 1


def test_an_import_that_costs_much_is_paid_once(embedded: Installation) -> None:
    """Twenty runners of handlers that take 0.4 s of CPU to import take far less than twenty times that."""
    settings = give(embedded, COUNTED + "import time\nwhile time.process_time() < 0.4: pass\n")
    embedded.enqueue("noop", count=20)

    cycle = embedded.dispatch(**settings, MAX_WORKERS="20")

    assert (cycle.returncode, embedded.statuses()) == (0, {"done": 20})
    assert len(imports(embedded)) == 1
    lives = embedded.rows(select(runners))
    assert len(lives) == 20
    assert sum(each.cpu_ms for each in lives) < 20 * 400 / 2


# --- runners are runners ----------------------------------------------------------------------------------


def test_a_runner_has_nothing_of_the_others(embedded: Installation) -> None:
    """No socket, no pipe but its own output, no lock: what a handler could hold or disturb is its runner's alone."""
    source = (
        "import os\nfrom mayfly import handler\n@handler('look')\ndef look(job):\n"
        "    return [os.readlink(f'/proc/self/fd/{each}') for each in os.listdir('/proc/self/fd')[:-1]]\n"
    )
    job_ids = embedded.enqueue("look", count=3)

    cycle = embedded.dispatch(**give(embedded, source))

    assert cycle.returncode == 0
    found = [json_text.decode(embedded.job(each).result) for each in job_ids]
    pipes = [{each for each in seen if each.startswith("pipe:")} for seen in found]
    assert [len(each) for each in pipes] == [1, 1, 1]
    assert not [each for seen in found for each in seen if each.startswith("socket:") or each.endswith(".lock")]


def test_preloaded_runners_are_ended_like_others(embedded: Installation) -> None:
    """A handler that ignores the guard, and what it has started, is killed in time."""
    settings = give(embedded, COUNTED)
    embedded.enqueue("stubborn_parent", count=2)
    embedded.timing = Timing(hard_exit_seconds=0.5, min_window_seconds=60)

    cycle = embedded.dispatch(**settings, WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="30")

    assert cycle.returncode == 2
    assert {ending for ending, _code, _signal in endings(embedded)} == {"timeout"}
    assert len(imports(embedded)) == 1
    wait_until(lambda: not embedded.processes(), "nothing is left")


def test_each_runner_tells_of_a_module_that_cannot_be_imported(embedded: Installation) -> None:
    """As if it had tried itself; jobs that need the module are given back, and their lane's runners end with 1."""
    job_ids = embedded.enqueue("invoice", count=2)

    cycle = embedded.dispatch(**give(embedded, "import no_such_module\n"))

    assert cycle.returncode == 1
    assert endings(embedded) == [("error", 1, None)] * 2
    assert {embedded.job(each).attempts for each in job_ids} == {0}
    assert embedded.log.count("Handler module odd cannot be imported: ModuleNotFoundError") == 2


def test_what_an_import_prints_is_in_the_log_and_bounded(embedded: Installation) -> None:
    """Under the name of its lane; a flood is counted, not kept. The log itself may well be on stdout."""
    embedded.enqueue("printer", count=2)

    cycle = embedded.dispatch(**give(embedded, "print('hello from odd')\nprint('x' * 1000000)\n"), LOG_TO="stdout")

    assert cycle.returncode == 0
    assert "[DISPATCHER] Importing the handlers of lane=default printed: hello from odd" in cycle.stdout
    assert "more bytes, which were dropped" in cycle.stdout
    assert len(cycle.stdout) < 128 << 10
    for worker in [row.worker_id for row in embedded.rows(select(runners))]:
        assert f"[WORKER {worker}] Starting ephemeral worker" in cycle.stdout
    assert cycle.stdout.count(" printed: printed by a handler") == 2


# --- what must not be shared ------------------------------------------------------------------------------

TRACES = {
    "thread": ("import threading as t\nt.Thread(target=t.Event().wait, name='poll', daemon=True).start()\n",
               "a thread (poll)"),
    "socket": ("import socket\nkept = socket.socketpair()\n", "an open descriptor (socket:"),
    "file": ("kept = (home / 'data').open('w+')\n", "an open descriptor (/"),
    "child": ("import subprocess\nkept = subprocess.Popen(['sleep', '60'])\n", "a child process"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "told"), TRACES.values(), ids=TRACES)
def test_an_import_that_cannot_be_shared_is_everybodys_own(embedded: Installation, source: str, told: str) -> None:
    """Threads are missing in a fork, streams would be mixed: each runner imports by itself, and the log says why."""
    settings = give(embedded, COUNTED + source)
    embedded.enqueue("ledger", '{"seconds": 0.1}', count=3)

    cycle = embedded.dispatch(**settings, MAX_WORKERS="3")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert embedded.statuses() == {"done": 3}
    assert f"Handler preloading disabled for lane=default: importing the handlers leaves {told}" in embedded.log
    pids = {row.pid for row in embedded.rows(select(runners))}
    assert len(pids) == 3
    assert pids < set(imports(embedded))
    wait_until(lambda: not embedded.processes(), "nothing is left")


def test_a_log_file_may_be_shared(embedded: Installation) -> None:
    """What is only ever appended to has no place that forks could fight over."""
    settings = give(embedded, COUNTED + "kept = (home / 'own.log').open('a')\n")
    embedded.enqueue("ledger", '{"seconds": 0.1}', count=3)

    cycle = embedded.dispatch(**settings)

    assert (cycle.returncode, len(imports(embedded))) == (0, 1)


# --- imports that end badly -------------------------------------------------------------------------------

DEATHS = {
    "segfault": ("os.kill(os.getpid(), 11)", ("crash", None, 11)),
    "exit": ("os._exit(0)", ("error", 1, None)),
    "interrupt": ("raise KeyboardInterrupt", ("error", 1, None)),
}


@pytest.mark.parametrize(("death", "ending"), DEATHS.values(), ids=DEATHS)
def test_an_import_that_dies_costs_its_lane_only(
    embedded: Installation, death: str, ending: tuple[str, int | None, int | None]
) -> None:
    """No job is accused, no other runner is tried there in that cycle; the next one finds all jobs as they were."""
    settings = give(embedded, FIRST + f"if first: {death}\n")
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


def test_an_import_that_hangs_costs_its_lane_only(embedded: Installation) -> None:
    """Its runners have timed out before they were born; the log says where it hung, and the guard is not needed."""
    settings = give(embedded, FIRST + "import time\nif first: time.sleep(3600)\n")
    lanes = {lane: embedded.enqueue("noop", count=2, lane=lane) for lane in ("one", "other")}
    embedded.timing = Timing(min_window_seconds=60)

    cycle = embedded.dispatch(**settings, WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="30")

    assert cycle.returncode == 2
    assert "Exceeded" not in embedded.log, "the dispatcher's guard had nothing to do"
    rows = embedded.rows(select(runners))
    [unlucky] = {row.lane for row in rows if row.ending != "ok"}
    assert [row.ending for row in rows if row.lane == unlucky] == ["timeout"] * 2
    assert_untouched(embedded, lanes[unlucky])
    assert "odd.py" in embedded.log
    assert_nothing_left(embedded)

    assert embedded.dispatch(**settings).returncode == 0
    assert embedded.statuses() == {"done": 4}


def test_an_import_that_takes_too_much_memory_is_ended(embedded: Installation) -> None:
    """The bound of a runner holds for what its import takes as well."""
    settings = give(embedded, "import time\nhoard = bytearray(400 << 20)\ntime.sleep(3600)\n")
    job_ids = embedded.enqueue("noop", count=2)

    cycle = embedded.dispatch(**settings, WORKER_MEMORY="300M")

    assert cycle.returncode == 1
    assert endings(embedded) == [("crash", None, 9)] * 2
    assert "its memory grew above WORKER_MEMORY" in embedded.log
    assert_untouched(embedded, job_ids)


# --- kills and signals ------------------------------------------------------------------------------------


@pytest.fixture
def importing(embedded: Installation) -> Iterator[Installation]:
    """Two runners are to be born as soon as their import, which has begun, is let go on."""
    embedded.settings = give(embedded, WAITING)
    embedded.enqueue("noop", count=2)
    yield embedded
    assert_nothing_left(embedded)


def test_a_preload_process_that_is_killed_ends_no_runner(embedded: Installation) -> None:
    """Those who were born are the dispatcher's: they go on, and their ends are seen."""
    settings = give(embedded, COUNTED)
    embedded.enqueue("latch", count=2)
    dispatcher = embedded.start("dispatcher", **settings)
    wait_until(lambda: len(embedded.runner_pids()) == 2, "both runners work")

    os.kill(imports(embedded)[0], signal.SIGKILL)
    wait_until(lambda: "was killed by signal 9; no workers affected" in embedded.log, "the dispatcher has seen it")
    embedded.release_latch()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    assert endings(embedded) == [("ok", 0, None)] * 2
    assert embedded.statuses() == {"done": 2}


def test_a_preload_process_that_is_killed_before_its_runners_start(importing: Installation) -> None:
    """They have crashed before their first job; nothing was claimed."""
    dispatcher = importing.start("dispatcher")
    importing.wait_for_latch()

    os.kill(imports(importing)[0], signal.SIGKILL)

    dispatcher.communicate()
    assert dispatcher.returncode == 1
    assert endings(importing) == [("crash", None, 9)] * 2
    assert importing.statuses() == {"pending": 2}


def test_a_dispatcher_that_is_killed_while_handlers_are_imported(importing: Installation) -> None:
    """The kernel ends the preload process with it; the next cycle runs the jobs."""
    dispatcher = importing.start("dispatcher")
    importing.wait_for_latch()

    dispatcher.kill()
    dispatcher.communicate()

    assert_nothing_left(importing)
    importing.release_latch()
    assert importing.dispatch().returncode == 0
    assert importing.statuses() == {"done": 2}


def test_a_dispatcher_that_is_killed_leaves_no_preloaded_runner(embedded: Installation) -> None:
    """Born elsewhere, they die with their dispatcher like any other runner."""
    settings = give(embedded, COUNTED)
    embedded.enqueue("latch", count=2)
    dispatcher = embedded.start("dispatcher", **settings)
    wait_until(lambda: len(embedded.runner_pids()) == 2, "both runners work")

    dispatcher.kill()
    dispatcher.communicate()

    assert_nothing_left(embedded)


def test_a_dispatcher_that_is_stopped_while_handlers_are_imported(importing: Installation) -> None:
    """The runners are born, told at once, and end without having claimed anything."""
    dispatcher = importing.start("dispatcher")
    importing.wait_for_latch()

    dispatcher.send_signal(signal.SIGTERM)
    wait_until(lambda: "Received SIGTERM: stopping 2 workers" in importing.log, "the dispatcher has heard it")
    importing.release_latch()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    assert endings(importing) == [("ok", 0, None)] * 2
    assert importing.statuses() == {"pending": 2}


def assert_nothing_left(installation: Installation) -> None:
    wait_until(lambda: not installation.processes(), "nothing is left")
