"""What metrics and alerts need: figures that only grow, whatever is pruned, and who is telling what just now."""

from alembic import op
from sqlalchemy import Column, Integer, String
from sqlalchemy import text as sql

from mayfly.schema.migrations.ddl import Id, JsonText, UtcDateTime, add_columns, create_index, create_table

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_counters()
    add_columns(
        "mayfly_alerts",
        Column("told", String(10)),  # what was told last: firing, recovered
        Column("telling_until", UtcDateTime),  # some host is at it
    )


def create_counters() -> None:
    create_table(
        "mayfly_counters",  # of all jobs whose totals have been added up
        Column("lane", String(64), primary_key=True),
        Column("type", String(64), primary_key=True),
        Column("outcome", String(16), primary_key=True),
        Column("jobs", Id, nullable=False),
        Column("durations", JsonText, nullable=False),
        Column("waits", JsonText, nullable=False),
    )
    # Those that are not added up yet are few: found without a scan.
    create_index("mayfly_totals_writer", "mayfly_totals", "worker_id", "cycle_id")
    create_table(
        "mayfly_hosts",  # of all cycles up to the number of the lock 'counted'
        Column("host", String(64), primary_key=True),
        Column("exit_code", Integer, primary_key=True, autoincrement=False),  # -1: it never ended
        Column("last_at", UtcDateTime, nullable=False),
        *(
            _figure(name)
            for name in ("cycles", "spawned", "successful", "timed_out", "rescued", "repeated", "pruned")
        ),
        _figure("duration_ms"),
    )
    op.execute("DELETE FROM mayfly_locks WHERE name = 'counted'")
    op.execute("INSERT INTO mayfly_locks (name) VALUES ('counted')")


def _figure(name: str) -> Column[int]:
    return Column(name, Id, nullable=False, server_default=sql("0"))
