"""[launchers] in mayfly.toml: presets, lines that override them, and one sentence for each mistake."""

from pathlib import Path

import pytest

from mayfly.settings.values import PRESET_NAMES
from tests.unit.settings.factories import problem_in, settings_in


def lane_with(launcher: str) -> str:
    return f'[lanes.import]\nlauncher = "{launcher}"\n'


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_a_table_with_the_name_of_a_preset_needs_no_lines(tmp_path: Path, name: str) -> None:
    """All commands come from the preset; ssh needs a host."""
    host = 'host = "worker.example"\n' if name == "ssh" else ""
    toml = f"[launchers.{name}]\n{host}{lane_with(name)}"

    settings = settings_in(tmp_path, toml=toml)

    launcher = settings.launchers[name]
    assert (launcher.name, launcher.preset, launcher.start_timeout) == (name, name, 300.0)
    assert launcher.submit
    assert launcher.status
    assert launcher.cancel
    assert settings.lane("import").launcher == name
    assert settings.lane("mail").launcher is None


def test_a_line_overrides_that_of_the_preset(tmp_path: Path) -> None:
    """The others stay."""
    toml = '[launchers.gpu]\npreset = "slurm"\nsubmit = ["sbatch", "--job-name={worker_id}"]\nstart_timeout = "1h"\n'

    launcher = settings_in(tmp_path, toml=toml).launchers["gpu"]

    assert launcher.submit == ("sbatch", "--job-name={worker_id}")
    assert launcher.cancel == ("scancel", "--quiet", "{external_ids...}")
    assert launcher.start_timeout == 3600.0


MISTAKES = {
    'submit = "sbatch --wrap={command}"': "launchers.slurm.submit=sbatch --wrap={command}",
    "submit = []": "must be a list of arguments",
    "status = [7]": "must be a list of arguments",
    'submit = ["sbatch", "{password}"]': "{password} is not a placeholder of this line; those are {command}, ",
    'status = ["squeue", "{external_ids}"]': "{external_ids} is not a placeholder of this line",
    'cancel = ["scancel", "--ids={external_ids...}"]': "becomes several arguments, so it must be one by itself",
    'submit = ["sbatch", "run.sh"]': "must have {worker_id} as the name of the job",
    'submit = ["rsh", "{host}", "{command}"]': "launchers.slurm.host (default): is missing",
    'host = "-oProxyCommand=sh"': "must be the name of a host",
    'preset = "pbs"': "must be slurm, kubernetes or ssh",
    'start_timeout = "soon"': "must be a number of seconds, or a duration",
    'environment = "ALL"': "is not a setting of a launcher",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_sentence(tmp_path: Path, line: str) -> None:
    """That names the key in mayfly.toml and what is allowed."""
    problem = problem_in(tmp_path, toml=f"[launchers.slurm]\n{line}\n")

    assert "launchers.slurm." in problem
    assert MISTAKES[line] in problem


def test_a_launcher_without_a_preset_needs_its_commands(tmp_path: Path) -> None:
    """Those that are missing are named."""
    problem = problem_in(tmp_path, toml='[launchers.pbs]\nsubmit = ["qsub", "-N", "{worker_id}"]\n')

    assert "launchers.pbs.submit" not in problem
    assert "launchers.pbs.status (default): is missing: write it, or name a `preset`" in problem
    assert "launchers.pbs.cancel (default): is missing" in problem


def test_a_lane_names_a_launcher_that_exists(tmp_path: Path) -> None:
    """The sentence has those that exist."""
    problem = problem_in(tmp_path, toml=f"[launchers.slurm]\n{lane_with('slurm2')}")

    assert "lanes.import.launcher=slurm2" in problem
    assert "is not a launcher; those are slurm, and [launchers.slurm2] in mayfly.toml adds one" in problem


def test_an_external_lane_has_no_launcher(tmp_path: Path) -> None:
    """Nothing would ever be submitted."""
    problem = problem_in(tmp_path, toml=f"[launchers.slurm]\n{lane_with('slurm')}external = true\n")

    assert "has no effect in an external lane" in problem


def test_launchers_cannot_be_set_in_the_environment(tmp_path: Path) -> None:
    """A command in a variable has no effect: whoever sets variables must not choose what cron runs."""
    environ = {"LAUNCHERS__SLURM__SUBMIT": "rm", "LAUNCHERS": "{}"}

    assert settings_in(tmp_path, environ).launchers == {}


def test_a_log_file_has_a_plain_path(tmp_path: Path) -> None:
    """Shells and engines read it; Slurm replaces %j."""
    problem = problem_in(tmp_path, {"LOG_DIR": "/var/log/%j"}, toml="[launchers.slurm]\n")

    assert "LOG_DIR=/var/log/%j (environment): must consist of" in problem
