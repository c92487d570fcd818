"""The tables as SQLAlchemy sees them, for tests to look into and to prepare."""

from sqlalchemy import Column, Float, Integer, MetaData, SmallInteger, String, Table

from mayfly.schema.migrations.ddl import Id, JsonText, LongText, UtcDateTime
from mayfly.schema.tables import KEY_LENGTH, NAME_LENGTH

metadata = MetaData()

jobs = Table(
    "mayfly_jobs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("lane", String(NAME_LENGTH)),
    Column("type", String(NAME_LENGTH)),
    Column("payload", JsonText),
    Column("status", String(10)),
    Column("priority", SmallInteger),
    Column("run_at", UtcDateTime),
    Column("attempts", Integer),
    Column("max_attempts", Integer),
    Column("crashes", Integer),
    Column("interruptions", Integer),  # times the guard cut it short unspent
    Column("suspect", SmallInteger),  # 1: its runner died over it, or may have; claimed alone
    Column("claims", Integer),  # the fencing token: only grows
    Column("worker_id", String(NAME_LENGTH)),
    Column("locked_at", UtcDateTime),
    Column("lease_until", UtcDateTime),
    Column("unique_key", String(KEY_LENGTH)),
    Column("group_key", String(KEY_LENGTH)),
    Column("checkpoint", JsonText),
    Column("progress", JsonText),
    Column("result", JsonText),
    Column("last_error", LongText),
    Column("created_at", UtcDateTime),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("duration_ms", Id),
    Column("expires_at", UtcDateTime),
    Column("waiting_for", String(KEY_LENGTH)),  # why it was put off
    Column("cancel_reason", LongText),
    Column("slices", Integer),
    Column("stalled", Integer),
    Column("unique_scope", String(8)),
    Column("unique_until", UtcDateTime),
    Column("forgiven", Integer),  # crashes that changed checkpoints have cleared
    Column("trace_context", String(KEY_LENGTH)),  # W3C traceparent of whoever enqueued it
    Column("parent_id", Id),  # the job whose handler enqueued it, or whose step it follows
)

attempts = Table(
    "mayfly_attempts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("job_id", Id),
    Column("attempt", Integer),
    Column("worker_id", String(NAME_LENGTH)),
    Column("outcome", String(16)),  # failed, timed out, crashed
    Column("error", LongText),
    Column("fingerprint", String(16)),
    Column("finished_at", UtcDateTime),
    Column("duration_ms", Id),
)

runners = Table(
    "mayfly_runners",
    metadata,
    Column("worker_id", String(NAME_LENGTH), primary_key=True),
    Column("cycle_id", Id),
    Column("lane", String(NAME_LENGTH)),
    Column("host", String(NAME_LENGTH)),
    Column("machine", String(NAME_LENGTH)),  # boot and process namespace: where pid means something
    Column("pid", Integer),  # the dispatcher's until the runner has started
    Column("pid_started", Id),  # in clock ticks since boot: a pid alone is reused
    Column("planned_at", UtcDateTime),
    Column("heartbeat_at", UtcDateTime),
    Column("lease_until", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("ending", String(16)),  # ok, error, timeout, crash, stopped, lost
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("jobs_done", Integer),
    Column("jobs_failed", Integer),
    Column("average_ms", Float),
    Column("peak_memory", Id),
    Column("cpu_ms", Id),
)

cycles = Table(
    "mayfly_cycles",
    metadata,
    Column("id", Id, primary_key=True),  # handed out by the planning lock: only grows, over all hosts
    Column("host", String(NAME_LENGTH)),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("exit_code", Integer),
    Column("pending", Integer),
    Column("planned", Integer),
    Column("spawned", Integer),
    Column("successful", Integer),
    Column("failed", Integer),
    Column("timed_out", Integer),
    Column("rescued", Integer),
    Column("repeated", Integer),
    Column("pruned", Integer),
    Column("duration_ms", Id),
    Column("note", LongText),
)

totals = Table(
    "mayfly_totals",
    metadata,
    Column("cycle_id", Id, primary_key=True),
    Column("lane", String(NAME_LENGTH), primary_key=True),
    Column("type", String(NAME_LENGTH), primary_key=True),
    Column("outcome", String(16), primary_key=True),
    Column("worker_id", String(NAME_LENGTH), primary_key=True),  # '' once the cycle has added them up
    Column("jobs", Integer),
    Column("durations", JsonText),  # histograms: see tally.py
    Column("waits", JsonText),
)

counters = Table(
    "mayfly_counters",
    metadata,
    Column("lane", String(NAME_LENGTH), primary_key=True),
    Column("type", String(NAME_LENGTH), primary_key=True),
    Column("outcome", String(16), primary_key=True),
    Column("jobs", Id),
    Column("durations", JsonText),
    Column("waits", JsonText),
)

history = Table(
    "mayfly_history",
    metadata,
    Column("span", Integer, primary_key=True),  # seconds
    Column("begins", Id, primary_key=True),  # milliseconds
    Column("outcome", String(16), primary_key=True),
    Column("jobs", Id),
    Column("durations", JsonText),
    Column("waits", JsonText),
)

hosts = Table(
    "mayfly_hosts",
    metadata,
    Column("host", String(NAME_LENGTH), primary_key=True),
    Column("exit_code", Integer, primary_key=True),  # -1: the cycle never ended
    Column("last_at", UtcDateTime),
    *(
        Column(name, Id)
        for name in (
            *("cycles", "spawned", "successful", "timed_out", "rescued", "repeated", "pruned", "duration_ms"),
        )
    ),
)

lanes = Table(
    "mayfly_lanes",
    metadata,
    Column("lane", String(NAME_LENGTH), primary_key=True),
    Column("passed_over", Integer),  # cycles in a row with work and without a runner
    Column("max_workers", Integer),  # as somebody has set it; NULL: as the settings say
    Column("set_at", UtcDateTime),
    Column("set_by", String(NAME_LENGTH)),
)

schedules = Table(
    "mayfly_schedules",
    metadata,
    Column("name", String(NAME_LENGTH), primary_key=True),
    Column("rule", LongText),  # as it was when the due times below were found
    Column("dealt_until", UtcDateTime),  # every due time up to here was dealt with
    Column("last_due_at", UtcDateTime),  # the last that became a job
    Column("paused_at", UtcDateTime),
    Column("paused_until", UtcDateTime),
    Column("paused_by", String(NAME_LENGTH)),
    Column("pause_reason", LongText),
)

locks = Table(
    "mayfly_locks",
    metadata,
    Column("name", String(NAME_LENGTH), primary_key=True),
    Column("holder", String(NAME_LENGTH)),
    Column("lease_until", UtcDateTime),
    Column("number", Id),  # raised by each who takes the lock
)

pauses = Table(
    "mayfly_pauses",
    metadata,
    Column("kind", String(8), primary_key=True),  # lane, type
    Column("name", String(NAME_LENGTH), primary_key=True),
    Column("paused_at", UtcDateTime),
    Column("paused_until", UtcDateTime),
    Column("paused_by", String(NAME_LENGTH)),
    Column("reason", LongText),
)

limits = Table(
    "mayfly_limits",
    metadata,
    Column("limit_key", String(KEY_LENGTH), primary_key=True),
    Column("span", String(16), primary_key=True),
    Column("most", Integer),
    Column("used", Integer),
    Column("opens_at", UtcDateTime),
)

slots = Table(
    "mayfly_slots",
    metadata,
    Column("limit_key", String(KEY_LENGTH), primary_key=True),
    Column("worker_id", String(NAME_LENGTH), primary_key=True),
    Column("held", Integer),
    Column("lease_until", UtcDateTime),
)

batches = Table(
    "mayfly_batches",
    metadata,
    Column("batch_key", String(KEY_LENGTH), primary_key=True),
    Column("on_complete", JsonText),
    Column("created_at", UtcDateTime),
    Column("sealed_at", UtcDateTime),
    Column("completed_at", UtcDateTime),
    Column("abandoned_at", UtcDateTime),
)

chains = Table(
    "mayfly_chains",
    metadata,
    Column("job_id", Id, primary_key=True),
    Column("previous", JsonText),
    Column("rest", JsonText),
)

audit = Table(
    "mayfly_audit",
    metadata,
    Column("id", Id, primary_key=True),
    Column("done_at", UtcDateTime),
    Column("done_by", String(NAME_LENGTH)),
    Column("via", String(8)),  # terminal, http, page, python
    Column("verb", String(32)),
    Column("subject", LongText),
    Column("jobs", Integer),
    Column("reason", LongText),
)

tokens = Table(
    "mayfly_tokens",
    metadata,
    Column("name", String(NAME_LENGTH), primary_key=True),
    Column("token_hash", String(64)),
    Column("scopes", String(KEY_LENGTH)),
    Column("created_at", UtcDateTime),
    Column("created_by", String(NAME_LENGTH)),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
)

requests = Table(
    "mayfly_requests",
    metadata,
    Column("token_name", String(NAME_LENGTH), primary_key=True),
    Column("idempotency_key", String(KEY_LENGTH), primary_key=True),
    Column("body_hash", String(64)),
    Column("answer", JsonText),
    Column("created_at", UtcDateTime),
)

alerts = Table(
    "mayfly_alerts",
    metadata,
    Column("fingerprint", String(64), primary_key=True),
    Column("kind", String(32)),
    Column("subject", String(KEY_LENGTH)),
    Column("detail", LongText),
    Column("first_at", UtcDateTime),
    Column("last_at", UtcDateTime),
    Column("told_at", UtcDateTime),
    Column("recovered_at", UtcDateTime),
    Column("times", Integer),
    Column("told", String(10)),  # what was told last: firing, recovered
    Column("telling_until", UtcDateTime),  # some host is at it
)
