"""The commands of launchers, which start runners on other machines: build them, run them, read their answers.

Each command has a time limit. An engine never decides whether a runner is alive, its lease does.
"""

import math
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, NamedTuple

from mayfly.process import timing
from mayfly.settings.values import PLACEHOLDER, LauncherSettings, Settings

MAX_OUTPUT_BYTES = 64 << 10  # of a runner that failed
MAX_ANSWER_BYTES = 4 << 20  # thousands of lines of a status
MAX_REASON_LENGTH = 500
START_RESERVE_SECONDS = 60.0  # beside its window: the start of the interpreter, the end of the running job
# What the programs of engines need. Anything else in our environment may be a secret.
ENVIRONMENT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|SLURM_CONF|KUBECONFIG|KUBERNETES_SERVICE_(HOST|PORT)|SSH_AUTH_SOCK"
)
EXTERNAL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

Values = Mapping[str, str | Sequence[str]]


class EngineCommand(NamedTuple):
    arguments: tuple[str, ...]
    text: str = ""  # its standard input


# --- building; pure ---------------------------------------------------------------------------------------


def submit_command(settings: Settings, launcher: LauncherSettings, worker_id: str, lane: str) -> EngineCommand:
    """Contains no secret: arguments are public, and engines store the text."""
    seconds = math.ceil(settings.lane(lane).worker_timeout + START_RESERVE_SECONDS)
    own = {"worker_id": worker_id, "home": str(settings.home), "python": sys.executable}
    values = {
        **_values(settings, launcher, worker_id),
        "lane": lane,
        "seconds": str(seconds),
        "minutes": str(-(-seconds // 60)),
        "command": expanded(launcher.command, own),
    }
    return EngineCommand(expanded(launcher.submit, values), _filled(launcher.text, values))


def status_command(launcher: LauncherSettings, worker_ids: Sequence[str]) -> EngineCommand:
    values = {"worker_ids": worker_ids, "host": launcher.host or ""}
    return EngineCommand(expanded(launcher.status, values))


def cancel_command(
    launcher: LauncherSettings, worker_ids: Sequence[str], external_ids: Sequence[str]
) -> EngineCommand:
    values = {"worker_ids": worker_ids, "external_ids": external_ids, "host": launcher.host or ""}
    return EngineCommand(expanded(launcher.cancel, values))


def output_command(
    settings: Settings, launcher: LauncherSettings, worker_id: str, external_id: str
) -> EngineCommand | None:
    if launcher.output is None:
        return None
    values = {**_values(settings, launcher, worker_id), "external_id": external_id}
    return EngineCommand(expanded(launcher.output, values))


def log_file(settings: Settings, launcher: LauncherSettings, worker_id: str) -> str | None:
    """Where the engine writes what a runner prints, if the launcher names a file."""
    return f"{settings.log_dir}/runners/{worker_id}.log" if launcher.has_log_file else None


def _values(settings: Settings, launcher: LauncherSettings, worker_id: str) -> dict[str, str]:
    log = log_file(settings, launcher, worker_id)
    return {"worker_id": worker_id, "host": launcher.host or "", "log_file": log or ""}


def expanded(template: Sequence[str], values: Values) -> tuple[str, ...]:
    """{ids...} becomes one argument per id; the settings have checked that it is an argument by itself."""
    arguments: list[str] = []
    for item in template:
        found = PLACEHOLDER.fullmatch(item)
        if found and found[1].endswith("..."):
            arguments += values[found[1].removesuffix("...")]
        else:
            arguments.append(_filled(item, values))
    return tuple(arguments)


def _filled(text: str, values: Values) -> str:
    """A command becomes text for a shell; other lists are separated by commas."""

    def filled(found: re.Match[str]) -> str:
        value = values[found[1]]
        if isinstance(value, str):
            return value
        return shlex.join(value) if found[1] == "command" else ",".join(value)

    return PLACEHOLDER.sub(filled, text)


# --- reading; pure ----------------------------------------------------------------------------------------


class EngineCause(StrEnum):
    """Why a runner ended, by its engine."""

    MEMORY = "out of memory"
    TIME_LIMIT = "time limit of the engine"
    PREEMPTED = "preempted"
    NODE = "node failed"
    CANCELLED = "cancelled outside Mayfly"


# The words of Slurm, and of Kubernetes for jobs, pods and containers.
CAUSES: Mapping[str, EngineCause] = {
    **dict.fromkeys(("OUT_OF_MEMORY", "OOMKilled"), EngineCause.MEMORY),
    **dict.fromkeys(("TIMEOUT", "DEADLINE", "DeadlineExceeded"), EngineCause.TIME_LIMIT),
    **dict.fromkeys(("PREEMPTED", "Preempting", "PreemptionByScheduler"), EngineCause.PREEMPTED),
    **dict.fromkeys(("Evicted", "EvictionByEvictionAPI", "TerminationByKubelet"), EngineCause.PREEMPTED),
    **dict.fromkeys(("NODE_FAIL", "BOOT_FAIL", "NodeLost", "NodeShutdown", "NodeAffinity"), EngineCause.NODE),
    **dict.fromkeys(("DeletionByTaintManager", "DeletionByPodGC"), EngineCause.NODE),
    "CANCELLED": EngineCause.CANCELLED,
}
ENDED = frozenset({"COMPLETED", "FAILED", "REVOKED", "Complete", "Failed", "Succeeded", "BackoffLimitExceeded"})


class EngineJob(NamedTuple):
    """A runner as its engine knows it."""

    external_id: str
    states: tuple[str, ...] = ()  # words of the engine

    @property
    def has_ended(self) -> bool:
        return any(each in ENDED or each in CAUSES for each in self.states)

    @property
    def cause(self) -> EngineCause | None:
        return next((CAUSES[each] for each in self.states if each in CAUSES), None)


def external_id_in(answer: str) -> str | None:
    """The first word of the last line; a shell may print a greeting before it. Slurm adds the cluster: 17;west."""
    lines = [line.split() for line in answer.splitlines() if line.strip()]
    word = lines[-1][0].partition(";")[0] if lines else ""
    return word if EXTERNAL_ID.fullmatch(word) else None


def jobs_in(answer: str, worker_ids: Collection[str]) -> dict[str, EngineJob]:
    """One line per runner, or several (a Kubernetes job and its pod): worker id, id in the engine, states."""
    wanted, found = frozenset(worker_ids), dict[str, EngineJob]()
    for line in answer.splitlines():
        worker_id, external_id, *states = *line.split(), "", ""
        if worker_id not in wanted or not EXTERNAL_ID.fullmatch(external_id):
            continue
        known = found.get(worker_id, EngineJob(external_id))
        new = tuple(each for each in states if each not in ("", "<none>"))  # kubectl prints <none>
        found[worker_id] = known._replace(states=(*known.states, *new))
    return found


# --- running ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What a command of an engine has answered."""

    code: int | None  # None: it did not end in time, or could not be started
    output: str = ""
    reason: str = ""  # why it failed
    was_started: bool = True

    @property
    def succeeded(self) -> bool:
        return self.code == 0


def run(command: EngineCommand, environ: Mapping[str, str] | None = None) -> Answer:
    """In a clean environment and a session of its own, ended after a time limit.

    Its output goes to files: a process that it leaves behind cannot keep us waiting.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(command.text.encode())
        given.seek(0)
        environment = clean_environment(os.environ if environ is None else environ)
        try:
            process = subprocess.Popen(  # noqa: S603 - the command is in mayfly.toml, and no shell reads it
                command.arguments,
                stdin=given,
                stdout=out,
                stderr=err,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            reason = f"{command.arguments[0]} cannot be started: {error.strerror}"
            return Answer(None, reason=reason, was_started=False)
        code, limit = _wait(process), timing().engine_seconds
        if code is None:
            return Answer(None, reason=f"{command.arguments[0]} did not end within {limit:g} s")
        reason = _last_lines(err) or _last_lines(out) or f"exit code {code}"
        return Answer(code, _end_of(out, MAX_ANSWER_BYTES), "" if code == 0 else reason)


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if ENVIRONMENT.fullmatch(name)}


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(timing().engine_seconds)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _end_of(file: IO[bytes], size: int) -> str:
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - size))
    return file.read().decode(errors="replace")


def _last_lines(file: IO[bytes]) -> str:
    lines = [line.strip() for line in _end_of(file, MAX_REASON_LENGTH * 4).splitlines() if line.strip()]
    return " ".join(lines[-3:])[-MAX_REASON_LENGTH:]
