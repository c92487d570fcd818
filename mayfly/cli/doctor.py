"""`mayfly doctor`: check everything that an installation needs, and say what to do about each problem.

A check is a function in CHECKS; DATABASE_CHECKS need the database and end at the first that fails.
"""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import click

from mayfly.admin.batches import never_sealed
from mayfly.admin.health import ProblemKind, Severity, latency_targets, problems, read_snapshot
from mayfly.admin.schedules import entry_problems, load_schedules
from mayfly.bootstrap import load_registry, missing_embedded
from mayfly.cli import cron_file
from mayfly.cli.options import json_option, print_list
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import DatabaseError, HookUnusable, MayflyError, TableMissing
from mayfly.format import GREEN, RED, YELLOW, format_duration, has_colour, painted
from mayfly.monitoring.channels import CHANNELS, host_of
from mayfly.monitoring.hooks import AFTER, BEFORE, ON_DEAD, find_hooks
from mayfly.monitoring.metrics import textfile_problem
from mayfly.process import exits
from mayfly.process.state_dir import open_state_dir
from mayfly.registry import Handler, Registry, missing_settings, packages_named, required_names
from mayfly.schedules.declare import declared_text, synced_text
from mayfly.schedules.next_due import schedule_files
from mayfly.schema.tables import VERSION, Version, require_version
from mayfly.settings import Loaded, Settings, load

SYSTEMD_TIMERS = (Path("/etc/systemd/system/mayfly.timer"), Path("/lib/systemd/system/mayfly.timer"))
COMPILED = ("mayfly.db.database", "mayfly.cli.main", "click.core", "psutil._common")  # imported by every cycle


class CheckStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class CheckResult:
    """One line of the report."""

    name: str
    status: CheckStatus
    text: str

    def facts(self) -> dict[str, str]:
        return {"check": self.name, "health": self.status.value, "text": self.text}


class Installation:
    """The settings, handlers and database that checks read."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.settings: Settings = loaded.settings
        self.url: str = loaded.settings.database_url.get_secret_value()

    @cached_property
    def registry(self) -> Registry:
        return load_registry(self.settings)

    @cached_property
    def database(self) -> Database:
        return Database(self.url)


Check = Callable[[Installation], Iterator[CheckResult]]


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Check everything that an installation needs.

    Exit code 1 if there is a problem.
    """
    results = run_checks()
    print_list(results, as_json, lambda results: render_results(results, colour=has_colour(sys.stdout)))
    has_problem = any(each.status is CheckStatus.PROBLEM for each in results)
    return exits.ERROR if has_problem else exits.SUCCESS


def run_checks() -> list[CheckResult]:
    try:
        installation = Installation(load())
    except MayflyError as error:
        return [_problem("settings", str(error))]
    return [result for check in CHECKS for result in check(installation)]


def render_results(results: Sequence[CheckResult], colour: bool) -> str:
    paint = {CheckStatus.OK: GREEN, CheckStatus.WARNING: YELLOW, CheckStatus.PROBLEM: RED}
    width = max(len(each.name) for each in results)
    lines = []
    for each in results:
        word = painted(each.status.ljust(7), paint[each.status], colour)
        lines.append(f"{word}  {each.name.ljust(width)}  " + each.text.replace("\n", "\n" + " " * (width + 11)))
    return "\n".join(lines)


def _ok(name: str, text: str) -> CheckResult:
    return CheckResult(name, CheckStatus.OK, text)


def _warning(name: str, text: str) -> CheckResult:
    return CheckResult(name, CheckStatus.WARNING, text)


def _problem(name: str, text: str) -> CheckResult:
    return CheckResult(name, CheckStatus.PROBLEM, text)


# --- this host ----------------------------------------------------------------------------------------------


def check_settings(installation: Installation) -> Iterator[CheckResult]:
    yield _ok("settings", f"read; MAYFLY_HOME is {installation.settings.home}")
    yield from (_warning("settings", each) for each in installation.loaded.warnings)


def check_log(installation: Installation) -> Iterator[CheckResult]:
    settings, directory = installation.settings, installation.settings.log_dir
    existing = next(each for each in (directory, *directory.parents) if each.exists())
    if settings.log_to != "file":
        yield _ok("log", f"goes to {settings.log_to}")
    elif not existing.is_dir() or not os.access(existing, os.W_OK):
        advice = f"make {existing} writable for this user, or set LOG_DIR"
        yield _problem("log", f"{directory} cannot be written: {advice}.")
    else:
        yield _ok("log", f"{directory} is writable")


def check_state(installation: Installation) -> Iterator[CheckResult]:
    try:
        yield _ok("state", f"{open_state_dir(installation.settings)} is private and writable")
    except MayflyError as error:
        yield _problem("state", str(error))
    except OSError as error:
        yield _problem("state", f"{error}. Set STATE_DIR to a directory of your own.")


def check_bytecode(_installation: Installation) -> Iterator[CheckResult]:
    missing = [name for name in COMPILED if not _is_compiled(name)]
    if missing:
        text = (
            f"not compiled: {', '.join(missing)}; every start is about three times slower. "
            "Run scripts/quickstart again, or `python -m compileall -q` on the checkout and the virtual environment."
        )
        yield _warning("bytecode", text)
    else:
        yield _ok("bytecode", "compiled")


def _is_compiled(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return True  # compiled to machine code, or not installed
    return Path(importlib.util.cache_from_source(spec.origin)).exists()


def check_cron(installation: Installation) -> Iterator[CheckResult]:
    files = cron_file.find_cron_files(cron_file.DIRECTORY, str(installation.settings.home))
    timers = [each for each in SYSTEMD_TIMERS if each.exists()]
    for path in files:
        found = cron_file.inspect_cron_file(cron_file.read_cron_file(path))
        yield from (_problem("cron", f"{path}: {each}") for each in found)
        if not found:
            yield _ok("cron", f"{path} starts the dispatcher")
    if timers and not files:
        yield _ok("cron", f"{timers[0]} starts the dispatcher")
    elif not files:
        text = "nothing in /etc/cron.d starts the dispatcher for this home: run scripts/install-cron."
        yield _warning("cron", text)


# --- the database -------------------------------------------------------------------------------------------


def check_database(installation: Installation) -> Iterator[CheckResult]:
    missing = missing_embedded(installation.url)
    if missing is not None:
        yield _warning("database", f"{missing} does not exist yet; the first job or cycle creates it.")
        return
    for name, check in DATABASE_CHECKS.items():
        try:
            yield from check(installation)
        except MayflyError as error:
            yield _problem(name, str(error))
            return
    installation.database.close()


def _check_server(installation: Installation) -> Iterator[CheckResult]:
    database = installation.database
    yield _ok("database", f"{database.read(_server)} at {database.name}")


def _server(connection: Connection) -> str:
    return str(connection.dialect.server(connection.raw))


def _check_locking(installation: Installation) -> Iterator[CheckResult]:
    installation.database.read(lambda connection: connection.dialect.require_skip_locked(connection.raw))
    yield _ok("locking", "claims do not wait for each other")


def _check_schema(installation: Installation) -> Iterator[CheckResult]:
    installation.database.read(require_version)
    yield _ok("schema", f"version {VERSION}")


def _check_clock(installation: Installation) -> Iterator[CheckResult]:
    clock = installation.database.clock
    offset = clock.offset.total_seconds()
    if clock.is_skewed:
        text = f"this host is {-offset:+.1f} s off the database's clock, which decides; check NTP here."
        yield _warning("clock", text)
    else:
        yield _ok("clock", f"{abs(offset) * 1000:.0f} ms from the database's")


def _check_health(installation: Installation) -> Iterator[CheckResult]:
    """The problems of `mayfly status`. They are warnings here, unless no cycle runs: the installation may be fine."""
    database, settings = installation.database, installation.settings
    now = database.clock.now()
    snapshot = database.read(lambda connection: read_snapshot(connection, settings, now))
    found = [each for each in problems(snapshot, settings) if each.severity >= Severity.WARNING]
    for each in found:
        name = "cycles" if each.kind in (ProblemKind.CYCLE, ProblemKind.EXIT_CODE) else "health"
        is_down = each.severity is Severity.DOWN and snapshot.has_cycles  # a new installation has none yet
        yield CheckResult(name, CheckStatus.PROBLEM if is_down else CheckStatus.WARNING, each.text)
    if not any(each.kind in (ProblemKind.CYCLE, ProblemKind.EXIT_CODE) for each in found):
        last = max(snapshot.hosts, key=lambda each: each.last.started_at)
        yield _ok("cycles", f"the last one began {format_duration(now - last.last.started_at)} ago on {last.host}")


def _check_batches(installation: Installation) -> Iterator[CheckResult]:
    now = installation.database.clock.now()
    found = installation.database.read(lambda connection: never_sealed(connection, now))
    if not found:
        yield _ok("batches", "none is unsealed since long ago")
        return
    (key, since), others = found[0], f" And {len(found) - 1} more." if found[1:] else ""
    age = format_duration(now - since)
    text = (
        f"{key} has been filled for {age}: did its producer die? `mayfly batches seal {key}` ends the "
        f"filling, `mayfly batches abandon {key}` cancels its jobs.{others}"
    )
    yield _warning("batches", text)


DATABASE_CHECKS: dict[str, Check] = {
    "database": _check_server,
    "locking": _check_locking,
    "schema": _check_schema,
    "clock": _check_clock,
    "cycles": _check_health,
    "batches": _check_batches,
}


# --- the application ----------------------------------------------------------------------------------------


def check_handlers(installation: Installation) -> Iterator[CheckResult]:
    registry = installation.registry
    for module, reason in registry.failures.items():
        yield _problem("handlers", f"{module} cannot be imported: {reason}")
    if not registry.handlers:
        yield _problem("handlers", f"none found in {', '.join(installation.settings.handlers)}: set HANDLERS.")
    else:
        yield _ok("handlers", f"{len(registry.handlers)} types: {', '.join(sorted(registry.handlers))}")


def check_app_tables(installation: Installation) -> Iterator[CheckResult]:
    """Skipped without a database, or where a package that may have tables cannot be imported."""
    if not installation.registry.failures and missing_embedded(installation.url) is None:
        yield from app_table_results(installation.url, installation.settings.handlers)


def app_table_results(url: str, modules: Sequence[str]) -> Iterator[CheckResult]:
    from mayfly.schema.migrations import app_tables  # Alembic is slow to import

    database = Database(url)
    try:
        for each in app_tables(packages_named(modules)):
            stored = _stored_version(database, each.version_table)
            yield _app_tables_result(each.package, stored, *each.versions())
    except DatabaseError:
        return  # reported by check_database
    finally:
        database.close()


def _stored_version(database: Database, table: str) -> Version:
    statement = f"SELECT version_num FROM {table}"
    try:
        found: Version = database.read(lambda connection: connection.execute(statement).scalar())
    except TableMissing:
        return None
    return found


def _app_tables_result(package: str, stored: Version, newest: Version, known: set[str]) -> CheckResult:
    advice = "run `mayfly migrate --app`."
    if stored == newest:
        return _ok("tables", f"those of {package} have version {newest}")
    if stored is None:
        return _warning("tables", f"those of {package} are missing, and its jobs may need them: {advice}")
    if stored in known:
        return _problem("tables", f"those of {package} have version {stored}, its code needs {newest}: {advice}")
    text = f"those of {package} have version {stored}, which its code does not know: update it on this host."
    return _problem("tables", text)


def check_integrations(installation: Installation) -> Iterator[CheckResult]:
    """One that is off is a decision, not a problem."""
    yield from integration_results(installation.registry.handlers)


def integration_results(handlers: Mapping[str, Handler]) -> Iterator[CheckResult]:
    names = required_names(handlers.values())
    if not names:
        return
    missing = missing_settings(handlers)
    off = sorted({name for required in missing.values() for name in required})
    for name in off:
        types = ", ".join(sorted(each for each, required in missing.items() if name in required))
        yield _ok("integrations", f"off: {name} is not set: jobs of {types} are cancelled.")
    if not off:
        yield _ok("integrations", f"all are configured: {', '.join(names)}")


def check_hooks(installation: Installation) -> Iterator[CheckResult]:
    _ = installation.registry  # makes MAYFLY_HOME importable
    for variable, found in find_hooks(installation.settings, BEFORE, AFTER, ON_DEAD):
        if isinstance(found, HookUnusable):
            yield _problem("hooks", str(found))
        else:
            yield _ok("hooks", f"{variable}={found.name}")


def check_schedules(installation: Installation) -> Iterator[CheckResult]:
    settings, registry = installation.settings, installation.registry
    found = load_schedules(settings)
    yield from (_problem("schedules", str(each)) for each in found.problems)
    if declared_text() != synced_text(settings.home):
        text = "schedule() calls in Python differ from the synced file: run `mayfly schedules sync` on this host."
        yield _problem("schedules", text)
    for entry in found.entries:
        for each in entry_problems(entry, registry, settings):
            make = _problem if each.severity >= Severity.DEGRADED else _warning
            yield make("schedules", f"{entry.where}: {each.text}")
    if found.entries:
        yield _ok("schedules", f"{len(found.entries)} in {len(schedule_files(settings))} files")


# --- monitoring ---------------------------------------------------------------------------------------------


def check_monitoring(installation: Installation) -> Iterator[CheckResult]:
    """Configured channels; nothing is sent."""
    settings = installation.settings
    path = settings.metrics_textfile
    if path is not None:
        wrong = textfile_problem(path)
        yield _problem("metrics", wrong) if wrong else _ok("metrics", f"written to {path} by every cycle")
    if settings.heartbeat_url is not None:
        yield _ok("heartbeat", host_of(settings.heartbeat_url.get_secret_value()))
    for name, channel in CHANNELS.items():
        if receiver := channel.receiver(settings):
            yield _ok("alerts", f"{name} {receiver}")
    targets = latency_targets(settings)
    if targets and not (settings.has_alerts or settings.metrics_textfile):
        text = f"LATENCY_TARGET of {', '.join(targets)}: this host sends no alerts, see docs/alerts.md"
        yield _warning("alerts", text)


CHECKS: tuple[Check, ...] = (
    check_settings,
    check_log,
    check_state,
    check_database,
    check_handlers,
    check_app_tables,
    check_integrations,
    check_hooks,
    check_schedules,
    check_monitoring,
    check_bytecode,
    check_cron,
)
