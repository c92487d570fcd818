"""Setup commands: config, migrate, dev, completion, man page; passwords and tokens of the console."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta

import click
from click.shell_completion import get_completion_class

from mayfly import __version__
from mayfly.admin import auth
from mayfly.admin.auth import TERMINAL, AuditEntry, this_user
from mayfly.cli.options import Choice, duration, json_option, open_installation, print_json
from mayfly.client import load_registry
from mayfly.clock import monotonic, pause
from mayfly.errors import UnknownName
from mayfly.format import moment
from mayfly.process import exits
from mayfly.registry import add_home_to_path, handler_modules, packages_named, required_names
from mayfly.schema.tables import VERSION, version_number
from mayfly.settings import load, load_settings
from mayfly.settings.loading import integration_origins
from mayfly.settings.values import NAME_PATTERN, NAME_RULE, ROLES

SHELLS = ("bash", "zsh", "fish")
MIN_EVERY_SECONDS = 1.0  # between two cycles of `mayfly dev`
MAX_VALUE_WIDTH = 48
ADMIN = "admin"
ENVIRONMENT_NAME = r"[a-z0-9_]+"  # valid in the name of a variable


@click.command()
@json_option
def config(as_json: bool) -> None:
    """Show every setting with value and source; secrets are masked."""
    loaded = load()
    registry = load_registry(loaded.settings)
    origins = [*loaded.origins, *integration_origins(required_names(registry.handlers.values()))]
    if as_json:
        return print_json([{"name": each.name, "value": each.value, "source": each.source} for each in origins])
    width = max(len(each.name) for each in origins)
    value_width = min(MAX_VALUE_WIDTH, max(len(each.value) for each in origins))
    for each in origins:
        click.echo(f"{each.name.ljust(width)}  {each.value.ljust(value_width)}  {each.source}")
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    return None


@click.command()
@click.option("--sql", is_flag=True, help="Print the SQL for an empty database; run nothing.")
@click.option("--app", is_flag=True, help="Migrate the tables of the handlers instead.")
@click.option("--dry-run", is_flag=True, help="Print the missing statements and their locks.")
def migrate(sql: bool, app: bool, dry_run: bool) -> None:
    """Create or update Mayfly's tables.

    Can be repeated, and run on several hosts at once, while jobs run.
    """
    from mayfly.schema import migrations  # imports Alembic, which is slow

    settings = load_settings()
    url = settings.database_url.get_secret_value()
    add_home_to_path(settings)
    modules = handler_modules(settings)
    found = list(migrations.app_tables(packages_named(modules))) if app else [migrations.OWN]
    if not found:
        click.echo(f"No package of HANDLERS ({', '.join(modules) or 'not set'}) has tables.", err=True)
    for tables in found:
        if sql:
            migrations.migration_sql(url, tables)
            continue
        if dry_run:
            statements = migrations.planned_statements(url, tables)
            click.echo("\n".join(each.lines for each in statements) or f"Nothing to do for {tables.package}.")
            continue
        subject, are = (f"tables of {tables.package}", "are") if app else ("schema", "is")
        before, after = migrations.migrate(url, tables)
        number = version_number(after or "none")
        if before == after:
            click.echo(f"The {subject} {are} up to date (version {number}).")
        elif before is None:
            click.echo(f"Created the {subject}, version {number}.")
        else:
            click.echo(f"Migrated the {subject} from version {version_number(before)} to {number}.")


# --- dev ----------------------------------------------------------------------------------------------------


@click.command()
@click.option("--lane", "lanes", multiple=True, metavar="NAME", help="Run only jobs of this lane; may be repeated.")
@click.option("--every", type=duration, default="60s", show_default=True, help="Time from one start to the next.")
@click.option("--now/--later", "at_once", default=True, show_default=True,
              help="Run the first cycle now, or only after that time.")  # fmt: skip
def dev(lanes: tuple[str, ...], every: float, at_once: bool) -> int:
    """Run a cycle every minute, with the log on the terminal.

    For development, instead of cron. Ctrl-C or TERM stops it. A cycle that takes longer delays the next one.
    """
    if every < MIN_EVERY_SECONDS:
        raise click.BadParameter(f"must be at least {MIN_EVERY_SECONDS:g}s", param_hint="--every")
    load_settings()  # an invalid setting is reported once, not every minute
    return _run_cycles(lanes, every, at_once)


def _run_cycles(lanes: tuple[str, ...], every: float, at_once: bool) -> int:
    """One dispatcher process after the other. -P: from any directory, without importing modules from there."""
    options = (word for lane in lanes for word in ("--lane", lane))
    command = [sys.executable, "-P", "-m", "mayfly", "dispatch", *options]
    environment = {**os.environ, "LOG_TO": "stdout"}
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)  # raises KeyboardInterrupt
    cycle: subprocess.Popen[bytes] | None = None
    try:
        pause(0.0 if at_once else every)
        while True:
            started = monotonic()
            cycle = subprocess.Popen(command, env=environment)  # noqa: S603 - our own interpreter and module
            if cycle.wait() == exits.USAGE:
                return exits.USAGE
            pause(max(0.0, started + every - monotonic()))
    except KeyboardInterrupt:
        return _end(cycle)


def _end(cycle: subprocess.Popen[bytes] | None) -> int:
    """The dispatcher releases its jobs before it ends; a second Ctrl-C does not wait for that."""
    if cycle is not None and cycle.poll() is None:
        cycle.send_signal(signal.SIGTERM)
        try:
            cycle.wait()
        except KeyboardInterrupt:
            cycle.kill()
            cycle.wait()
    return exits.SUCCESS


# --- shell completion and man page --------------------------------------------------------------------------


@click.command()
@click.argument("shell", type=Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for bash, zsh or fish.

    To install it, add `eval "$(mayfly completion bash)"` to ~/.bashrc.
    """
    completer = get_completion_class(shell)
    assert completer is not None
    program = context.find_root().command
    click.echo(completer(program, {}, "mayfly", "_MAYFLY_COMPLETE").source())


@click.command()
@click.pass_context
def man(context: click.Context) -> None:
    """Print the man page: `mayfly man > mayfly.1`."""
    root = context.find_root()
    click.echo(f'.TH MAYFLY 1 "" "mayfly {__version__}, schema {VERSION}" "User Commands"')
    click.echo(".SH NAME\nmayfly \\- background jobs that live for less than a minute\n.SH COMMANDS")
    for each in _commands(root):
        click.echo(f".SS {_roff(each.command_path)}\n{_preformatted(each.get_help())}")
    for title, text in MAN_SECTIONS.items():
        click.echo(f".SH {title}\n{_preformatted(text)}")


MAN_SECTIONS = {
    "EXIT STATUS": (
        "0   success; for status: no problem\n"
        "1   error, see stderr; for status: something is degraded or paused; for doctor: a problem\n"
        "2   for status: no cycle has run recently\n"
        "64  wrong usage or settings"
    ),
    "ENVIRONMENT": "NO_COLOR disables colours. Every setting of `mayfly config` can be set as a variable.",
    "SEE ALSO": "docs/how-to/operate.md and docs/reference/settings.md of the distribution; crontab(5)",
}


def _commands(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            yield from _commands(click.Context(command, parent=context, info_name=name))


def _preformatted(text: str) -> str:
    return "\n".join([".nf", *map(_roff, text.splitlines()), ".fi"])


def _roff(line: str) -> str:
    """Escaped: a leading dot is a command in troff, and a plain minus becomes a hyphen that cannot be copied."""
    escaped = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


# --- passwords and tokens -----------------------------------------------------------------------------------


@click.command()
@click.option("--name", default=ADMIN, show_default=True, help="Name of the account.")
@click.option("--role", type=Choice(ROLES), help="Role of the account (default: viewer).")
def password(name: str, role: str | None) -> None:
    """Ask for a console password and print its hash as a setting.

    Add the lines to .env or mayfly.toml. Without a terminal the password is read from standard input.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        raise click.BadParameter(f"must be {NAME_RULE}", param_hint="--name")
    if name == ADMIN and role not in (None, ADMIN):
        raise click.BadParameter(f"the account {ADMIN} is always {ADMIN}; use another --name", param_hint="--role")
    hashed = auth.hash_password(_ask())
    file = ".env" if _fits_environment(name) else "mayfly.toml"
    for line in lines_for(name, role or ROLES[0], hashed):
        click.echo(line)
    click.echo(f"Add this to {file} and restart the console.", err=True)


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
        given: str = click.prompt("Password", hide_input=True, confirmation_prompt="Repeat the password", err=True)
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    auth.refuse_weak(given)
    return given


@click.group()
def token() -> None:
    """Create, list and revoke tokens for the HTTP API."""


@token.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, type=Choice(list(auth.SCOPES)),
              help="What the token allows; may be repeated.")  # fmt: skip
@click.option("--expires-in", type=duration, help="Lifetime: 12h, 90d.")
def create(name: str, scopes: tuple[str, ...], expires_in: float | None) -> None:
    """Create a token and print it once; only its hash is stored."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise click.BadParameter(f"must be {NAME_RULE}", param_hint="NAME")
    _settings, database = open_installation()
    now = database.clock.now()
    until = None if expires_in is None else now + timedelta(seconds=expires_in)
    text, actor = auth.new_token_text(), this_user(TERMINAL)
    new = auth.Token(name, auth.hash_token(text), frozenset(scopes), now, actor.name, until)
    entry = AuditEntry(actor, "create token", f"{name} scopes={auth.scopes_text(scopes)}", now)
    database.run(lambda connection: auth.add_token(connection, new, entry))
    click.echo(text)
    click.echo("Store it now: it is not shown again.", err=True)


@token.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List tokens: scopes, creator, expiry and last use."""
    _settings, database = open_installation()
    now = database.clock.now()
    found = database.read(auth.list_tokens)
    if as_json:
        return print_json([each.facts(now) for each in found])
    for each in found:
        click.echo(_token_line(each, now))
    if not found:
        click.echo("No tokens. `mayfly token create NAME --scope enqueue` creates one.")
    return None


def _token_line(token: auth.Token, now: datetime) -> str:
    valid = f"valid until {moment(token.expires_at)}" if token.expires_at else "valid"
    if token.revoked_at:
        valid = f"revoked {moment(token.revoked_at)}"
    elif token.expires_at and not token.holds(now):
        valid = f"expired {moment(token.expires_at)}"
    used = f"last used {moment(token.last_used_at)}" if token.last_used_at else "never used"
    created = f"created {moment(token.created_at)} by {token.created_by}"
    return f"{token.name}  {auth.scopes_text(token.scopes)}  {valid}  {created}  {used}"


@token.command()
@click.argument("name")
def revoke(name: str) -> None:
    """Revoke a token; requests with it fail at once."""
    _settings, database = open_installation()
    now = database.clock.now()
    entry = AuditEntry(this_user(TERMINAL), "revoke token", name, now)
    if not database.run(lambda connection: auth.revoke_token(connection, entry)):
        raise UnknownName("token", name, "to revoke; `mayfly token list` shows all tokens")
    click.echo(f"Revoked the token {name}.")
