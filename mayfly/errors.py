"""Every error that people can meet: its class writes the sentence that says what to do."""

from collections.abc import Mapping, Sequence


class MayflyError(Exception):
    """Something a person can put right; its text is shown without a traceback."""


class UsageError(MayflyError):
    """The command line or the settings are wrong: exit 64."""


class SettingsError(UsageError):
    """A setting is out of bounds, misspelled or does not fit another."""


class NoSuchSetting(SettingsError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is not set: set it in the environment, in .env or in [integrations] of mayfly.toml."
        )


class BadDatabaseOption(UsageError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"DATABASE_URL: the driver cannot use an option behind the ?: {reason}. Correct or drop it.")


# --- the database -----------------------------------------------------------------------------------------


class DatabaseError(MayflyError):
    """The database cannot be worked with: exit 1, and the next cycle tries again."""


class DatabaseAway(DatabaseError):
    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"The database {where} can't be reached: {reason}. "
            "Check that the server runs and that DATABASE_URL is right."
        )


class DatabaseRefused(DatabaseError):
    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"The database {where} refused: {reason}. Check user, password, database name and "
            "privileges, and DATABASE_URL."
        )


class DatabaseUnopenable(DatabaseError):
    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"The database {where} can't be opened: {reason}. Check the path in DATABASE_URL, and that it is "
            "Mayfly's own file, in a directory where this user may write."
        )


class DatabaseFull(DatabaseError):
    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"The database {where} cannot write: {reason}. Free disk space or make it writable; nothing is lost, "
            "the next cycle goes on."
        )


class DatabaseBusy(DatabaseError):
    def __init__(self, where: str, repeats: int, reason: str) -> None:
        super().__init__(
            f"The database {where} was still locked after {repeats} tries: {reason}. "
            "Look for a long transaction there."
        )


class DatabaseFailed(DatabaseError):
    """An error that nothing else here explains: a statement that was cancelled, a locked account, a bug."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"The database {where} answered with an error that was not expected: {reason}. "
            "Nothing was retried. If it comes again, look it up in the database's log."
        )


class DatabaseTooSlow(DatabaseError):
    def __init__(self, where: str) -> None:
        super().__init__(
            f"The database {where} did not answer before the end of the cycle (DISPATCH_TIMEOUT). Check whether the "
            "server is overloaded, frozen, or waits for a lock on one of Mayfly's tables."
        )


class DatabaseCrowded(DatabaseError):
    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"The database {where} takes no more connections: {reason}. Lower MAX_WORKERS, HOST_MAX_WORKERS or "
            "CONCURRENCY, or raise the server's limit (max_connections, max_user_connections)."
        )


class CommitUnknown(DatabaseError):
    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"The database {where} went away before it answered whether the jobs are enqueued: {reason}. "
            "Look before you enqueue them again; with a unique_key that is safe, and done by itself."
        )


class DriverMissing(DatabaseError):
    def __init__(self, backend: str, module: str) -> None:
        extra = "pip install 'mayfly-jobs[postgres]'" if module == "psycopg" else f"pip install {module}"
        super().__init__(f"The driver for {backend} is not installed (no module {module}). Run `{extra}`.")


class ConnectionsUsedUp(DatabaseError):
    def __init__(self, most: int, seconds: float) -> None:
        super().__init__(
            f"All {most} connections of this process were in use for {seconds:.0f} s. Let its threads share the "
            "work, or hold a transaction for a shorter time."
        )


class ServerTooOld(DatabaseError):
    def __init__(self, server: str, product: str, oldest: str) -> None:
        super().__init__(
            f"{server} has no SELECT … FOR UPDATE SKIP LOCKED, without which a full queue looks empty. "
            f"Mayfly needs {product} {oldest} or newer."
        )


class SchemaMissing(DatabaseError):
    def __init__(self) -> None:
        super().__init__("The database has no Mayfly tables yet. Run `mayfly migrate` once.")


class SchemaDamaged(DatabaseError):
    def __init__(self, table: str) -> None:
        super().__init__(
            f"The table {table} is missing, although Mayfly's other tables are there. Restore it from a backup; "
            "`mayfly migrate` does not create single tables."
        )


class TableMissing(DatabaseError):
    """One that is not Mayfly's own."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no table {name}. If handlers bring it along, run `mayfly migrate --app` once.")


class SchemaOlder(DatabaseError):
    def __init__(self, stored: str, known: str) -> None:
        super().__init__(
            f"The database has schema version {stored}, this Mayfly needs {known}. Run `mayfly migrate`."
        )


class AppSchemaUnknown(DatabaseError):
    def __init__(self, package: str, version: str) -> None:
        super().__init__(f"The tables of {package} have version {version}, which this code does not know. Update it.")


class SchemaNewer(DatabaseError):
    def __init__(self, stored: str, known: str) -> None:
        super().__init__(
            f"The database has schema version {stored}, newer than the {known} this Mayfly knows. "
            "Upgrade Mayfly on this host."
        )


class SchemaUnknown(DatabaseError):
    def __init__(self, stored: str, known: str) -> None:
        super().__init__(
            f"The database has schema version {stored}, from which this Mayfly cannot migrate to {known}. "
            "Restore the row of mayfly_version, or use a new database."
        )


class LostLease(MayflyError):
    """Somebody else owns the job now; what this process wrote was rolled back."""

    def __init__(self, job_id: int) -> None:
        super().__init__(f"lost lease on job {job_id}: another runner owns it now, nothing was changed")


class Interrupted(BaseException):
    """Raised inside a handler whose time is up. No Exception, so that `except Exception` does not swallow it."""


class HandlerEnded(BaseException):
    """Raised inside a handler by what it asked of its runner, to end it just there. No Exception, as above."""


class SliceEnded(HandlerEnded):
    """Its window nears its end: the next one goes on from the checkpoint."""


class CancelRequested(HandlerEnded):
    """Somebody wants the job to end."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LeaseGone(HandlerEnded):
    """Somebody else owns the job now: whatever its handler did from here on would be done twice."""


# --- enqueueing -------------------------------------------------------------------------------------------


MAX_SHOWN_LENGTH = 100  # characters of a value that was refused


class EnqueueError(UsageError):
    """A job that cannot be accepted, with what is wrong about it."""

    fields: tuple[str, ...] = ()  # which of what was given


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


class BadField(EnqueueError):
    def __init__(self, field: str, given: object, allowed: str) -> None:
        super().__init__(f"{field}={_quoted(given)}: must be {allowed}.")
        self.fields = (field,)


def _quoted(given: object) -> str:
    shown = repr(given)
    return shown if len(shown) <= MAX_SHOWN_LENGTH else f"{shown[:MAX_SHOWN_LENGTH]}…"


class BadJob(EnqueueError):
    def __init__(self, given: object, known: Sequence[str]) -> None:
        super().__init__(
            f"{_quoted(given)} is no job: write a mapping with a type and no other arguments than {', '.join(known)}."
        )


class KeyMissing(EnqueueError):
    def __init__(self, field: str) -> None:
        super().__init__(f"{field} says something about a unique_key, and there is none. Give the key, or drop it.")
        self.fields = (field,)


class KeyHeld(EnqueueError):
    """Somebody else's job has the unique key, and `on_conflict="error"` was asked for."""

    def __init__(self, unique_key: str, holder_id: int) -> None:
        super().__init__(
            f"unique_key={unique_key!r} is held by job {holder_id}. Wait until it is free, or let enqueue keep or "
            "replace that job (on_conflict)."
        )
        self.holder_id = holder_id


class ErrorTooLate(EnqueueError):
    def __init__(self) -> None:
        super().__init__(
            "on_conflict='error' cannot be answered inside a handler: what it enqueues is held back until its job is "
            "done. Enqueue in job.transaction(), or use keep or replace."
        )


class BatchExists(EnqueueError):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"There is already a batch {key!r}, or one that was not pruned yet. Give each a name of its own, "
            "e.g. with the date in it; `mayfly batches` lists them."
        )


class BatchTaken(EnqueueError):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"The batch {key!r} was sealed or abandoned by somebody else while it was being filled. What was "
            "enqueued since is in its group; see `mayfly batches`, and `mayfly cancel --group` if it should not run."
        )


class NoSuchBatch(UsageError):
    def __init__(self, key: str, state: str) -> None:
        super().__init__(f"There is no batch {key!r} that {state}; `mayfly batches` lists them.")


class BatchClosed(EnqueueError):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"The batch {key!r} takes no jobs now: its block has ended, or has not begun. Enqueue inside the block, "
            "or, inside a handler of one of its jobs, through job.batch."
        )


class EmptyChain(EnqueueError):
    def __init__(self) -> None:
        super().__init__("A chain needs at least one step.")


class BadStep(EnqueueError):
    def __init__(self, given: object) -> None:
        shown = repr(given)
        shown = shown if len(shown) <= MAX_SHOWN_LENGTH else f"{shown[:MAX_SHOWN_LENGTH]}…"
        super().__init__(
            f"{shown} is no step: write a type, a pair of type and payload, or step(type, payload, lane=…, …)."
        )


class ChainContainsItself(EnqueueError):
    def __init__(self) -> None:
        super().__init__("A list of steps contains itself: such a chain would never end.")


class BadLine(EnqueueError):
    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"Line {number}: {reason} The lines before it, to the last full thousand, are enqueued.")


# --- operating --------------------------------------------------------------------------------------------


class NoJobsSelected(UsageError):
    def __init__(self) -> None:
        super().__init__("Say which jobs: by id, group, lane, type, error or age. All of them are never meant.")


class UnknownJob(UsageError):
    def __init__(self, job_id: int) -> None:
        super().__init__(f"There is no job {job_id}: it was never enqueued here, or it ended and was pruned.")


# --- handlers ---------------------------------------------------------------------------------------------


class HandlerError(MayflyError):
    """A handler is declared in a way that cannot work."""


class DuplicateHandler(HandlerError):
    def __init__(self, type_name: str, first: str, second: str) -> None:
        super().__init__(
            f"Two handlers for {type_name}: {first} and {second}. Rename one, or leave the "
            "module whose handler you do not want out of HANDLERS."
        )


MISSING_MODULE_ADVICE = "Put it into MAYFLY_HOME or install it, or name your modules in HANDLERS"


class HandlerModuleMissing(HandlerError):
    def __init__(self, module: str) -> None:
        super().__init__(f"There is no module {module}. {MISSING_MODULE_ADVICE}.")


class BadHandler(HandlerError):
    def __init__(self, type_name: str, where: str, reason: str) -> None:
        super().__init__(f"The handler for {type_name} ({where}) {reason}.")


class BadLimit(HandlerError):
    """A call of concurrency() or rate() that cannot work."""

    def __init__(self, called: str, reason: str) -> None:
        super().__init__(f"{called}: {reason}.")


class UnknownLimit(HandlerError):
    def __init__(self, type_name: str, key: str, known: Sequence[str]) -> None:
        declared = (
            f"its handler declares {', '.join(map(repr, known))}" if known else "its handler declares no limits"
        )
        super().__init__(
            f"job.take({_quoted(key)}) in {type_name}: no limit has such a key; {declared}. Add it to takes=."
        )


class WriteInTransaction(HandlerError):
    def __init__(self) -> None:
        super().__init__(
            "job.write() inside job.transaction() would not be committed before the job is done. "
            "Write before the transaction begins."
        )


class TakeInTransaction(HandlerError):
    def __init__(self) -> None:
        super().__init__(
            "job.take() inside job.transaction() would let everybody else wait for its key until the job is done. "
            "Take before the transaction begins."
        )


class OutsideARunner(HandlerError):
    def __init__(self) -> None:
        super().__init__("This works only while a runner runs the job: call it inside its handler.")


class TransactionOnTheLoop(HandlerError):
    def __init__(self) -> None:
        super().__init__(
            "job.transaction() would hold up every other job on the event loop. Make the handler a plain function "
            "with threads=, or write on a connection of your own in asyncio.to_thread()."
        )


class TransactionClosed(HandlerError):
    def __init__(self) -> None:
        super().__init__(
            "Nothing more can be written in a closed transaction: job.transaction() is committed together with its "
            "job. Leave commit(), rollback() and close() out of the handler."
        )


class BadCheckpoint(HandlerError):
    def __init__(self, type_name: str, reason: str) -> None:
        super().__init__(
            f"The checkpoint of {type_name} is refused: {reason}. Keep a cursor there, such as a row's number, and "
            "the rest where it came from."
        )


class CheckpointInTransaction(HandlerError):
    def __init__(self) -> None:
        super().__init__(
            "job.checkpoint() inside job.transaction() is refused: that block is the job's last and commits with its "
            "`done`. Commit each step on a connection of your own, then call job.checkpoint()."
        )


class BadProgress(HandlerError):
    def __init__(self, type_name: str, reason: str) -> None:
        super().__init__(f"The progress of {type_name} is refused: {reason}.")


class NeverAwaited(HandlerError):
    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where} returned something to await, and nobody does: declare the handler itself as `async def`."
        )


class HookUnusable(HandlerError):
    def __init__(self, variable: str, name: str, reason: str) -> None:
        super().__init__(f"{variable}={name}: {reason}.")


# --- tests of applications --------------------------------------------------------------------------------


class NeedsTestDatabase(MayflyError):
    def __init__(self) -> None:
        super().__init__(
            "This needs a database of the test's own: give the test the fixture `mayfly_db`, or run it inside "
            "`with mayfly.testing.using_database(url)`. The one that the settings name is never touched by a test."
        )


class BadTestDatabase(UsageError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"The database for tests {reason}.")


class UnsafeTestDatabase(MayflyError):
    def __init__(self, where: str) -> None:
        super().__init__(
            f"Tests empty the Mayfly tables of their database, and {where} has no `test` in its name. "
            "Give them one of their own, such as shop_test."
        )


class SharedTestDatabase(MayflyError):
    def __init__(self, where: str) -> None:
        super().__init__(
            f"Several processes share these tests (pytest -n), and {where} would be emptied by each of them. "
            "Write {worker} into its name, as in shop_test_{worker}, and make one for gw0, gw1 and so on."
        )


class UnknownHandler(HandlerError):
    def __init__(self, wanted: object, nearest: str | None, failures: Mapping[str, str]) -> None:
        shown = f"type {wanted!r}" if isinstance(wanted, str) else f"{wanted!r}: is it declared with @handler"
        hint = f"; did you mean {nearest!r}?" if nearest else "?" if not isinstance(wanted, str) else "."
        broken = "".join(f" {module} cannot be imported: {reason}." for module, reason in failures.items())
        super().__init__(f"No handler for {shown}{hint}{broken}")


class DrainEndless(MayflyError):
    def __init__(self, most: int) -> None:
        super().__init__(
            f"drain() has run {most:,} jobs and there is no end: does a handler enqueue itself, or snooze for no "
            "time? most= allows more."
        )


# --- the fleet --------------------------------------------------------------------------------------------


class PlanningBusy(DatabaseError):
    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"Another host has held the planning lock for {seconds:.0f} s (see the table mayfly_locks). "
            "This cycle is skipped, the next one tries again."
        )


class LostPlanningLock(DatabaseError):
    def __init__(self) -> None:
        super().__init__(
            "This host lost the planning lock before its plan was written: it was too slow. Nothing was started."
        )


class StateDirUnsafe(MayflyError):
    def __init__(self, path: object, reason: str) -> None:
        super().__init__(
            f"The state directory {path} {reason}. Remove it or set STATE_DIR to a directory of your own."
        )


class UnknownLane(UsageError):
    def __init__(self, lane: str, nearest: str | None) -> None:
        hint = f" Did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"No lane {lane!r}: it has neither jobs nor settings.{hint}")


class UnknownSchedule(UsageError):
    def __init__(self, name: str, nearest: str | None) -> None:
        hint = f" Did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"No schedule {name!r} in the files of SCHEDULE_FILES.{hint}")


class ScheduleUnfinished(MayflyError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Schedule {name!r} has overlap=skip and an unfinished job: nothing was enqueued.")


class BadDeclaration(MayflyError):
    """A call of schedule() that cannot work."""

    def __init__(self, type_name: str, reason: str) -> None:
        super().__init__(f"schedule({type_name!r}, …): {reason}.")


# --- metrics and alerts -----------------------------------------------------------------------------------


class MetricsMissing(MayflyError):
    def __init__(self) -> None:
        super().__init__("Metrics need prometheus_client: pip install 'mayfly-jobs[metrics]' brings it.")


class TextfileUnwritable(MayflyError):
    def __init__(self, path: object, reason: str) -> None:
        super().__init__(
            f"METRICS_TEXTFILE {path} cannot be written: {reason}. "
            "Make its directory, and let the user that runs the dispatcher write there."
        )


class Undelivered(MayflyError):
    """Somebody who was to be told did not take it."""


class TracingMissing(MayflyError):
    def __init__(self) -> None:
        super().__init__("OTLP_ENDPOINT needs OpenTelemetry: pip install 'mayfly-jobs[otel]' brings it.")


# --- the HTTP API -----------------------------------------------------------------------------------------


class StaleClaim(MayflyError):
    """Whoever pulled a job says something about it that is not his to say any more."""

    def __init__(self, job_id: int) -> None:
        super().__init__(
            f"This claim on job {job_id} does not hold: its lease ran out, it was settled otherwise, or it never "
            "was. Nothing was changed. Drop the job; if it is still to be done, somebody pulls it again."
        )


class BadResult(UsageError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"The result is refused: {reason}.")


class ResultTooLarge(UsageError):
    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"The result has {size:,} bytes, {limit:,} are kept. Store it elsewhere, and say `done` with a reference."
        )


class NothingToDo(MayflyError):
    def __init__(self, verb: str, job_id: int, status: str, held: bool) -> None:
        because = "another job holds its unique key by now" if held else f"it is {status}"
        super().__init__(f"Job {job_id} was left as it is: {because}, and {verb} changes no such job.")


class NotExternal(UsageError):
    def __init__(self, lane: str) -> None:
        super().__init__(
            f"The lane {lane!r} is not marked as external, so Mayfly's own runners work there. Set "
            "LANES__NAME__EXTERNAL=true, or external = true for it in mayfly.toml."
        )


class KeyReused(UsageError):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"Idempotency-Key {_quoted(key)} was used for another request within the last day. "
            "Take a new key for each request, and the same one only to repeat it."
        )


class TokenExists(UsageError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is or was a token {name!r}: `mayfly token list` shows it. Names are not given twice, because the "
            "audit trail knows tokens by them."
        )


class UnknownToken(UsageError):
    def __init__(self, name: str) -> None:
        super().__init__(f"There is no token {name!r} that could be revoked: `mayfly token list` shows all.")


class ConsoleExposed(UsageError):
    def __init__(self, host: str) -> None:
        super().__init__(
            f"CONSOLE_HOST={host} is not this machine's loopback, and tokens would cross the network for all to "
            "read. Put a proxy that speaks TLS before it and set CONSOLE_TLS_PROXY=true, or leave it at 127.0.0.1."
        )


class ConsoleOpen(UsageError):
    def __init__(self) -> None:
        super().__init__(
            "The web console has no password: set CONSOLE_PASSWORD_HASH to what `mayfly password` prints. "
            "With --api-only the HTTP API is served without it."
        )


class CannotListen(MayflyError):
    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"The console cannot listen on {host}, port {port}: {reason}. Is one running already? CONSOLE_HOST and "
            "CONSOLE_PORT name another address."
        )


class ConsoleMissing(UsageError):
    def __init__(self, module: str) -> None:
        super().__init__(
            f"The console needs packages that are not installed (no module {module}). "
            "Run `pip install 'mayfly-jobs[console]'`."
        )
