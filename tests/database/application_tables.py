"""A table of an application whose rows become jobs, the settings of its source, and jobs of its rows."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from sqlalchemy import Column, DateTime, Integer, MetaData, Row, String, Table, insert, select

from mayfly.db.database import Database
from mayfly.job import SourceRow
from mayfly.queue.sources import Sources
from mayfly.settings import Settings, load
from mayfly.settings.source_model import SourceModel
from mayfly.settings.values import SourceSettings
from tests.factories import insert_row
from tests.sqlalchemy_engines import run

POSTS = "post_schedule"
MINUTE = timedelta(minutes=1)
COLUMNS: dict[str, Any] = {
    "status": String(20),
    "run_at": DateTime,
    "channel": String(50),
    "worker_id": String(64),
    "locked_at": DateTime,
    "retry_count": Integer,
    "last_error": String(200),
    "published_at": DateTime,
}
SETTINGS: dict[str, Any] = {
    "table": POSTS,
    "type": "publish",
    "run_at": "run_at",
    "pending": "pending",
    "processing": "processing",
    "done": "published",
    "failed": "failed",
    "cancelled": "cancelled",
    "worker_id": "worker_id",
    "locked_at": "locked_at",
    "attempts": "retry_count",
    "error": "last_error",
    "finished_at": "published_at",
    "payload": ["channel"],
}


def make_source(name: str = POSTS, **changes: Any) -> SourceSettings:
    """A setting that is None is missing."""
    given = {key: value for key, value in {**SETTINGS, **changes}.items() if value is not None}
    model = SourceModel.model_validate(given)
    return SourceSettings(**{**dict(model), "name": name, "lane": model.lane or name})


def settings_with(*sources: SourceSettings, **changes: Any) -> Settings:
    return load({}).settings.replace(sources={each.name: each for each in sources}, **changes)


def make_sources(database: Database, **changes: Any) -> Sources:
    return Sources([make_source(**changes)], database.dialect)


def posts_table(name: str = POSTS, **columns: Any) -> Table:
    """With other types for some columns; None: without this column."""
    types = {each: kind for each, kind in {**COLUMNS, **columns}.items() if kind is not None}
    key = types.pop("id", Integer)
    return Table(name, MetaData(), Column("id", key, primary_key=True), *(Column(*each) for each in types.items()))


def create_posts(database: Database, rows: Iterable[dict[str, Any]] = (), name: str = POSTS, **columns: Any) -> Table:
    """The table with these rows, by default pending and due a minute ago."""
    table = posts_table(name, **columns)
    due = (database.clock.now() - MINUTE).replace(tzinfo=None)
    run(database, lambda connection: table.create(connection))
    filled = [{"status": "pending", "run_at": due, **each} for each in rows]
    if filled:
        run(database, lambda connection: connection.execute(insert(table), filled))
    return table


def read_post(database: Database, table: Table, key: Any = 1) -> Row[Any]:
    return run(database, lambda connection: connection.execute(select(table).where(table.c.id == key)).one())


def insert_companion(database: Database, key: Any = 1, source: str = POSTS, **columns: Any) -> int:
    """The job of a row."""
    fields: dict[str, Any] = {"lane": source, "type": "publish", "unique_key": SourceRow(source, str(key)).unique_key}
    return insert_row(database, **{**fields, **columns})
