"""What pages show: figures by spans of time, so that a month of totals need not be read for one, and parents."""

from sqlalchemy import Column, Integer, String

from mayfly.schema.migrations.ddl import Id, JsonText, add_columns, create_index, create_table

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_columns("mayfly_jobs", Column("parent_id", Id))  # the job whose handler enqueued it, or whose step it follows
    create_index("mayfly_jobs_parent", "mayfly_jobs", "parent_id", "id", where="parent_id IS NOT NULL")
    create_table(
        "mayfly_history",  # of what has been added up, as mayfly_counters is
        Column("span", Integer, primary_key=True, autoincrement=False),  # seconds
        Column("begins", Id, primary_key=True, autoincrement=False),  # milliseconds, as the numbers of cycles are
        Column("outcome", String(16), primary_key=True),  # or 'cycle'
        Column("jobs", Id, nullable=False),
        Column("durations", JsonText, nullable=False),
        Column("waits", JsonText, nullable=False),
    )
