"""Cycles, their totals and their runners: one cycle per minute on two hosts, with a gap and an overrun."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import pi, sin
from random import Random
from typing import Any

from sqlalchemy import Connection, insert, select, update

from mayfly import json_text
from mayfly.clock import milliseconds
from mayfly.schema.metadata import cycles, hosts, jobs, locks, runners, totals
from mayfly.stats.histograms import bucket, histogram_text, stored_count
from mayfly.stats.history import Sample, of_cycles

MINUTE = timedelta(minutes=1)
FINE = timedelta(days=1)  # before that, one cycle stands for ten
HOSTS = ("web-1", "web-2")
GAP = range(6, 9)  # minutes ago, without cycles on the second host
OVERRUN = 4  # minutes ago
EXTERNAL = {"images"}
RUNNERS_KEPT = 90  # minutes


Death = tuple[datetime, str, str]  # when, lane, type


@dataclass(frozen=True)
class Work:
    lane: str
    type: str
    per_minute: float
    typical_ms: float
    failing: float = 0.0


WORK = (
    Work("mail", "send_email", 40, 180, 0.012),
    Work("mail", "send_digest", 2, 900),
    Work("images", "resize_image", 12, 650, 0.02),
    Work("payments", "charge_card", 5, 350, 0.015),
    Work("reports", "build_report", 0.8, 9000, 0.04),
    Work("imports", "import_orders", 0.2, 25_000, 0.05),
    Work("default", "metric_rollup", 0.2, 40),
)


def insert_history(
    connection: Connection, now: datetime, past: timedelta, deaths: list[Death], rng: Random
) -> list[Sample]:
    """Returns the samples for the charts."""
    fired = now.replace(second=1, microsecond=0)  # cron starts it a second after the minute
    newest = fired if fired <= now else fired - MINUTE
    written: dict[str, list[dict[str, Any]]] = {"cycles": [], "totals": [], "runners": []}
    for number, (minutes, host) in enumerate(fired_cycles(past)):
        started_at = newest - minutes * MINUTE + timedelta(milliseconds=137 * HOSTS.index(host) + 40)
        times = 10 if minutes * MINUTE > FINE else 1
        counted = list(settled(started_at, times, rng))
        if host == HOSTS[0]:
            counted += died(died_in(deaths, started_at), rng)
        is_overrun = host == HOSTS[0] and minutes == OVERRUN
        cycle = cycle_row(milliseconds(started_at), host, started_at, counted, is_overrun, rng)
        written["cycles"].append(cycle)
        written["totals"] += [row | {"cycle_id": cycle["id"], "worker_id": ""} for row in counted]
        if minutes < RUNNERS_KEPT:
            is_live = minutes == 0 and host == HOSTS[0]
            written["runners"] += runner_rows(cycle, counted, number, is_live, rng)
    connection.execute(insert(cycles), written["cycles"])
    connection.execute(insert(totals), written["totals"])
    connection.execute(insert(runners), written["runners"])
    connection.execute(insert(hosts), [host_row(host, written["cycles"]) for host in HOSTS])
    counted_until = max(row["id"] for row in written["cycles"])
    connection.execute(update(locks).where(locks.c.name == "counted").values(number=counted_until))
    return [*samples_of(written)]


def samples_of(written: Mapping[str, list[dict[str, Any]]]) -> Iterator[Sample]:
    for row in written["totals"]:
        yield row["cycle_id"], row["outcome"], stored_count(row["jobs"], row["durations"], row["waits"])
    yield from of_cycles({row["id"]: row["duration_ms"] for row in written["cycles"]})


def fired_cycles(past: timedelta) -> Iterator[tuple[int, str]]:
    """How many minutes ago, and on which host; the oldest first."""
    minutes = int(past / MINUTE)
    fine = int(FINE / MINUTE)
    for ago in range(minutes, -1, -1):
        if ago > fine and ago % 10:
            continue
        for host in HOSTS:
            if not (host == HOSTS[1] and ago in GAP):
                yield ago, host


def settled(at: datetime, times: int, rng: Random) -> Iterator[dict[str, Any]]:
    """The totals of one cycle on one host; more by day than by night."""
    busy = 0.35 + 0.65 * max(0.0, sin(pi * (at.hour + at.minute / 60 - 5) / 16))
    for work in WORK:
        wanted = times * work.per_minute * busy / len(HOSTS)
        jobs = int(wanted * rng.uniform(0.6, 1.4) + rng.random())
        failed = sum(rng.random() < work.failing for _ in range(jobs))
        for outcome, number in (("done", jobs - failed), ("failed", failed)):
            if number:
                durations = spread(number, work.typical_ms, rng)
                waits = spread(number, 9000 + 20_000 * busy, rng)
                yield totals_row(work.lane, work.type, outcome, number, durations, waits)


def died_in(deaths: list[Death], started_at: datetime) -> Counter[tuple[str, str]]:
    """By lane and type, in the minute of a cycle."""
    return Counter((lane, type_name) for at, lane, type_name in deaths if started_at <= at < started_at + MINUTE)


def died(counted: Counter[tuple[str, str]], rng: Random) -> Iterator[dict[str, Any]]:
    for (lane, type_name), number in counted.items():
        yield totals_row(lane, type_name, "dead", number, spread(number, 4000, rng), spread(number, 9000, rng))


def totals_row(lane: str, type_name: str, outcome: str, jobs: int, durations: str, waits: str) -> dict[str, Any]:
    key = {"lane": lane, "type": type_name, "outcome": outcome}
    return {**key, "jobs": jobs, "durations": durations, "waits": waits}


def spread(number: int, typical_ms: float, rng: Random) -> str:
    return histogram_text(Counter(bucket(int(rng.lognormvariate(0, 0.5) * typical_ms)) for _ in range(number)))


def cycle_row(
    cycle_id: int, host: str, started_at: datetime, counted: list[dict[str, Any]], is_overrun: bool, rng: Random
) -> dict[str, Any]:
    jobs = sum(row["jobs"] for row in counted)
    lanes = len({row["lane"] for row in counted})
    duration_ms = 63_400 if is_overrun else int(2500 + 400 * jobs * rng.uniform(0.5, 1.2)) % 41_000 + 900
    return {
        "id": cycle_id,
        "host": host,
        "started_at": started_at,
        "finished_at": started_at + timedelta(milliseconds=duration_ms),
        "exit_code": 2 if is_overrun else 0,
        "pending": jobs,
        "planned": lanes,
        "spawned": lanes,
        "successful": lanes - is_overrun,
        "failed": 0,
        "timed_out": int(is_overrun),
        "rescued": int(is_overrun) * 3,
        "repeated": 0,
        "pruned": rng.randrange(40),
        "duration_ms": duration_ms,
    }


def runner_rows(
    cycle: Mapping[str, Any], counted: list[dict[str, Any]], number: int, is_live: bool, rng: Random
) -> Iterator[dict[str, Any]]:
    """One per lane; those of the newest cycle are still running."""
    for index, lane in enumerate(sorted({row["lane"] for row in counted} - EXTERNAL), start=1):
        jobs: Counter[str] = Counter()
        for row in counted:
            jobs[row["outcome"]] += row["jobs"] * (row["lane"] == lane)
        ending, exit_code, signal = ("ok", 0, None) if number % 97 else ("crash", None, 9)
        planned_at = cycle["started_at"] + timedelta(milliseconds=80)
        ended = {"finished_at": cycle["finished_at"], "ending": ending, "exit_code": exit_code, "signal": signal}
        yield {
            "worker_id": f"worker-{cycle['id']}-{index}",
            "cycle_id": cycle["id"],
            "lane": lane,
            "host": cycle["host"],
            "machine": "sample",
            "pid": 4000 + (number * 7 + index) % 20_000,
            "pid_started": 1,
            "planned_at": planned_at,
            "heartbeat_at": planned_at + timedelta(seconds=1),
            "lease_until": planned_at + timedelta(minutes=30),
            "jobs_done": jobs["done"],
            "jobs_failed": jobs["failed"],
            "average_ms": round(rng.uniform(40, 900), 1),
            "peak_memory": rng.randrange(48, 96) << 20,
            "cpu_ms": rng.randrange(300, 4000),
            "uptime_ms": cycle["duration_ms"] - 100,
            **(dict.fromkeys(ended) if is_live else ended),
        }


def assign_running_jobs(connection: Connection) -> None:
    """To live runners, which are of the lane of their job, as their figures have it."""
    live = connection.execute(select(runners.c.worker_id).where(runners.c.finished_at.is_(None))).scalars()
    processing = select(jobs.c.id, jobs.c.lane, jobs.c.locked_at).where(jobs.c.status == "processing")
    for worker_id, (job_id, lane, started_at) in zip(live, connection.execute(processing).all(), strict=False):
        values = {"lane": lane, "running": json_text.encode({job_id: started_at.isoformat()})}
        connection.execute(update(runners).where(runners.c.worker_id == worker_id).values(**values))
        connection.execute(update(jobs).where(jobs.c.id == job_id).values(worker_id=worker_id))


def host_row(host: str, written: list[dict[str, Any]]) -> dict[str, Any]:
    own = [row for row in written if row["host"] == host]
    added = ("spawned", "successful", "timed_out", "rescued", "repeated", "pruned", "duration_ms")
    figures = {name: sum(row[name] for row in own) for name in added}
    return {"host": host, "exit_code": 0, "last_at": own[-1]["started_at"], "cycles": len(own), **figures}
