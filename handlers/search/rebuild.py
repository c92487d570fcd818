"""Build the index in a new table, slice by slice, and swap it in when it is complete."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from handlers.search.fulltext import FullTextIndex, fulltext_of
from handlers.search.sources import SOURCES
from handlers.search.tables import DROPPING, current_table, drop, index_name, register, state_of, swap_in, sweep
from handlers.search.tokenizer import words_of
from mayfly import Job, Retry

ROWS_PER_SLICE = 200
KIND_BITS = 48  # the rowid of an entry is the number of its kind, then its id


class RebuildPosition(NamedTuple):
    """The checkpoint: source, last id, and number of entries."""

    source: int = 0
    after: int = 0
    entries: int = 0


def rebuild(job: Job) -> dict[str, Any]:
    name = index_name(job)
    if job.read(current_table) != name:  # else the last run was killed after the swap
        entries = _fill(job, name, _begin(job, name))
        if not swap_in(job, name, entries):
            raise Retry(f"{name} was dropped by another job, which considered this one as ended")
    return {"table": name, "dropped": sweep(job, name)}


def _begin(job: Job, name: str) -> RebuildPosition:
    """Return the position of the last run if its table still exists; otherwise create the table."""
    state = state_of(job, name)
    if state == DROPPING:
        drop(job, name)
    elif state is not None and job.state is not None:
        return RebuildPosition(*job.state)
    register(job, name)

    def create(connection: Connection) -> None:
        for statement in fulltext_of(connection).create:
            connection.execute(text(statement.format(table=name)))

    job.write(create)
    return RebuildPosition()


def _fill(job: Job, name: str, position: RebuildPosition) -> int:
    while position.source < len(SOURCES):
        rows = _read_slice(job, position)
        if rows:
            _add(job, name, position.source, rows)
            position = RebuildPosition(position.source, rows[-1][0], position.entries + len(rows))
        else:
            position = RebuildPosition(position.source + 1, 0, position.entries)
        job.checkpoint(position)
        job.progress(position.entries, text="entries")
    return position.entries


def _read_slice(job: Job, position: RebuildPosition) -> Sequence[Any]:
    query = SOURCES[position.source].page(position.after, ROWS_PER_SLICE)
    return job.read(lambda connection: connection.execute(query).all())


def _add(job: Job, name: str, number: int, rows: Sequence[Any]) -> None:
    """Idempotent: a slice is added again if the job was killed before its checkpoint."""
    kind = SOURCES[number].kind

    def add(connection: Connection) -> None:
        index = fulltext_of(connection)
        entries = [_entry(index, number, kind, *row) for row in rows]
        connection.execute(text(index.insert.format(table=name)), entries)

    job.write(add)


def _entry(
    index: FullTextIndex, number: int, kind: str, id: int, title: str | None, *texts: str | None
) -> dict[str, Any]:
    body = " · ".join(filter(None, texts))
    return {
        "number": number << KIND_BITS | id, "kind": kind, "id": id, "title": title or "", "body": body,
        "words": index.indexed(words_of(f"{title or ''} {body}")),
    }  # fmt: skip
