"""All tables, as mayfly/schema/metadata.py describes them.

Released with 0.2.0, and a released migration never changes: tests/golden/migration_0001_*.sql has its statements. So
the first change of metadata.py replaces the import below by a copy of the tables as they are now.
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
