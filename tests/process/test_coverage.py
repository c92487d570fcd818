"""`scripts/test --coverage` measures the processes that tests start, with the settings in setup.cfg."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from coverage import Coverage

from tests.process.installation import CHECKOUT, Installation, handler_modules
from tests.process.warm import MEASURED, measurement


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where processes of this test write what they measure."""
    path = tmp_path / "coverage" / "data"
    path.parent.mkdir()
    monkeypatch.chdir(CHECKOUT)
    monkeypatch.setenv(MEASURED, Coverage(data_file=path, config_file="setup.cfg").config.serialize())
    return path


def test_a_forked_runner_is_measured(tmp_path: Path, data: Path) -> None:
    """The dispatcher is started without an environment of ours, forks its runner, and both end by os._exit."""
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db", new_interpreters=True)
    made.enqueue("noop")

    cycle = made.dispatch()
    made.end()

    assert cycle.returncode == 0, cycle.stderr
    found = Coverage(data_file=data, config_file=False)
    found.combine([str(data.parent)])
    measured = {str(Path(each).relative_to(CHECKOUT)) for each in found.get_data().measured_files()}
    assert {"dispatcher/full_cycle.py", "runner/main.py", "mayfly/queue/claim.py"} <= measured


@pytest.mark.usefixtures("data")
def test_a_runner_with_threads_can_be_traced(tmp_path: Path) -> None:
    """In CPython 3.11 an eval breaker that stays set makes a traced function call loop endlessly."""
    settings = {"HANDLERS": handler_modules("concurrent"), "WORKER_TIMEOUT": "20"}
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db", settings, new_interpreters=True)
    made.enqueue("wait_few", '{"together": 2, "seconds": 0}', count=6)

    cycle = made.dispatch()
    made.end()

    assert (cycle.returncode, made.statuses()) == (0, {"done": 6})


def test_other_runs_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is added to the environment of an installation."""
    monkeypatch.delenv(MEASURED, raising=False)

    assert measurement() == {}


def test_an_interrupted_thread_can_be_traced(tmp_path: Path) -> None:
    """With an eval breaker that stays set, its next call would loop endlessly in CPython 3.11."""
    measured = [sys.executable, "-m", "coverage", "run", f"--data-file={tmp_path / 'data'}"]
    tests = ["-m", "pytest", "-q", "tests/unit/runner/test_asyncio_and_thread_jobs.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}

    ended = subprocess.run([*measured, *tests], cwd=CHECKOUT, env=environment, timeout=60, check=False)

    assert ended.returncode == 0
