"""`mayfly mailroom`: list bounces that belong to no known email."""

import json

import click

from mayfly import database


@click.group()
def mailroom() -> None:
    """The mail room: bounces of unknown emails."""


@mailroom.command()
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of rows.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def orphans(limit: int, as_json: bool) -> None:
    """List bounces of unknown emails, the newest first."""
    from handlers.mailroom.bounces import (
        orphans as find_orphans,  # needs libraries of an extra, which --help does not
    )

    names = ("id", "tenant_id", "address", "kind", "code", "original_id", "reason", "message_id")
    found = [
        {**{name: getattr(row, name) for name in names}, "bounced_at": row.bounced_at.isoformat()}
        for row in database().read(lambda connection: find_orphans(connection, limit))
    ]
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for each in found:
        what = f"{each['kind']} {each['code'] or ''}".rstrip()
        click.echo(f"{each['bounced_at'][:19]}  {each['tenant_id']}  {each['address'] or '?'}  {what}")
        click.echo(f"  message {each['original_id'] or '?'}: {each['reason'] or ''}".rstrip())
    if not found:
        click.echo("There are no bounces of unknown emails.")
