"""Bring a database to this version of the schema. The only importer of Alembic."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mayfly.dialect import migration_lock
from mayfly.engine import explain, make_engine, shown
from mayfly.schema import VERSION
from mayfly.version import Version, refuse_newer, stored_version


def migrate(url: str) -> tuple[Version, Version]:
    """Run what is missing; the versions before and after. Two hosts at once wait for each other."""
    parsed = make_url(url)
    engine = make_engine(parsed, poolclass=NullPool)
    try:
        with engine.connect() as connection, migration_lock(connection):
            before = stored_version(connection)  # in the transaction that migrates: on SQLite that is the lock
            refuse_newer(before)
            if before != VERSION:
                command.upgrade(_config(connection=connection), "head")
                connection.commit()
    except DBAPIError as error:
        raise explain(error, engine, shown(parsed)) from error
    return before, VERSION


def migration_sql(url: str) -> None:
    """Print the statements for somebody who may not let programs change tables."""
    command.upgrade(_config(dialect_name=make_url(url).get_backend_name()), "head", sql=True)


def _config(**attributes: object) -> Config:
    config = Config(attributes=attributes)
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config
