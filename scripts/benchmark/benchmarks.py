"""The benchmarks. Each compares Mayfly with a bare program that does the same work, or with another revision."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from statistics import quantiles
from typing import Any, NamedTuple

from sqlalchemy import text

from mayfly.clock import monotonic
from scripts.benchmark.figures import Figure, Goal, alternately, at_least, at_most
from scripts.benchmark.lab import Failed, Lab, Stage, processes_of, proportional_memory_bytes
from scripts.benchmark.ledger import NotOnce, check_once

RUNNERS = 5  # MAX_WORKERS by default
LANES = 10
WAITING_JOBS = "scripts.benchmark.jobs,scripts.benchmark.waiting_jobs"
LINGER_SECONDS, LINGER_DISPATCHERS, LINGER_RATE = 300, 5, 20
SPARSE_SECONDS, SILENT_SECONDS = 7, 300
JOBS_PER_LANE, LANE_COUNTS = 5, (10, 100, 1000)
LANE_FIGURES = (("one cycle", "s"), ("CPU", "s"), ("CPU of an idle cycle", "ms"), ("statements per lane", ""))
LANE_GOALS = {
    (100, "one cycle"): 1.2,
    (100, "statements per lane"): 12,
    (1000, "statements per lane"): 12,
    (1000, "one cycle"): 10,
    (1000, "CPU"): 10,
    (1000, "CPU of an idle cycle"): 150,
}
SMALL_TABLE, LARGE_TABLE = 10_000, 10_000_000
IDLE_RUNS, QUERY_RUNS = 10, 20
BARE_CONNECT = (
    "import {driver}; connection = {driver}.connect(**{address!r}); cursor = connection.cursor();"
    " cursor.execute('SELECT 1'); cursor.fetchone()"
)

Measure = Callable[[Lab], Iterator[Figure]]


class ServerLoad(NamedTuple):
    rate: float  # jobs per second
    cpu: float  # of the database server, in µs per job; 0 without a server
    client_cpu: float  # of dispatchers and runners, in µs per job


@dataclass(frozen=True)
class Benchmark:
    about: str
    measure: Measure
    scales: bool = True  # its goals hold at full size only


def drain(lab: Lab, jobs: int, type_name: str, goal: Goal, ack: str = "batch") -> Iterator[Figure]:
    """Run `python -m dispatcher`, from start to exit, until every job is done."""
    ours, theirs = lab.compare(
        lambda stage: jobs / drain_seconds(stage, jobs, type_name),
        lambda stage: jobs / bare_drain_seconds(stage, jobs, type_name, ack),
    )
    label = "" if ack == "batch" else f', ack="{ack}"'
    yield Figure(f"drain {jobs:,} jobs{label}", "jobs/s", tuple(ours), tuple(theirs), goal)


def drain_seconds(
    stage: Stage, jobs: int, type_name: str = "nothing", settings: Mapping[str, str] | None = None
) -> float:
    stage.refill(jobs, type_name)
    stage.lab.show(f"Mayfly drains {jobs:,} jobs")
    directory, environment = stage.new_ledger(jobs)
    seconds = 0.0
    while unfinished_jobs(stage):
        seconds += stage.dispatch({**environment, **(settings or {})}).seconds
    check_once(directory, range(1, jobs + 1))
    return seconds


def bare_drain_seconds(stage: Stage, jobs: int, type_name: str, ack: str) -> float:
    stage.refill(jobs, type_name)
    stage.lab.show(f"the bare loop drains {jobs:,} jobs")
    directory, environment = stage.new_ledger(jobs)
    arguments = (str(RUNNERS), str(stage.engine.bare_batch), ack, "jobs")
    seconds = stage.run("-m", "scripts.benchmark.programs.loop", *arguments, settings=environment).seconds
    check_once(directory, range(1, jobs + 1))
    if unfinished := unfinished_jobs(stage):
        raise NotOnce(unfinished, 0, 0)
    return seconds


def unfinished_jobs(stage: Stage) -> int:
    return round(stage.value("SELECT COUNT(*) FROM mayfly_jobs WHERE status <> 'done'"))


def measure_drain(lab: Lab) -> Iterator[Figure]:
    goals = {"mariadb": at_least(0.95), "postgres": at_least(1.3), "sqlite": at_least(0.75)}
    return drain(lab, lab.scaled(1_000_000), "nothing", goals[lab.engine.name])


def measure_each(lab: Lab) -> Iterator[Figure]:
    return drain(lab, lab.scaled(100_000), "nothing_each", at_least(0.85), ack="each")


def measure_payloads(lab: Lab) -> Iterator[Figure]:
    for kilobytes, full, goal in ((10, 20_000, 10_000), (60, 10_000, 3_000)):
        jobs, payload = lab.scaled(full), payload_of(kilobytes * 1000)
        runs = lab.compare(partial(payload_drain, jobs=jobs, payload=payload))
        yield from _rate_and_cpu(
            f"drain {jobs:,} jobs with {kilobytes} kB", runs, Goal(at_least=goal, of_ratio=False)
        )


def payload_drain(stage: Stage, jobs: int, payload: str) -> ServerLoad:
    stage.refill(jobs, "nothing", payload=f"'{payload}'")
    return timed_drain(stage, jobs, hosts=1)


def payload_of(size_bytes: int) -> str:
    """A JSON object with many fields; its hashes leave PostgreSQL little to compress."""
    records = [{"id": number, "hash": sha256(b"%d" % number).hexdigest()} for number in range(size_bytes // 90)]
    return json.dumps({"records": records})


def measure_hosts(lab: Lab) -> Iterator[Figure]:
    """Several dispatchers on one server, against one dispatcher."""
    jobs = lab.scaled(100_000)
    for hosts in (4, 16):
        runs = lab.compare(partial(lane_drain, jobs=jobs, hosts=hosts), partial(lane_drain, jobs=jobs, hosts=1))
        name = f"drain {jobs:,} jobs in {LANES} lanes, {hosts} dispatchers"
        yield from _rate_and_cpu(name, runs, None, at_most(1.2))
        ours, theirs = (tuple(each.client_cpu for each in loads) for loads in runs)
        yield Figure(f"{name}: client CPU per job", "µs", ours, theirs)


def lane_drain(stage: Stage, jobs: int, hosts: int) -> ServerLoad:
    stage.refill(jobs, "nothing", lane=stage.engine.lane_of(LANES))
    return timed_drain(stage, jobs, hosts)


def timed_drain(stage: Stage, jobs: int, hosts: int) -> ServerLoad:
    stage.lab.show(f"Mayfly drains {jobs:,} jobs" + (f" on {hosts} hosts" if hosts > 1 else ""))
    directory, environment = stage.new_ledger(jobs)
    started, cpu, client_cpu = monotonic(), stage.server_cpu_seconds(), 0.0
    while unfinished_jobs(stage):
        client_cpu += sum(each.cpu_seconds for each in stage.dispatch_hosts(hosts, environment))
    seconds, cpu = monotonic() - started, stage.server_cpu_seconds() - cpu
    check_once(directory, range(1, jobs + 1))
    return ServerLoad(jobs / seconds, cpu / jobs * 1_000_000, client_cpu / jobs * 1_000_000)


def _rate_and_cpu(
    name: str, runs: tuple[list[ServerLoad], list[ServerLoad]], rate_goal: Goal | None, cpu_goal: Goal | None = None
) -> Iterator[Figure]:
    ours, theirs = runs
    yield Figure(name, "jobs/s", tuple(each.rate for each in ours), tuple(each.rate for each in theirs), rate_goal)
    if any(each.cpu for each in ours):
        cpu = tuple(each.cpu for each in ours), tuple(each.cpu for each in theirs)
        yield Figure(f"{name}: server CPU per job", "µs", *cpu, cpu_goal)


SOURCE = """
[sources.post_schedule]
table = "post_schedule"
type = "nothing_row"
run_at = "run_at"
pending = "pending"
processing = "processing"
done = "published"
failed = "failed"
worker_id = "worker_id"
locked_at = "locked_at"
finished_at = "published_at"
payload = ["post_detail_id", "channel"]
"""


def measure_rows(lab: Lab) -> Iterator[Figure]:
    """Due rows of a source, against a loop that claims and settles them by UPDATE, in two commits per batch.

    The loop of one process is what an application's script does; that of as many processes as Mayfly has runners is
    what the table and the server allow. The loops with companions also insert and settle a job per row, as every
    implementation with companions must.
    """
    rows = lab.scaled(100_000)
    alone, together = partial(bare_row_seconds, batch=1000), partial(bare_row_seconds, processes=RUNNERS)
    yardsticks = {
        ", against one process": alone,
        f", against {RUNNERS} processes": together,
        ", against one process with companions": partial(alone, table="companions"),
        f", against {RUNNERS} processes with companions": partial(together, table="companions"),
    }
    ours, theirs = lab.compare(
        lambda stage: (rows / row_seconds(stage, rows),),
        lambda stage: tuple(rows / each(stage, rows) for each in yardsticks.values()),
    )
    labels, goals = [""] if lab.other_checkout else yardsticks, (at_least(0.45), None, None, None)
    for label, rates, goal in zip(labels, zip(*theirs, strict=True), goals, strict=False):
        name = f"drain {rows:,} rows of a source{label}"
        yield Figure(name, "rows/s", tuple(rate for (rate,) in ours), rates, goal)


def row_seconds(stage: Stage, rows: int) -> float:
    fill_source(stage, rows)
    stage.lab.show(f"Mayfly drains {rows:,} rows")
    toml = stage.home / "mayfly.toml"
    if not toml.exists():  # a changed file would be parsed again, which no usual cycle does
        toml.write_text(SOURCE)
    directory, environment = stage.new_ledger(rows)
    seconds = 0.0
    while unfinished_rows(stage):
        seconds += stage.dispatch(environment).seconds
    check_once(directory, range(1, rows + 1))
    return seconds


def bare_row_seconds(
    stage: Stage, rows: int, processes: int = 1, batch: int | None = None, table: str = "rows"
) -> float:
    fill_source(stage, rows)
    stage.lab.show(f"the bare loop drains {rows:,} rows in {processes} processes")
    directory, environment = stage.new_ledger(rows)
    arguments = (str(processes), str(batch or stage.engine.bare_batch), "batch", table)
    seconds = stage.run("-m", "scripts.benchmark.programs.loop", *arguments, settings=environment).seconds
    check_once(directory, range(1, rows + 1))
    return seconds


def fill_source(stage: Stage, rows: int) -> None:
    stage.lab.show(f"filling {rows:,} rows")
    first_at = datetime.now(UTC) - timedelta(hours=1, milliseconds=rows)
    with stage.connect() as connection:
        stage.engine.empty(connection)
        connection.execute(text("DROP TABLE IF EXISTS post_schedule"))
        connection.execute(text(stage.engine.source_table))
        connection.execute(text("CREATE INDEX post_schedule_due ON post_schedule (status, run_at, id)"))
        numbers, time = stage.engine.numbers(1, rows), stage.engine.time_of(first_at)
        columns = "(id, post_detail_id, channel, run_at, status)"
        connection.execute(
            text(f"INSERT INTO post_schedule {columns} SELECT n, n, 'web', {time}, 'pending' FROM {numbers}")
        )
    stage.settle("post_schedule")


def unfinished_rows(stage: Stage) -> int:
    return round(stage.value("SELECT COUNT(*) FROM post_schedule WHERE status <> 'published'"))


def measure_waiting(lab: Lab, type_name: str, label: str) -> Iterator[Figure]:
    jobs = lab.scaled(500)
    ours, theirs = lab.compare(lambda stage: drain_seconds(stage, jobs, type_name, {"HANDLERS": WAITING_JOBS}))
    goal = Goal(at_most=0.7, of_ratio=False)
    yield Figure(f"{jobs:,} jobs that wait 100 ms each, {label}", "s", tuple(ours), tuple(theirs), goal)


def measure_idle(lab: Lab) -> Iterator[Figure]:
    """CPU of a cycle without work, against a script that imports the driver, connects and runs one SELECT."""

    def bare(stage: Stage) -> float:
        script = BARE_CONNECT.format(
            driver=stage.engine.driver, address=dict(stage.engine.connect_arguments(stage.url))
        )
        return stage.run("-c", script).cpu_seconds * 1000

    lab.show("idle cycles")
    ours, theirs = lab.compare(lambda stage: idle_cpu_ms(stage), bare, lab.times * IDLE_RUNS)
    yield Figure("idle cycle: CPU", "ms", tuple(ours[1:]), tuple(theirs[1:]), at_most(2.5))  # the first is not idle


def idle_cpu_ms(stage: Stage) -> float:
    spent = stage.dispatch()
    if stage.value("SELECT COUNT(*) FROM mayfly_runners"):
        raise Failed("The cycle was not idle.")
    return spent.cpu_seconds * 1000


def measure_linger(lab: Lab) -> Iterator[Figure]:
    """From enqueue to the start of the handler while dispatchers take over from each other. One run each."""
    seconds = lab.scaled(LINGER_SECONDS, least=10)
    for name, rate, bounds in (
        (f"{LINGER_RATE} jobs/s", LINGER_RATE, (12, 50, 3)),
        (f"one job every {SPARSE_SECONDS} s", 1 / SPARSE_SECONDS, (130, 300, 0.5)),
    ):
        yield from _measure_flow(lab, f"{name} for {seconds} s", seconds, rate, bounds)
    seconds = lab.scaled(SILENT_SECONDS, least=10)
    measured = lab.compare(lambda stage: silence(stage, seconds), times=1)
    ours, theirs = (tuple(run.cpu_percent for run in runs) for runs in measured)
    yield Figure(f"no jobs for {seconds} s: CPU", "% of a core", ours, theirs, Goal(at_most=0.5, of_ratio=False))
    ours, theirs = (tuple(run.statements for run in runs if run.statements is not None) for runs in measured)
    if ours:
        yield Figure(f"no jobs for {seconds} s: statements", "1/s", ours, theirs, Goal(at_most=5, of_ratio=False))


def _measure_flow(
    lab: Lab, name: str, seconds: int, rate: float, bounds: tuple[float, float, float]
) -> Iterator[Figure]:
    ours, theirs = lab.compare(lambda stage: flow(stage, seconds, rate), times=1)
    for label, unit, bound, value in (
        ("median", "ms", bounds[0], lambda run: _percentile(run.waits_ms, 49)),
        ("99th percentile", "ms", bounds[1], lambda run: _percentile(run.waits_ms, 98)),
        ("CPU", "% of a core", bounds[2], lambda run: run.cpu_percent),
    ):
        goal = Goal(at_most=bound, of_ratio=False)
        yield Figure(f"{name}: {label}", unit, tuple(map(value, ours)), tuple(map(value, theirs)), goal)
    if lab.engine.has_server:
        values, others = (tuple(run.server_cpu_percent for run in runs) for runs in (ours, theirs))
        yield Figure(f"{name}: CPU of the server", "% of a core", values, others)


@dataclass(frozen=True)
class Flow:
    waits_ms: list[float]
    cpu_percent: float  # of one core, for dispatchers and runners
    server_cpu_percent: float
    statements: float | None  # per second; None if the database does not count them


def flow(stage: Stage, seconds: int, rate: float) -> Flow:
    stage.lab.show(f"{rate:.3g} jobs/s for {seconds} s")
    arguments = (str(seconds), str(seconds / LINGER_DISPATCHERS), str(rate))
    with stage.connect() as connection:
        before, server_before = stage.engine.statements(connection), stage.server_cpu_seconds()
        spent = stage.run("-m", "scripts.benchmark.programs.flow", *arguments, settings={"LINGER": "55"})
        server_cpu, after = stage.server_cpu_seconds() - server_before, stage.engine.statements(connection)
        rows = stage.rows("SELECT status, result FROM mayfly_jobs")
        if any(status != "done" for status, _ in rows):
            raise Failed("Not every job was run.")
        stage.engine.empty(connection)
    return Flow(
        waits_ms=[float(result) * 1000 for _, result in rows],
        cpu_percent=float(spent.output) / seconds * 100,
        server_cpu_percent=server_cpu / seconds * 100,
        statements=None if before is None or after is None else (after - before) / seconds,
    )


def silence(stage: Stage, seconds: int) -> Flow:
    """Dispatchers and their runners, from start to exit, after a single job."""
    return flow(stage, seconds, 1 / seconds)


def _percentile(values: list[float], index: int) -> float:
    return quantiles(values, n=100, method="inclusive")[index]


def measure_lanes(lab: Lab) -> Iterator[Figure]:
    """No-op jobs in many small lanes: one cycle from start to exit, and an idle cycle afterwards."""
    for lanes in LANE_COUNTS:
        lab.show(f"{lanes} lanes")
        ours, theirs = lab.compare(lambda stage, lanes=lanes: lane_costs(stage, lanes))  # type: ignore[misc]
        for index, (label, unit) in enumerate(LANE_FIGURES):
            values, others = (tuple(run[index] for run in runs if len(run) > index) for runs in (ours, theirs))
            if not values:
                continue
            bound = LANE_GOALS.get((lanes, label))
            goal = None if bound is None else Goal(at_most=bound, of_ratio=False)
            yield Figure(f"{lanes:,} lanes with {JOBS_PER_LANE} jobs each: {label}", unit, values, others, goal)


def lane_costs(stage: Stage, lanes: int) -> tuple[float, ...]:
    """Seconds and CPU seconds of the cycle that runs all jobs, and CPU milliseconds of an idle cycle.

    If the server counts them, also the statements per lane of the first one.
    """
    jobs = lanes * JOBS_PER_LANE
    stage.refill(jobs, "nothing")
    with stage.connect() as connection:
        connection.execute(text(f"UPDATE mayfly_jobs SET lane = CAST(id % {lanes} AS CHAR(8))"))
    stage.settle()
    directory, environment = stage.new_ledger(jobs)
    with stage.connect() as connection:
        before = stage.engine.statements(connection)
        cycle = stage.dispatch(environment)
        after = stage.engine.statements(connection)
    check_once(directory, range(1, jobs + 1))
    if unfinished := unfinished_jobs(stage):
        raise Failed(f"{unfinished} jobs were left after one cycle.")
    stage.dispatch(environment)  # it may still reset figures of lanes that have waited
    idle_ms = stage.dispatch(environment).cpu_seconds * 1000
    if before is None or after is None or not stage.engine.counts_statements:
        return cycle.seconds, cycle.cpu_seconds, idle_ms
    return cycle.seconds, cycle.cpu_seconds, idle_ms, (after - before) / lanes


def measure_enqueue(lab: Lab, how: str, jobs: int, name: str, goal: Goal) -> Iterator[Figure]:
    ours, theirs = lab.compare(
        lambda stage: enqueue_rate(stage, "produce", how, jobs),
        lambda stage: enqueue_rate(stage, "insert", how, jobs),
    )
    yield Figure(name.format(jobs), "jobs/s", tuple(ours), tuple(theirs), goal)


def enqueue_rate(stage: Stage, program: str, how: str, jobs: int) -> float:
    """The start of the program is not measured."""
    with stage.connect() as connection:
        stage.engine.empty(connection)
    stage.settle()
    seconds = float(stage.run("-m", f"scripts.benchmark.programs.{program}", how, str(jobs)).output)
    if stage.value("SELECT COUNT(*) FROM mayfly_jobs") != jobs + 1:  # one was enqueued before the measurement
        raise Failed(f"{program} did not insert each of {jobs:,} jobs once.")
    return jobs / seconds


def measure_memory(lab: Lab) -> Iterator[Figure]:
    jobs = lab.scaled(200_000)
    ours, theirs = lab.compare(lambda stage: memory_of_drain(stage, jobs))
    for index, (name, unit, bound) in enumerate(
        [(f"memory of dispatcher and {RUNNERS} runners (PSS)", "MB", 120), ("processes left after exit", "", 0)]
    ):
        values, others = (tuple(run[index] for run in runs) for runs in (ours, theirs))
        yield Figure(name, unit, values, others, Goal(at_most=bound, of_ratio=False))


def memory_of_drain(stage: Stage, jobs: int) -> tuple[float, float]:
    """Peak memory in MB, without the ledger's own pages, and the number of processes that outlive the dispatcher."""
    stage.refill(jobs, "nothing")
    directory, environment = stage.new_ledger(jobs)
    peaks = [0]

    def watch(pid: int) -> None:
        pages = sum(path.stat().st_blocks * 512 for path in directory.iterdir())
        peaks.append(proportional_memory_bytes(pid) - pages)

    stage.dispatch(environment, watch)
    check_once(directory, range(1, jobs + 1))
    return max(peaks) / 1_000_000, float(processes_of(stage.home))


def measure_size(lab: Lab) -> Iterator[Figure]:
    """An idle cycle and the operators' queries with ten million rows, against ten thousand rows."""
    rows = lab.scaled(LARGE_TABLE)
    small = min(SMALL_TABLE, rows // 10)
    with lab.stage() as large_stage, lab.stage() as small_stage:
        for stage, count in ((large_stage, rows), (small_stage, small)):
            fill_history(stage, count)
            idle_cpu_ms(stage)
        lab.show("idle cycles")
        ours, theirs = alternately(
            lambda: idle_cpu_ms(large_stage), lambda: idle_cpu_ms(small_stage), lab.times * IDLE_RUNS
        )
        yield Figure(f"idle cycle at {rows:,} rows: CPU", "ms", tuple(ours), tuple(theirs), at_most(1.3))
        yield from _queries(lab, large_stage, small_stage, rows)


def _queries(lab: Lab, large_stage: Stage, small_stage: Stage, rows: int) -> Iterator[Figure]:
    """The time of each query inside one process, by name."""
    lab.show("queries")
    program = ("-m", "scripts.benchmark.programs.queries", str(lab.times * QUERY_RUNS))
    large, small = (_timings(stage.run(*program).output) for stage in (large_stage, small_stage))
    for name, values in large.items():
        goal = at_most(1.3) if name == "claim" else Goal(at_most=100, of_ratio=False)
        yield Figure(f"{name} at {rows:,} rows", "ms", values, small[name], goal)


def _timings(output: str) -> dict[str, tuple[float, ...]]:
    return {
        name: tuple(map(float, values.split()))
        for name, values in (line.split(":", 1) for line in output.splitlines())
    }


def fill_history(stage: Stage, rows: int) -> None:
    """90 % done, 5 % dead, 5 % delayed; none is due."""
    stage.lab.show(f"filling {rows:,} rows")
    now, next_id = datetime.now(UTC), 1
    for status, share, age in (("done", 0.9, 3), ("dead", 0.05, 3), ("pending", 0.05, -1)):
        count = int(rows * share)
        stage.insert(count, now - timedelta(days=age, milliseconds=count), status, first_id=next_id)
        next_id += count
    with stage.connect() as connection:
        connection.execute(text(_ATTEMPTS_OF_DEAD_JOBS))
    stage.settle()


_ATTEMPTS_OF_DEAD_JOBS = (
    "INSERT INTO mayfly_attempts (job_id, attempt, worker_id, outcome, error, fingerprint, finished_at)"
    " SELECT id, 1, worker_id, 'failed', 'ValueError: no', 'error-1', finished_at"
    " FROM mayfly_jobs WHERE status = 'dead'"
)


def _with(measure: Callable[..., Iterator[Figure]], *arguments: Any) -> Measure:
    return lambda lab: measure(lab, *arguments)


BENCHMARKS: dict[str, Benchmark] = {
    "drain": Benchmark("1,000,000 no-op jobs, against a bare loop", measure_drain),
    "each": Benchmark('100,000 jobs with ack="each"', measure_each),
    "payloads": Benchmark("20,000 jobs with 10 kB, 10,000 jobs with 60 kB", measure_payloads),
    "hosts": Benchmark("100,000 jobs in 10 lanes on 4 and 16 hosts, against one host", measure_hosts),
    "rows": Benchmark("100,000 rows of a source, against a bare loop", measure_rows),
    "async": Benchmark("500 jobs that wait, as coroutines", _with(measure_waiting, "wait_async", "async def")),
    "threads": Benchmark("500 jobs that wait, in threads", _with(measure_waiting, "wait_threads", "threads=100")),
    "idle": Benchmark("CPU of a cycle without work", measure_idle, scales=False),
    "linger": Benchmark("from enqueue to start with LINGER, and its cost", measure_linger),
    "lanes": Benchmark("5 no-op jobs in each of 10 to 1,000 lanes", measure_lanes, scales=False),
    "size": Benchmark("idle cycles and queries at 10,000,000 rows", measure_size),
    "enqueue": Benchmark(
        "2,000 jobs one by one",
        lambda lab: measure_enqueue(lab, "one", lab.scaled(2_000), "enqueue {:,} one by one", at_least(0.8)),
    ),
    "enqueue_many": Benchmark(
        "100,000 jobs at once",
        lambda lab: measure_enqueue(lab, "many", lab.scaled(100_000), "enqueue_many of {:,}", at_least(0.6)),
    ),
    "memory": Benchmark("memory of a drain, and processes left", measure_memory),
}
