"""What operators and other programs need: audit, lanes set at run time, tokens, alerts, trace context."""

from sqlalchemy import CheckConstraint, Column, Integer, String
from sqlalchemy import text as sql

from mayfly.schema.migrations.ddl import Id, JsonText, LongText, UtcDateTime, add_columns, create_index, create_table

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_columns("mayfly_jobs", Column("trace_context", String(190)))  # W3C traceparent of whoever enqueued it
    add_columns(
        "mayfly_lanes",
        Column("max_workers", Integer),  # as somebody has set it; NULL: as the settings say
        Column("set_at", UtcDateTime),
        Column("set_by", String(64)),
    )
    create_audit()
    create_access()
    create_alerts()


def create_audit() -> None:
    create_table(
        "mayfly_audit",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("done_at", UtcDateTime, nullable=False),
        Column("done_by", String(64), nullable=False),
        Column("via", String(8), nullable=False),
        Column("verb", String(32), nullable=False),
        Column("subject", LongText, nullable=False),  # what it was done to, as it was asked for
        Column("jobs", Integer),  # how many were changed; NULL where none could be
        Column("reason", LongText),
        CheckConstraint("via IN ('terminal', 'http', 'page', 'python')", name="mayfly_audit_via"),
    )
    create_index("mayfly_audit_age", "mayfly_audit", "done_at")


def create_access() -> None:
    create_table(
        "mayfly_tokens",
        Column("name", String(64), primary_key=True),
        Column("token_hash", String(64), nullable=False),
        Column("scopes", String(190), nullable=False),
        Column("created_at", UtcDateTime, nullable=False),
        Column("created_by", String(64), nullable=False),
        Column("expires_at", UtcDateTime),
        Column("revoked_at", UtcDateTime),
        Column("last_used_at", UtcDateTime),
    )
    create_index("mayfly_tokens_hash", "mayfly_tokens", "token_hash", unique=True)
    create_table(
        "mayfly_requests",
        Column("token_name", String(64), primary_key=True),
        Column("idempotency_key", String(190), primary_key=True),
        Column("body_hash", String(64), nullable=False),
        Column("answer", JsonText),  # NULL while it is being found
        Column("created_at", UtcDateTime, nullable=False),
    )
    create_index("mayfly_requests_age", "mayfly_requests", "created_at")


def create_alerts() -> None:
    create_table(
        "mayfly_alerts",
        Column("fingerprint", String(64), primary_key=True),
        Column("kind", String(32), nullable=False),
        Column("subject", String(190), nullable=False),
        Column("detail", LongText),
        Column("first_at", UtcDateTime, nullable=False),
        Column("last_at", UtcDateTime, nullable=False),
        Column("told_at", UtcDateTime),
        Column("recovered_at", UtcDateTime),
        Column("times", Integer, nullable=False, server_default=sql("1")),
    )
