"""The commands of launchers as programs get them, and what their answers mean."""

import sys
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from mayfly.fleet import launchers
from mayfly.fleet.launchers import EngineCause, EngineJob, external_id_in, jobs_in
from mayfly.settings import Settings
from tests.unit.settings.factories import settings_in

WORKER, OTHER = "worker-1763532083123-1", "worker-1763532083123-2"
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "mayfly@worker.example")
GOLDEN_MANIFEST = Path(__file__).parent.parent.parent / "golden" / "launcher_kubernetes.yaml"
OLDEST_KUBERNETES, NEWEST_KUBERNETES = "1.28", "1.37"


def settings_with(home: Path, preset: str, more: str = "", window: str = "10m") -> Settings:
    host = 'host = "mayfly@worker.example"\n' if preset == "ssh" else ""
    lane = f'[lanes.import]\nlauncher = "{preset}"\nworker_timeout = "{window}"\n'
    toml = f"[launchers.{preset}]\n{host}{more}{lane}"
    return settings_in(home, {"DATABASE_URL": "mysql://mayfly:secret@db/app"}, toml=toml)


def commands(home: Path, preset: str) -> dict[str, tuple[str, ...]]:
    settings = settings_with(home, preset)
    launcher = settings.launchers[preset]
    output = launchers.output_command(settings, launcher, WORKER, "17")
    assert output is not None
    return {
        "submit": launchers.submit_command(settings, launcher, WORKER, "import").arguments,
        "status": launchers.status_command(launcher, [WORKER, OTHER]).arguments,
        "cancel": launchers.cancel_command(launcher, [WORKER, OTHER], ["17", "18"]).arguments,
        "output": output.arguments,
    }


def test_the_commands_of_slurm(tmp_path: Path) -> None:
    """One argument per word; the command is quoted for the shell of the batch script."""
    command = f"env MAYFLY_HOME={tmp_path} {sys.executable} -m mayfly runner --worker {WORKER}"
    log = f"{tmp_path}/logs/runners/{WORKER}.log"

    assert commands(tmp_path, "slurm") == {
        "submit": (
            *("sbatch", "--parsable", "--no-requeue", "--export=NONE", f"--job-name={WORKER}", "--time=11"),
            *(f"--output={log}", f"--wrap={command}"),
        ),
        "status": (
            *("squeue", "--noheader", "--states=all", "--format=%j %i %T"),
            f"--name={WORKER},{OTHER}",
        ),
        "cancel": ("scancel", "--quiet", "17", "18"),
        "output": ("tail", "--bytes=65536", log),
    }


def test_the_commands_of_ssh(tmp_path: Path) -> None:
    """The last arguments are one line for the shell of the other host."""
    command = f"env MAYFLY_HOME={tmp_path} {sys.executable} -m mayfly runner --worker {WORKER}"
    log = f"{tmp_path}/logs/runners/{WORKER}.log"

    assert commands(tmp_path, "ssh") == {
        "submit": (
            *SSH,
            f"umask 077; mkdir -p $(dirname {log}); nohup setsid {command} >{log} 2>&1 </dev/null & echo $!",
        ),
        "status": (
            *SSH,
            r"ps -e -o pid=,args= | sed -nE 's/^ *([0-9]+) .* runner --worker (worker-[0-9-]+)$/\2 \1 RUNNING/p'",
        ),
        "cancel": (
            *(*SSH, "for pid in", "17", "18"),
            "; do ps -o args= -p $pid | grep -q 'runner --worker' && kill $pid; done; true",
        ),
        "output": (*SSH, f"tail -c 65536 {log}"),
    }


def test_the_commands_of_kubernetes(tmp_path: Path) -> None:
    """The job is in the manifest, on the standard input of kubectl."""
    columns = commands(tmp_path, "kubernetes")
    status = columns.pop("status")

    assert columns == {
        "submit": ("kubectl", "create", "--filename=-", "--output=jsonpath={.metadata.name}"),
        "cancel": ("kubectl", "delete", "jobs", "--ignore-not-found", "--wait=false", "17", "18"),
        "output": ("kubectl", "logs", "--tail=1000", "jobs/17"),
    }
    assert status[:5] == ("kubectl", "get", "jobs,pods", "--selector=app=mayfly-runner", "--no-headers")
    assert status[5].startswith("--output=custom-columns=WORKER:.metadata.labels.mayfly-worker,")


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, NEWEST_KUBERNETES])
def test_the_manifest_has_the_published_schema(tmp_path: Path, version: str) -> None:
    """Of Kubernetes, and without unknown fields; job and pod carry the worker id by which they are found."""
    settings = settings_with(tmp_path, "kubernetes")
    text = launchers.submit_command(settings, settings.launchers["kubernetes"], WORKER, "import").text

    manifest = yaml.safe_load(text)

    assert text == GOLDEN_MANIFEST.read_text()
    kubernetes_validate.validate(manifest, version, strict=True)
    labels = {"app": "mayfly-runner", "mayfly-worker": WORKER}
    pod = manifest["spec"]["template"]
    assert manifest["metadata"] == {"name": WORKER, "labels": labels}
    assert pod["metadata"]["labels"] == labels
    assert manifest["spec"]["activeDeadlineSeconds"] == 660
    [container] = pod["spec"]["containers"]
    assert container["command"] == ["mayfly", "runner", "--worker", WORKER]


def test_ids_can_be_arguments_or_text(tmp_path: Path) -> None:
    """{ids...} is one argument per id, {ids} is text with commas, {command} is quoted for a shell."""
    lines = 'command = ["run me", "{worker_id}"]\nsubmit = ["q", "{command...}", "sh -c {command}"]\n'
    lines += 'cancel = ["q", "{external_ids...}", "-l={external_ids}", "{worker_ids...}"]\n'
    settings = settings_with(tmp_path, "slurm", lines)
    launcher = settings.launchers["slurm"]

    submit = launchers.submit_command(settings, launcher, WORKER, "import")
    cancel = launchers.cancel_command(launcher, [WORKER], ["17", "18"])

    assert submit.arguments == ("q", "run me", WORKER, f"sh -c 'run me' {WORKER}")
    assert cancel.arguments == ("q", "17", "18", "-l=17,18", WORKER)


@pytest.mark.parametrize("preset", ["slurm", "kubernetes", "ssh"])
def test_no_command_contains_a_secret(tmp_path: Path, preset: str) -> None:
    """Arguments and manifests are public in an engine."""
    settings = settings_with(tmp_path, preset)
    submit = launchers.submit_command(settings, settings.launchers[preset], WORKER, "import")

    assert "secret@" not in str(submit)
    assert "secret@" not in str(commands(tmp_path, preset))


def test_the_environment_of_a_command_has_no_settings() -> None:
    """Engines store the environment of a submit."""
    environ = {"PATH": "/bin", "HOME": "/root", "SLURM_CONF": "/etc/s", "LC_ALL": "C", "DATABASE_URL": "mysql://x"}

    clean = launchers.clean_environment({**environ, "SMTP_PASSWORD": "x", "LD_PRELOAD": "x", "MY_PATH": "x"})

    assert clean == {name: value for name, value in environ.items() if name != "DATABASE_URL"}


@pytest.mark.parametrize(
    ("answer", "external_id"),
    [
        ("17\n", "17"),
        ("17;west\n", "17"),
        ("Welcome to worker 3\n\n4711\n", "4711"),
        ("worker-1-1", "worker-1-1"),
        ("", None),
        ("$(reboot)\n", None),
        ("-rf\n", None),
        ("x" * 64, None),
    ],
)
def test_the_id_of_a_submitted_runner(answer: str, external_id: str | None) -> None:
    """The first word of the last line, if it can be an argument."""
    assert external_id_in(answer) == external_id


@pytest.mark.parametrize(
    ("states", "has_ended", "cause"),
    [
        ("PENDING", False, None),
        ("RUNNING", False, None),
        ("COMPLETING", False, None),
        ("COMPLETED", True, None),
        ("FAILED", True, None),
        ("OUT_OF_MEMORY", True, EngineCause.MEMORY),
        ("TIMEOUT", True, EngineCause.TIME_LIMIT),
        ("PREEMPTED", True, EngineCause.PREEMPTED),
        ("NODE_FAIL", True, EngineCause.NODE),
        ("CANCELLED", True, EngineCause.CANCELLED),
        ("Running <none> <none> <none> <none> <none>", False, None),
        ("Failed <none> <none> <none> <none> OOMKilled", True, EngineCause.MEMORY),
        ("Failed <none> <none> DeletionByTaintManager <none> <none>", True, EngineCause.NODE),
        ("<none> <none> DeadlineExceeded <none> <none> <none>", True, EngineCause.TIME_LIMIT),
        ("<none> Complete <none> <none> <none> <none>", True, None),
    ],
)
def test_the_states_of_engines(states: str, has_ended: bool, cause: EngineCause | None) -> None:
    """Words of Slurm and of Kubernetes."""
    job = jobs_in(f"{WORKER} 17 {states}\n", [WORKER])[WORKER]

    assert (job.external_id, job.has_ended, job.cause) == ("17", has_ended, cause)


def test_a_job_and_its_pod_are_one_runner() -> None:
    """The pod has the reason."""
    job = f"{WORKER} {WORKER} <none> <none> BackoffLimitExceeded <none> <none> <none>"
    pod = f"{WORKER} {WORKER} Failed <none> <none> <none> <none> OOMKilled"

    found = jobs_in(f"{job}\n{pod}\n", [WORKER])

    assert found == {WORKER: EngineJob(WORKER, ("BackoffLimitExceeded", "Failed", "OOMKilled"))}
    assert found[WORKER].cause is EngineCause.MEMORY


def test_other_lines_of_a_status_are_ignored() -> None:
    """Jobs of others, headers and empty lines."""
    answer = f"NAME ID STATE\n\n{WORKER}\nbackup 3 RUNNING\n{WORKER} ;reboot RUNNING\n{OTHER} 18\n"

    assert jobs_in(answer, [WORKER, OTHER]) == {OTHER: EngineJob("18", ())}
