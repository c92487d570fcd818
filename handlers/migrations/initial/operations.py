"""Effects, cooldowns, sessions, logs, health checks and metrics."""

from sqlalchemy import JSON, CheckConstraint, Column, Double, Integer, SmallInteger, String

from handlers.migrations.ddl import create_index, create_table
from handlers.schema import Id, LongText, UtcTimestamp


def create_tables() -> None:
    create_idempotency()
    create_cooldowns()
    create_sessions()
    create_log_rows()
    create_health()
    create_health_problems()
    create_metric_points()
    create_metric_rollups()


def create_idempotency() -> None:
    create_table(
        "app_idempotency",
        Column("effect_key", String(190), primary_key=True),
        Column("kind", String(32), nullable=False),
        Column("state", String(16), nullable=False),
        Column("job_id", Id, nullable=False),
        Column("claims", Integer, nullable=False),
        Column("provider", String(190)),
        Column("answer", LongText),
        Column("changed_at", UtcTimestamp, nullable=False),
        CheckConstraint("state IN ('open', 'handed over', 'done')", name="app_idempotency_state"),
    )
    create_index("app_idempotency_doubts", "app_idempotency", "state", "changed_at")


def create_cooldowns() -> None:
    create_table(
        "app_cooldowns",
        Column("provider", String(190), primary_key=True),
        Column("until_at", UtcTimestamp, nullable=False),
        Column("reason", LongText, nullable=False),
    )


def create_sessions() -> None:
    create_table(
        "app_sessions",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("person_id", Id, nullable=False),
        Column("token_hash", String(64), nullable=False),
        Column("created_at", UtcTimestamp, nullable=False),
        Column("seen_at", UtcTimestamp, nullable=False),
    )
    create_index("app_sessions_token", "app_sessions", "token_hash", unique=True)
    create_index("app_sessions_seen", "app_sessions", "seen_at")


def create_log_rows() -> None:
    create_table(
        "app_log_rows",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("logged_at", UtcTimestamp, nullable=False),
        Column("level", String(16), nullable=False),
        Column("message", LongText, nullable=False),
    )
    create_index("app_log_rows_time", "app_log_rows", "logged_at")


def create_health() -> None:
    create_table(
        "app_health",
        Column("job_id", Id, primary_key=True, autoincrement=False),
        Column("checked_at", UtcTimestamp, nullable=False),
        Column("host", String(64), nullable=False),
        Column("worst", String(8), nullable=False),
        Column("findings", JSON, nullable=False),
        CheckConstraint("worst IN ('green', 'yellow', 'red')", name="app_health_worst"),
    )
    create_index("app_health_time", "app_health", "checked_at")


def create_health_problems() -> None:
    create_table(
        "app_health_problems",
        Column("subject", String(190), primary_key=True),
        Column("since_at", UtcTimestamp, nullable=False),
        Column("job_id", Id, nullable=False),
        Column("recovered_at", UtcTimestamp),
    )


def create_metric_points() -> None:
    create_table(
        "app_metric_points",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("name", String(64), nullable=False),
        Column("measured_at", UtcTimestamp, nullable=False),
        Column("value", Double, nullable=False),
        Column("counted", SmallInteger, nullable=False, server_default="0"),
    )
    create_index("app_metric_points_due", "app_metric_points", "counted", "id")
    create_index("app_metric_points_time", "app_metric_points", "measured_at")


def create_metric_rollups() -> None:
    create_table(
        "app_metric_rollups",
        Column("span", String(8), primary_key=True),
        Column("name", String(64), primary_key=True),
        Column("begins_at", UtcTimestamp, primary_key=True),
        Column("points", Integer, nullable=False),
        Column("total", Double, nullable=False),
        Column("lowest", Double),
        Column("highest", Double),
        CheckConstraint("span IN ('minute', 'hour', 'day')", name="app_metric_rollups_span"),
    )
    create_index("app_metric_rollups_time", "app_metric_rollups", "span", "begins_at")
