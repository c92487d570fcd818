"""Alembic's environment: migrate() passes the connection, the functions that print pass the dialect."""

from alembic import context

attributes = context.config.attributes
if context.is_offline_mode():
    context.configure(
        dialect_name=attributes["dialect_name"],
        literal_binds=True,
        output_buffer=attributes.get("output_buffer"),
        version_table=attributes["version_table"],
    )
else:
    context.configure(
        connection=attributes["connection"],
        transaction_per_migration=True,
        version_table=attributes["version_table"],
    )
with context.begin_transaction():
    context.run_migrations()
