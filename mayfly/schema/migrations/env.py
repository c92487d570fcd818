"""Alembic's environment: migrate() passes the connection, migration_sql() the dialect to print for."""

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
