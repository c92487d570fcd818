"""The report of a failed test: the dispatcher's log and the rows of its database."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, MetaData, create_engine, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from tests.process.installation import Installation

MAX_LOG_LINES = 200
MAX_ROWS = 40
MAX_VALUE_LENGTH = 120
# In this order, because the first tables explain most failures; the others follow by name.
FIRST_TABLES = ("mayfly_jobs", "mayfly_attempts", "mayfly_runners", "mayfly_cycles")


URLS = ("migrated_url", "database_url", "platform_url", "restartable_url")


def open_installations() -> frozenset[Installation]:
    return frozenset(Installation.open_ones)


def sections(fixtures: dict[str, Any], shared: frozenset[Installation]) -> Iterator[tuple[str, str]]:
    """Titles and texts, from the fixtures of the failed test.

    `shared` are the installations opened before it: they are shown only if its fixtures refer to them.
    """
    urls = {value for name, value in fixtures.items() if name in URLS}
    used = {id(getattr(value, "installation", value)) for value in fixtures.values()}
    for installation in Installation.open_ones:
        if installation in shared and id(installation) not in used:
            continue
        yield f"dispatcher.log of {installation.home}", _tail(installation.log)
        urls.add(installation.url)
    for url in sorted(urls):
        yield "tables", _tables(create_engine(url, poolclass=NullPool))


def _tail(log: str) -> str:
    return "\n".join(log.splitlines()[-MAX_LOG_LINES:]) or "(empty)"


def _tables(engine: Engine) -> str:
    try:
        return "\n".join(_dump(engine)) or "(no rows)"
    except SQLAlchemyError as error:  # the database of the test may be down
        return f"cannot be read: {type(error).__name__}"


def _dump(engine: Engine) -> Iterator[str]:
    metadata = MetaData()
    metadata.reflect(engine)
    order = {name: position for position, name in enumerate(FIRST_TABLES)}
    with engine.connect() as connection:
        for table in sorted(metadata.tables.values(), key=lambda table: (order.get(table.name, 99), table.name)):
            count = connection.execute(select(func.count()).select_from(table)).scalar_one()
            if count and table.name != "alembic_version":
                yield f"{table.name}: {count} rows"
                for row in connection.execute(table.select().limit(MAX_ROWS)).mappings():
                    shown = {name: value for name, value in row.items() if value is not None}
                    yield "  " + ", ".join(f"{name}={str(value)[:MAX_VALUE_LENGTH]}" for name, value in shown.items())
