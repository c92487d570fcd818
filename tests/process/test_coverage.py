"""`scripts/test --coverage` measures the processes that tests start, with the settings in setup.cfg."""

from pathlib import Path

import pytest
from coverage import Coverage

from tests.process.installation import CHECKOUT, Installation
from tests.process.warm import MEASURED, measurement


def test_a_forked_runner_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispatcher is started without an environment of ours, forks its runner, and both end by os._exit."""
    data = tmp_path / "coverage" / "data"
    data.parent.mkdir()
    monkeypatch.chdir(CHECKOUT)
    monkeypatch.setenv(MEASURED, Coverage(data_file=data, config_file="setup.cfg").config.serialize())
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db", new_interpreters=True)
    made.enqueue("noop")

    cycle = made.dispatch()
    made.end()

    assert cycle.returncode == 0, cycle.stderr
    found = Coverage(data_file=data, config_file=False)
    found.combine([str(data.parent)])
    measured = {str(Path(each).relative_to(CHECKOUT)) for each in found.get_data().measured_files()}
    assert {"dispatcher/full_cycle.py", "runner/main.py", "mayfly/queue/claim.py"} <= measured


def test_other_runs_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is added to the environment of an installation."""
    monkeypatch.delenv(MEASURED, raising=False)

    assert measurement() == {}
