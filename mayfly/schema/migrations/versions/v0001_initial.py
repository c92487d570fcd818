"""All tables, as mayfly/schema/metadata.py describes them.

Nothing is released yet, so the first migration uses the current description. A released migration never changes: the
first change after a release must replace the import below by a copy of the tables as they were.
"""

from alembic import op

from mayfly.schema.metadata import metadata
from mayfly.schema.migrations.operations import create_described

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

LOCKS = ("plan", "counted")  # see mayfly_locks


def upgrade() -> None:
    for table in metadata.sorted_tables:
        create_described(table)
    for name in LOCKS:
        op.execute(f"DELETE FROM mayfly_locks WHERE name = '{name}'")
        op.execute(f"INSERT INTO mayfly_locks (name) VALUES ('{name}')")
