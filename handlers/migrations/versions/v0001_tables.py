"""The app_ tables of all areas. The columns are described in handlers/*/tables.py."""

from handlers.migrations.initial import campaigns, community, mail, mailroom, operations, prospects

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    for area in (operations, community, prospects, mail, campaigns, mailroom):
        area.create_tables()
