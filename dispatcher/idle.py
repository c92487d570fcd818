"""The idle minute: a whole cycle without what only work needs, for when there is surely nothing to do.

Most minutes are idle, and importing the full path costs many times what such a minute does. The probe reads the
same settings, takes the same locks and asks the same questions, and can give one answer only: that nothing is to
be done. Then it says and records what the full path would have. In any doubt it has changed nothing, told nobody,
and leaves the minute to dispatcher.cli, which has the words for whatever is the matter.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from dispatcher.lock import take_lock
from mayfly import log_messages
from mayfly.clock import host_now, milliseconds, monotonic
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import embedded_file
from mayfly.fleet.cycles import close_cycle, known_lanes, open_cycle
from mayfly.fleet.statements import LIVE_RUNNERS, READ_PLAN_LOCK, RELEASE_PLAN_LOCK, TAKE_PLAN_LOCK
from mayfly.log import Log, Sink, open_sink
from mayfly.log_messages import Level
from mayfly.process.state_dir import lock_path, open_state_dir, pages_in
from mayfly.queue.count import find_lanes, finished_batches, has_due, has_processing
from mayfly.queue.prune import Keep, keep_from, searches
from mayfly.schedules.next_due import may_be_due
from mayfly.schema.tables import VERSION
from mayfly.schema.version import STORED_VERSION
from mayfly.settings import Settings

HOLDER = "an idle cycle"  # of the planning lock; nobody ever sees it: taken and released in one transaction

# What dispatcher.summary says of a cycle without runners; a test compares them.
SUMMARY = (
    "Dispatch Summary:",
    "Pending jobs: 0",
    "Workers spawned: 0",
    "Successful workers: 0",
    "Failed workers: 0",
    "Total duration: {duration_ms}ms",
    "Avg worker duration: -",
)

# And what it records of one: a test compares that too.
FIGURES: dict[str, int | None] = {
    "exit_code": 0, "pending": 0, "planned": 0, "spawned": 0, "successful": 0, "failed": 0, "timed_out": 0,
    "rescued": 0, "repeated": 0, "pruned": 0, "note": None,
}  # fmt: skip


class HeldLines:
    """What is said while it is not yet sure that it will be true."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, Level]] = []

    def write(self, line: str, level: Level) -> None:
        self._lines.append((line, level))

    def release(self, sink: Sink) -> None:
        for line, level in self._lines:
            sink.write(line, level)


def run_idle_cycle(settings: Settings, started: float) -> bool:
    """Run this minute's cycle if it is surely idle. False, or any error at all: the full path must look."""
    if settings.log_to != "file" or settings.longest_linger:  # whoever lingers is not done after one look
        return False
    if settings.is_watched:  # somebody wants to hear of every cycle
        return False
    directory = open_state_dir(settings)
    lock = take_lock(lock_path(directory))
    if lock is None:
        return False
    try:
        return _run_locked(settings, directory, started)
    finally:
        lock.close()


def _run_locked(settings: Settings, directory: Path, started: float) -> bool:
    if pages_in(directory):  # a runner of this host is alive, or left its page behind
        return False
    lines = HeldLines()
    log = Log(lines, "DISPATCHER", as_json=settings.log_format == "json")
    log.say(log_messages.cycle_started(host_now(), settings.host_name))
    url = settings.database_url.get_secret_value()
    path = embedded_file(url)
    if path is not None and not path.stat().st_size:
        return False  # to connect would be to create it
    database = Database(url)
    try:
        was_idle = _run_connected(database, settings, directory, log, started)
    finally:
        database.close()
    if was_idle:
        lines.release(open_sink(settings))
    return was_idle


def _run_connected(database: Database, settings: Settings, directory: Path, log: Log, started: float) -> bool:
    now, keep = database.clock.now(), keep_from(settings)
    if database.clock.is_skewed or may_be_due(settings, directory, now):
        return False
    if database.read(lambda connection: any(possible_work(connection, keep, now))):
        return False
    server = database.read(lambda connection: connection.dialect.server(connection.raw))
    log.say(log_messages.database_verified(str(server)))
    log.say(log_messages.pending_jobs("0"))
    log.say(log_messages.nothing_pending())
    duration_ms = round((monotonic() - started) * 1000)
    for line in SUMMARY:
        log.say(log_messages.summary_line(line.format(duration_ms=duration_ms)))
    closed = database.clock.now()
    return database.run(lambda connection: _record(connection, settings.host_name, now, closed, duration_ms))


def _record(connection: Connection, host: str, opened: datetime, closed: datetime, duration_ms: int) -> bool:
    """Take a number by the planning lock and write the cycle's row: one transaction, all of it or nothing."""
    holder, _lease_until, last_number = connection.execute(READ_PLAN_LOCK).first()
    if holder is not None:
        return False
    number = max(last_number + 1, milliseconds(opened))
    taking = {"holder": HOLDER, "lease_until": closed, "number": number, "last_number": last_number}
    if connection.execute(TAKE_PLAN_LOCK, taking).rowcount != 1:
        return False
    if connection.execute(RELEASE_PLAN_LOCK, {"number": number}).rowcount != 1:
        raise NotIdle
    open_cycle(connection, number, host, opened)
    if not close_cycle(connection, number, {**FIGURES, "duration_ms": duration_ms}, closed):
        raise NotIdle
    return True


class NotIdle(Exception):
    """Somebody was faster: what was written of this cycle is rolled back."""


def possible_work(connection: Connection, keep: Keep, now: datetime) -> Iterator[str]:
    """What a full cycle might do something about, or have to tell of: rather too much than too little."""
    server = connection.dialect.server(connection.raw)
    if not server.is_known:
        yield f"{server} is too old or too strange"
    if connection.execute(STORED_VERSION).all() != [(VERSION,)]:
        yield "the tables are those of another version"
    holder, _lease_until, _number = connection.execute(READ_PLAN_LOCK).first()
    if holder is not None:
        yield "somebody plans, or died planning"
    if connection.execute(LIVE_RUNNERS).first() is not None:
        yield "a runner is alive, or ended unseen"
    if any(each.passed_over for each in known_lanes(connection).values()):
        yield "a lane was passed over"
    lanes = find_lanes(connection)
    for lane in lanes:
        if has_due(connection, lane, now):
            yield f"{lane} has due jobs"
        if has_processing(connection, lane):
            yield f"{lane} has jobs that are being processed"
    for key in finished_batches(connection):
        yield f"the batch {key} is over"
    for search in searches(lanes, keep, now):
        if connection.execute(search.statement, search.values).first() is not None:
            yield f"rows of {search.table} are old enough to go"
