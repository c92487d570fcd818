"""`mayfly limits`: what is used of each key, of how much, and when it opens."""

import json

import click

from mayfly.process import exits
from mayfly.settings import load_settings


@click.command()
@click.argument("words", metavar="[KEY]", required=False)
@click.option("--used-up", is_flag=True, help="Only those of which nothing is left.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def limits(words: str | None, used_up: bool, as_json: bool) -> int:
    """List the limits that jobs have asked for, or those whose key begins with KEY.

    A key appears here with its first job, and is forgotten a week after its window.
    """
    from mayfly.admin.limits import limits_table, list_limits  # the database, only where it is needed
    from mayfly.bootstrap import open_database

    database = open_database(load_settings())
    now = database.clock.now()
    listed = database.read(lambda connection: list(list_limits(connection, now)))
    database.close()
    found = [each for each in listed if each.key.startswith(words or "") and (each.is_used_up or not used_up)]
    if as_json:
        click.echo(json.dumps([each.facts() for each in found], indent=2))
    elif not found:
        click.echo("No such limit is in use.")
    else:
        click.echo(limits_table(found))
    return exits.SUCCESS
