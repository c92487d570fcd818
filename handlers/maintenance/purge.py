"""Delete old rows, 1,000 per commit, so that no other session is blocked for long."""

from datetime import timedelta

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, select, true

from mayfly import Job

ROWS_PER_COMMIT = 1000


def purge(job: Job, table: Table, column: str, age: timedelta, only: ColumnElement[bool] | None = None) -> int:
    """Delete rows whose `column` is older than `age`; return how many, over all slices of the job."""
    is_old = (table.c[column] < job.now - age) & (true() if only is None else only)
    return purge_where(job, table, is_old, table.c[column])


def purge_where(job: Job, table: Table, is_old: ColumnElement[bool], *order: ColumnElement[object]) -> int:
    keys = list(table.primary_key.columns)
    # Rows locked by another session are in use, or that session deletes them.
    old_keys = (
        select(*keys).where(is_old).order_by(*order, *keys).limit(ROWS_PER_COMMIT)
        .with_for_update(skip_locked=True, of=table)
    )  # fmt: skip
    # One row at a time, by its key: MariaDB scans the whole table for (a, b) IN ((1, 2), …).
    by_key = delete(table).where(*(key == bindparam(f"old_{key.name}") for key in keys))

    def delete_some(connection: Connection) -> int:
        found = connection.execute(old_keys).mappings()
        rows = [{f"old_{name}": value for name, value in row.items()} for row in found]
        if rows:
            connection.execute(by_key, rows)
        return len(rows)

    kept = {table.name: 0, **(job.state or {})}
    while deleted := job.write(delete_some):
        kept[table.name] += deleted
        job.progress(kept[table.name], text=f"rows of {table.name}")
        job.checkpoint(kept)
    return int(kept[table.name])
