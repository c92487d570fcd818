"""Whether a full cycle would find anything to do. Reads, and can only doubt: who has none is surely idle."""

from collections.abc import Iterator
from datetime import datetime

from mayfly.connection import Connection
from mayfly.fleet.cycles import known_lanes
from mayfly.fleet.statements import LIVE, LOOK
from mayfly.jobs.childless import childless
from mayfly.jobs.looks import find_lanes, has_due, processing_statement
from mayfly.jobs.prune import Keep, searches
from mayfly.schema import JOBS, VERSION
from mayfly.version import STORED_VERSION


def doubts(connection: Connection, keep: Keep, now: datetime) -> Iterator[str]:
    """What a full cycle might do something about, or have to tell of: rather too much than too little."""
    server = connection.dialect.server(connection.raw)
    if not server.is_known:
        yield f"{server} is too old or too strange"
    if connection.execute(STORED_VERSION).all() != [(VERSION,)]:
        yield "the tables are those of another version"
    holder, _lease_until, _number = connection.execute(LOOK).first()
    if holder is not None:
        yield "somebody plans, or died planning"
    if connection.execute(LIVE).first() is not None:
        yield "a runner is alive, or ended unseen"
    if any(each.passed_over for each in known_lanes(connection).values()):
        yield "a lane was passed over"
    lanes = find_lanes(connection, JOBS)
    processing = f"{processing_statement(JOBS)} LIMIT 1"
    for lane in lanes:
        if has_due(connection, JOBS, lane, now):
            yield f"{lane} has due jobs"
        if connection.execute(processing, {"lane": lane}).first() is not None:
            yield f"{lane} has jobs that are being processed"
    for key in childless(connection, JOBS):
        yield f"the batch {key} is over"
    for search in searches(JOBS, lanes, keep, now):
        if connection.execute(search.statement, search.values).first() is not None:
            yield f"rows of {search.table} are old enough to go"
