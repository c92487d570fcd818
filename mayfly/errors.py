"""Every error that people can meet. The class writes the sentence: what happened, which value, what to do."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from mayfly.format import did_you_mean

MISSING_MODULE_ADVICE = "Put it into MAYFLY_HOME or install it, or name your modules in HANDLERS"
MAX_SHOWN_LENGTH = 100  # characters of a value that was refused


class MayflyError(Exception):
    """Something that a person can fix; its text is shown without a traceback."""

    sentence: ClassVar[str] = ""  # of a class whose sentence is always the same

    def __init__(self, text: str = "") -> None:
        super().__init__(text or self.sentence)


class UsageError(MayflyError):
    """The command line, an argument or a setting is wrong: exit 64."""


class SettingsError(UsageError):
    """A setting is out of bounds, misspelled or contradicts another."""


class NoSuchSetting(SettingsError):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not set: set it in the environment, .env or [integrations] of mayfly.toml.")


class UnknownName(UsageError):
    """A lane, schedule, batch or token that does not exist, or not in the state that the command needs."""

    def __init__(self, kind: str, name: str, explanation: str, known: Iterable[str] = ()) -> None:
        super().__init__(f"There is no {kind} {name!r} {explanation}.{did_you_mean(name, known)}")


class ExtraMissing(MayflyError):
    """An optional feature is used, and the packages that it needs are not installed."""

    def __init__(self, needs: str, extra: str) -> None:
        super().__init__(f"{needs}, which is not installed. {_install(extra)}")


def _install(extra: str) -> str:
    return f"Run `pip install 'mayfly-jobs[{extra}]'`."


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"


# --- the database -----------------------------------------------------------------------------------------


class BadDatabaseOption(UsageError):
    def __init__(self, reason: str) -> None:
        super().__init__(
            f"DATABASE_URL: the driver cannot use an option behind the ?: {reason}. Correct or remove it."
        )


class DatabaseError(MayflyError):
    """The database cannot be used: exit 1, and the next cycle tries again."""


class _DatabaseProblem(DatabaseError):
    """What the server or the driver reported, and what to do about it."""

    problem: ClassVar[str]
    advice: ClassVar[str]

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"The database {where} {self.problem}: {reason}. {self.advice}")


class DatabaseAway(_DatabaseProblem):
    problem, advice = "can't be reached", "Check that the server runs and that DATABASE_URL is right."


class DatabaseRefused(_DatabaseProblem):
    problem = "refused"
    advice = "Check user, password, database name and privileges, and DATABASE_URL."


class DatabaseUnopenable(_DatabaseProblem):
    problem = "can't be opened"
    advice = "Check the path in DATABASE_URL: it must be Mayfly's own file, in a directory where this user may write."


class DatabaseFull(_DatabaseProblem):
    problem = "cannot write"
    advice = "Free disk space or make it writable; no job is lost, and the next cycle continues."


class DatabaseFailed(_DatabaseProblem):
    """An error that no other class explains: a cancelled statement, a locked account, a bug."""

    problem = "returned an unexpected error"
    advice = "Nothing was retried. If it happens again, check the database's log."


class DatabaseCrowded(_DatabaseProblem):
    problem = "accepts no more connections"
    advice = (
        "Lower MAX_WORKERS, HOST_MAX_WORKERS or CONCURRENCY, or raise the server's limit (max_connections, "
        "max_user_connections)."
    )


class CommitUnknown(_DatabaseProblem):
    problem = "went away before it confirmed the COMMIT of these jobs"
    advice = "Check whether they are enqueued before you enqueue them again; with a unique_key that is safe."


class DatabaseBusy(DatabaseError):
    def __init__(self, where: str, repeats: int, reason: str) -> None:
        super().__init__(
            f"The database {where} was still locked after {repeats} attempts: {reason}. "
            "Look for a long transaction there."
        )


class DatabaseTooSlow(DatabaseError):
    def __init__(self, where: str) -> None:
        super().__init__(
            f"The database {where} did not answer before the end of the cycle (DISPATCH_TIMEOUT). Check whether the "
            "server is overloaded, frozen, or waits for a lock on one of Mayfly's tables."
        )


class DriverMissing(DatabaseError):
    def __init__(self, backend: str, module: str) -> None:
        advice = _install("postgres") if module == "psycopg" else f"Run `pip install {module}`."
        super().__init__(f"The driver for {backend} is not installed (no module {module}). {advice}")


class ConnectionsUsedUp(DatabaseError):
    def __init__(self, most: int, seconds: float) -> None:
        super().__init__(
            f"All {most} connections were in use for {seconds:.0f} s. Use fewer threads or transactions."
        )


class ServerTooOld(DatabaseError):
    def __init__(self, server: str, product: str, oldest: str) -> None:
        super().__init__(
            f"{server} has no SELECT … FOR UPDATE SKIP LOCKED, without which a full queue looks empty. "
            f"Mayfly needs {product} {oldest} or newer."
        )


class SchemaMissing(DatabaseError):
    sentence = "The database has no Mayfly tables yet. Run `mayfly migrate` once."


class SchemaDamaged(DatabaseError):
    def __init__(self, table: str) -> None:
        super().__init__(
            f"The table {table} is missing, although Mayfly's other tables exist. Restore it from a backup; "
            "`mayfly migrate` does not create single tables."
        )


class TableMissing(DatabaseError):
    """A table that is not Mayfly's own."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no table {name}. If it belongs to handlers, run `mayfly migrate --app` once.")


class SchemaMismatch(DatabaseError):
    def __init__(self, stored: str, known: str) -> None:
        older = f"this Mayfly needs {known}. Run `mayfly migrate`."
        newer = f"newer than the {known} of this Mayfly. Upgrade Mayfly on this host."
        super().__init__(f"The database has schema version {stored}, {older if stored < known else newer}")


class PlanLockLost(DatabaseError):
    """Another host holds the planning lock: this cycle starts nothing, and the next one tries again."""


class AppSchemaUnknown(DatabaseError):
    def __init__(self, package: str, version: str) -> None:
        super().__init__(f"The tables of {package} have version {version}, newer than this code. Upgrade {package}.")


# --- running a job ----------------------------------------------------------------------------------------


class SchemaUnknown(DatabaseError):
    def __init__(self, stored: str, known: str) -> None:
        super().__init__(
            f"The database has schema version {stored}, from which this Mayfly cannot migrate to {known}. "
            "Restore the row of mayfly_version, or use a new database."
        )


class LostLease(MayflyError):
    """Another runner owns the job now; what this process wrote was rolled back."""

    def __init__(self, job_id: int) -> None:
        super().__init__(f"lost lease on job {job_id}: another runner owns it now, nothing was changed")


class Interrupted(BaseException):
    """Raised inside a handler whose time is up. No Exception, so that `except Exception` does not swallow it."""


class HandlerEnded(BaseException):
    """Raised inside a handler by a call of its job, to end it there. No Exception, as above."""


class SliceEnded(HandlerEnded):
    """The window is nearly over: the next run continues from the checkpoint."""


class CancelRequested(HandlerEnded):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LeaseGone(HandlerEnded):
    """Another runner owns the job now: whatever this handler did from here on would be done twice."""


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


class BadJob(EnqueueError):
    def __init__(self, given: object, known: Sequence[str]) -> None:
        super().__init__(
            f"{_shown(given)} is no job: write a mapping with a type and no other arguments than {', '.join(known)}."
        )


class BadLine(EnqueueError):
    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"Line {number}: {reason} The lines before it, to the last full thousand, are enqueued.")


class KeyHeld(EnqueueError):
    """Another job holds the unique key, and the caller asked for `on_conflict="error"`."""

    def __init__(self, unique_key: str, holder_id: int) -> None:
        super().__init__(
            f"unique_key={unique_key!r} is held by job {holder_id}. Wait until that job has ended, or use "
            "on_conflict='keep' or 'replace'."
        )
        self.holder_id = holder_id


class BatchExists(EnqueueError):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"There is already a batch {key!r}, or it has not been pruned yet. Use a new name for each batch, e.g. "
            "with the date in it; `mayfly batches` lists them."
        )


class BatchClosed(EnqueueError):
    def __init__(self, key: str, explanation: str) -> None:
        super().__init__(f"The batch {key!r} accepts no jobs: {explanation}.")


class BadChain(EnqueueError):
    """A chain, a step of one, or a batch's callback that cannot be enqueued."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: write a type, a pair of type and payload, or step(type, payload, lane=…, …).")


# --- operating --------------------------------------------------------------------------------------------


class NoJobsSelected(UsageError):
    sentence = "Select jobs by id, group, lane, type, error or age; acting on all jobs at once is not allowed."


class UnknownJob(UsageError):
    def __init__(self, job_id: int) -> None:
        super().__init__(f"There is no job {job_id}: it was never enqueued here, or it ended and was pruned.")


class NothingToDo(MayflyError):
    def __init__(self, verb: str, job_id: int, status: str, held: bool) -> None:
        reason = "another job holds its unique key now" if held else f"it is {status}"
        super().__init__(f"Job {job_id} was not changed: {reason}, and {verb} does not apply to such a job.")


class ScheduleUnfinished(MayflyError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Schedule {name!r} has overlap=skip and an unfinished job: nothing was enqueued.")


class StateDirUnsafe(MayflyError):
    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"The state directory {path} {reason}. Remove it, or set STATE_DIR to your own directory.")


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
    """A handler is declared, or uses its job, in a way that cannot work."""


class HandlerModuleMissing(HandlerError):
    def __init__(self, module: str) -> None:
        super().__init__(f"There is no module {module}. {MISSING_MODULE_ADVICE}.")


class BadHandler(HandlerError):
    def __init__(self, type_name: str, where: str, reason: str) -> None:
        super().__init__(f"The handler for {type_name} ({where}) {reason}.")


class UnhandledAlarm(HandlerError):
    def __init__(self) -> None:
        super().__init__(
            "SIGALRM arrived and nothing handled it: the handler, or a library that it uses, called signal.alarm() "
            "or signal.setitimer(). Install a handler for SIGALRM before, or use @handler(timeout=…) instead."
        )


class BadDeclaration(HandlerError):
    """A call of concurrency(), rate() or schedule() that cannot work."""

    def __init__(self, call: str, reason: str) -> None:
        super().__init__(f"{call}: {reason}.")


class HookUnusable(HandlerError):
    def __init__(self, variable: str, name: str, reason: str) -> None:
        super().__init__(f"{variable}={name}: {reason}.")


class UnknownHandler(HandlerError):
    def __init__(self, wanted: object, known: Iterable[str], failures: Mapping[str, str]) -> None:
        hint = did_you_mean(wanted, known) if isinstance(wanted, str) else " Is it declared with @handler?"
        shown = f"type {wanted!r}" if isinstance(wanted, str) else repr(wanted)
        broken = "".join(f" {module} cannot be imported: {reason}." for module, reason in failures.items())
        super().__init__(f"No handler for {shown}.{hint}{broken}")


class UnknownLimit(HandlerError):
    def __init__(self, type_name: str, key: str, known: Sequence[str]) -> None:
        declared = f"declares {', '.join(map(repr, known))}" if known else "declares no limits"
        super().__init__(f"job.take({_shown(key)}) in {type_name}: no limit has this key; its handler {declared}.")


class BadJobState(HandlerError):
    """A checkpoint or a progress that cannot be stored."""

    def __init__(self, what: str, type_name: str, reason: str) -> None:
        super().__init__(f"The {what} of {type_name} is refused: {reason}.")


class RefusedInTransaction(HandlerError):
    """A call that would not do what it promises inside job.transaction()."""

    def __init__(self, call: str, reason: str) -> None:
        super().__init__(f"job.{call}() inside job.transaction() is refused: {reason}.")


class OutsideARunner(HandlerError):
    sentence = "This works only while a runner runs the job: call it inside its handler."


class TransactionOnTheLoop(HandlerError):
    sentence = (
        "job.transaction() would block every other job on the event loop. Make the handler a plain function with "
        "threads=, or write on a connection of your own in asyncio.to_thread()."
    )


class TransactionClosed(HandlerError):
    sentence = (
        "The transaction is closed, and nothing more can be written in it: job.transaction() is committed together "
        "with its job. Do not call commit(), rollback() or close() in the handler."
    )


# --- tests of applications --------------------------------------------------------------------------------


class BadTestDatabase(UsageError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"The database for tests {reason}.")


class NeedsTestDatabase(MayflyError):
    sentence = (
        "This needs a database of the test's own: use the fixture `mayfly_db`, or run it inside "
        "`with mayfly.testing.using_database(url)`. A test never uses the database of the settings."
    )


class DrainEndless(MayflyError):
    def __init__(self, most: int) -> None:
        super().__init__(
            f"drain() has run {most:,} jobs and there are still more: does a handler enqueue itself, or snooze for "
            "0 s? most= allows more."
        )


# --- the HTTP API and the console -------------------------------------------------------------------------


class StaleClaim(MayflyError):
    """An external worker reports on a job that it does not own any more."""

    def __init__(self, job_id: int) -> None:
        super().__init__(
            f"This claim on job {job_id} is not valid: its lease ended, the job was settled, or never claimed. "
            "Nothing was changed. Drop the job; if it is still pending, another claim will return it."
        )


class BadResult(UsageError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"The result is refused: {reason}.")


class ResultTooLarge(BadResult):
    """A result above the limit: HTTP 413."""


class NotExternal(UsageError):
    def __init__(self, lane: str) -> None:
        super().__init__(
            f"The lane {lane!r} is not external: Mayfly's own runners work there. Set LANES__NAME__EXTERNAL=true, or "
            "external = true for it in mayfly.toml."
        )


class KeyReused(UsageError):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"Idempotency-Key {_shown(key)} was used for another request within the last day. "
            "Use a new key for each request, and the same key only to repeat it."
        )


class TokenExists(UsageError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is or was a token {name!r}; see `mayfly token list`. Names are not reused, because the audit "
            "identifies tokens by them."
        )


class ConsoleUnsafe(UsageError):
    """The console would be open to others than its users."""


class CannotListen(MayflyError):
    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"The console cannot listen on {host}, port {port}: {reason}. Is one running already? CONSOLE_HOST and "
            "CONSOLE_PORT set another address."
        )


class ConsoleMissing(UsageError):
    def __init__(self, module: str) -> None:
        super().__init__(f"The console needs {module}, which is not installed. {_install('console')}")
