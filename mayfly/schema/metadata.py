"""THE tables: type, default and meaning of every column. Migrations, tests and docs/reference/tables.md use this.

The core sends plain SQL and imports none of this: importing SQLAlchemy takes longer than an idle cycle.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, Column, Float, Index, Integer, MetaData, SmallInteger, String, Table, text
from sqlalchemy.schema import SchemaItem

from mayfly.schema.column_types import Id, JsonText, LongText, UtcDateTime, is_json_object, is_storable_time, utc_now
from mayfly.schema.tables import HOLDS_UNIQUE_KEY, KEY_LENGTH, NAME_LENGTH, WAITING_LENGTH

metadata = MetaData()
Name, Key = String(NAME_LENGTH), String(KEY_LENGTH)


def _table(name: str, meaning: str, *items: SchemaItem) -> Table:
    """MySQL compares text exactly (utf8mb4_bin); SQLite never reuses the id of a pruned row (AUTOINCREMENT)."""
    counts_up = any(isinstance(each, Column) and each.autoincrement is True for each in items)
    return Table(
        name,
        metadata,
        *items,
        info={"meaning": meaning},
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        sqlite_autoincrement=counts_up,
    )


def _number(name: str, doc: str, default: int = 0, type_: Any = Integer) -> Column[int]:
    return Column(name, type_, nullable=False, server_default=text(str(default)), doc=doc)


def _word(name: str, length: int, default: str, doc: str) -> Column[str]:
    return Column(name, String(length), nullable=False, server_default=default, doc=doc)


def _checked_time(name: str, doc: str) -> Column[datetime]:
    return Column(name, UtcDateTime, CheckConstraint(is_storable_time(name)), doc=doc)


def _where(condition: str) -> dict[str, Any]:
    """For a partial index, on the databases that have them."""
    return {"postgresql_where": text(condition), "sqlite_where": text(condition)}


jobs = _table(
    "mayfly_jobs",
    "One row per job. Public: `INSERT INTO mayfly_jobs (type, payload) VALUES ('noop', '{}')` is a complete enqueue.",
    Column("id", Id, primary_key=True, autoincrement=True, doc="Id of the job; never reused."),
    _word("lane", NAME_LENGTH, "default", "Lane in which the job waits."),
    Column("type", Name, nullable=False, doc="Name of the handler that runs the job."),
    Column("payload", JsonText, nullable=False, doc="Arguments of the handler: a JSON object."),
    _word(
        "status",
        10,
        "pending",
        "`pending`, `processing`, `done`, `dead` or `cancelled`; a retry is `pending` with a later `run_at`.",
    ),
    _number("priority", "0 high, 1 normal, 2 low.", 1, SmallInteger),
    Column("run_at", UtcDateTime, nullable=False, server_default=utc_now(), doc="It is not claimed before this."),
    _number("attempts", "Attempts used, including the running one."),
    _number("max_attempts", "After this many failed attempts the job is dead.", 5),
    _number("crashes", "Times its process died while running it, since the checkpoint last changed."),
    _number("interruptions", "Times the guard interrupted it without using an attempt."),
    _number("releases", "Releases in a row because the database or the dispatcher failed while it ran."),
    _number("suspect", "1 if its runner died while running it, or may have: it is claimed alone.", 0, SmallInteger),
    _number("claims", "Fencing token: incremented by every claim, part of the WHERE clause of every settle."),
    Column("worker_id", Name, doc="Runner or external worker that claimed it; kept when the job has ended."),
    Column("locked_at", UtcDateTime, doc="Time of the claim."),
    Column("lease_until", UtcDateTime, doc="The claim is valid until this; then another host may rescue the job."),
    Column("unique_key", Key, doc="Only one job at a time holds this key; `unique_scope` defines for how long."),
    Column("group_key", Key, doc="Batch, chain, schedule or own group to which the job belongs."),
    Column("checkpoint", JsonText, doc="What `job.checkpoint()` stored last; the next run continues from it."),
    Column("progress", JsonText, doc="What `job.progress()` stored last: done, total and a text."),
    Column("result", JsonText, doc="What the handler returned."),
    Column("last_error", LongText, doc="Message and traceback of the last failure, or why the job was cancelled."),
    Column("created_at", UtcDateTime, nullable=False, server_default=utc_now(), doc="Time of the enqueue."),
    Column("started_at", UtcDateTime, doc="Start of the last run that was settled."),
    Column("finished_at", UtcDateTime, doc="When the job became done, dead or cancelled."),
    Column("duration_ms", Id, doc="How long the last run took."),
    _checked_time("expires_at", "A job that has not started by then is cancelled."),
    Column(
        "waiting_for",
        String(WAITING_LENGTH),
        doc="Why `run_at` was postponed: a limit, a pause, a Snooze, no handler.",
    ),
    Column("unknown_since", UtcDateTime, doc="When a runner first had no handler for its type."),
    Column("cancel_reason", LongText, doc="Set when cancellation was requested: the reason."),
    _number("slices", "Runs that ended at a checkpoint because their window was over."),
    _number("stalled", "Slices in a row without a changed checkpoint; -1 once the current run has changed it."),
    _word(
        "unique_scope",
        8,
        "live",
        "How long `unique_key` is held: `live` until done, `pending` until claimed, `time` until `unique_until`.",
    ),
    _checked_time("unique_until", "End of a `unique_scope` of `time`."),
    Column("row_worker_id", Name, doc="For a job of a source: the worker id that its row has."),
    _number("forgiven", "Crashes since the last slice that a changed checkpoint has reset to 0 in `crashes`."),
    Column("trace_context", Key, doc="W3C traceparent of the span in which the job was enqueued."),
    Column("parent_id", Id, doc="Job whose handler enqueued this one, or the step before it in a chain."),
    CheckConstraint("lane <> ''", name="mayfly_jobs_lane"),
    CheckConstraint("type <> ''", name="mayfly_jobs_type"),
    CheckConstraint("status IN ('pending', 'processing', 'done', 'dead', 'cancelled')", name="mayfly_jobs_status"),
    CheckConstraint("priority IN (0, 1, 2)", name="mayfly_jobs_priority"),
    CheckConstraint("attempts >= 0 AND max_attempts >= 1", name="mayfly_jobs_attempts"),
    # Until the first claim only: databases evaluate a check at every UPDATE, and would parse the payload each time.
    CheckConstraint(is_json_object("payload", unless="claims > 0"), name="mayfly_jobs_payload"),
    CheckConstraint(is_storable_time("run_at"), name="mayfly_jobs_run_at"),
    # Equalities first, then the range in the order of the claim: a claim reads only the rows that it takes, however
    # many delayed and finished jobs there are.
    Index("mayfly_jobs_claim", "lane", "status", "priority", "run_at", "id"),
    Index("mayfly_jobs_group", "group_key", "id", **_where("group_key IS NOT NULL")),
    Index("mayfly_jobs_parent", "parent_id", "id", **_where("parent_id IS NOT NULL")),
    # MySQL has no partial indexes: there a generated column `live_key` has the key of the rows that hold it.
    Index(
        "mayfly_jobs_unique",
        "unique_key",
        unique=True,
        info={"generated_column": ("live_key", HOLDS_UNIQUE_KEY)},
        **_where(f"unique_key IS NOT NULL AND {HOLDS_UNIQUE_KEY}"),
    ),
)

attempts = _table(
    "mayfly_attempts",
    "One row per attempt that failed, timed out or crashed, and per slice of a long job; in lanes with KEEP_SUCCESSES"
    " also per successful one.",
    Column("id", Id, primary_key=True, autoincrement=True, doc="Order in which the attempts ended."),
    Column("job_id", Id, nullable=False, doc="The job."),
    Column("attempt", Integer, nullable=False, doc="Number of the attempt, from 1."),
    Column("worker_id", Name, nullable=False, doc="Runner or external worker that ran it."),
    Column(
        "outcome", String(16), nullable=False, doc="`failed`, `timed out`, `crashed`, `sliced`, `released` or `done`."
    ),
    Column(
        "error",
        LongText,
        nullable=False,
        doc="Message and traceback; empty for `sliced` and `done`, and most `released`.",
    ),
    Column("fingerprint", String(16), nullable=False, doc="Hash of the message without its data."),
    Column("finished_at", UtcDateTime, nullable=False, doc="When it was settled."),
    Column("duration_ms", Id, doc="How long it ran; NULL if unknown."),
    Index("mayfly_attempts_job", "job_id"),
    Index("mayfly_attempts_fingerprint", "fingerprint", "finished_at"),
    # By outcome: successes may be many more than failures, and must not slow down a search for these.
    Index("mayfly_attempts_age", "outcome", "finished_at"),
)

cycles = _table(
    "mayfly_cycles",
    "One row per dispatcher run that had something to do.",
    Column(
        "id",
        Id,
        primary_key=True,
        autoincrement=False,
        doc="Millisecond in which the cycle began, from the planning lock: unique and increasing over all hosts.",
    ),
    Column("host", Name, nullable=False, doc="Host of the dispatcher."),
    _word("schema_version", 4, "0001", "Newest version of the tables that the dispatcher's code knows."),
    Column("started_at", UtcDateTime, nullable=False, doc="Start of the cycle."),
    Column("finished_at", UtcDateTime, doc="End of the cycle; NULL if it runs or was killed."),
    Column("exit_code", Integer, doc="Exit code of the dispatcher."),
    _number("pending", "Due jobs counted at the start, up to the cap of each lane."),
    _number("planned", "Runners planned."),
    _number("spawned", "Runners started."),
    _number("successful", "Runners that exited with 0."),
    _number("failed", "Runners that exited with an error or crashed."),
    _number("timed_out", "Runners that timed out."),
    _number("rescued", "Jobs taken over from dead runners."),
    _number("repeated", "Transactions repeated after a deadlock or a lost connection."),
    _number("pruned", "Rows deleted because they were old."),
    Column("duration_ms", Id, doc="How long the cycle took."),
    Column("note", LongText, doc="Why the cycle failed."),
    Column("forgotten_at", UtcDateTime, doc="When an operator forgot the host; a later cycle makes it known again."),
    Index("mayfly_cycles_age", "started_at"),
)

totals = _table(
    "mayfly_totals",
    "Outcomes counted per cycle, lane, type and outcome: the source of charts.",
    Column("cycle_id", Id, primary_key=True, autoincrement=False, doc="Cycle under which the jobs are counted."),
    Column("lane", Name, primary_key=True, doc="Lane."),
    Column("type", Name, primary_key=True, doc="Job type."),
    Column("outcome", String(16), primary_key=True, doc="`done`, `failed`, `timed out`, `dead`, … or `lease lost`."),
    Column("worker_id", Name, primary_key=True, doc="Process that counted; '' once the cycle has added them up."),
    Column("jobs", Integer, nullable=False, doc="Number of jobs."),
    Column("durations", JsonText, nullable=False, doc="Histogram of run times: upper bound in ms → jobs."),
    Column("waits", JsonText, nullable=False, doc="Histogram of the times from `run_at` to the start, likewise."),
    Index("mayfly_totals_writer", "worker_id", "cycle_id"),  # rows that are not added up yet are few
)

runners = _table(
    "mayfly_runners",
    "One row per runner, written when it is planned. Its figures are renewed every two seconds while it runs.",
    Column("worker_id", Name, primary_key=True, doc="Id of the runner; never reused."),
    Column("cycle_id", Id, nullable=False, doc="Cycle that planned it."),
    Column("lane", Name, nullable=False, doc="Lane it works in."),
    Column("earlier_lanes", JsonText, doc="Lanes it served before, the last 100; NULL if there are none."),
    Column("host", Name, nullable=False, doc="Host it runs on; its launcher until it has started."),
    Column("machine", Name, nullable=False, doc="Boot and process namespace in which `pid` is valid."),
    Column("pid", Integer, nullable=False, doc="Process id; the dispatcher's until the runner has started."),
    Column("pid_started", Id, nullable=False, doc="Start of the process in clock ticks since boot; pids are reused."),
    Column("planned_at", UtcDateTime, nullable=False, doc="When it was planned."),
    Column("heartbeat_at", UtcDateTime, doc="Last heartbeat; NULL until it has started."),
    Column("lease_until", UtcDateTime, nullable=False, doc="Another host considers it dead after this."),
    Column("finished_at", UtcDateTime, doc="When its end was recorded; NULL while it runs."),
    Column(
        "ending",
        String(16),
        doc="`ok`, `error`, `timeout`, `crash`, `lost`, `not started`, `refused` or `cancelled`.",
    ),
    Column("exit_code", Integer, doc="Exit code, if it exited."),
    Column("signal", Integer, doc="Signal that killed it, if one did."),
    _number("jobs_done", "Jobs it finished."),
    _number("jobs_failed", "Jobs that failed in it."),
    Column("average_ms", Float, doc="Average run time of its jobs."),
    Column("peak_memory", Id, doc="Peak memory in bytes."),
    Column("cpu_ms", Id, doc="CPU time used."),
    Column("uptime_ms", Id, doc="How long its process has lived."),
    Column(
        "running", JsonText, doc="Jobs that it runs: id → start; NULL before the first figures and after the end."
    ),
    Column(
        "launcher", Name, doc="Launcher that starts it on another machine; NULL: a runner of a dispatcher's host."
    ),
    Column(
        "engine_step", String(8), doc="What to do next in the engine: `submit`, `find`, `watch`, `cancel`, `explain`."
    ),
    Column("external_id", Name, doc="Its id in the engine."),
    Column("start_by", UtcDateTime, doc="It may take over this row until then."),
    Column("stop_requested_at", UtcDateTime, doc="When an operator has requested its stop."),
    Column("log_file", LongText, doc="Where the engine writes what it prints."),
    Column("cause", LongText, doc="Why it ended or was not started, by its engine or launcher."),
    Column("output", LongText, doc="The last 64 KiB that it has printed, if it failed."),
    Index("mayfly_runners_live", "finished_at", "lane"),  # live runners are those with finished_at NULL: a handful
)

lanes = _table(
    "mayfly_lanes",
    "State of a lane that is kept between cycles.",
    Column("lane", Name, primary_key=True, doc="Lane."),
    _number("passed_over", "Cycles in a row in which it had work and got no runner."),
    Column("max_workers", Integer, doc="MAX_WORKERS as set by an operator; NULL: the setting applies."),
    Column("set_at", UtcDateTime, doc="When it was set."),
    Column("set_by", Name, doc="Operator who set it."),
)

locks = _table(
    "mayfly_locks",
    "Fleet-wide locks: rows with a lease. `plan` is held while a dispatcher plans; `counted` guards mayfly_hosts.",
    Column("name", Name, primary_key=True, doc="Name of the lock."),
    Column("holder", Name, doc="Host and process that holds it."),
    Column("lease_until", UtcDateTime, doc="The lock is free after this."),
    _number("number", "`plan`: the newest cycle id; `counted`: the last cycle added to mayfly_hosts.", 0, Id),
)

schedules = _table(
    "mayfly_schedules",
    "How far each schedule has been fired, and its pause.",
    Column("name", Name, primary_key=True, doc="Name of the schedule."),
    Column("rule", LongText, nullable=False, doc="Its rule when the times below were computed."),
    Column("dealt_until", UtcDateTime, nullable=False, doc="All due times up to this were handled."),
    Column("last_due_at", UtcDateTime, doc="Last due time that became a job."),
    Column("paused_at", UtcDateTime, doc="When it was paused; NULL if it is not."),
    Column("paused_until", UtcDateTime, doc="End of the pause; NULL: until resumed."),
    Column("paused_by", Name, doc="Operator who paused it."),
    Column("pause_reason", LongText, doc="Reason of the pause."),
)

pauses = _table(
    "mayfly_pauses",
    "Lanes and job types that are paused.",
    Column("kind", String(8), primary_key=True, doc="`lane` or `type`."),
    Column("name", Name, primary_key=True, doc="Name of the lane or type."),
    Column("paused_at", UtcDateTime, nullable=False, doc="When it was paused."),
    Column("paused_until", UtcDateTime, doc="End of the pause; NULL: until resumed."),
    Column("paused_by", Name, doc="Operator who paused it."),
    Column("reason", LongText, doc="Reason of the pause."),
    CheckConstraint("kind IN ('lane', 'type')", name="mayfly_pauses_kind"),
)

limits = _table(
    "mayfly_limits",
    "Windows of rate and concurrency limits that are in use.",
    Column("limit_key", Key, primary_key=True, doc="Key of the limit, e.g. `smtp:7`."),
    Column("span", String(16), primary_key=True, doc="`at once` for concurrency, or the window: `minute`, `day`, …"),
    Column("most", Integer, nullable=False, doc="Units allowed per window, or at once."),
    _number("used", "Units used in the window that ends at `opens_at`."),
    Column("opens_at", UtcDateTime, doc="End of the current window."),
    Index("mayfly_limits_age", "opens_at"),
)

slots = _table(
    "mayfly_slots",
    "Slots of concurrency limits that are held.",
    Column("limit_key", Key, primary_key=True, doc="Key of the limit."),
    Column("worker_id", Name, primary_key=True, doc="Runner that holds them."),
    Column("held", Integer, nullable=False, doc="Number of slots."),
    Column("lease_until", UtcDateTime, nullable=False, doc="Free after this if the holder has no runner row."),
)

batches = _table(
    "mayfly_batches",
    "One row per batch. It is complete when no job of its group is live: there is no counter to contend for.",
    Column("batch_key", Key, primary_key=True, doc="Name of the batch: `group_key` of its jobs."),
    Column("on_complete", JsonText, doc="Callback job to enqueue at completion."),
    Column("created_at", UtcDateTime, nullable=False, doc="When it was opened."),
    Column("sealed_at", UtcDateTime, doc="From then on only its own jobs may add jobs to it."),
    Column("completed_at", UtcDateTime, doc="When its last job ended, or it was abandoned."),
    Column("abandoned_at", UtcDateTime, doc="When it was abandoned; the callback is not enqueued."),
    Index("mayfly_batches_age", "completed_at"),
)

chains = _table(
    "mayfly_chains",
    "One row per current step of a chain.",
    Column("job_id", Id, primary_key=True, autoincrement=False, doc="Job of the step."),
    Column("previous", JsonText, doc="Result of the step before."),
    Column("rest", JsonText, nullable=False, doc="Steps that follow."),
)

audit = _table(
    "mayfly_audit",
    "Manual actions of operators.",
    Column("id", Id, primary_key=True, autoincrement=True, doc="Order of the actions."),
    Column("done_at", UtcDateTime, nullable=False, doc="When."),
    Column("done_by", Name, nullable=False, doc="Operator or token."),
    Column("via", String(8), nullable=False, doc="Interface: `terminal`, `http`, `page` or `python`."),
    Column("verb", String(32), nullable=False, doc="Action, e.g. `retry`."),
    Column("subject", LongText, nullable=False, doc="What it was applied to, as requested."),
    Column("jobs", Integer, doc="Number of jobs changed; NULL for actions that change no jobs."),
    Column("reason", LongText, doc="Reason given."),
    CheckConstraint("via IN ('terminal', 'http', 'page', 'python')", name="mayfly_audit_via"),
    Index("mayfly_audit_age", "done_at"),
)

tokens = _table(
    "mayfly_tokens",
    "Access tokens of the HTTP API.",
    Column("name", Name, primary_key=True, doc="Name of the token."),
    Column("token_hash", String(64), nullable=False, doc="SHA-256 of the token; the token itself is not stored."),
    Column("scopes", Key, nullable=False, doc="What it allows."),
    Column("created_at", UtcDateTime, nullable=False, doc="When it was created."),
    Column("created_by", Name, nullable=False, doc="Operator who created it."),
    Column("expires_at", UtcDateTime, doc="It is refused after this."),
    Column("revoked_at", UtcDateTime, doc="When it was revoked."),
    Column("last_used_at", UtcDateTime, doc="Last use, to the minute or so."),
    Index("mayfly_tokens_hash", "token_hash", unique=True),
)

logouts = _table(
    "mayfly_logouts",
    "Sessions of the web console that were ended by logout, so that copies of their cookie are refused.",
    Column("session_id", Name, primary_key=True, doc="Random id in the cookie; useless without its signature."),
    Column(
        "ended_at", UtcDateTime, nullable=False, doc="When. Deleted by a later logout, after the longest session."
    ),
)

requests = _table(
    "mayfly_requests",
    "HTTP requests with an Idempotency-Key, and their answers.",
    Column("token_name", Name, primary_key=True, doc="Token that sent it."),
    Column("idempotency_key", Key, primary_key=True, doc="Key of the request."),
    Column("body_hash", String(64), nullable=False, doc="SHA-256 of the body."),
    Column("answer", JsonText, doc="Stored answer; NULL while the request is processed."),
    Column("created_at", UtcDateTime, nullable=False, doc="When it was received."),
    Index("mayfly_requests_age", "created_at"),
)

alerts = _table(
    "mayfly_alerts",
    "One row per alert that fires or has fired.",
    Column("fingerprint", String(64), primary_key=True, doc="Hash of kind and subject."),
    Column("kind", String(32), nullable=False, doc="Kind of the alert."),
    Column("subject", Key, nullable=False, doc="What it is about: a lane, a host, a job type."),
    Column("detail", LongText, doc="The sentence that is sent."),
    Column("first_at", UtcDateTime, nullable=False, doc="When it began."),
    Column("last_at", UtcDateTime, nullable=False, doc="When it was last detected."),
    Column("told_at", UtcDateTime, doc="When it was last sent."),
    Column("recovered_at", UtcDateTime, doc="When it was no longer detected."),
    _number("times", "Cycles that have detected it.", 1),
    Column("told", String(10), doc="What was sent last: `firing` or `recovered`."),
    Column("telling_until", UtcDateTime, doc="A host is sending it, until this at most."),
)

counters = _table(
    "mayfly_counters",
    "All jobs whose totals have been added up, never pruned: the source of Prometheus counters.",
    Column("lane", Name, primary_key=True, doc="Lane."),
    Column("type", Name, primary_key=True, doc="Job type."),
    Column("outcome", String(16), primary_key=True, doc="As in mayfly_totals."),
    Column("jobs", Id, nullable=False, doc="Number of jobs."),
    Column("durations", JsonText, nullable=False, doc="Histogram of run times."),
    Column("waits", JsonText, nullable=False, doc="Histogram of waits."),
)

hosts = _table(
    "mayfly_hosts",
    "Sums over all cycles of a known host with the same exit code, up to the number of the lock `counted`.",
    Column("host", Name, primary_key=True, doc="Host."),
    Column("exit_code", Integer, primary_key=True, autoincrement=False, doc="Exit code; -1: the cycle never ended."),
    Column("last_at", UtcDateTime, nullable=False, doc="Start of the newest of these cycles."),
    _number("cycles", "Number of cycles.", 0, Id),
    _number("spawned", "As in mayfly_cycles, summed.", 0, Id),
    _number("successful", "As in mayfly_cycles, summed.", 0, Id),
    _number("timed_out", "As in mayfly_cycles, summed.", 0, Id),
    _number("rescued", "As in mayfly_cycles, summed.", 0, Id),
    _number("repeated", "As in mayfly_cycles, summed.", 0, Id),
    _number("pruned", "As in mayfly_cycles, summed.", 0, Id),
    _number("duration_ms", "As in mayfly_cycles, summed.", 0, Id),
)

history = _table(
    "mayfly_history",
    "Totals of all lanes and types per interval of time: the source of charts of days and weeks.",
    Column("span", Integer, primary_key=True, autoincrement=False, doc="Length of the interval in seconds."),
    Column("begins", Id, primary_key=True, autoincrement=False, doc="Start of the interval, in ms since 1970."),
    Column("outcome", String(16), primary_key=True, doc="As in mayfly_totals, or `cycle` for dispatcher runs."),
    Column("jobs", Id, nullable=False, doc="Number of jobs or cycles."),
    Column("durations", JsonText, nullable=False, doc="Histogram of run times."),
    Column("waits", JsonText, nullable=False, doc="Histogram of waits."),
)
