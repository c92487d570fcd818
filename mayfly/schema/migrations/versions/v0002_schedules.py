"""The table of schedules: how far each was dealt with, and whether somebody paused it."""

from sqlalchemy import Column, String

from mayfly.schema.migrations.ddl import LongText, UtcDateTime, create_table

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "mayfly_schedules",
        Column("name", String(64), primary_key=True),
        Column("rule", LongText, nullable=False),
        Column("dealt_until", UtcDateTime, nullable=False),
        Column("last_due_at", UtcDateTime),
        Column("paused_at", UtcDateTime),
        Column("paused_until", UtcDateTime),
        Column("paused_by", String(64)),
        Column("pause_reason", LongText),
    )
