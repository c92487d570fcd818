"""The tables of one minute: jobs, attempts, runners, cycles, totals, lanes, locks."""

from alembic import op
from sqlalchemy import CheckConstraint, Column, Float, Integer, SmallInteger, String
from sqlalchemy import text as sql

from mayfly.schema.migrations.ddl import (
    Id,
    JsonText,
    LongText,
    UtcDateTime,
    create_index,
    create_live_key,
    create_table,
    json_object_check,
    live_key_columns,
    time_check,
    utc_now,
)

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

LIVE = "status IN ('pending', 'processing')"


def upgrade() -> None:
    create_jobs()
    create_history()
    create_fleet()


def create_jobs() -> None:
    create_table(
        "mayfly_jobs",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("lane", String(64), nullable=False, server_default="default"),
        Column("type", String(64), nullable=False),
        Column("payload", JsonText, nullable=False),
        Column("status", String(10), nullable=False, server_default="pending"),
        Column("priority", SmallInteger, nullable=False, server_default=sql("1")),
        Column("run_at", UtcDateTime, nullable=False, server_default=utc_now()),
        Column("attempts", Integer, nullable=False, server_default=sql("0")),
        Column("max_attempts", Integer, nullable=False, server_default=sql("5")),
        Column("crashes", Integer, nullable=False, server_default=sql("0")),
        Column("interruptions", Integer, nullable=False, server_default=sql("0")),
        Column("suspect", SmallInteger, nullable=False, server_default=sql("0")),
        Column("claims", Integer, nullable=False, server_default=sql("0")),
        Column("worker_id", String(64)),
        Column("locked_at", UtcDateTime),
        Column("lease_until", UtcDateTime),
        Column("unique_key", String(190)),
        Column("group_key", String(190)),
        Column("checkpoint", JsonText),
        Column("progress", JsonText),
        Column("result", JsonText),
        Column("last_error", LongText),
        Column("created_at", UtcDateTime, nullable=False, server_default=utc_now()),
        Column("started_at", UtcDateTime),
        Column("finished_at", UtcDateTime),
        Column("duration_ms", Id),
        *live_key_columns(LIVE),
        CheckConstraint("lane <> ''", name="mayfly_jobs_lane"),
        CheckConstraint("type <> ''", name="mayfly_jobs_type"),
        CheckConstraint(
            "status IN ('pending', 'processing', 'done', 'dead', 'cancelled')", name="mayfly_jobs_status"
        ),
        CheckConstraint("priority IN (0, 1, 2)", name="mayfly_jobs_priority"),
        CheckConstraint("attempts >= 0 AND max_attempts >= 1", name="mayfly_jobs_attempts"),
        CheckConstraint(json_object_check(op.get_context().dialect, "payload"), name="mayfly_jobs_payload"),
        CheckConstraint(time_check(op.get_context().dialect, "run_at"), name="mayfly_jobs_run_at"),
    )
    # Equalities first, then the range in the order in which jobs are taken: a claim reads what it takes and
    # nothing else, however many delayed and finished jobs lie around it.
    create_index("mayfly_jobs_claim", "mayfly_jobs", "lane", "status", "priority", "run_at", "id")
    create_index("mayfly_jobs_group", "mayfly_jobs", "group_key", where="group_key IS NOT NULL")
    create_live_key("mayfly_jobs", LIVE)


def create_history() -> None:
    create_table(
        "mayfly_attempts",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("job_id", Id, nullable=False),
        Column("attempt", Integer, nullable=False),
        Column("worker_id", String(64), nullable=False),
        Column("outcome", String(16), nullable=False),
        Column("error", LongText, nullable=False),
        Column("fingerprint", String(16), nullable=False),
        Column("finished_at", UtcDateTime, nullable=False),
        Column("duration_ms", Id),
    )
    create_index("mayfly_attempts_job", "mayfly_attempts", "job_id")
    create_index("mayfly_attempts_fingerprint", "mayfly_attempts", "fingerprint", "finished_at")
    create_index("mayfly_attempts_age", "mayfly_attempts", "finished_at")
    create_table(
        "mayfly_cycles",
        Column("id", Id, primary_key=True, autoincrement=False),
        Column("host", String(64), nullable=False),
        Column("started_at", UtcDateTime, nullable=False),
        Column("finished_at", UtcDateTime),
        Column("exit_code", Integer),
        Column("pending", Integer, nullable=False, server_default=sql("0")),
        Column("planned", Integer, nullable=False, server_default=sql("0")),
        Column("spawned", Integer, nullable=False, server_default=sql("0")),
        Column("successful", Integer, nullable=False, server_default=sql("0")),
        Column("failed", Integer, nullable=False, server_default=sql("0")),
        Column("timed_out", Integer, nullable=False, server_default=sql("0")),
        Column("rescued", Integer, nullable=False, server_default=sql("0")),
        Column("repeated", Integer, nullable=False, server_default=sql("0")),
        Column("pruned", Integer, nullable=False, server_default=sql("0")),
        Column("duration_ms", Id),
        Column("note", LongText),
    )
    create_index("mayfly_cycles_age", "mayfly_cycles", "started_at")
    create_table(
        "mayfly_totals",
        Column("cycle_id", Id, primary_key=True, autoincrement=False),
        Column("lane", String(64), primary_key=True),
        Column("type", String(64), primary_key=True),
        Column("outcome", String(16), primary_key=True),
        Column("worker_id", String(64), primary_key=True),
        Column("jobs", Integer, nullable=False),
        Column("durations", JsonText, nullable=False),
        Column("waits", JsonText, nullable=False),
    )


def create_fleet() -> None:
    create_table(
        "mayfly_runners",
        Column("worker_id", String(64), primary_key=True),
        Column("cycle_id", Id, nullable=False),
        Column("lane", String(64), nullable=False),
        Column("host", String(64), nullable=False),
        Column("machine", String(64), nullable=False),
        Column("pid", Integer, nullable=False),
        Column("pid_started", Id, nullable=False),
        Column("planned_at", UtcDateTime, nullable=False),
        Column("heartbeat_at", UtcDateTime),
        Column("lease_until", UtcDateTime, nullable=False),
        Column("finished_at", UtcDateTime),
        Column("ending", String(16)),
        Column("exit_code", Integer),
        Column("signal", Integer),
        Column("jobs_done", Integer, nullable=False, server_default=sql("0")),
        Column("jobs_failed", Integer, nullable=False, server_default=sql("0")),
        Column("average_ms", Float),
        Column("peak_memory", Id),
        Column("cpu_ms", Id),
    )
    # Live runners are those with finished_at NULL: a handful, found without a scan.
    create_index("mayfly_runners_live", "mayfly_runners", "finished_at", "lane")
    create_table(
        "mayfly_lanes",
        Column("lane", String(64), primary_key=True),
        Column("passed_over", Integer, nullable=False, server_default=sql("0")),
    )
    locks = create_table(
        "mayfly_locks",
        Column("name", String(64), primary_key=True),
        Column("holder", String(64)),
        Column("lease_until", UtcDateTime),
        Column("number", Id, nullable=False, server_default=sql("0")),
    )
    op.execute(locks.delete().where(locks.c.name == "plan"))
    op.execute(locks.insert().values(name="plan"))
