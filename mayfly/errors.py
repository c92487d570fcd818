"""All errors. The class writes the sentence: what happened, which value, what to do."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from mayfly.format import did_you_mean

MISSING_MODULE_ADVICE = "Put it into MAYFLY_HOME or install it, or name your modules in HANDLERS"
NAME_TAKEN_ADVICE = "Mayfly has a package of this name, which is imported instead of yours: rename yours"
MAX_SHOWN_LENGTH = 100  # characters of a refused value


class MayflyError(Exception):
    """An error that users can fix; its text is shown without a traceback."""

    sentence: ClassVar[str] = "{}"  # {} stands for the value

    def __init__(self, value: object = "") -> None:
        super().__init__(self.sentence.format(value))


class UsageError(MayflyError):
    """The command line, an argument or a setting is wrong: exit 64."""


class SettingsError(UsageError):
    """A setting is out of bounds, misspelled or contradicts another."""


class NoSuchSetting(SettingsError):
    sentence = "{} is not set: set it in the environment, .env or [integrations] of mayfly.toml."


class UnknownName(UsageError):
    """A lane, schedule, batch or token that does not exist, or is not in the required state."""

    def __init__(self, kind: str, name: str, explanation: str, known: Iterable[str] = ()) -> None:
        super().__init__(f"There is no {kind} {name!r} {explanation}.{did_you_mean(name, known)}")


class LaneIsExternal(UsageError):
    sentence = (
        "The lane {!r} is external: external workers pull its jobs over HTTP, and no runner may take them. "
        "Name another lane, or remove `external` from the settings of this one."
    )


class ExtraMissing(MayflyError):
    """The packages of an optional feature are not installed."""

    def __init__(self, needs: str, extra: str) -> None:
        super().__init__(f"{needs}, which is not installed. {_install(extra)}")


def _install(extra: str) -> str:
    return f"Run `pip install 'mayfly-jobs[{extra}]'`."


def _not_imported(failures: Mapping[str, str]) -> str:
    return "".join(f" {module} cannot be imported: {reason}." for module, reason in failures.items())


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"


# --- the database -----------------------------------------------------------------------------------------


class BadDatabaseOption(UsageError):
    sentence = "DATABASE_URL: the driver cannot use an option behind the ?: {}. Correct or remove it."


class DatabaseError(MayflyError):
    """The database cannot be used: exit 1, and the next cycle tries again."""


class _DatabaseProblem(DatabaseError):
    """An error of the server or the driver, and what to do about it."""

    problem: ClassVar[str]
    advice: ClassVar[str]

    def __init__(self, where: str, reason: str = "") -> None:
        super().__init__(f"The database {where} {self.problem}{f': {reason}' if reason else ''}. {self.advice}")


class DatabaseAway(_DatabaseProblem):
    problem, advice = "can't be reached", "Check that the server runs and that DATABASE_URL is correct."


class DatabaseRefused(_DatabaseProblem):
    problem = "refused access"
    advice = "Check user, password, database name and privileges in DATABASE_URL."


class DatabaseUnopenable(_DatabaseProblem):
    problem = "can't be opened"
    advice = "Check the path in DATABASE_URL: it must be Mayfly's own file, in a directory writable for this user."


class DatabaseFull(_DatabaseProblem):
    problem = "cannot write"
    advice = "Free disk space or make it writable; no job is lost, and the next cycle continues."


class DatabaseReadOnly(DatabaseFull):
    problem = "is read-only"
    advice = "Name the server that accepts writes in DATABASE_URL, or all of them: host1,host2."


class DatabaseFailed(_DatabaseProblem):
    """An error that no other class explains: a cancelled statement, a locked account, a bug."""

    problem = "returned an unexpected error"
    advice = "Nothing was retried. If it happens again, check the database's log."


class DatabaseCrowded(_DatabaseProblem):
    problem = "accepts no more connections"
    advice = "Lower MAX_WORKERS, HOST_MAX_WORKERS or CONCURRENCY, or raise the server's limits of connections."


class CommitUnknown(_DatabaseProblem):
    problem = "went away before it confirmed the COMMIT of these jobs"
    advice = "Check whether they are enqueued before you enqueue them again; with a unique_key that is safe."


class DatabaseBusy(_DatabaseProblem):
    problem, advice = "is still locked after several attempts", "Check for a long-running transaction."


class DatabaseTooSlow(_DatabaseProblem):
    problem = "did not answer in time"
    advice = "Check whether the server is overloaded or hangs, or whether one of Mayfly's tables is locked."


class SourceUnusable(MayflyError):
    """The settings of a source do not fit its table. Other lanes are not affected."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{self.beginning(source)}{reason}. Run `mayfly sources check {source}`.")
        self.source, self.reason = source, reason

    @staticmethod
    def beginning(source: str) -> str:
        """How its sentence begins, to find it in the note of a cycle."""
        return f"The source {source} cannot be used: "


class DriverMissing(DatabaseError):
    def __init__(self, backend: str, module: str) -> None:
        advice = _install("postgres") if module == "psycopg" else f"Run `pip install {module}`."
        super().__init__(f"The driver for {backend} is not installed (no module {module}). {advice}")


class ConnectionsUsedUp(DatabaseError):
    def __init__(self, most: int, seconds: float) -> None:
        super().__init__(f"All {most} connections were in use for {seconds:.0f} s. Use fewer threads.")


class SessionOptionsRefused(DatabaseError):
    sentence = (
        "PgBouncer refuses the startup parameter `options`, which has the settings of Mayfly's sessions. Add it to "
        "ignore_startup_parameters in pgbouncer.ini and run `mayfly doctor`: docs/reference/settings.md#postgresql."
    )


class ServerTooOld(DatabaseError):
    def __init__(self, server: object, oldest: object) -> None:
        super().__init__(
            f"{server} has no SELECT … FOR UPDATE SKIP LOCKED, without which a full queue would seem empty. "
            f"Mayfly needs {oldest} or newer."
        )


class SchemaMissing(DatabaseError):
    sentence = "The database has no Mayfly tables yet. Run `mayfly migrate` once."


class TableMissing(DatabaseError):
    def __init__(self, name: str) -> None:
        own = "Mayfly's other tables exist, so `mayfly migrate` does not create it: restore it from a backup."
        advice = own if name.startswith("mayfly_") else "If it belongs to handlers, run `mayfly migrate --app` once."
        super().__init__(f"There is no table {name}. {advice}")


class SchemaMismatch(DatabaseError):
    def __init__(self, stored: str, known: str) -> None:
        older = f"this Mayfly needs {known}. Run `mayfly migrate`."
        newer = f"newer than the {known} of this Mayfly. Upgrade Mayfly on this host."
        super().__init__(f"The database has schema version {stored}, {older if stored < known else newer}")


class OldCodeRuns(DatabaseError):
    def __init__(self, version: str, oldest: str, hosts: Sequence[str], wait: str) -> None:
        super().__init__(
            f"Schema version {version} needs code of schema version {oldest} or newer, and older code still runs on "
            f"{', '.join(hosts)}. Upgrade it, or stop cron there. {wait} after its last cycle, and after its last "
            "runner, run `mayfly migrate` again."
        )


class TablesBusy(DatabaseError):
    def __init__(self, seconds: float, reason: str) -> None:
        super().__init__(
            f"A migration waited for a lock for {seconds / 60:.0f} minutes ({reason}). A long transaction, such as a "
            "backup, keeps it. Run `mayfly migrate` again when that has ended; it continues where it stopped."
        )


class PlanLockLost(DatabaseError):
    """Another host holds the planning lock: this cycle starts nothing, and the next one tries again."""


class SchemaUnknown(DatabaseError):
    def __init__(self, package: str, stored: str) -> None:
        super().__init__(f"The tables of {package} have version {stored}, unknown to this code. Upgrade {package}.")


# --- running a job ----------------------------------------------------------------------------------------


class LostLease(MayflyError):
    """Another runner owns the job now; what this process wrote was rolled back."""

    sentence = "lost lease on job {}: another runner owns it now, nothing was changed"


class Interrupted(BaseException):
    """Raised inside a handler whose time is up. A BaseException, so that `except Exception` does not catch it."""

    stack = ""  # where the handler was, if the traceback does not show it


class HandlerEnded(BaseException):
    """Raised by a method of a job to end its handler. A BaseException for the same reason."""


class SliceEnded(HandlerEnded):
    """The window is nearly over: the next run continues from the checkpoint."""


class CancelRequested(HandlerEnded):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LeaseGone(HandlerEnded):
    """Another runner owns the job now: anything this handler did from here on would be done twice."""


# --- enqueueing -------------------------------------------------------------------------------------------


class EnqueueError(UsageError):
    """A job that cannot be accepted."""

    fields: tuple[str, ...] = ()  # the arguments that are wrong


class BadField(EnqueueError):
    def __init__(self, field: str, given: object, allowed: str) -> None:
        super().__init__(f"{field}={_shown(given)}: must be {allowed}.")
        self.fields = (field,)


class BadPayload(EnqueueError):
    def __init__(self, type_name: str, reason: str, fields: Sequence[str] = ()) -> None:
        super().__init__(f"The payload of {type_name} is refused: {reason}.")
        self.fields = tuple(f"payload.{each}" for each in fields) or ("payload",)


class PayloadUnreadable(MayflyError, ValueError):
    """The table checks payloads until the first claim only: SQL may have changed this one later."""

    def __init__(self, job_id: int, reason: str) -> None:
        super().__init__(f"The stored payload of job {job_id} is no JSON object: {reason}. Enqueue the job again.")


class PayloadTooLarge(EnqueueError):
    def __init__(self, type_name: str, size: int, limit: int, limit_name: str) -> None:
        super().__init__(
            f"The payload of {type_name} has {size:,} bytes, {limit_name} allows {limit:,}. "
            "Store large data elsewhere and enqueue a reference to it."
        )
        self.fields = ("payload",)


class UnknownOption(EnqueueError, TypeError):
    """An unexpected keyword argument, which is a TypeError in Python."""

    def __init__(self, function: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"{function}() has no argument {name!r}.{did_you_mean(name, known)}")
        self.fields = (name,)


class HandlerNotImported(EnqueueError):
    """The handler may be in a module that cannot be imported: its lane and its maximum of attempts are not known."""

    def __init__(self, type_name: str, failures: Mapping[str, str]) -> None:
        super().__init__(
            f"No handler for type {type_name!r}.{_not_imported(failures)} Fix that, or pass lane= and max_attempts= "
            "to enqueue the job without its handler; its payload is not checked then."
        )
        self.fields = ("type",)


class KeyHeld(EnqueueError):
    """Another job holds the unique key, and the caller asked for `on_conflict="error"`."""

    def __init__(self, unique_key: str, holder_id: int) -> None:
        super().__init__(
            f"unique_key={unique_key!r} is held by job {holder_id}. Wait until that job has ended, or use "
            "on_conflict='keep' or 'replace'."
        )
        self.holder_id = holder_id


class BatchExists(EnqueueError):
    sentence = "There is already a batch {!r}, or it has not been pruned yet. Use a new name for each batch."


class BatchClosed(EnqueueError):
    def __init__(self, key: str, explanation: str) -> None:
        super().__init__(f"The batch {key!r} accepts no jobs: {explanation}.")


class BadChain(EnqueueError):
    """A chain, a step or the callback of a batch that cannot be enqueued."""

    sentence = "{}: write a type, a pair of type and payload, or step(type, payload, lane=…, …)."


# --- operating --------------------------------------------------------------------------------------------


class NoJobsSelected(UsageError):
    sentence = (
        "Select jobs by id, group, lane, type, error, age, text or payload field; "
        "acting on all jobs, or on all jobs of one status, is not allowed."
    )


class UnknownJob(UsageError):
    sentence = "There is no job {}: it was never enqueued here, or it ended and was pruned."


class NothingToDo(MayflyError):
    def __init__(self, verb: str, job_id: int, status: str, held: bool) -> None:
        reason = "another job holds its unique key now" if held else f"it is {status}"
        super().__init__(f"Job {job_id} was not changed: {reason}, and {verb} does not apply to such a job.")


class ScheduleUnfinished(MayflyError):
    sentence = "Schedule {!r} has overlap=skip and an unfinished job: nothing was enqueued."


class StateDirUnsafe(MayflyError):
    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"The state directory {path} {reason}. Remove it, or set STATE_DIR to your own directory.")


class WakeDirUnsafe(MayflyError):
    def __init__(self, path: object, reason: str) -> None:
        super().__init__(
            f"The directory of wake-ups {path} {reason}, so jobs are found by polls only. "
            "Create one for WAKE_DIR as the user of the dispatcher: `install -d -m 2750 -g GROUP DIRECTORY`."
        )


class TextfileUnwritable(MayflyError):
    def __init__(self, path: object, reason: str) -> None:
        super().__init__(
            f"METRICS_TEXTFILE {path} cannot be written: {reason}. "
            "Create its directory, and make it writable for the user that runs the dispatcher."
        )


class Undelivered(MayflyError):
    """An alert, a heartbeat or a trace that its receiver did not accept."""


# --- handlers ---------------------------------------------------------------------------------------------


class HandlerError(MayflyError):
    """A handler is declared incorrectly, or uses its job incorrectly."""


class PackageNameTaken(MayflyError):
    """An application's package has the name of one of Mayfly's, and was imported first."""

    def __init__(self, package: str, path: object) -> None:
        super().__init__(
            f"Mayfly needs its own package {package}, and this process has imported {path}. Rename that package, or "
            "move it into another one."
        )


class HandlerModuleMissing(HandlerError):
    sentence = f"There is no module {{}}. {MISSING_MODULE_ADVICE}."


class BadHandler(HandlerError):
    def __init__(self, type_name: str, where: str, reason: str) -> None:
        super().__init__(f"The handler for {type_name} ({where}) {reason}.")


class UnhandledAlarm(HandlerError):
    sentence = (
        "SIGALRM arrived and nothing handled it: the handler, or a library that it uses, called signal.alarm() or "
        "signal.setitimer(). Install a handler for SIGALRM before, or use @handler(timeout=…) instead."
    )


class BadDeclaration(HandlerError):
    """An invalid call of concurrency(), rate(), schedule() or job.take()."""

    def __init__(self, call: str, reason: str) -> None:
        super().__init__(f"{call}: {reason}.")


class BadBusinessHours(UsageError):
    def __init__(self, field: str, given: object, allowed: str) -> None:
        super().__init__(f"Business hours: {field}={_shown(given)} must be {allowed}.")


class NoBusinessHours(MayflyError):
    sentence = "The business hours in {} never open: check weekdays and holidays, and that a slot fits into a day."


class BadCommand(HandlerError):
    """A verb of `mayfly` that a module of HANDLERS contributes in __commands__."""

    def __init__(self, verb: str, module: str, reason: str) -> None:
        super().__init__(f"The command {verb!r} of {module} {reason}.")


class BadRoutes(HandlerError):
    """Routes of the console that a module of HANDLERS contributes in __routes__."""

    def __init__(self, name: str, module: str, reason: str) -> None:
        super().__init__(f"The routes {name!r} of {module} {reason}.")


class HookUnusable(HandlerError):
    def __init__(self, variable: str, name: str, reason: str) -> None:
        super().__init__(f"{variable}={name}: {reason}.")


class UnknownHandler(HandlerError):
    def __init__(self, wanted: object, known: Iterable[str], failures: Mapping[str, str]) -> None:
        hint = did_you_mean(wanted, known) if isinstance(wanted, str) else " Is it declared with @handler?"
        shown = f"type {wanted!r}" if isinstance(wanted, str) else repr(wanted)
        super().__init__(f"No handler for {shown}.{hint}{_not_imported(failures)}")


class UnknownLimit(HandlerError):
    def __init__(self, type_name: str, key: str, known: Sequence[str]) -> None:
        declared = f"declares {', '.join(map(repr, known))}" if known else "declares no limits"
        super().__init__(f"job.take({_shown(key)}) in {type_name}: no limit has this key; its handler {declared}.")


class BadJobState(HandlerError):
    """A checkpoint or a progress that cannot be stored."""

    def __init__(self, what: str, type_name: str, reason: str) -> None:
        super().__init__(f"The {what} of {type_name} is refused: {reason}.")


class RefusedInTransaction(HandlerError):
    """A call that would not work as documented inside job.transaction()."""

    def __init__(self, call: str, reason: str) -> None:
        super().__init__(f"job.{call}() inside job.transaction() is refused: {reason}.")


class OutsideARunner(HandlerError):
    sentence = "This works only while a runner runs the job: call it inside its handler."


class TransactionOnTheLoop(HandlerError):
    sentence = (
        "job.transaction() would block every other job on the event loop. Make the handler a plain function with "
        "threads=, or write on your own connection in asyncio.to_thread()."
    )


class TransactionClosed(HandlerError):
    sentence = (
        "The transaction is closed: job.transaction() is committed together with its job. Do not call commit(), "
        "rollback() or close() in the handler."
    )


# --- tests of applications --------------------------------------------------------------------------------


class BadTestDatabase(UsageError):
    sentence = "The database for tests {}."


class NeedsTestDatabase(MayflyError):
    sentence = (
        "This needs a test database: use the fixture `mayfly_db`, or run it inside "
        "`with mayfly.testing.using_database(url)`. Tests never use the database of the settings."
    )


class ConnectionElsewhere(EnqueueError):
    def __init__(self, expected: str) -> None:
        super().__init__(
            f"connection= is connected to another database than that of this test ({expected}): cron could run the "
            "job there. Connect to mayfly_db.url in the test, or set mayfly_db_url in pytest's settings to the "
            "application's test database."
        )
        self.fields = ("connection",)


class DrainEndless(MayflyError):
    sentence = "drain() has run {:,} jobs and there are still more: does a handler enqueue itself? most= allows more."


# --- the HTTP API and the console -------------------------------------------------------------------------


class StaleClaim(MayflyError):
    """An external worker reports on a job that it no longer owns."""

    sentence = (
        "This claim on job {} is not valid: the job was redelivered after the lease expired, settled, or never "
        "claimed. Nothing was changed. Drop the job; if it is not settled, another worker has it or will get it."
    )


class BadResult(UsageError):
    def __init__(self, of_job: str, reason: str) -> None:
        super().__init__(f"The result{of_job} is refused: {reason}.")


class ResultTooLarge(BadResult):
    """A result above the limit: HTTP 413."""


class NotExternal(UsageError):
    sentence = "The lane {!r} is not external: Mayfly's own runners work there. Set `external` to true for it."


class KeyReused(UsageError):
    sentence = "Idempotency-Key {!r} was used for another request within the last day. Use a new key for each."


class TokenExists(UsageError):
    sentence = "There is or was a token {!r}. Names are not reused, because the audit identifies tokens by them."


class WeakPassword(UsageError):
    sentence = "The password {}. Choose another one, for example four words that do not belong together."


class ConsoleUnsafe(UsageError):
    """The console would be accessible without authentication."""


class CannotListen(MayflyError):
    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"The console cannot listen on {host}, port {port}: {reason}. Is one running already? CONSOLE_HOST and "
            "CONSOLE_PORT set another address."
        )


class ConsoleMissing(UsageError):
    sentence = f"The console needs {{}}, which is not installed. {_install('console')}"
