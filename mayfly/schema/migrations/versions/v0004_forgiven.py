"""Crashes that a changed checkpoint has forgiven: an end for jobs that get further and crash, again and again."""

from sqlalchemy import Column, Integer
from sqlalchemy import text as sql

from mayfly.schema.migrations.ddl import add_columns

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_columns(
        "mayfly_jobs",
        Column("forgiven", Integer, nullable=False, server_default=sql("0")),  # since its last slice
    )
