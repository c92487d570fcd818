"""`mayfly password`: the lines by which somebody may log in to the web console."""

import re
import sys

import click

from mayfly import exits
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
    from mayfly.access.passwords import hash_of

    if not re.fullmatch(NAME_PATTERN, name):
        raise click.BadParameter(f"must have {NAME_RULE}", param_hint="--name")
    if name == ADMIN and role not in (None, ADMIN):
        raise click.BadParameter(f"the account {ADMIN} is always {ADMIN}: give another --name", param_hint="--role")
    hashed = hash_of(_ask())
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
    from mayfly.access.passwords import SHORTEST

    if sys.stdin.isatty():
        given: str = click.prompt("Password", hide_input=True, confirmation_prompt="Once more", err=True)
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    if len(given) < SHORTEST:
        raise click.UsageError(f"A password has at least {SHORTEST} characters.")
    return given
