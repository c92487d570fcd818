"""One round of commands in an engine: submit, query the status, cancel, read the output of failed runners.

`decide` is pure. The rest runs in a process of its own, see dispatcher/launch.py.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from mayfly import log_messages
from mayfly.clock import host_now, monotonic
from mayfly.db.database import Database
from mayfly.fleet.launchers import (
    MAX_OUTPUT_BYTES,
    Answer,
    EngineCommand,
    EngineJob,
    cancel_command,
    external_id_in,
    jobs_in,
    output_command,
    run,
    status_command,
    submit_command,
)
from mayfly.fleet.submitted import (
    NOT_STARTED,
    REFUSED,
    SUBMITTED,
    EngineStep,
    SubmittedRunner,
    begin_submit,
    close_unstarted,
    end_step,
    engine_rows,
    note_cause,
    note_found,
    note_output,
)
from mayfly.log import Log
from mayfly.log_messages import LogMessage
from mayfly.monitoring.redact import printed_text
from mayfly.settings import Settings
from mayfly.settings.values import LauncherSettings

MAX_PARALLEL_COMMANDS = 8  # more would be a burden for the engine
LATE_JOB_AGE = timedelta(minutes=2)  # an engine may take in a job this long after its submit has failed
EXPLAIN_AGE = timedelta(minutes=10)  # an engine notices the end of a node this late


class Verdict(NamedTuple):
    """What the answer of an engine means for one row."""

    is_found: bool = False
    ending: str | None = None  # close the row: the runner has not started
    cause: str | None = None
    must_cancel: bool = False
    is_finished: bool = False  # nothing is left to do in the engine


UNCHANGED = Verdict()


def decide(row: SubmittedRunner, job: EngineJob | None, now: datetime) -> Verdict:
    """`job` is None if the engine, which has answered, does not know it."""
    if row.finished_at is not None:
        return _decide_ended(row, job, now - row.finished_at)
    if job is None:
        is_refused = row.step is EngineStep.FIND and row.cause is not None and not row.has_started
        return Verdict(ending=REFUSED, cause=row.cause) if is_refused else UNCHANGED
    if row.step is EngineStep.SUBMIT:
        return UNCHANGED
    if job.has_ended and not row.has_started:
        cause = job.cause or f"its process ended without taking over its row ({' '.join(job.states)})"
        return Verdict(is_found=True, ending=NOT_STARTED, cause=cause)
    return Verdict(is_found=row.step is EngineStep.FIND, cause=job.cause)


def _decide_ended(row: SubmittedRunner, job: EngineJob | None, age: timedelta) -> Verdict:
    if row.step is EngineStep.CANCEL:
        if job is None:
            return Verdict(is_finished=age > LATE_JOB_AGE or row.external_id is not None)
        return Verdict(is_found=True, must_cancel=not job.has_ended, is_finished=job.has_ended)
    may_change = job is not None and not job.has_ended and age <= EXPLAIN_AGE
    return Verdict(is_found=job is not None, cause=job and job.cause, is_finished=not may_change)


class EngineRound:
    """The rows are read anew for each round, which also does what an earlier one has left undone."""

    def __init__(
        self, settings: Settings, launcher: LauncherSettings, database: Database, log: Log, until: float
    ) -> None:
        self.settings = settings
        self.launcher = launcher
        self.database = database
        self.log = log
        self.until = until  # monotonic: no further submits
        self.figures = Counter[str]()  # SUBMITTED and endings
        self.failed_lanes: set[str] = set()  # a runner was refused there, or did not start
        self._refused: dict[str, str] = {}  # by lane: why its launcher has refused a submit

    def run(self) -> None:
        rows = self._rows()
        self._submit([each for each in rows if each.step is EngineStep.SUBMIT and each.finished_at is None])
        rows = self._rows()
        if self._refused:
            rows = self._close_unsubmitted(rows)
        if not rows:
            return None
        command = status_command(self.launcher, [each.worker_id for each in rows])
        answer = run(command)
        if not answer.succeeded:
            return self._write(log_messages.engine_failed(self.launcher.name, command.arguments[0], answer.reason))
        self._apply(rows, jobs_in(answer.output, [each.worker_id for each in rows]))
        self._close_unsubmitted(rows)
        return None

    def _close_unsubmitted(self, rows: Sequence[SubmittedRunner]) -> list[SubmittedRunner]:
        """Those of lanes with a refused submit: the next plan tries it with one runner. Returns the others."""
        left = []
        for row in rows:
            if row.step is EngineStep.SUBMIT and row.lane in self._refused:
                self._close(row, REFUSED, self._refused[row.lane], None)
            else:
                left.append(row)
        return left

    def _rows(self) -> list[SubmittedRunner]:
        now = self.database.clock.now()
        return self.database.read(lambda connection: engine_rows(connection, self.launcher.name, now))

    # --- submit ---

    def _submit(self, rows: Sequence[SubmittedRunner]) -> None:
        """Several at once. After a failure no further ones of this lane in this round."""
        if rows and self.launcher.has_log_file and self.launcher.host is None:
            self._prepare_logs()
        failed: set[str] = set()
        for first in range(0, len(rows), MAX_PARALLEL_COMMANDS):
            if monotonic() >= self.until:
                return
            begun = [
                each
                for each in rows[first : first + MAX_PARALLEL_COMMANDS]
                if each.lane not in failed and self.database.run(partial(begin_submit, worker_id=each.worker_id))
            ]
            commands = {each: self._submit_command(each) for each in begun}
            for row, answer in _run_in_parallel(commands):
                if not self._note_answer(row, answer):
                    failed.add(row.lane)

    def _submit_command(self, row: SubmittedRunner) -> EngineCommand:
        return submit_command(self.settings, self.launcher, row.worker_id, row.lane)

    def _note_answer(self, row: SubmittedRunner, answer: Answer) -> bool:
        """Only a program that could not be started has submitted nothing for certain."""
        name = self.launcher.name
        external_id = external_id_in(answer.output) if answer.succeeded else None
        if external_id is not None:
            self.database.run(partial(note_found, worker_id=row.worker_id, external_id=external_id))
            self.figures[SUBMITTED] += 1
            self._write(log_messages.runner_submitted(row.worker_id, row.lane, name, external_id))
            return True
        reason = printed_text(answer.reason or "it printed no id", self.settings)
        if not answer.was_started:
            self._close(row, REFUSED, reason, None)
            return False
        self._write(log_messages.submit_failed(row.worker_id, row.lane, name, reason))
        if answer.code is not None and not answer.succeeded:
            self.database.run(partial(note_cause, worker_id=row.worker_id, cause=reason))
        return answer.succeeded

    def _prepare_logs(self) -> None:
        """Old logs are deleted with the rows of their runners."""
        directory = self.settings.log_dir / "runners"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        oldest = host_now().timestamp() - self.settings.keep_runners_days * 86_400
        for each in directory.glob("worker-*.log"):
            with suppress(OSError):  # another host deletes them, too
                if each.stat().st_mtime < oldest:
                    each.unlink()

    # --- status ---

    def _apply(self, rows: Sequence[SubmittedRunner], jobs: Mapping[str, EngineJob]) -> None:
        now = self.database.clock.now()
        verdicts = {row: decide(row, jobs.get(row.worker_id), now) for row in rows}
        for row, verdict in verdicts.items():
            if verdict.is_found and row.external_id is None:
                self._note_found(row, jobs[row.worker_id].external_id)
            if verdict.ending is not None and verdict.cause is not None:
                step = EngineStep.EXPLAIN if verdict.ending == NOT_STARTED else None
                self._close(row, verdict.ending, verdict.cause, step)
            elif verdict.cause is not None and verdict.cause != row.cause:
                self.database.run(partial(note_cause, worker_id=row.worker_id, cause=verdict.cause))
                self._write(log_messages.runner_explained(self.launcher.name, row.worker_id, verdict.cause))
        self._cancel([(row, jobs[row.worker_id].external_id) for row, each in verdicts.items() if each.must_cancel])
        finished = [row for row, each in verdicts.items() if each.is_finished]
        self._read_output([row for row in finished if row.step is EngineStep.EXPLAIN])
        for row in finished:
            self.database.run(partial(end_step, worker_id=row.worker_id, step=row.step))

    def _note_found(self, row: SubmittedRunner, external_id: str) -> None:
        self.database.run(partial(note_found, worker_id=row.worker_id, external_id=external_id))
        self._write(log_messages.runner_found(row.worker_id, row.lane, self.launcher.name, external_id))
        if row.finished_at is None:
            self.figures[SUBMITTED] += 1

    def _close(self, row: SubmittedRunner, ending: str, cause: str, step: EngineStep | None) -> None:
        now = self.database.clock.now()
        close = partial(close_unstarted, worker_id=row.worker_id, ending=ending, cause=cause, now=now, step=step)
        if not self.database.run(close):
            return  # it has started meanwhile
        self.figures[ending] += 1
        self.failed_lanes.add(row.lane)
        if ending == REFUSED:
            self._refused[row.lane] = cause
        phrase = log_messages.submit_refused if ending == REFUSED else log_messages.runner_not_started
        self._write(phrase(row.worker_id, row.lane, self.launcher.name, cause))

    def _cancel(self, found: Sequence[tuple[SubmittedRunner, str]]) -> None:
        """All in one call. Those that it has ended are no longer known, or have ended, in the next cycle."""
        if not found:
            return
        command = cancel_command(self.launcher, [row.worker_id for row, _ in found], [each for _, each in found])
        answer = run(command)
        if not answer.succeeded:
            self._write(log_messages.engine_failed(self.launcher.name, command.arguments[0], answer.reason))

    def _read_output(self, rows: Sequence[SubmittedRunner]) -> None:
        """The engine is the only place that has it, for example that of a Kubernetes job."""
        commands: dict[SubmittedRunner, EngineCommand] = {}
        for row in rows:
            command = output_command(self.settings, self.launcher, row.worker_id, row.external_id or row.worker_id)
            if command is not None:
                commands[row] = command
        for row, answer in _run_in_parallel(commands):
            if answer.succeeded:
                output = printed_text(answer.output, self.settings, MAX_OUTPUT_BYTES)
                self.database.run(partial(note_output, worker_id=row.worker_id, output=output))
            else:
                name = self.launcher.name
                self._write(log_messages.engine_failed(name, commands[row].arguments[0], answer.reason))

    def _write(self, message: LogMessage) -> None:
        self.log.write(message)


def _run_in_parallel(
    commands: Mapping[SubmittedRunner, EngineCommand],
) -> Iterator[tuple[SubmittedRunner, Answer]]:
    """Each answer as it arrives."""
    if not commands:
        return
    with ThreadPoolExecutor(MAX_PARALLEL_COMMANDS) as pool:
        rows = {pool.submit(run, command): row for row, command in commands.items()}
        for each in as_completed(rows):
            yield rows[each], each.result()
