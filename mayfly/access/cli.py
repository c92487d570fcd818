"""`mayfly token`: make, list and revoke the tokens of the HTTP API."""

import json
import re
from datetime import timedelta

import click

from mayfly import exits
from mayfly.access.scopes import SCOPES, as_text
from mayfly.actor import TERMINAL, this_user
from mayfly.control.parameters import duration
from mayfly.settings import load_settings
from mayfly.settings.values import NAME_PATTERN, NAME_RULE


@click.group()
def token() -> None:
    """Make, list and revoke the tokens by which other programs use the HTTP API."""


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(list(SCOPES)),
    help="What it is for; may be repeated.",
)
@click.option("--expires-in", callback=duration, metavar="TIME", help="When it ends by itself: 12h, 90d.")
def create(name: str, scopes: tuple[str, ...], expires_in: int | None) -> int:
    """Make a token called NAME and print it. This is the only time: only its hash is kept."""
    from mayfly.access import tokens  # the database, only where it is needed
    from mayfly.jobs.audit import Deed
    from mayfly.opening import open_database

    if not re.fullmatch(NAME_PATTERN, name):
        raise click.BadParameter(f"must have {NAME_RULE}", param_hint="NAME")
    database = open_database(load_settings())
    now = database.clock.now()
    until = None if expires_in is None else now + timedelta(seconds=expires_in)
    text, actor = tokens.new_text(), this_user(TERMINAL)
    new = tokens.Token(name, tokens.hash_of(text), frozenset(scopes), now, actor.name, until)
    deed = Deed(actor, "create token", f"{name} scopes={as_text(scopes)}", now)
    database.run(lambda connection: tokens.add(connection, new, deed))
    click.echo(text)
    click.echo("Keep it: it is not shown again.", err=True)
    return exits.SUCCESS


@token.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> int:
    """List the tokens: what each is for, by whom it was made, when it was used last."""
    from mayfly.access.tokens import listed
    from mayfly.opening import open_database

    database = open_database(load_settings())
    now = database.clock.now()
    facts = [each.facts(now) for each in database.read(listed)]
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return exits.SUCCESS
    for each in facts:
        click.echo(_line(each))
    if not facts:
        click.echo("There are no tokens. `mayfly token create NAME --scope enqueue` makes one.")
    return exits.SUCCESS


@token.command()
@click.argument("name")
def revoke(name: str) -> int:
    """End the token NAME, from the next request on."""
    from mayfly.access import tokens
    from mayfly.errors import UnknownToken
    from mayfly.jobs.audit import Deed
    from mayfly.opening import open_database

    database = open_database(load_settings())
    now = database.clock.now()
    deed = Deed(this_user(TERMINAL), "revoke token", name, now)
    if not database.run(lambda connection: tokens.revoke(connection, deed)):
        raise UnknownToken(name)
    click.echo(f"Revoked the token {name}.")
    return exits.SUCCESS


def _line(facts: dict[str, object]) -> str:
    ended = f"revoked {facts['revoked_at']}" if facts["revoked_at"] else f"expired {facts['expires_at']}"
    holds = f"until {facts['expires_at']}" if facts["expires_at"] else "holds"
    used = f"last used {facts['last_used_at']}" if facts["last_used_at"] else "never used"
    scopes = facts["scopes"]
    listed = " ".join(scopes) if isinstance(scopes, list) else ""
    made = f"made {facts['created_at']} by {facts['created_by']}"
    return f"{facts['name']}  {listed}  {holds if facts['holds'] else ended}  {made}  {used}"
