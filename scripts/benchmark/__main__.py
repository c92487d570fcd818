"""The command line of the benchmarks."""

import os
import sys
from collections.abc import Callable

import click

from mayfly.migrations import migrate
from scripts.benchmark import claim, drain
from scripts.benchmark.measure import Figure, table
from scripts.benchmark.stage import new_stage
from tests.databases import Databases
from tests.servers import engine_names

Benchmark = Callable[[Databases, str, float, int], Figure]


def _claim(databases: Databases, engine: str, scale: float, times: int) -> Figure:
    with databases.fresh(engine, migrate) as large, databases.fresh(engine, migrate) as small:
        return claim.measure(engine, large, small, round(200_000 * scale), times)


def _drain(databases: Databases, engine: str, scale: float, times: int) -> Figure:
    with new_stage(databases, engine) as stage:
        return drain.measure(stage, round(1_000_000 * scale), times)


def _each(databases: Databases, engine: str, scale: float, times: int) -> Figure:
    with new_stage(databases, engine) as stage:
        return drain.measure_each(stage, round(20_000 * scale), times)


BENCHMARKS: dict[str, Benchmark] = {"claim": _claim, "drain": _drain, "each": _each}


@click.command(help="Measure Mayfly on private servers, alternately with a yardstick, and print the ratios.")
@click.option("--only", type=click.Choice(list(BENCHMARKS)), multiple=True, help="Only this one; may be repeated.")
@click.option("--engine", "engines", multiple=True, help="Only this database; may be repeated.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0.001, 10), help="Of the row counts.")
@click.option("--times", default=3, show_default=True, type=click.IntRange(1), help="Runs of each.")
def command(only: tuple[str, ...], engines: tuple[str, ...], scale: float, times: int) -> None:
    databases = Databases(os.environ)
    figures: list[Figure] = []
    steps = [(name, engine) for name in only or BENCHMARKS for engine in engines or engine_names(os.environ)]
    try:
        with click.progressbar(steps, label="Measuring", file=sys.stderr, item_show_func=_named) as bar:
            for name, engine in bar:
                figures.append(BENCHMARKS[name](databases, engine, scale, times))
    finally:
        databases.close()
    click.echo(table(figures))


def _named(step: tuple[str, str] | None) -> str | None:
    return " on ".join(step) if step else None


command()
