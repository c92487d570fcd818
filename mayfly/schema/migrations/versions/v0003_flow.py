"""Flow and time: scopes of unique keys, expiry, pauses, limits, slices, cancelling, batches and chains."""

from alembic import op
from sqlalchemy import CheckConstraint, Column, Integer, String
from sqlalchemy import text as sql

from mayfly.schema.migrations.ddl import (
    Id,
    JsonText,
    LongText,
    UtcDateTime,
    add_columns,
    create_index,
    create_table,
    renew_live_key,
    replace_index,
    time_check,
)

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Written in mayfly/queue/unique.py too, and the two must be the same: a partial index is matched by its words.
HELD = (
    "(unique_scope = 'live' AND status IN ('pending', 'processing')"
    " OR unique_scope = 'pending' AND status = 'pending' AND claims = 0"
    " OR unique_scope = 'time')"
)


def upgrade() -> None:
    widen_jobs()
    renew_live_key("mayfly_jobs", HELD)
    create_pauses()
    create_limits()
    create_batches()


def widen_jobs() -> None:
    """What most jobs do not have is NULL, and costs a claim nothing: see the marker in mayfly/queue/claim.py."""
    add_columns(
        "mayfly_jobs",
        Column("expires_at", UtcDateTime, checked("expires_at")),  # not started by then: cancelled
        Column("waiting_for", String(190)),  # why it was put off: a limit, a pause
        Column("cancel_reason", LongText),  # somebody wants it to end, and why
        Column("slices", Integer, nullable=False, server_default=sql("0")),
        Column(
            "stalled", Integer, nullable=False, server_default=sql("0")
        ),  # slices in a row without a changed checkpoint; -1 once this run has changed it
        Column("unique_scope", String(8), nullable=False, server_default="live"),  # how long unique_key is held
        Column("unique_until", UtcDateTime, checked("unique_until")),
    )


def checked(column: str) -> CheckConstraint:
    """As that of run_at: a time that cannot be read or compared would stop its whole lane."""
    return CheckConstraint(time_check(op.get_context().dialect, column))


def create_pauses() -> None:
    create_table(
        "mayfly_pauses",
        Column("kind", String(8), primary_key=True),
        Column("name", String(64), primary_key=True),
        Column("paused_at", UtcDateTime, nullable=False),
        Column("paused_until", UtcDateTime),
        Column("paused_by", String(64)),
        Column("reason", LongText),
        CheckConstraint("kind IN ('lane', 'type')", name="mayfly_pauses_kind"),
    )


def create_limits() -> None:
    create_table(
        "mayfly_limits",
        Column("limit_key", String(190), primary_key=True),
        Column("span", String(16), primary_key=True),  # 'at once', or the window: 'minute', 'day', …
        Column("most", Integer, nullable=False),
        Column("used", Integer, nullable=False, server_default=sql("0")),  # in the window that ends at opens_at
        Column("opens_at", UtcDateTime),
    )
    create_index("mayfly_limits_age", "mayfly_limits", "opens_at")
    create_table(
        "mayfly_slots",
        Column("limit_key", String(190), primary_key=True),
        Column("worker_id", String(64), primary_key=True),
        Column("held", Integer, nullable=False),
        Column("lease_until", UtcDateTime, nullable=False),  # of a holder that has no row in mayfly_runners
    )


def create_batches() -> None:
    """A batch is over when no job of its group is live: no counter that all runners fight over."""
    replace_index("mayfly_jobs_group", "mayfly_jobs", "group_key", "id", where="group_key IS NOT NULL")
    create_table(
        "mayfly_batches",
        Column("batch_key", String(190), primary_key=True),  # the children's group_key
        Column("on_complete", JsonText),
        Column("created_at", UtcDateTime, nullable=False),
        Column("sealed_at", UtcDateTime),  # no more children but siblings
        Column("completed_at", UtcDateTime),
        Column("abandoned_at", UtcDateTime),
    )
    create_index("mayfly_batches_age", "mayfly_batches", "completed_at")
    create_table(
        "mayfly_chains",
        Column("job_id", Id, primary_key=True, autoincrement=False),
        Column("previous", JsonText),  # the result of the step before
        Column("rest", JsonText, nullable=False),  # the steps that follow
    )
