"""`mayfly password` for logging in to the web console, `mayfly token` for programs that use the HTTP API."""

import re
import sys
from datetime import timedelta

import click

from mayfly.admin.audit import TERMINAL, AuditEntry, this_user
from mayfly.admin.auth import (
    MIN_PASSWORD_LENGTH,
    SCOPES,
    Token,
    add_token,
    hash_password,
    hash_token,
    list_tokens,
    new_token_text,
    revoke_token,
    scopes_text,
)
from mayfly.cli.options import Choice, duration, json_option, open_installation, print_json
from mayfly.errors import UnknownName
from mayfly.settings.values import NAME_PATTERN, NAME_RULE, ROLES

ADMIN = "admin"
ENVIRONMENT_NAME = r"[a-z0-9_]+"  # can be part of a variable's name


@click.command()
@click.option("--name", default=ADMIN, show_default=True, help="The account.")
@click.option("--role", type=Choice(ROLES), help="What it may do; viewer by default.")
def password(name: str, role: str | None) -> None:
    """Ask for a console password and print its hash as a setting.

    The lines go into .env or mayfly.toml. Without a terminal the password is read from standard input.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        raise click.BadParameter(f"must have {NAME_RULE}", param_hint="--name")
    if name == ADMIN and role not in (None, ADMIN):
        raise click.BadParameter(f"the account {ADMIN} is always {ADMIN}: give another --name", param_hint="--role")
    hashed = hash_password(_ask())
    file = ".env" if _fits_environment(name) else "mayfly.toml"
    for line in lines_for(name, role or ROLES[0], hashed):
        click.echo(line)
    click.echo(f"Put this into {file} and restart the console.", err=True)


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
    if sys.stdin.isatty():
        given: str = click.prompt("Password", hide_input=True, confirmation_prompt="Once more", err=True)
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    if len(given) < MIN_PASSWORD_LENGTH:
        raise click.UsageError(f"A password has at least {MIN_PASSWORD_LENGTH} characters.")
    return given


@click.group()
def token() -> None:
    """Create, list and revoke tokens for the HTTP API."""


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=Choice(list(SCOPES)),
    help="What it may be used for; may be repeated.",
)
@click.option("--expires-in", callback=duration, metavar="TIME", help="Lifetime: 12h, 90d.")
def create(name: str, scopes: tuple[str, ...], expires_in: float | None) -> None:
    """Create a token and print it, once: only its hash is stored."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise click.BadParameter(f"must have {NAME_RULE}", param_hint="NAME")
    _settings, database = open_installation()
    now = database.clock.now()
    until = None if expires_in is None else now + timedelta(seconds=expires_in)
    text, actor = new_token_text(), this_user(TERMINAL)
    new = Token(name, hash_token(text), frozenset(scopes), now, actor.name, until)
    entry = AuditEntry(actor, "create token", f"{name} scopes={scopes_text(scopes)}", now)
    database.run(lambda connection: add_token(connection, new, entry))
    click.echo(text)
    click.echo("Store it now: it is not shown again.", err=True)


@token.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List tokens: scopes, creator, expiry and last use."""
    _settings, database = open_installation()
    now = database.clock.now()
    facts = [each.facts(now) for each in database.read(list_tokens)]
    if as_json:
        print_json(facts)
    elif facts:
        click.echo("\n".join(map(_line, facts)))
    else:
        click.echo("There are no tokens. `mayfly token create NAME --scope enqueue` creates one.")


@token.command()
@click.argument("name")
def revoke(name: str) -> None:
    """Revoke a token; requests with it fail from now on."""
    _settings, database = open_installation()
    now = database.clock.now()
    entry = AuditEntry(this_user(TERMINAL), "revoke token", name, now)
    if not database.run(lambda connection: revoke_token(connection, entry)):
        raise UnknownName("token", name, "that could be revoked; `mayfly token list` shows all")
    click.echo(f"Revoked the token {name}.")


def _line(facts: dict[str, object]) -> str:
    ended = f"revoked {facts['revoked_at']}" if facts["revoked_at"] else f"expired {facts['expires_at']}"
    valid = f"until {facts['expires_at']}" if facts["expires_at"] else "valid"
    used = f"last used {facts['last_used_at']}" if facts["last_used_at"] else "never used"
    scopes = facts["scopes"]
    listed = " ".join(scopes) if isinstance(scopes, list) else ""
    created = f"created {facts['created_at']} by {facts['created_by']}"
    return f"{facts['name']}  {listed}  {valid if facts['holds'] else ended}  {created}  {used}"
