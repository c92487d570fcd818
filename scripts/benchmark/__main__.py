"""The command line of the benchmarks."""

import os
import sys

import click

from mayfly.migrations import migrate
from scripts.benchmark import claim
from scripts.benchmark.measure import Figure, table
from tests.databases import Databases
from tests.servers import engine_names

NAMES = ("claim",)


@click.command(help="Measure Mayfly on private servers, alternately with a yardstick, and print the ratios.")
@click.option("--only", type=click.Choice(NAMES), multiple=True, help="Only this benchmark; may be repeated.")
@click.option("--engine", "engines", multiple=True, help="Only this database; may be repeated.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0.001, 10), help="Of the row counts.")
@click.option("--times", default=5, show_default=True, type=click.IntRange(3), help="Runs of each.")
def command(only: tuple[str, ...], engines: tuple[str, ...], scale: float, times: int) -> None:
    databases = Databases(os.environ)
    figures: list[Figure] = []
    steps = [(name, engine) for name in only or NAMES for engine in engines or engine_names(os.environ)]
    try:
        with click.progressbar(steps, label="Measuring", file=sys.stderr) as bar:
            for _name, engine in bar:
                with databases.fresh(engine, migrate) as large, databases.fresh(engine, migrate) as small:
                    figures.append(claim.measure(engine, large, small, round(200_000 * scale), times))
    finally:
        databases.close()
    click.echo(table(figures))


command()
