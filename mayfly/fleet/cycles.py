"""Cycles and the dispatchers that run them: the rows of cycles and lanes, and the files by which the dispatchers of a
host find each other. One of them plans, the others only supervise. Idle cycles import this module, too.

A cycle that the database cannot record is recorded in the state directory of its host."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.process.identity import Process
from mayfly.process.state_dir import leaving_path, leaving_paths, lock_path
from mayfly.schema.tables import VERSION

LANES = "SELECT lane, passed_over, max_workers, set_at, set_by FROM mayfly_lanes"
ANY_LIVE_RUNNER = "SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL LIMIT 1"

FORGOTTEN_AFTER = timedelta(days=1)  # a host without a cycle for longer counts as removed
LINGERS, RUNS = "lingers", "runs"  # in the file of a dispatcher
UNRECORDED_FILE = "unrecorded-cycle"


class UnrecordedCycle(NamedTuple):
    """A cycle of this host that its database could not record, for example because a disk was full."""

    at: datetime
    reason: str


class KnownLane(NamedTuple):
    """The row of a lane."""

    passed_over: int = 0  # cycles in a row
    max_workers: int | None = None  # set by an operator; None: the setting applies
    set_at: datetime | None = None
    set_by: str | None = None


def open_cycle(connection: Connection, cycle_id: int, host: str, now: datetime) -> None:
    row = {"id": cycle_id, "host": host, "schema_version": VERSION, "started_at": now}
    connection.execute(connection.dialect.upsert("mayfly_cycles", ("id",), row), row)


def close_cycle(connection: Connection, cycle_id: int, figures: Mapping[str, Any], now: datetime) -> bool:
    """False if this cycle has no row."""
    values = {"finished_at": now, **figures}
    closing = f"UPDATE mayfly_cycles SET {connection.dialect.assignments(values)} WHERE id = :cycle_id"
    return connection.execute(closing, {**values, "cycle_id": cycle_id}).rowcount == 1


def note_unrecorded(directory: Path, at: datetime, reason: str) -> None:
    """Written atomically into the state directory. If that disk is full too, only the log has it."""
    from mayfly import json_text  # here: hardly any cycle needs it

    draft = directory / f"{UNRECORDED_FILE}.new"
    with suppress(OSError):
        draft.write_text(json_text.encode({"at": at.isoformat(), "reason": reason}), "utf-8")
        draft.replace(directory / UNRECORDED_FILE)


def clear_unrecorded(directory: Path) -> None:
    (directory / UNRECORDED_FILE).unlink(missing_ok=True)


def read_unrecorded(directory: Path) -> UnrecordedCycle | None:
    from mayfly import json_text  # as above

    try:
        noted = json_text.decode((directory / UNRECORDED_FILE).read_text("utf-8"))
    except OSError:
        return None
    return UnrecordedCycle(datetime.fromisoformat(noted["at"]), noted["reason"])


def has_live_runner(connection: Connection) -> bool:
    """Whether a runner of any host has no recorded end. It may be dead."""
    return connection.execute(ANY_LIVE_RUNNER).first() is not None


def known_lanes(connection: Connection) -> dict[str, KnownLane]:
    """All rows in one query: there are few, if any."""
    return {
        lane: KnownLane(passed_over, max_workers, set_at and utc_from_driver(set_at), set_by)
        for lane, passed_over, max_workers, set_at, set_by in connection.execute(LANES).all()
    }


def record_passed_over(connection: Connection, before: Mapping[str, KnownLane], passed_over: Collection[str]) -> None:
    """Increment the lanes that got no slot, reset the others; writes nothing if neither changes."""
    now_waiting = {lane: before.get(lane, KnownLane()).passed_over + 1 for lane in passed_over}
    served = {lane: 0 for lane, known in before.items() if known.passed_over and lane not in passed_over}
    rows = [{"lane": lane, "passed_over": number} for lane, number in {**now_waiting, **served}.items()]
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_lanes", ("lane",), rows[0]), rows)


# --- dispatchers of this host -----------------------------------------------------------------------------


class Dispatcher(NamedTuple):
    """A dispatcher that was alive when its file was read."""

    process: Process
    lingers: bool = False  # it hands the lock over on request
    is_leaving: bool = False  # it has handed the lock over and only supervises its last runners

    def as_text(self) -> str:
        return f"{self.process.pid} {self.process.started} {LINGERS if self.lingers else RUNS}\n"


def all_here(directory: Path) -> list[Dispatcher]:
    found = read_dispatcher(lock_path(directory))
    return [*([found] if found else []), *(each for _, each in _leaving(directory))]


def note_leaving(directory: Path, cycle_id: int, process: Process) -> None:
    """Written before the lock is released: the next holder must not rescue the runners of this cycle."""
    leaving_path(directory, cycle_id).write_text(Dispatcher(process).as_text())


def forget_leaving(directory: Path, cycle_id: int) -> None:
    leaving_path(directory, cycle_id).unlink(missing_ok=True)


def cycles_still_supervised(directory: Path) -> frozenset[int]:
    """The cycles whose runners are supervised by a dispatcher that has handed over."""
    return frozenset(cycle_id for cycle_id, _ in _leaving(directory))


def _leaving(directory: Path) -> Iterator[tuple[int, Dispatcher]]:
    for path in leaving_paths(directory):
        found = read_dispatcher(path)
        if found is None:
            path.unlink(missing_ok=True)  # its dispatcher was killed
        else:
            yield int(path.stem), Dispatcher(found.process, is_leaving=True)


def read_dispatcher(path: Path) -> Dispatcher | None:
    """The process that wrote the file, if it is alive; for the host lock, its last holder."""
    with suppress(OSError, ValueError):
        pid, started, mode = path.read_text().split()
        process = Process(int(pid), int(started))
        return Dispatcher(process, lingers=mode == LINGERS) if process.is_alive else None
    return None
