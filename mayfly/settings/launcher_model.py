"""The settings of a launcher, which starts runners on other machines: `[launchers.NAME]` in mayfly.toml.

Each line is a command, as a list of arguments with placeholders. Mayfly starts it without a shell.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator

from mayfly.settings import types as t
from mayfly.settings.types import setting
from mayfly.settings.values import PLACEHOLDER, PRESET_NAMES, LauncherSettings, PresetName, Settings

# Each runner is a Job with a single pod, which reads its settings from the image and from the secret `mayfly`.
MANIFEST = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {worker_id}
  labels: {app: mayfly-runner, mayfly-worker: {worker_id}}
spec:
  backoffLimit: 0
  activeDeadlineSeconds: {seconds}
  ttlSecondsAfterFinished: 600
  template:
    metadata:
      labels: {app: mayfly-runner, mayfly-worker: {worker_id}}
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 45
      securityContext: {runAsNonRoot: true, runAsUser: 10001, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: runner
          image: mayfly
          command: ["mayfly", "runner", "--worker", "{worker_id}"]
          env:
            - {name: DATABASE_URL, valueFrom: {secretKeyRef: {name: mayfly, key: database-url}}}
          resources:
            requests: {cpu: 250m, memory: 256Mi}
            limits: {memory: 1Gi}
          securityContext:
            {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          volumeMounts: [{name: tmp, mountPath: /tmp}]
      volumes:
        - {name: tmp, emptyDir: {}}
"""
# What a failed or evicted pod has as reason; the Job has its own.
COLUMNS = (
    "WORKER:.metadata.labels.mayfly-worker,ID:.metadata.labels.mayfly-worker,PHASE:.status.phase,"
    'COMPLETE:.status.conditions[?(@.type=="Complete")].type,'
    'FAILED:.status.conditions[?(@.type=="Failed")].reason,'
    'DISRUPTED:.status.conditions[?(@.type=="DisruptionTarget")].reason,'
    "REASON:.status.reason,ENDED:.status.containerStatuses[0].state.terminated.reason"
)
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "{host}")

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "slurm": {
        "submit": (
            "sbatch",
            "--parsable",
            "--no-requeue",
            "--export=NONE",
            "--job-name={worker_id}",
            "--time={minutes}",
            "--output={log_file}",
            "--wrap={command}",
        ),
        "status": ("squeue", "--noheader", "--states=all", "--format=%j %i %T", "--name={worker_ids}"),
        "cancel": ("scancel", "--quiet", "{external_ids...}"),
        "output": ("tail", "--bytes=65536", "{log_file}"),
    },
    "kubernetes": {
        "submit": ("kubectl", "create", "--filename=-", "--output=jsonpath={.metadata.name}"),
        "status": (
            "kubectl",
            "get",
            "jobs,pods",
            "--selector=app=mayfly-runner",
            "--no-headers",
            f"--output=custom-columns={COLUMNS}",
        ),
        "cancel": ("kubectl", "delete", "jobs", "--ignore-not-found", "--wait=false", "{external_ids...}"),
        "output": ("kubectl", "logs", "--tail=1000", "jobs/{external_id}"),
        "manifest": MANIFEST,
    },
    "ssh": {
        "submit": (
            *SSH,
            "umask 077; mkdir -p $(dirname {log_file}); nohup setsid {command} >{log_file} 2>&1 </dev/null & echo $!",
        ),
        "status": (
            *SSH,
            r"ps -e -o pid=,args= | sed -nE 's/^ *([0-9]+) .* runner --worker (worker-[0-9-]+)$/\2 \1 RUNNING/p'",
        ),
        "cancel": (
            *SSH,
            "for pid in",
            "{external_ids...}",
            "; do ps -o args= -p $pid | grep -q 'runner --worker' && kill $pid; done; true",
        ),
        "output": (*SSH, "tail -c 65536 {log_file}"),
    },
}
COMMAND = ("env", "MAYFLY_HOME={home}", "{python}", "-m", "mayfly", "runner", "--worker", "{worker_id}")
COMMAND_LINES = ("submit", "status", "cancel", "output", "command")

_OF_COMMAND = {"worker_id", "home", "python"}
_OF_SUBMIT = {"worker_id", "lane", "minutes", "seconds", "log_file", "host", "command", "command..."}
_OF_WORKERS = {"worker_ids", "worker_ids...", "host"}
PLACEHOLDERS: Mapping[str, set[str]] = {
    "command": _OF_COMMAND,
    "submit": _OF_SUBMIT,
    "manifest": _OF_SUBMIT - {"command..."},
    "status": _OF_WORKERS,
    "cancel": _OF_WORKERS | {"external_ids", "external_ids..."},
    "output": {"worker_id", "external_id", "log_file", "host"},
}


def _arguments(value: object) -> tuple[str, ...]:
    """A list in mayfly.toml; text would have to be divided into arguments by rules that differ by shell."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each.isprintable() for each in value):
        raise ValueError
    return tuple(value)


Arguments = Annotated[
    tuple[str, ...],
    BeforeValidator(_arguments),
    Field(min_length=1, max_length=100, title='a list of arguments, such as ["squeue", "--name={worker_ids}"]'),
]


class LauncherModel(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """How an engine starts runners. A line that is None has the value of the preset."""

    preset: Annotated[PresetName | None, t.one_of(*PRESET_NAMES)] = setting(
        None, "where the lines that are not given come from; none: the name of the launcher, if it is one of these"
    )
    submit: Arguments | None = setting(
        None, "starts one runner; prints the id that the engine gives it, as its first word"
    )
    status: Arguments | None = setting(
        None, "prints one line for each runner that the engine knows: its worker id, its id and its state"
    )
    cancel: Arguments | None = setting(None, "ends runners, also those that have not started")
    output: Arguments | None = setting(None, "prints what a runner has printed; called for those that have failed")
    command: Arguments | None = setting(None, "what the engine runs: the placeholder `{command}` of `submit`")
    manifest: Annotated[str | None, Field(title="text")] = setting(
        None, "text with placeholders, passed to `submit` on its standard input"
    )
    host: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@:-]*$", title="the name of a host")] = (
        setting(None, "the placeholder `{host}`; may begin with `user@`")
    )
    start_timeout: t.Duration = setting(
        300.0, "how long a runner may wait in the engine's queue; then it is cancelled and planned again"
    )

    @field_validator(*PLACEHOLDERS)
    @classmethod
    def _placeholders_are_known(
        cls, given: tuple[str, ...] | str | None, info: ValidationInfo
    ) -> tuple[str, ...] | str | None:
        known = PLACEHOLDERS[str(info.field_name)]
        for item in (given,) if isinstance(given, str) else given or ():
            for found in PLACEHOLDER.finditer(item):
                name = found[1]
                if name not in known:
                    shown = ", ".join(f"{{{each}}}" for each in sorted(known))
                    raise ValueError(f"{found[0]} is not a placeholder of this line; those are {shown}")
                if name.endswith("...") and found[0] != item:
                    raise ValueError(f"{found[0]} becomes several arguments, so it must be one by itself")
        return given


def resolved(name: str, given: LauncherModel) -> LauncherSettings:
    """With the lines of its preset."""
    preset = given.preset or (name if name in PRESETS else None)
    lines = {field: value for field, value in dict(given).items() if value is not None}
    filled = {**dict(given), "command": COMMAND, **PRESETS.get(preset or "", {}), **lines}
    return LauncherSettings(**{**filled, "preset": preset, "name": name})


def launcher_conflicts(launcher: LauncherSettings, settings: Settings) -> Iterator[tuple[str, Sequence[str]]]:
    """The rules that are broken, each with the key of the setting that breaks it."""
    for line in ("submit", "status", "cancel"):
        if getattr(launcher, line) is None:
            presets = ", ".join(PRESET_NAMES)
            yield f"is missing: write it, or name a `preset` ({presets})", ("launchers", launcher.name, line)
    text = "\n".join([*(item for line in COMMAND_LINES for item in getattr(launcher, line) or ()), launcher.text])
    if "{host}" in text and launcher.host is None:
        yield "is missing: the commands of this launcher have {host}", ("launchers", launcher.name, "host")
    submitted = "".join([*(launcher.submit or ()), launcher.text])
    if launcher.submit is not None and "{worker_id}" not in submitted and "{command" not in submitted:
        rule = "must have {worker_id} as the name of the job: a submit without an answer is found by it"
        yield rule, ("launchers", launcher.name, "submit")
    if "{log_file}" in text and not t.PLAIN_PATH.fullmatch(str(settings.log_dir)):
        rule = "must consist of A-Z a-z 0-9 _ . / - where a launcher uses {log_file}: shells and engines read it"
        yield rule, ("log_dir",)
