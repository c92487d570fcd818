"""Delete old rows, 1,000 per commit, so that a large backlog blocks no other session for long."""

from datetime import timedelta

from sqlalchemy import ColumnElement, Connection, Table, delete, select, true

from mayfly import Job

ROWS_PER_COMMIT = 1000


def purge(job: Job, table: Table, column: str, age: timedelta, only: ColumnElement[bool] | None = None) -> int:
    """Delete rows whose time in `column` is older than `age`; returns how many, over all slices of the job."""
    is_old = (table.c[column] < job.now - age) & (true() if only is None else only)
    # Rows that another session has locked are in use, or are deleted by it.
    old_ids = (
        select(table.c.id)
        .where(is_old)
        .order_by(table.c[column], table.c.id)
        .limit(ROWS_PER_COMMIT)
        .with_for_update(skip_locked=True)
    )

    def delete_some(connection: Connection) -> int:
        ids = connection.scalars(old_ids).all()
        if ids:
            connection.execute(delete(table).where(table.c.id.in_(ids)))
        return len(ids)

    kept = {table.name: 0, **(job.state or {})}
    while deleted := job.write(delete_some):
        kept[table.name] += deleted
        job.progress(kept[table.name], text=f"rows of {table.name}")
        job.checkpoint(kept)
    return int(kept[table.name])
