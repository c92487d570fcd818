"""What Alembic runs: the connection, or the dialect to print for, comes from migrate()."""

from alembic import context

from mayfly.schema import VERSION_TABLE

attributes = context.config.attributes
if context.is_offline_mode():
    context.configure(dialect_name=attributes["dialect_name"], literal_binds=True, version_table=VERSION_TABLE)
else:
    context.configure(connection=attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
