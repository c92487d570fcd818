"""The idle minute: a whole cycle without SQLAlchemy and pydantic, for when there is surely nothing to do.

Most minutes are idle, and importing the full path costs many times what such a minute does. The probe reads the
same settings, takes the same locks and asks the same questions, and can give one answer only: that nothing is to
be done. Then it says and records what the full path would have. In any doubt it has changed nothing, told nobody,
and leaves the minute to dispatcher.cli, which has the words for whatever is the matter.
"""

from datetime import datetime
from pathlib import Path

from dispatcher.lock import take_lock
from dispatcher.probe.drivers import Session, connect
from dispatcher.probe.look import doubts
from mayfly import events
from mayfly.clock import Clock, clock_from, host_now, milliseconds, monotonic
from mayfly.events import Level
from mayfly.logs import Log, Sink, open_sink
from mayfly.schedules.wake import may_be_due
from mayfly.settings import Settings
from mayfly.statedir import lock_path, open_state_dir, pages_in

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
    if settings.log_to != "file":
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
    log.say(events.cycle_started(host_now(), settings.host_name))
    session = connect(settings.database_url.get_secret_value())
    try:
        was_idle = _run_connected(session, settings, directory, log, started)
    finally:
        session.close()
    if was_idle:
        lines.release(open_sink(settings))
    return was_idle


def _run_connected(session: Session, settings: Settings, directory: Path, log: Log, started: float) -> bool:
    clock = _measure(session)
    now = clock.now()
    if clock.is_skewed or may_be_due(settings, directory, now) or any(doubts(session, settings, now)):
        return False
    log.say(events.database_verified(str(session.server)))
    log.say(events.pending_jobs("0"))
    log.say(events.nothing_pending())
    duration_ms = round((monotonic() - started) * 1000)
    for line in SUMMARY:
        log.say(events.summary_line(line.format(duration_ms=duration_ms)))
    return _record(session, settings.host_name, now, clock.now(), duration_ms)


def _measure(session: Session) -> Clock:
    asked_at = host_now()
    database_now = session.clock()
    return clock_from(database_now, asked_at, host_now())


def _record(session: Session, host: str, opened: datetime, closed: datetime, duration_ms: int) -> bool:
    """Take a number by the planning lock and write the cycle's row: one transaction, all of it or nothing."""
    last = session.planning_lock()
    if last.holder is not None:
        return False
    number = max(last.number + 1, milliseconds(opened))
    session.begin()
    taken = session.change("take", last_number=last.number, number=number, holder=HOLDER, lease_until=closed)
    if taken != 1 or session.change("release", number=number) != 1:
        return False
    session.change("open cycle", number=number, host=host, now=opened)
    if session.change("close cycle", number=number, now=closed, duration_ms=duration_ms) != 1:
        return False
    session.commit()
    return True
