"""Look for what is wrong: dead jobs, killed runners, late lanes, silent hosts."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from mayfly.alerts.decide import AGAIN, Kind, Symptom
from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.fleet.counted import read_cycles
from mayfly.fleet.runners import LOST
from mayfly.jobs.browse.lanes import list_lanes
from mayfly.schema import JOBS
from mayfly.settings import Settings
from mayfly.spans import span

SILENT_AFTER = timedelta(minutes=5)  # longer than any cycle
FORGOTTEN_AFTER = timedelta(days=1)  # a host that was taken away
LOOKED_AT = 10_000  # failed attempts, the newest: a storm of them must not hold up the cycle

# A job that died has the time of its last attempt, which was written with it.
DEAD = (
    "SELECT j.lane, j.type, a.fingerprint, COUNT(*), MAX(a.finished_at), MAX(j.id) FROM (SELECT job_id, fingerprint,"
    " finished_at FROM mayfly_attempts WHERE finished_at > :since ORDER BY finished_at DESC"
    f" LIMIT {LOOKED_AT}) AS a JOIN mayfly_jobs AS j ON j.id = a.job_id"
    " WHERE j.status = 'dead' AND j.finished_at = a.finished_at GROUP BY j.lane, j.type, a.fingerprint"
)
ERROR = "SELECT last_error FROM mayfly_jobs WHERE id = :id"
# With the table's name before it, even a word like SIGNAL is a column everywhere.
KILLED = (
    "SELECT r.lane, r.ending, r.signal, COUNT(*), MAX(r.finished_at), MAX(r.worker_id) FROM mayfly_runners AS r"
    f" WHERE r.finished_at > :since AND (r.signal IS NOT NULL OR r.ending IN ('crash', '{LOST}'))"
    " GROUP BY r.lane, r.ending, r.signal"
)


def look(connection: Connection, settings: Settings, now: datetime) -> list[Symptom]:
    return [
        *dead_jobs(connection, now),
        *killed_runners(connection, now),
        *late_lanes(connection, settings, now),
        *silent_hosts(connection, now),
    ]


def dead_jobs(connection: Connection, now: datetime) -> Iterator[Symptom]:
    """Of the last hour, by lane, type and error."""
    found = connection.execute(DEAD, {"since": now - AGAIN}).all()
    for lane, type_name, error, times, last_at, job_id in found:
        reason = str(connection.execute(ERROR, {"id": job_id}).scalar() or "").partition("\n")[0]
        jobs = f"{times} jobs are dead, the last is job {job_id}" if times > 1 else f"job {job_id} is dead"
        detail = f"{jobs} ({type_name}, lane {lane}): {reason}"
        yield Symptom(Kind.DEAD, type_name, detail, utc_from_driver(last_at), times, cause=f"{lane} {error}")


def killed_runners(connection: Connection, now: datetime) -> Iterator[Symptom]:
    """Of the last hour, by lane and by what killed them."""
    for lane, ending, signal, times, last_at, worker_id in connection.execute(KILLED, {"since": now - AGAIN}).all():
        how = "disappeared" if ending == LOST else "crashed" if signal is None else f"were ended by signal {signal}"
        detail = f"runners of lane {lane} {how} ({ending}): {times} in an hour, the last is {worker_id}"
        yield Symptom(Kind.KILLED, lane, detail, utc_from_driver(last_at), times, cause=f"{ending} {signal}")


def late_lanes(connection: Connection, settings: Settings, now: datetime) -> Iterator[Symptom]:
    """Those whose LATENCY_TARGET has passed. Whoever has paused a lane knows that it waits."""
    targets = {lane: each.latency_target for lane, each in settings.lanes.items() if each.latency_target}
    for each in list_lanes(connection, JOBS, settings, now) if targets else ():
        target, waits = targets.get(each.lane), each.wait_seconds or 0.0
        if target is not None and waits > target and not each.paused:
            spans = [span(timedelta(seconds=seconds)) for seconds in (waits, target)]
            detail = f"the oldest job of lane {each.lane} waits for {spans[0]}, and should for {spans[1]} at most"
            yield Symptom(Kind.LATE, each.lane, detail, now)


def silent_hosts(connection: Connection, now: datetime) -> Iterator[Symptom]:
    last: dict[str, datetime] = {}
    for each in read_cycles(connection):
        last[each.host] = max(each.last_at, last.get(each.host, each.last_at))
    for host, at in last.items():
        if SILENT_AFTER < now - at <= FORGOTTEN_AFTER:
            detail = f"the last cycle of host {host} began {span(now - at)} ago: is cron running there?"
            yield Symptom(Kind.SILENT, host, detail, at)
