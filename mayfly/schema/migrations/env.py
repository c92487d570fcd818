"""What Alembic runs: the connection, or the dialect to print for, comes from migrate()."""

from alembic import context

attributes = context.config.attributes
if context.is_offline_mode():
    context.configure(
        dialect_name=attributes["dialect_name"], literal_binds=True, version_table=attributes["version_table"]
    )
else:
    context.configure(connection=attributes["connection"], version_table=attributes["version_table"])
with context.begin_transaction():
    context.run_migrations()
