"""What cannot be taken back (a mail, a push, a post) is written down before it is done; and who is left alone."""

from sqlalchemy import CheckConstraint, Column, Integer, String

from mayfly.schema.migrations.ddl import Id, LongText, UtcDateTime, create_index, create_table

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "app_effects",
        Column("effect_key", String(190), primary_key=True),  # one an intended effect, whoever tries how often
        Column("kind", String(32), nullable=False),
        Column("state", String(16), nullable=False),
        Column("job_id", Id, nullable=False),
        Column("claims", Integer, nullable=False),  # of the run that wrote it: its fencing token
        Column("provider", String(190)),  # through whom
        Column("answer", LongText),
        Column("changed_at", UtcDateTime, nullable=False),
        CheckConstraint("state IN ('open', 'handed over', 'done')", name="app_effects_state"),
    )
    create_index("app_effects_doubts", "app_effects", "state", "changed_at")
    create_table(
        "app_rests",
        Column("provider", String(190), primary_key=True),
        Column("until_at", UtcDateTime, nullable=False),
        Column("reason", LongText, nullable=False),
    )
