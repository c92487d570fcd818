"""When a post became a job, how far each person's digests are, and invoices, numbered by year."""

from sqlalchemy import Column, Integer, String

from mayfly.schema.migrations.ddl import Id, LongText, UtcDateTime, add_columns, create_index, create_table

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_columns("app_posts", Column("queued_at", UtcDateTime))  # by publish_due_posts
    create_index("app_posts_in_order", "app_posts", "board_id", "id")  # an export reads them page by page
    create_table(
        "app_digests",
        Column("person_id", Id, primary_key=True, autoincrement=False),
        Column("until_at", UtcDateTime, nullable=False),  # what was published later is in the next one
        Column("number", Integer, nullable=False),
    )
    create_table(
        "app_invoice_years",
        Column("year", Integer, primary_key=True, autoincrement=False),
        Column("last_number", Integer, nullable=False),
    )
    create_table(
        "app_invoices",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("reference", String(190), nullable=False),  # as the application calls it: one invoice each
        Column("year", Integer, nullable=False),
        Column("number", Integer, nullable=False),
        Column("currency", String(3), nullable=False),
        Column("net", Id, nullable=False),  # in cents, as the two below
        Column("vat", Id, nullable=False),
        Column("total", Id, nullable=False),
        Column("content", LongText, nullable=False),  # JSON: all that is printed, as it was when it was issued
        Column("issued_at", UtcDateTime, nullable=False),
    )
    create_index("app_invoices_reference", "app_invoices", "reference", unique=True)
    create_index("app_invoices_number", "app_invoices", "year", "number", unique=True)
