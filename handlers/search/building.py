"""Build the index aside, slice by slice, and swap it in when it is whole."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from handlers.search.engines import Engine, engine_of
from handlers.search.sources import SOURCES, TEXT_LENGTH, Source
from handlers.search.tables import DROPPING, current_table, drop, register, state_of, swap_in, sweep, table_of
from handlers.search.words import words_of
from mayfly import Job, Retry

SLICE = 200  # rows
KIND_BITS = 48  # the number of a row is that of its kind, and its id below


class Place(NamedTuple):
    """How far a build is: in which source, behind which id, with how many entries."""

    source: int = 0
    after: int = 0
    entries: int = 0


def rebuild(job: Job) -> dict[str, Any]:
    name = table_of(job)
    if job.read(current_table) != name:  # else the last run was killed when all was done but the sweeping
        entries = _fill(job, name, _begin(job, name))
        if not swap_in(job, name, entries):
            raise Retry(f"{name} was dropped meanwhile, as if this job had ended")
    return {"table": name, "dropped": sweep(job, name)}


def _begin(job: Job, name: str) -> Place:
    """Where the last run has got to, if what it filled is still there."""
    state = state_of(job, name)
    if state == DROPPING:
        drop(job, name)
    elif state is not None and job.state is not None:
        return Place(*job.state)
    register(job, name)
    job.write(lambda connection: [connection.execute(each.format(table=name)) for each in engine_of(connection).make])
    return Place()


def _fill(job: Job, name: str, place: Place) -> int:
    while place.source < len(SOURCES):
        source = SOURCES[place.source]
        rows = _slice(job, source, place.after)
        if rows:
            _add(job, name, place.source, rows)
            place = Place(place.source, rows[-1][0], place.entries + len(rows))
        else:
            place = Place(place.source + 1, 0, place.entries)
        job.checkpoint(place)
        job.progress(place.entries, text="entries")
    return place.entries


def _slice(job: Job, source: Source, after: int) -> Sequence[tuple[Any, ...]]:
    asked = {"after": after, "most": SLICE, "length": TEXT_LENGTH}
    return job.read(lambda connection: connection.execute(source.slice, asked).all())


def _add(job: Job, name: str, number: int, rows: Sequence[tuple[Any, ...]]) -> None:
    """A slice that is added twice, after a kill before its checkpoint, is there once."""
    kind = SOURCES[number].kind

    def add(connection: Any) -> None:
        engine = engine_of(connection)
        entries = [_entry(engine, number, kind, *row) for row in rows]
        connection.execute_many(engine.add.format(table=name), entries)

    job.write(add)


def _entry(engine: Engine, number: int, kind: str, id: int, title: str | None, *texts: str | None) -> dict[str, Any]:
    body = " · ".join(filter(None, texts))
    return {
        "number": number << KIND_BITS | id, "kind": kind, "id": id, "title": title or "", "body": body,
        "words": engine.indexed(words_of(f"{title or ''} {body}")),
    }  # fmt: skip
