"""`mayfly password`: the lines by which somebody may log in to the web console."""

import json
import re
import sys
from datetime import timedelta

import click

from mayfly.admin.audit import TERMINAL, this_user
from mayfly.admin.auth import SCOPES, scopes_text
from mayfly.cli.options import duration
from mayfly.process import exits
from mayfly.settings import load_settings
from mayfly.settings.values import NAME_PATTERN, NAME_RULE, ROLES

ADMIN = "admin"
ENVIRONMENT_NAME = r"[a-z0-9_]+"  # what can stand in the name of a variable


@click.command()
@click.option("--name", default=ADMIN, show_default=True, help="Whose it is.")
@click.option("--role", type=click.Choice(ROLES), help="What he may: see, act, everything. viewer by default.")
def password(name: str, role: str | None) -> int:
    """Ask for a password twice, and print what to put into .env or mayfly.toml: only its hash.

    Where nobody sits there to be asked, it is read from standard input.
    """
    from mayfly.admin.auth import hash_password

    if not re.fullmatch(NAME_PATTERN, name):
        raise click.BadParameter(f"must have {NAME_RULE}", param_hint="--name")
    if name == ADMIN and role not in (None, ADMIN):
        raise click.BadParameter(f"the account {ADMIN} is always {ADMIN}: give another --name", param_hint="--role")
    hashed = hash_password(_ask())
    file = ".env" if _fits_environment(name) else "mayfly.toml"
    for line in lines_for(name, role or ROLES[0], hashed):
        click.echo(line)
    click.echo(f"Put this into {file} and start the console anew.", err=True)
    return exits.SUCCESS


def lines_for(name: str, role: str, hashed: str) -> list[str]:
    if name == ADMIN:
        return [f"CONSOLE_PASSWORD_HASH='{hashed}'"]
    if not _fits_environment(name):
        return [f'[console_accounts."{name}"]', f'role = "{role}"', f'password_hash = "{hashed}"']
    variable = f"CONSOLE_ACCOUNTS__{name.upper()}"
    return [f"{variable}__ROLE={role}", f"{variable}__PASSWORD_HASH='{hashed}'"]


def _fits_environment(name: str) -> bool:
    return bool(re.fullmatch(ENVIRONMENT_NAME, name))


def _ask() -> str:
    from mayfly.admin.auth import MIN_PASSWORD_LENGTH

    if sys.stdin.isatty():
        given: str = click.prompt("Password", hide_input=True, confirmation_prompt="Once more", err=True)
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    if len(given) < MIN_PASSWORD_LENGTH:
        raise click.UsageError(f"A password has at least {MIN_PASSWORD_LENGTH} characters.")
    return given


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
def create(name: str, scopes: tuple[str, ...], expires_in: float | None) -> int:
    """Make a token called NAME and print it. This is the only time: only its hash is kept."""
    from mayfly.admin import auth  # the database, only where it is needed
    from mayfly.admin.audit import AuditEntry
    from mayfly.bootstrap import open_database

    if not re.fullmatch(NAME_PATTERN, name):
        raise click.BadParameter(f"must have {NAME_RULE}", param_hint="NAME")
    database = open_database(load_settings())
    now = database.clock.now()
    until = None if expires_in is None else now + timedelta(seconds=expires_in)
    text, actor = auth.new_token_text(), this_user(TERMINAL)
    new = auth.Token(name, auth.hash_token(text), frozenset(scopes), now, actor.name, until)
    deed = AuditEntry(actor, "create token", f"{name} scopes={scopes_text(scopes)}", now)
    database.run(lambda connection: auth.add_token(connection, new, deed))
    click.echo(text)
    click.echo("Keep it: it is not shown again.", err=True)
    return exits.SUCCESS


@token.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> int:
    """List the tokens: what each is for, by whom it was made, when it was used last."""
    from mayfly.admin.auth import list_tokens
    from mayfly.bootstrap import open_database

    database = open_database(load_settings())
    now = database.clock.now()
    facts = [each.facts(now) for each in database.read(list_tokens)]
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
    from mayfly.admin import auth
    from mayfly.admin.audit import AuditEntry
    from mayfly.bootstrap import open_database
    from mayfly.errors import UnknownName

    database = open_database(load_settings())
    now = database.clock.now()
    deed = AuditEntry(this_user(TERMINAL), "revoke token", name, now)
    if not database.run(lambda connection: auth.revoke_token(connection, deed)):
        raise UnknownName("token", name, "that could be revoked; `mayfly token list` shows all")
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
