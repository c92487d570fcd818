"""`mayfly sources`: list the sources, check them against their tables, draft one for a table."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from mayfly.admin.jobs import facts_of
from mayfly.admin.sources import list_sources
from mayfly.cli.options import json_option, open_installation, print_json, print_list
from mayfly.cli.text import sources_text
from mayfly.client import load_registry
from mayfly.errors import UnknownName
from mayfly.format import GREEN, RED, YELLOW, has_colour, painted, plain, plural
from mayfly.process import exits
from mayfly.settings import Settings
from mayfly.settings.values import SourceSettings

if TYPE_CHECKING:
    from mayfly.admin.source_check import SourceCheck


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def sources(context: click.Context, as_json: bool) -> None:
    """List sources: due rows, oldest, running and dead jobs."""
    if context.invoked_subcommand:
        return
    settings, database = open_installation()
    now = database.clock.now()
    print_list(database.read(lambda connection: list_sources(connection, settings, now)), as_json, sources_text)


@sources.command()
@click.argument("name", required=False)
@json_option
def check(name: str | None, as_json: bool) -> int:
    """Compare sources with their tables; explain their queries.

    Nothing is changed: an index that would help is only printed. Exit code 1 if there is a problem.
    """
    from mayfly.admin.source_check import check_source  # SQLAlchemy is slow to import

    settings, database = open_installation()
    registry = load_registry(settings)
    checks = [check_source(database, each, registry) for each in _selected(settings, name)]
    if as_json:
        print_json([facts_of(each) for each in checks])
    else:
        click.echo(checks_text(checks, has_colour(sys.stdout)) or sources_text([]))
    return exits.ERROR if any(each.problems for each in checks) else exits.SUCCESS


def _selected(settings: Settings, name: str | None) -> Sequence[SourceSettings]:
    if name is None:
        return list(settings.sources.values())
    if name not in settings.sources:
        raise UnknownName("source", name, "in mayfly.toml", settings.sources)
    return [settings.sources[name]]


def checks_text(checks: Sequence["SourceCheck"], colour: bool) -> str:
    return "\n\n".join("\n".join(_check_lines(each, colour)) for each in checks)


def _check_lines(check: "SourceCheck", colour: bool) -> Iterator[str]:
    word, hue = ("problem", RED) if check.problems else ("warning", YELLOW) if check.warnings else ("ok", GREEN)
    yield f"Source {check.source}, table {check.table}: {painted(word, hue, colour)}"
    yield from (f"  {painted('problem', RED, colour)}  {plain(each)}" for each in check.problems)
    yield from (f"  {painted('warning', YELLOW, colour)}  {plain(each)}" for each in check.warnings)
    for plan in check.plans:
        read = "" if plan.rows_read is None else f"{plural(plan.rows_read, 'row')} read, "
        yield f"  {plan.statement}: {read}{plan.rows_found:,} due"
        yield from (f"    {plain(line)}" for line in plan.lines)
    if check.suggested_index is not None:
        yield f"  This index would help:\n    {check.suggested_index};"


@sources.command()
@click.argument("table")
def suggest(table: str) -> None:
    """Print a draft of the settings for a table.

    Paste it into mayfly.toml, check the comments, then run `mayfly sources check`.
    """
    from mayfly.admin.source_draft import suggest_source  # SQLAlchemy is slow to import

    _settings, database = open_installation()
    click.echo(suggest_source(database, table))
