"""The installed wheel in an application of its own, outside of the checkout; also in one that has Mayfly's names."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from mayfly import __version__
from mayfly.cli.cron_file import dispatcher_entries
from tests.process.cron.programs import IS_ROOT, debian_program, wait_for
from tests.process.cron.test_real_cron import running
from tests.process.installation import CHECKOUT, DEADLINE_SECONDS, wait_until
from tests.process.wheel import HANDLERS, Application, build_distributions, install_wheel, pip
from tests.servers.private import free_port

# Packages of an application that have the names of Mayfly's. None of Mayfly's processes may import them.
NAMESAKES = {
    f"{name}/__init__.py": f"raise AssertionError('{name} of the application')\n"
    for name in ("runner", "dispatcher", "console")
}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist and the wheel."""
    return build_distributions(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel(distributions: tuple[Path, Path]) -> Path:
    return distributions[1]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_wheel(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture
def application(python: Path, tmp_path: Path) -> Application:
    return Application(tmp_path, python)


@pytest.fixture
def namesake(application: Application) -> Application:
    """With a package for each of Mayfly's names, and jobs that use none of them."""
    application.write({**NAMESAKES, "shop/__init__.py": "", "shop/jobs.py": HANDLERS, ".env": "HANDLERS=shop.jobs\n"})
    return application


def enqueue(application: Application) -> str:
    made = application.mayfly("enqueue", "greet", '{"name": "ann"}')
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def cron_command(application: Application) -> str:
    """What cron would pass to the shell."""
    (entry,) = dispatcher_entries(application.mayfly("cron", "print").stdout)
    return entry.command


# --- the wheel --------------------------------------------------------------------------------------------


def test_the_wheel_has_the_files_of_cron_d(wheel: Path) -> None:
    """The same ones as the checkout: mayfly/cli/cron.d is a link to it."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist() if name.startswith("mayfly/cli/cron.d/")}

    names = ("mayfly.logrotate", "mayfly.rules.yml", "systemd/mayfly.service", "systemd/mayfly.timer")
    for name in names:
        assert found[f"mayfly/cli/cron.d/{name}"] == (CHECKOUT / "cron.d" / name).read_bytes()


def test_an_application_is_run_by_the_command_of_its_environment(python: Path) -> None:
    """Without MAYFLY_HOME the home is the directory of .venv; the handlers are there."""
    application = Application(python.parent.parent.parent, python)
    application.write({"handlers.py": HANDLERS})
    job = enqueue(application)

    (entry,) = dispatcher_entries(application.mayfly("cron", "print").stdout)
    cycle = application.run("/bin/sh", "-c", entry.command, directory="/")

    assert (entry.home, entry.interpreter) == (str(application.home), str(application.python))
    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert application.job_status(job).endswith("is done.")


@pytest.mark.parametrize("file", ["service", "timer", "logrotate", "rules"])
def test_every_file_can_be_printed(application: Application, file: str) -> None:
    """For the application, not for the example."""
    printed = application.mayfly("cron", "print", file)

    assert printed.returncode == 0, printed.stderr
    assert "/srv/mayfly" not in printed.stdout
    assert (str(application.home) in printed.stdout) == (file in ("service", "logrotate"))


def test_both_distributions_have_valid_metadata(distributions: tuple[Path, Path]) -> None:
    """What an upload to a package index requires, with the version of the package."""
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *distributions],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout
    sdist, wheel = distributions
    assert sdist.name == f"mayfly_jobs-{__version__}.tar.gz"
    assert wheel.name == f"mayfly_jobs-{__version__}-py3-none-any.whl"


def test_the_version_has_a_dated_entry_in_the_changelog() -> None:
    """What is not released yet would be above it."""
    headings = re.findall(r"^## (.+)$", (CHECKOUT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)

    released = [each for each in headings if each != "Unreleased"]

    assert re.fullmatch(rf"{re.escape(__version__)} – \d{{4}}-\d\d-\d\d", released[0])


@pytest.mark.slow
def test_the_wheel_installs_with_its_dependencies(wheel: Path, tmp_path: Path) -> None:
    """Into an environment that has nothing else, with the pinned versions; then a cycle runs a job."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / ".venv"], check=True)
    python = tmp_path / ".venv/bin/python"
    pip("--python", str(python), "install", "--constraint", str(CHECKOUT / "constraints.txt"), str(wheel))
    application = Application(tmp_path, python)
    application.write({"handlers.py": HANDLERS})
    job = enqueue(application)

    cycle = application.mayfly("dispatch")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert application.job_status(job).endswith("is done.")


# --- without handlers -------------------------------------------------------------------------------------


def test_without_handlers_nothing_is_loaded_and_the_setting_is_named(application: Application) -> None:
    """In the log and by the doctor; a package `handlers` from elsewhere is not loaded."""
    elsewhere = application.home / "elsewhere"
    application.write({"elsewhere/handlers.py": "raise AssertionError('not of this application')\n"})
    application.mayfly("enqueue", "greet", PYTHONPATH=str(elsewhere))

    cycle = application.mayfly("dispatch", PYTHONPATH=str(elsewhere))
    doctor = application.mayfly("doctor", "--json", PYTHONPATH=str(elsewhere))

    reason = f"HANDLERS is not set, and MAYFLY_HOME {application.home} has no package `handlers`. Set HANDLERS to"
    assert cycle.returncode == 0, cycle.stderr
    assert reason in application.log
    checks = {each["check"]: each for each in json.loads(doctor.stdout)}
    assert (checks["handlers"]["health"], reason in checks["handlers"]["text"]) == ("warning", True)


# --- an application with Mayfly's names -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spawn", "path"),
    [
        ("fork", {}),
        ("exec", {"PYTHONPATH": "."}),
        pytest.param("fork", {"PYTHONPATH": "."}, marks=pytest.mark.slow),
        pytest.param("exec", {}, marks=pytest.mark.slow),
    ],
    ids=["fork", "exec-on-the-path", "fork-on-the-path", "exec"],
)
def test_the_cron_entry_runs_jobs_of_an_application_with_these_names(
    namesake: Application, spawn: str, path: dict[str, str]
) -> None:
    """From cron's directory and from its own, also with the application first on the import path."""
    settings = {"SPAWN": spawn, **{name: str(namesake.home) for name in path}}
    namesake.mayfly("enqueue", "greet", "-", given='{"name": "ann"}\n' * 6)  # two runners, from a preload process

    cycle = namesake.run("/bin/sh", "-c", cron_command(namesake), **settings)

    assert (cycle.returncode, cycle.stderr) == (0, "")
    found = json.loads(namesake.mayfly("jobs", "--json").stdout)["jobs"]
    assert [each["status"] for each in found] == ["done"] * 6


def test_a_taken_name_is_reported_by_cycle_and_doctor(namesake: Application) -> None:
    """With the path of the package, and what to do."""
    enqueue(namesake)

    assert namesake.mayfly("dispatch").returncode == 0
    doctor = namesake.mayfly("doctor").stdout

    for name in ("dispatcher", "runner", "console"):
        sentence = f"{namesake.home}/{name}/__init__.py has the name of Mayfly's package {name}: handlers that import"
        assert sentence in namesake.log
        assert sentence in doctor


def test_the_console_serves_such_an_application_and_reports_the_names(namesake: Application) -> None:
    """From its directory; the log is on stderr."""
    enqueue(namesake)
    port = free_port()
    with subprocess.Popen(
        [namesake.python.with_name("mayfly"), "console", "--api-only"],
        cwd=namesake.home,
        env=namesake.environment(CONSOLE_PORT=str(port)),
        stderr=subprocess.PIPE,
        text=True,
    ) as console:
        try:
            wait_until(lambda: is_live(port) or console.poll() is not None, "the console answers")
        finally:
            console.terminate()
            _, errors = console.communicate(timeout=DEADLINE_SECONDS)

    assert console.returncode == 0, errors
    assert f"{namesake.home}/console/__init__.py has the name of Mayfly's package console" in errors


def is_live(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/livez", timeout=30) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def test_handlers_that_need_such_a_package_are_explained(namesake: Application) -> None:
    """The bare error is `cannot import name 'tools' from 'runner'`; jobs are released until it is fixed."""
    jobs = f"from runner import tools\n{HANDLERS}"
    namesake.write({"runner/__init__.py": "", "runner/tools.py": "", "shop/jobs.py": jobs})
    namesake.mayfly("enqueue", "greet", "--lane", "default", "--max-attempts", "1")

    cycle, doctor = namesake.mayfly("dispatch"), namesake.mayfly("doctor")

    advice = "Mayfly has a package of this name, which is imported instead of yours: rename yours"
    assert (cycle.returncode, doctor.returncode) == (1, 1)
    assert advice in namesake.log
    assert advice in doctor.stdout


def test_every_verb_works_in_such_an_application(namesake: Application) -> None:
    """In its directory, where `python -m runner` would be its own package."""
    job = enqueue(namesake)

    planned = namesake.mayfly("dispatch", "--dry-run", "--json")
    ran = namesake.mayfly("runner", "--lane", "default")

    assert json.loads(planned.stdout)["runners"] == 1
    assert (ran.returncode, ran.stdout.endswith(": 1 job done, 0 failed\n")) == (0, True)
    assert namesake.job_status(job).endswith("is done.")
    assert namesake.mayfly("man").returncode == 0


def test_a_test_that_has_imported_its_own_runner_package_is_explained(namesake: Application) -> None:
    """mayfly.testing runs jobs with Mayfly's; replacing the other would break the tests of the application."""
    namesake.write({"runner/__init__.py": ""})

    refused = namesake.run(namesake.python, "-c", "import runner\nfrom mayfly.testing import drain")

    sentence = (
        f"Mayfly needs its own package runner, and this process has imported {namesake.home}/runner/__init__.py."
    )
    assert refused.returncode == 1
    assert sentence in refused.stderr


@pytest.mark.parametrize("verb", ["dispatch", "runner", "console"])
def test_a_wrong_option_of_a_program_exits_with_64(namesake: Application, verb: str) -> None:
    """The exit code of the program, whose usage names the command."""
    refused = namesake.mayfly(verb, "--nonsense")

    assert refused.returncode == 64
    assert refused.stderr.startswith(f"Usage: mayfly {verb} ")


def test_the_exit_code_of_a_program_is_kept(namesake: Application) -> None:
    """1 for an error, 64 for a setting; the console refuses to start without a password."""
    unreachable = namesake.mayfly("dispatch", DATABASE_URL="mysql://app:x@127.0.0.1:1/app")
    wrong = namesake.mayfly("dispatch", BATCH_SIZE="0")
    console = namesake.mayfly("console")

    assert (unreachable.returncode, wrong.returncode, console.returncode) == (1, 64, 64)
    assert "The web console has no password" in console.stderr


def test_dev_runs_jobs_in_such_an_application(namesake: Application) -> None:
    """In its directory; a second cycle follows after the given time."""
    jobs, log = [enqueue(namesake)], namesake.home / "dev.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            [namesake.python.with_name("mayfly"), "dev", "--every", "1s"],
            cwd=namesake.home,
            env=namesake.environment(),
            stdout=output,
        ) as dev,
    ):
        try:
            wait_until(lambda: log.read_text().count("completed successfully") == 1, "the first cycle")
            jobs.append(enqueue(namesake))
            wait_until(lambda: log.read_text().count("completed successfully") == 2, "a later cycle")
        finally:
            dev.terminate()
            dev.wait(DEADLINE_SECONDS)

    assert dev.returncode == 0
    assert [namesake.job_status(each).endswith("is done.") for each in jobs] == [True, True]


@pytest.mark.slow
def test_real_cron_runs_jobs_of_such_an_application(namesake: Application) -> None:
    """With the entry that its own `mayfly cron install` wrote to /etc/cron.d."""
    if not IS_ROOT:
        pytest.skip("only root can write to /etc/cron.d")
    cron = debian_program("cron", "cron")
    namesake.write({".env": f"HANDLERS=shop.jobs\nSTATE_DIR={namesake.home}/state\n"})
    job = enqueue(namesake)

    with installed_entry(namesake), running(cron):
        is_done = wait_for(lambda: namesake.job_status(job).endswith("is done."), seconds=90)
        doctor = namesake.mayfly("doctor").stdout

    assert is_done, namesake.log
    assert f"starts the dispatcher with {namesake.python}" in doctor


@contextmanager
def installed_entry(application: Application) -> Iterator[None]:
    name = f"mayfly-test-{os.getpid()}"
    try:
        written = application.mayfly("cron", "install", "--name", name, "--mailto", "")
        assert written.returncode == 0, written.stderr
        yield
    finally:
        assert application.mayfly("cron", "remove", "--name", name).returncode == 0
