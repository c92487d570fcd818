"""`python -m console`: serve the web console and the HTTP API until SIGTERM or Ctrl-C."""

import asyncio
import sys
from ipaddress import ip_address

import click

from mayfly import log_messages
from mayfly.errors import ConsoleMissing, ConsoleUnsafe
from mayfly.log import echo_log
from mayfly.process import exits
from mayfly.process.programs import taken_names
from mayfly.schema import open_database
from mayfly.settings import Settings, load

CONNECTIONS = 8  # also the number of threads: a request waits for a thread without holding a connection


@click.command(
    help="Serve the web console and the HTTP API.\n\nAt CONSOLE_HOST and CONSOLE_PORT, until SIGTERM or Ctrl-C. "
    "See docs/how-to/console.md and docs/how-to/pull-workers.md."
)
@click.option("--api-only", is_flag=True, help="Serve only the HTTP API, /metrics and /health. Needs no password.")
def command(api_only: bool) -> int:
    try:
        from console.server import serve  # imported here: a missing package becomes an error message, not a traceback
    except ModuleNotFoundError as error:
        raise ConsoleMissing(error.name or "") from error
    loaded = load()
    settings = loaded.settings
    check_exposure(settings)
    check_password(settings, api_only)
    log = echo_log(settings, "CONSOLE", sys.stderr)
    for warning in loaded.warnings:
        log.write(log_messages.setting_warning(warning))
    for taken in taken_names(settings.home):
        log.write(log_messages.package_name_taken(taken.path, taken.package))
    database = open_database(settings, CONNECTIONS)
    try:
        database.connect()
        asyncio.run(serve(settings, database, log, CONNECTIONS, api_only))
    finally:
        database.close()
    return exits.SUCCESS


def check_password(settings: Settings, api_only: bool) -> None:
    if not api_only and settings.console_password_hash is None and not settings.console_accounts:
        raise ConsoleUnsafe(
            "The web console has no password: set CONSOLE_PASSWORD_HASH to the output of `mayfly password`. "
            "The HTTP API alone (--api-only) needs none."
        )


def check_exposure(settings: Settings) -> None:
    """Refuse to send tokens and passwords over a network without TLS."""
    if not settings.console_tls_proxy and not is_loopback(settings.console_host):
        raise ConsoleUnsafe(
            f"CONSOLE_HOST={settings.console_host} is not a loopback address: tokens would cross the network "
            "unencrypted. Put a TLS proxy in front and set CONSOLE_TLS_PROXY=true, or use 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def main() -> None:
    exits.run_command(command, "mayfly console")


if __name__ == "__main__":
    main()
