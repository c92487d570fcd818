"""The tables of maintenance jobs: sessions, log rows, metric points and their rollups, health checks."""

from sqlalchemy import JSON, Column, Double, Integer, SmallInteger, String, Table

from handlers.schema import Id, LongText, UtcTimestamp, metadata

sessions = Table(
    "app_sessions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("person_id", Id, nullable=False),
    Column("token_hash", String(64), nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("seen_at", UtcTimestamp, nullable=False),  # last use
)

log_rows = Table(
    "app_log_rows",
    metadata,
    Column("id", Id, primary_key=True),
    Column("logged_at", UtcTimestamp, nullable=False),
    Column("level", String(16), nullable=False),
    Column("message", LongText, nullable=False),
)

metric_points = Table(
    "app_metric_points",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String(64), nullable=False),
    Column("measured_at", UtcTimestamp, nullable=False),
    Column("value", Double, nullable=False),
    Column("counted", SmallInteger, nullable=False),  # 1: included in the rollups
)

metric_rollups = Table(
    "app_metric_rollups",
    metadata,
    Column("span", String(8), primary_key=True),  # minute, hour or day
    Column("name", String(64), primary_key=True),
    Column("begins_at", UtcTimestamp, primary_key=True),
    Column("points", Integer, nullable=False),
    Column("total", Double, nullable=False),
    Column("lowest", Double),
    Column("highest", Double),
)

health_problems = Table(  # red findings; each was reported once
    "app_health_problems",
    metadata,
    Column("subject", String(190), primary_key=True),
    Column("since_at", UtcTimestamp, nullable=False),
    Column("job_id", Id, nullable=False),  # the job that reported it
    Column("recovered_at", UtcTimestamp),
)

health_checks = Table(
    "app_health",
    metadata,
    Column("job_id", Id, primary_key=True, autoincrement=False),  # a repeated check finds its row
    Column("checked_at", UtcTimestamp, nullable=False),
    Column("host", String(64), nullable=False),
    Column("worst", String(8), nullable=False),
    Column("findings", JSON, nullable=False),
)
