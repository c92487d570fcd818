"""Suppressions, templates, digests, invoices and blasts."""

from sqlalchemy import JSON, CheckConstraint, Column, Integer, String

from handlers.migrations.ddl import create_index, create_table
from handlers.schema import Id, LongText, UtcTimestamp, tenant_column


def create_tables() -> None:
    create_suppressions()
    create_templates()
    create_digests()
    create_invoice_years()
    create_invoices()
    create_recipients()
    create_blasts()
    create_blast_mails()


def create_suppressions() -> None:
    create_table(
        "app_suppressions",
        tenant_column(primary_key=True),
        Column("address", String(190), primary_key=True),
        Column("reason", String(16), nullable=False),
        Column("detail", LongText),
        Column("created_at", UtcTimestamp, nullable=False),
        CheckConstraint(
            "reason IN ('bounced', 'unsubscribed', 'complained', 'by hand')", name="app_suppressions_reason"
        ),
        # An address that is inserted by plain SQL must be canonical, or it would have no effect.
        CheckConstraint("address = LOWER(address)", name="app_suppressions_lower_case"),
    )


def create_templates() -> None:
    create_table(
        "app_templates",
        tenant_column(primary_key=True),
        Column("template_key", String(190), primary_key=True),
        Column("subject", String(500), nullable=False),
        Column("text_body", LongText),
        Column("html_body", LongText),
        Column("created_at", UtcTimestamp, nullable=False),
    )


def create_digests() -> None:
    create_table(
        "app_digests",
        Column("person_id", Id, primary_key=True, autoincrement=False),
        Column("until_at", UtcTimestamp, nullable=False),
        Column("number", Integer, nullable=False),
    )


def create_invoice_years() -> None:
    create_table(
        "app_invoice_years",
        Column("year", Integer, primary_key=True, autoincrement=False),
        Column("last_number", Integer, nullable=False),
    )


def create_invoices() -> None:
    create_table(
        "app_invoices",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("reference", String(190), nullable=False),
        Column("year", Integer, nullable=False),
        Column("number", Integer, nullable=False),
        Column("currency", String(3), nullable=False),
        Column("net", Id, nullable=False),
        Column("vat", Id, nullable=False),
        Column("total", Id, nullable=False),
        Column("content", LongText, nullable=False),
        Column("issued_at", UtcTimestamp, nullable=False),
    )
    create_index("app_invoices_reference", "app_invoices", "reference", unique=True)
    create_index("app_invoices_number", "app_invoices", "year", "number", unique=True)


def create_recipients() -> None:
    create_table(
        "app_recipients",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("list_key", String(190), nullable=False),
        Column("email", String(190), nullable=False),
        Column("name", String(190), nullable=False),
        Column("fields", JSON),
    )
    create_index("app_recipients_list", "app_recipients", "list_key", "id")


def create_blasts() -> None:
    figures = ("mails", "suppressed", "written", "unfit", "sent", "failed", "cancelled")
    create_table(
        "app_blasts",
        Column("job_id", Id, primary_key=True, autoincrement=False),
        Column("blast", String(60), nullable=False),
        Column("state", String(16), nullable=False),
        *(Column(name, Integer, nullable=False) for name in figures),
        Column("started_at", UtcTimestamp, nullable=False),
        Column("finished_at", UtcTimestamp),
        CheckConstraint("state IN ('sending', 'sent')", name="app_blasts_state"),
    )
    create_index("app_blasts_blast", "app_blasts", "blast")


def create_blast_mails() -> None:
    create_table(
        "app_blast_mails",
        Column("blast", String(60), primary_key=True),
        Column("address", String(190), primary_key=True),
        Column("job_id", Id, nullable=False),
        Column("written_by", String(32), nullable=False),
    )
    create_index("app_blast_mails_job", "app_blast_mails", "job_id")
