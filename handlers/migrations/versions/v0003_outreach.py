"""Blasts: what is written, to whom it was written, how it went; and who is not written to any more."""

from sqlalchemy import CheckConstraint, Column, Integer, String

from mayfly.schema.migrations.ddl import Id, LongText, UtcDateTime, create_index, create_table

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_suppressions()
    create_letters()
    create_blasts()


def create_suppressions() -> None:
    create_table(
        "app_suppressions",
        Column("address", String(190), primary_key=True),
        Column("reason", String(16), nullable=False),
        Column("detail", LongText),
        Column("created_at", UtcDateTime, nullable=False),
        CheckConstraint(
            "reason IN ('bounced', 'unsubscribed', 'complained', 'by hand')", name="app_suppressions_reason"
        ),
        # Whoever adds one by plain SQL is told, instead of wondering why it is written to all the same.
        CheckConstraint("address = LOWER(address)", name="app_suppressions_lower_case"),
    )


def create_letters() -> None:
    create_table(
        "app_letters",
        Column("letter_key", String(190), primary_key=True),
        Column("subject", String(500), nullable=False),
        Column("text_body", LongText),
        Column("html_body", LongText),
        Column("created_at", UtcDateTime, nullable=False),
    )
    create_table(
        "app_addressees",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("list_key", String(190), nullable=False),
        Column("email", String(190), nullable=False),
        Column("name", String(190), nullable=False),
    )
    create_index("app_addressees_list", "app_addressees", "list_key", "id")


def create_blasts() -> None:
    create_table(
        "app_blasts",
        Column("job_id", Id, primary_key=True, autoincrement=False),  # one row a job: a blast may be extended
        Column("blast", String(60), nullable=False),
        Column("state", String(16), nullable=False),
        *(
            Column(name, Integer, nullable=False)
            for name in ("mails", "suppressed", "written", "unfit", "sent", "failed", "cancelled")
        ),
        Column("started_at", UtcDateTime, nullable=False),
        Column("finished_at", UtcDateTime),
        CheckConstraint("state IN ('sending', 'sent')", name="app_blasts_state"),
    )
    create_index("app_blasts_blast", "app_blasts", "blast")
    create_table(
        "app_blast_mails",
        Column("blast", String(60), primary_key=True),
        Column("address", String(190), primary_key=True),
        Column("job_id", Id, nullable=False),
        Column("written_by", String(32), nullable=False),  # the very transaction, which enqueued the mail as well
    )
    create_index("app_blast_mails_job", "app_blast_mails", "job_id")
