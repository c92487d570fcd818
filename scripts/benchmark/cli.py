"""The command line of the benchmarks: measure, print a table, store the results, update the docs."""

import os
import platform
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import psutil
from rich.console import Console
from rich.status import Status

from mayfly.cli.options import Choice
from mayfly.process import exits
from scripts.benchmark.benchmarks import BENCHMARKS
from scripts.benchmark.engines import ENGINES
from scripts.benchmark.figures import (
    Figure,
    Record,
    headline_table,
    markdown_table,
    merge_record,
    plain_table,
    read_records,
    scale_table,
    write_records,
)
from scripts.benchmark.lab import CHECKOUT, Lab, checkout_of
from scripts.benchmark.plot import lanes_plot
from tests.databases import Databases

RESULTS = CHECKOUT / "bench" / "results" / "results.json"
PLOT = CHECKOUT / "docs" / "images" / "lanes-cost.svg"
PAGE, PAGE_RESULTS = CHECKOUT / "docs/reference/measurements.md", CHECKOUT / "docs/reference/measurements.json"
SCALE_PAGE = CHECKOUT / "docs/explanation/scale.md"
PERFORMANCE_PAGE = CHECKOUT / "docs/explanation/performance.md"
BLOCK = re.compile(r"(<!-- results: written by scripts/bench --write-docs -->\n).*?(<!-- /results -->)", re.DOTALL)
ORDER = [(benchmark, engine) for benchmark in BENCHMARKS for engine in ENGINES]
BARE = "bare"


@click.command(
    help="Measure Mayfly on private servers, alternating with a yardstick, and print medians, spreads and ratios."
    " Exit code 1 if a goal is missed or a benchmark failed. Goals are judged at full size only."
)
@click.option("--only", type=Choice(list(BENCHMARKS)), multiple=True, help="Only this benchmark; repeatable.")
@click.option("--engine", type=Choice(list(ENGINES)), multiple=True, help="Only this database; repeatable.")
@click.option(
    "--scale", default=1.0, show_default=True, type=click.FloatRange(0.001, 10), help="Factor for row counts."
)
@click.option("--times", default=3, show_default=True, type=click.IntRange(1), help="Runs of each benchmark.")
@click.option("--against", metavar="REVISION", help="Compare with this git revision instead of a bare program.")
@click.option("--list", "listing", is_flag=True, help="List the benchmarks and exit.")
@click.option("--write-docs", "writing", is_flag=True, help="Update the figures of the docs from results.")
def command(
    only: tuple[str, ...], engine: tuple[str, ...], scale: float, times: int, against: str | None,
    listing: bool, writing: bool,
) -> int:  # fmt: skip
    if listing:
        click.echo("\n".join(f"{name:14}{each.about}" for name, each in BENCHMARKS.items()))
        return exits.SUCCESS
    if writing:
        return write_docs()
    steps = [(name, on) for name, on in ORDER if (not only or name in only) and (not engine or on in engine)]
    records = measure_all(steps, scale, times, against)
    click.echo(plain_table(records))
    return exits.ERROR if any(each.is_missed for each in records) else exits.SUCCESS


def measure_all(steps: Sequence[tuple[str, str]], scale: float, times: int, against: str | None) -> list[Record]:
    """Each record is stored as soon as it is measured, unless it compares two revisions."""
    facts, records = environment(), []
    if facts["load_at_start"] > facts["cores"] / 2:
        click.echo(f"The machine is busy (load {facts['load_at_start']}): the figures will show it.", err=True)
    databases = Databases({})  # private servers, even if the environment names others
    try:
        with checkout_of(against) if against else nullcontext() as other, progress() as status:
            for number, (name, engine) in enumerate(steps, 1):
                title = f"{number}/{len(steps)} {name} on {engine}"

                def show(activity: str, title: str = title) -> None:
                    status.update(f"{title}: {activity}")

                lab = Lab(databases, ENGINES[engine], scale, times, show, other)
                record = measure(name, lab, facts, against or BARE)
                records.append(record)
                if record.error is not None:
                    click.echo(f"{name} on {engine} failed: {record.error}", err=True)
                if against is None:
                    write_records(RESULTS, merge_record(read_records(RESULTS), record, ORDER))
    finally:
        databases.close()
    return records


@contextmanager
def progress() -> Iterator[Status]:
    """Shows what is being measured, if stderr is a terminal."""
    with Console(stderr=True).status("starting", refresh_per_second=2) as status:
        yield status


def measure(name: str, lab: Lab, facts: dict[str, Any], yardstick: str) -> Record:
    benchmark = BENCHMARKS[name]
    started_at, error = datetime.now(UTC), None
    figures: list[Figure] = []
    try:
        figures += benchmark.measure(lab)
    except Exception as raised:  # noqa: BLE001 - continue with the other benchmarks
        error = str(raised) or type(raised).__name__
    server = lab.databases.used.get(lab.engine.name, "").removesuffix(" (private)")
    return Record(
        benchmark=name,
        engine=lab.engine.name,
        yardstick=yardstick,
        times=lab.times,
        is_full_size=yardstick == BARE and (lab.scale >= 1 or not benchmark.scales),
        measured_at=started_at.isoformat(timespec="seconds"),
        environment={**facts, "server": server},
        figures=tuple(figures),
        error=error,
    )


def environment() -> dict[str, Any]:
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in ("SQLAlchemy", "PyMySQL", "psycopg")},
        "kernel": platform.release(),
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    arguments = ["git", "describe", "--always", "--dirty", "--abbrev=7"]
    described = subprocess.run(arguments, cwd=CHECKOUT, capture_output=True, text=True, check=False)  # noqa: S603
    return described.stdout.strip() or "unknown"


def write_docs() -> int:
    """What was not measured here keeps its figures on the page."""
    measured = [each for each in read_records(RESULTS) if each.error is None]
    if not measured:
        raise click.UsageError(f"There are no results in {RESULTS}: measure something first.")
    records = read_records(PAGE_RESULTS)
    for each in measured:
        records = merge_record(records, each, ORDER)
    write_records(PAGE_RESULTS, records)
    PAGE.write_text(filled_page(PAGE.read_text(), records))
    SCALE_PAGE.write_text(filled_scale_page(SCALE_PAGE.read_text(), records))
    PERFORMANCE_PAGE.write_text(filled_performance_page(PERFORMANCE_PAGE.read_text(), records))
    if any(each.benchmark == "lanes" for each in records):
        PLOT.write_text(lanes_plot(records))
    click.echo("measurements.md, scale.md and performance.md are up to date.")
    return exits.SUCCESS


def filled_page(page: str, records: Sequence[Record]) -> str:
    """The page with its block of results replaced."""
    block = f"{_conditions(records)}\n\n{markdown_table(records)}"
    return BLOCK.sub(lambda found: f"{found[1]}\n{block}\n\n{found[2]}", page)


def filled_performance_page(page: str, records: Sequence[Record]) -> str:
    """The page with its headline figures replaced."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{headline_table(records)}\n\n{found[2]}", page)


def filled_scale_page(page: str, records: Sequence[Record]) -> str:
    """The same for the page about several hosts; it keeps its block until `hosts` was measured on servers."""
    of_hosts = [each for each in records if each.benchmark == "hosts" and each.engine != "sqlite"]
    if not of_hosts:
        return page
    block = f"{_conditions(of_hosts)}\n\n{scale_table(of_hosts)}"
    return BLOCK.sub(lambda found: f"{found[1]}\n{block}\n\n{found[2]}", page)


def _conditions(records: Sequence[Record]) -> str:
    facts = records[-1].environment
    dates = sorted({each.measured_at[:10] for each in records})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    commits = ", ".join(dict.fromkeys(each.environment["commit"] for each in records))
    servers = ", ".join(dict.fromkeys(f"{each.engine} {each.environment['server']}" for each in records))
    libraries = ", ".join(f"{name} {number}" for name, number in facts["libraries"].items())
    return (
        f"Medians (minimum–maximum), measured {days} at {commits} on {facts['cores']} cores of"
        f" {facts['cpu']}, {facts['memory_gb']} GB, Python {facts['python']}, {libraries};\n"
        f"{servers}, all with their default settings."
    )


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stop the servers on SIGTERM too
    exits.run_command(command, "scripts/bench")
