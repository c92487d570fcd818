"""The files of deploy/: valid for the tools that read them, with settings and commands that Mayfly has."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from mayfly.cli import VERBS
from mayfly.settings import load
from tests.process.installation import CHECKOUT, DEADLINE_SECONDS, Installation, wait_until

DEPLOY = CHECKOUT / "deploy"
TOOLS = Path(sys.executable).parent
OLDEST_KUBERNETES, NEWEST_KUBERNETES = "1.28", "1.37"
MANIFESTS = sorted(DEPLOY.glob("kubernetes/*.yaml"))
BYTES = {"K": 2**10, "M": 2**20, "G": 2**30}
GRACE_SECONDS = 30  # how long a running job may finish after SIGTERM
SECRETS = {
    "DATABASE_URL": "mysql://mayfly:secret@database/mayfly",
    "CONSOLE_PASSWORD_HASH": "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$c29tZWhhc2hzb21laGFzaHNvbWVoYXNoc29tZWg",
}
# In the image.
HOME = "/srv/mayfly"


class Container(NamedTuple):
    name: str
    command: list[str]
    variables: dict[str, str]
    memory_limit: str | None
    stop_seconds: int | None


def test_the_dockerfile_passes_the_linter() -> None:
    """Hadolint, with shellcheck for its commands."""
    checked = subprocess.run([TOOLS / "hadolint", DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)

    assert (checked.returncode, checked.stdout) == (0, "")


def test_the_compose_file_has_the_published_schema() -> None:
    """That of the Compose specification."""
    command: list[str | Path] = [
        TOOLS / "check-jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        str(DEPLOY / "compose.yaml"),
    ]

    checked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, NEWEST_KUBERNETES])
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_have_the_published_schemas(path: Path, version: str) -> None:
    """Of Kubernetes, and without unknown fields."""
    for document in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(document, version, strict=True)


# --- settings and commands --------------------------------------------------------------------------------


def containers() -> list[Container]:
    """All that run Mayfly's image."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return [
        *(compose_container(name, each) for name, each in compose.items() if each["image"] == "mayfly"),
        *(pod for path in MANIFESTS for each in yaml.safe_load_all(path.read_text()) for pod in pod_containers(each)),
    ]


def compose_container(name: str, service: Mapping[str, Any]) -> Container:
    grace = service.get("stop_grace_period")
    return Container(
        f"compose-{name}",
        service.get("command", default_command()),
        service["environment"],
        service.get("mem_limit"),
        None if grace is None else int(grace.removesuffix("s")),
    )


def pod_containers(document: Mapping[str, Any]) -> Iterator[Container]:
    spec = document.get("spec", {})
    pod = spec.get("jobTemplate", {}).get("spec", spec).get("template", {}).get("spec", {})
    for each in pod.get("containers", ()):
        variables = {entry["name"]: entry.get("value", SECRETS.get(entry["name"])) for entry in each["env"]}
        variables["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
        limit = each.get("resources", {}).get("limits", {}).get("memory")
        name = f"kubernetes-{document['metadata']['name']}"
        yield Container(name, each["command"], variables, limit, pod.get("terminationGracePeriodSeconds"))


def default_command() -> list[str]:
    [found] = re.findall(r"^CMD (\[.+\])$", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    command: list[str] = yaml.safe_load(found)
    return command


@pytest.mark.parametrize("container", containers(), ids=lambda container: container.name)
def test_containers_have_valid_settings_and_commands(container: Container, tmp_path: Path) -> None:
    """No misspelled name, no value out of bounds; all containers of an installation are one host."""
    variables = {"MAYFLY_HOME": str(tmp_path), **container.variables}
    for name in [each for each in variables if each.endswith("_FILE")]:
        secret = tmp_path / Path(variables[name]).name
        secret.write_text(SECRETS[name.removesuffix("_FILE")])
        variables[name] = str(secret)

    loaded = load(variables)

    assert loaded.warnings == ()
    assert loaded.settings.host_name in ("compose", "kubernetes")
    program, *arguments = container.command
    assert (program, arguments) == ("every-minute", []) or (program == "mayfly" and arguments[0] in VERBS)


def dispatchers() -> list[Container]:
    return [each for each in containers() if each.command in (["every-minute"], ["mayfly", "dispatch"])]


@pytest.mark.parametrize("container", dispatchers(), ids=lambda container: container.name)
def test_runners_fit_into_the_memory_of_their_container(container: Container, tmp_path: Path) -> None:
    """Otherwise the kernel would end one of them, perhaps the dispatcher, before WORKER_MEMORY does."""
    variables = {name: value for name, value in container.variables.items() if not name.endswith("_FILE")}
    settings = load({"MAYFLY_HOME": str(tmp_path), **variables}).settings
    limit = re.fullmatch(r"(\d+)([KMG])I?", str(container.memory_limit).upper())

    assert limit is not None
    assert settings.worker_memory is not None
    assert settings.host_max_workers * settings.worker_memory < int(limit[1]) * BYTES[limit[2]]


def test_dispatchers_get_the_time_that_jobs_may_take_after_sigterm() -> None:
    """Docker's default is 10 seconds, that of Kubernetes 30."""
    found = {each.name: each.stop_seconds for each in dispatchers()}

    assert len(found) == 3
    assert all(seconds is not None and seconds > GRACE_SECONDS for seconds in found.values()), found


# --- the image --------------------------------------------------------------------------------------------


def test_the_dockerfile_copies_files_that_reach_the_build() -> None:
    """They exist, and .dockerignore, which excludes everything else, names each of them."""
    copied = [name for line in copy_lines() for name in line[:-1]]
    included = {line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert {name for name in copied if not (CHECKOUT / name).exists()} == set()
    assert set(copied) == included


def copy_lines() -> list[list[str]]:
    """Sources and target of each COPY from the checkout."""
    lines = re.findall(r"^COPY (?!--from)(?:--\S+ )?(.+)$", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    return [line.split() for line in lines]


@pytest.mark.slow
def test_the_steps_of_the_build_give_a_working_installation(tmp_path: Path) -> None:
    """Run without Docker: in a copy of what is copied, with a temporary directory instead of /srv/mayfly."""
    source, home = tmp_path / "source", tmp_path / "home"
    source.mkdir()
    for *names, target in copy_lines():
        for name in names:
            copy = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy
            if not target.startswith("/"):
                copy(CHECKOUT / name, source / target / ("" if target == name else name))
    first_stage = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[1]
    [step] = re.findall(r"^RUN ((?:.*\\\n)*.*)$", first_stage, flags=re.MULTILINE)
    step = step.replace("\\\n", " ").replace(HOME, str(home)).replace("python -m venv", f"{sys.executable} -m venv")

    subprocess.run(["sh", "-e", "-c", step], cwd=source, check=True, capture_output=True)

    environment = {"PATH": f"{home}/.venv/bin:/usr/bin:/bin", "MAYFLY_HOME": str(home), "LOG_TO": "stdout"}
    ran = subprocess.run(["mayfly", "dispatch"], env=environment, capture_output=True, text=True, check=False)
    compiled = next(home.glob(".venv/lib/python*/site-packages/mayfly/__pycache__/client.*.pyc")).read_bytes()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Dispatch Summary" in ran.stdout
    assert compiled[4:8] == b"\x01\x00\x00\x00"  # valid without a look at the source


# --- every-minute -----------------------------------------------------------------------------------------


@pytest.fixture
def every_minute(embedded: Installation) -> Iterator[subprocess.Popen[str]]:
    """The command of the image, in this installation."""
    environment = embedded.environment(PATH=f"{TOOLS}:/usr/bin:/bin", LINGER="55")
    with subprocess.Popen([DEPLOY / "every-minute"], env=environment, cwd="/", text=True) as started:
        yield started
        started.kill()


def test_every_minute_ends_in_order(embedded: Installation, every_minute: subprocess.Popen[str]) -> None:
    """On SIGTERM a running job may finish, no process is left, and the exit code is 0."""
    [job] = embedded.enqueue("gated")
    embedded.wait_for_gate()

    every_minute.send_signal(signal.SIGTERM)
    wait_until(lambda: "SIGTERM" in embedded.log, "the dispatcher has the signal")
    embedded.open_gate()
    code = every_minute.wait(DEADLINE_SECONDS)

    assert code == 0
    assert embedded.job(job).status == "done"
    assert embedded.processes() == []


@pytest.mark.slow
def test_every_minute_lets_a_lingering_dispatcher_hand_over(
    embedded: Installation, every_minute: subprocess.Popen[str]
) -> None:
    """At the next full minute, while its runner still runs."""
    embedded.enqueue("gated")
    embedded.wait_for_gate()

    wait_until(lambda: "Handed over to the next dispatcher" in embedded.log, "the next minute", seconds=90)

    assert every_minute.poll() is None
