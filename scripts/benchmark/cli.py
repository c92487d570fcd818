"""The command line of the benchmarks."""

import signal
from difflib import get_close_matches
from pathlib import Path

import click

from mayfly.process import command_line, exits
from scripts.benchmark.docs import write_docs
from scripts.benchmark.engines import ENGINES
from scripts.benchmark.environment import environment, warning
from scripts.benchmark.progress import duration
from scripts.benchmark.registry import LINES, USUAL_TIMES, steps
from scripts.benchmark.report import failures, plain_table
from scripts.benchmark.results import FILE, Record, read_records
from scripts.benchmark.session import Session
from scripts.benchmark.stage import CHECKOUT

RESULTS = CHECKOUT / "bench" / "results"
DOCS = CHECKOUT / "docs"


def _known(_context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    known = LINES if option.name == "only" else ENGINES
    for each in given:
        if each not in known:
            nearest = get_close_matches(each, known, n=1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            raise click.BadParameter(f"there is no {each!r}; there are {', '.join(known)}.{hint}")
    return given


@click.command(
    help="Measure Mayfly on private servers of its own, in turns with a yardstick, and print medians, spreads and"
    " ratios. Exit code 1 when a goal is missed or a line failed. Goals are for full size: with a smaller --scale"
    " only those are judged that do not depend on it."
)
@click.option("--only", metavar="NAME", multiple=True, callback=_known, help="Only this line; may be repeated.")
@click.option("--engine", metavar="NAME", multiple=True, callback=_known, help="Only this database; may be repeated.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0.001, 10), help="Of the row counts.")
@click.option("--times", default=USUAL_TIMES, show_default=True, type=click.IntRange(1), help="Runs of each.")
@click.option(
    "--output", default=RESULTS, type=click.Path(file_okay=False, path_type=Path),
    help="Where results.json and the plots are written. [default: bench/results]",
)  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="Show the lines and how long they take; measure nothing.")
@click.option(
    "--write-docs", "writing", is_flag=True, help="Fill docs/performance.md from the results; measure nothing."
)
def command(
    only: tuple[str, ...],
    engine: tuple[str, ...],
    scale: float,
    times: int,
    output: Path,
    listing: bool,
    writing: bool,
) -> int:
    if writing:
        return _write_docs(output)
    session = Session(steps(only, engine), scale, times, output, environment())
    if listing:
        return _list(session)
    return _measure(session)


def _measure(session: Session) -> int:
    facts = session.environment
    busy = warning(facts["load_at_start"], facts["cores"])
    if busy:
        click.echo(busy, err=True)
    click.echo(f"{len(session.steps)} measurements, about {duration(session.estimate)}.", err=True)
    records = session.run(_say_failure)
    click.echo(plain_table(records))
    click.echo(f"Written to {session.output}.", err=True)
    return exits.ERROR if any(each.is_missed for each in records) else exits.SUCCESS


def _say_failure(record: Record) -> None:
    for sentence in failures([record]):
        click.echo(sentence, err=True)


def _list(session: Session) -> int:
    for name in dict.fromkeys(step.name for step in session.steps):
        ours = [step for step in session.steps if step.name == name]
        seconds = sum(step.line.estimate(step.engine, session.scale, session.times) for step in ours)
        click.echo(f"{name:14}{LINES[name].about:48}about {duration(seconds)}")
    click.echo(f"\nAll of it: about {duration(session.estimate)}.")
    return exits.SUCCESS


def _write_docs(output: Path) -> int:
    """Only what was measured to its end is worth a page."""
    records = read_records(output / FILE)
    if not records:
        raise click.UsageError(f"There are no results in {output}: measure something first.")
    for record in records:
        _say_failure(record)
    write_docs([each for each in records if each.error is None], DOCS)
    click.echo("docs/performance.md is up to date.")
    return exits.SUCCESS


def main() -> None:
    """Told to stop, by whatever signal, it takes its servers down."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command_line.run_command(command, "scripts/bench")
