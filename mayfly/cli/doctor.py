"""`mayfly doctor`: check an installation, and print what to do about each problem.

A check is a function in CHECKS. DATABASE_CHECKS need the database; after the first failed one the others are skipped.
"""

import importlib.util
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import click

from mayfly import log_messages
from mayfly.admin.health import ProblemKind, Severity, Status, latency_targets, read_status
from mayfly.admin.job import never_sealed
from mayfly.admin.schedules import entry_problems, load_schedules
from mayfly.cli import cron_file
from mayfly.cli.options import json_option, print_json
from mayfly.client import load_registry
from mayfly.db.database import Database
from mayfly.db.dialects import ErrorKind, embedded_file
from mayfly.errors import ExtraMissing, HookUnusable, MayflyError, TableMissing
from mayfly.format import GREEN, RED, YELLOW, format_duration, has_colour, painted, plural
from mayfly.log import LOG_NAME
from mayfly.monitoring.channels import CHANNELS, host_of
from mayfly.monitoring.hooks import AFTER, BEFORE, ON_DEAD, find_hooks
from mayfly.process import exits
from mayfly.process.programs import OWN_PACKAGES, import_own, taken_names
from mayfly.process.state_dir import open_state_dir
from mayfly.process.wakeups import open_wake_dir, wake_dir
from mayfly.registry import ON_DEAD_TYPE, Registry, missing_settings, packages_named, required_names
from mayfly.schedules import COMMAND
from mayfly.schedules.files import declared_text, synced_text
from mayfly.schedules.next_due import schedule_files
from mayfly.schema import missing_embedded
from mayfly.schema.tables import VERSION, Version, is_usable, require_version, stored_version, version_number
from mayfly.settings import Settings, load
from mayfly.settings.loading import Loaded
from mayfly.settings.sources import DOTENV, find_home

SYSTEMD_UNITS = (Path("/etc/systemd/system"), Path("/lib/systemd/system"))
ABOUT_CYCLES = (ProblemKind.CYCLE, ProblemKind.EXIT_CODE)
SHOWN_BY_OTHERS = (*ABOUT_CYCLES, ProblemKind.SOURCE)  # checks of their own


class CheckStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


OK, WARNING, PROBLEM = CheckStatus
COLOURS = {OK: GREEN, WARNING: YELLOW, PROBLEM: RED}


class CheckResult(NamedTuple):
    status: CheckStatus
    text: str


Results = Iterator[CheckResult]


class Installation:
    """The settings, handlers and database that checks read."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.settings: Settings = loaded.settings
        self.url: str = loaded.settings.database_url.get_secret_value()

    @cached_property
    def registry(self) -> Registry:
        for package in OWN_PACKAGES:  # as in a runner, where handlers that need another one of that name fail
            import_own(package)
        return load_registry(self.settings)

    @cached_property
    def database(self) -> Database:
        return Database(self.url)

    @cached_property
    def status(self) -> Status:
        now = self.database.clock.now()
        return self.database.read(lambda connection: read_status(connection, self.settings, now))


Check = Callable[[Installation], Results]


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Check the installation: settings, database, handlers, cron.

    Exit code 1 if there is a problem; warnings do not change it.
    """
    results = list(run_checks())
    if as_json:
        print_json([{"check": name, "health": status.value, "text": text} for name, (status, text) in results])
    else:
        click.echo(render_results(results, colour=has_colour(sys.stdout)))
    return exits.ERROR if any(each.status is PROBLEM for _name, each in results) else exits.SUCCESS


def run_checks() -> Iterator[tuple[str, CheckResult]]:
    try:
        installation = Installation(load())
    except MayflyError as error:
        yield "settings", CheckResult(PROBLEM, str(error))
        return
    missing = missing_embedded(installation.url)
    has_database = missing is None
    for check in CHECKS:
        name, needs_database = check.__name__.removeprefix("check_"), check in DATABASE_CHECKS
        if check is check_database and missing is not None:
            yield name, CheckResult(WARNING, f"{missing} does not exist yet; the first job or cycle creates it.")
        if needs_database and not has_database:
            continue
        try:
            yield from ((name, each) for each in check(installation))
        except MayflyError as error:
            has_database = has_database and not needs_database
            yield name, CheckResult(PROBLEM, str(error))


def render_results(results: Sequence[tuple[str, CheckResult]], colour: bool) -> str:
    width = max(len(name) for name, _result in results)
    lines = []
    for name, (status, text) in results:
        word = painted(status.ljust(7), COLOURS[status], colour)
        lines.append(f"{word}  {name.ljust(width)}  " + text.replace("\n", "\n" + " " * (width + 11)))
    return "\n".join(lines)


# --- this host ----------------------------------------------------------------------------------------------


def check_settings(installation: Installation) -> Results:
    yield CheckResult(OK, f"loaded; MAYFLY_HOME is {installation.settings.home}")
    yield from (CheckResult(WARNING, each) for each in installation.loaded.warnings)


def check_log(installation: Installation) -> Results:
    settings, directory = installation.settings, installation.settings.log_dir
    existing = next(each for each in (directory, *directory.parents) if each.exists())
    if settings.log_to != "file":
        yield CheckResult(OK, f"written to {settings.log_to}")
    elif not existing.is_dir() or not os.access(existing, os.W_OK):
        advice = f"make {existing} writable for this user, or change LOG_DIR"
        yield CheckResult(PROBLEM, f"{directory} cannot be written: {advice}.")
    else:
        yield CheckResult(OK, f"{directory} is writable")


def check_state(installation: Installation) -> Results:
    try:
        yield CheckResult(OK, f"{open_state_dir(installation.settings)} is private and writable")
    except OSError as error:
        yield CheckResult(PROBLEM, f"{error}. Set STATE_DIR to a private directory of this user.")


def check_wakeups(installation: Installation) -> Results:
    """A directory for producers of a group passes its group on to the sockets."""
    settings = installation.settings
    if not settings.longest_linger:
        return
    descriptor, path = open_wake_dir(settings), wake_dir(settings)
    facts = os.fstat(descriptor)
    os.close(descriptor)
    if settings.wake_dir is not None and not facts.st_mode & stat.S_ISGID and facts.st_gid != os.getgid():
        yield CheckResult(WARNING, f"producers of its group cannot send through {path}: run `chmod g+s {path}`.")
    else:
        yield CheckResult(OK, f"sent through {path}")


def check_privacy(installation: Installation) -> Results:
    settings = installation.settings
    log = settings.log_dir / LOG_NAME if settings.log_to == "file" else None
    files = (settings.home / DOTENV, embedded_file(installation.url), log)
    shared = [each for each in files if each is not None and each.is_file() and can_others_read(each)]
    for each in shared:
        advice = f"run `chmod o-rwx {quote(str(each))}`."
        yield CheckResult(WARNING, f"every user of this host can read {each}: {advice}")
    if not shared:
        yield CheckResult(OK, "other users cannot read .env, database and log")


def can_others_read(path: Path) -> bool:
    """Users other than the owner and the members of its group; only if they may enter each directory above it."""
    real = path.resolve()
    may_enter = all(each.stat().st_mode & stat.S_IXOTH for each in real.parents)
    return may_enter and bool(real.stat().st_mode & stat.S_IROTH)


def check_cron(installation: Installation) -> Results:
    return cron_results(str(installation.settings.home), sys.executable, cron_file.DIRECTORY, SYSTEMD_UNITS)


def cron_results(home: str, python: str, directory: Path, units: Sequence[Path]) -> Results:
    """Compare home and interpreter of what starts the dispatcher with those of this process."""
    entries = [*cron_file.find_entries(directory), *cron_file.find_services(units)]
    ours = [(path, entry) for path, entry in entries if cron_file.is_same_path(_home_of(entry, python), home)]
    for path, entry in ours:
        found = cron_file.find_problems(cron_file.read_cron_file(path)) if path.parent == directory else []
        yield from (CheckResult(PROBLEM, f"{path}: {each}") for each in found)
        if not found:
            yield _started_by(path, str(entry.interpreter), python)
    if not ours:
        other = [each for each in entries if cron_file.is_same_environment(each[1].interpreter, python)]
        at = f" {other[0][0]} starts it for MAYFLY_HOME={_home_of(other[0][1], python)}." if other else ""
        text = f"no file in {directory} starts the dispatcher for MAYFLY_HOME={home}: run `mayfly cron install`.{at}"
        yield CheckResult(WARNING, text)


def _home_of(entry: cron_file.CronEntry, python: str) -> str | None:
    is_default = entry.home is None and cron_file.is_same_environment(entry.interpreter, python)
    return str(find_home({})) if is_default else entry.home


def _started_by(path: Path, interpreter: str, python: str) -> CheckResult:
    if cron_file.is_same_environment(interpreter, python):
        return CheckResult(OK, f"{path} starts the dispatcher with {interpreter}")
    text = f"{path} starts the dispatcher with {interpreter}, not with {python}, which runs this check."
    return CheckResult(WARNING, f"{text} Run `mayfly cron install` in the environment that cron should use.")


# --- the database -------------------------------------------------------------------------------------------


def check_database(installation: Installation) -> Results:
    database = installation.database
    server = database.read(lambda connection: str(connection.dialect.server(connection.raw)))
    yield CheckResult(OK, f"{server} at {database.name}")


def check_hosts(installation: Installation) -> Results:
    """Of a DATABASE_URL with several hosts: which of them could be used now. A standby is no problem."""
    hosts = installation.database.hosts
    for name, kind, reason in hosts.check() if hosts.are_several else ():
        if kind is None:
            yield CheckResult(OK, f"{name} accepts writes")
        elif kind is ErrorKind.STANDBY:
            yield CheckResult(OK, f"{name} is read-only, and used after its promotion")
        else:
            yield CheckResult(WARNING, f"{name} cannot be used: {reason}.")


def check_locking(installation: Installation) -> Results:
    installation.database.read(lambda connection: connection.dialect.require_skip_locked(connection.raw))
    yield CheckResult(OK, "claims do not block each other")


def check_session(installation: Installation) -> Results:
    missing = installation.database.read(lambda connection: connection.dialect.missing_session_settings(connection))
    if missing:
        text = "PgBouncer does not pass on these settings. Run this as an administrator, then RECONNECT in PgBouncer:"
        yield CheckResult(WARNING, "\n".join([text, *missing]))


def check_schema(installation: Installation) -> Results:
    installation.database.read(require_version)
    stored = version_number(installation.database.read(stored_version))
    newer = "" if stored == VERSION else f", newer than the {VERSION} of this code, which can use it"
    yield CheckResult(OK, f"version {stored}{newer}")


def check_clock(installation: Installation) -> Results:
    clock = installation.database.clock
    offset = clock.offset.total_seconds()
    if clock.is_skewed:
        text = f"differs by {-offset:+.1f} s from the database's clock, which is used for all times: check NTP."
        yield CheckResult(WARNING, text)
    else:
        yield CheckResult(OK, f"differs by {abs(offset) * 1000:.0f} ms from the database's clock")


def check_cycles(installation: Installation) -> Results:
    snapshot = installation.status.snapshot
    found = [each for each in installation.status.at_least(Severity.WARNING) if each.kind in ABOUT_CYCLES]
    for each in found:
        is_down = each.severity is Severity.DOWN and snapshot.has_cycles  # a new installation has none yet
        yield CheckResult(PROBLEM if is_down else WARNING, each.text)
    if not found:
        last = max(snapshot.hosts, key=lambda each: each.last.started_at)
        age = format_duration(snapshot.now - last.last.started_at)
        yield CheckResult(OK, f"the last one started {age} ago on {last.host}")


def check_health(installation: Installation) -> Results:
    """The other problems of `mayfly status`, as warnings: they are not problems of the installation."""
    found = installation.status.at_least(Severity.WARNING)
    return (CheckResult(WARNING, each.text) for each in found if each.kind not in SHOWN_BY_OTHERS)


def check_batches(installation: Installation) -> Results:
    now = installation.database.clock.now()
    found = installation.database.read(lambda connection: never_sealed(connection, now))
    if not found:
        yield CheckResult(OK, "none has been unsealed for more than an hour")
        return
    key, others = found[0].batch_key, f" And {len(found) - 1} more." if found[1:] else ""
    age = format_duration(now - found[0].created_at)
    advice = f"Run `mayfly batches seal {key}`, or `mayfly batches abandon {key}` to cancel its jobs."
    yield CheckResult(WARNING, f"{key} has been unsealed for {age}: did its producer crash? {advice}{others}")


def check_sources(installation: Installation) -> Results:
    """The findings of `mayfly sources check`, without its plans."""
    if not installation.settings.sources:
        return
    from mayfly.admin.source_check import check_source  # SQLAlchemy is slow to import

    for source in installation.settings.sources.values():
        found = check_source(installation.database, source, installation.registry)
        yield from (CheckResult(PROBLEM, f"{source.name}: {each}") for each in found.problems)
        yield from (CheckResult(WARNING, f"{source.name}: {each}") for each in found.warnings)
        if not found.problems and not found.warnings:
            yield CheckResult(OK, f"{source.name}: fits the table {source.table}")


# --- the application ----------------------------------------------------------------------------------------


def check_handlers(installation: Installation) -> Results:
    registry = installation.registry
    for module, reason in registry.failures.items():
        yield CheckResult(PROBLEM, f"{module} cannot be imported: {reason}. Fix it, or remove it from HANDLERS.")
    types = sorted(registry.handlers)
    if not registry.modules:
        yield CheckResult(WARNING, log_messages.no_handlers(str(installation.settings.home)).text + ".")
    elif not {*types} - {COMMAND, ON_DEAD_TYPE}:
        yield CheckResult(PROBLEM, f"none found in {', '.join(registry.modules)}: change HANDLERS.")
    else:
        yield CheckResult(OK, f"{plural(len(types), 'type')}: {', '.join(types)}")


def check_packages(installation: Installation) -> Results:
    for name, path in taken_names(installation.settings.home):
        yield CheckResult(WARNING, log_messages.package_name_taken(path, name).text + ".")


def check_tables(installation: Installation) -> Results:
    """Skipped if a handler module cannot be imported: it may have tables."""
    from mayfly.schema.migrations import app_tables  # Alembic is slow to import

    registry = installation.registry
    packages = [] if registry.failures else packages_named(registry.modules)
    for each in app_tables(packages):
        stored = _stored_version(installation.database, each.version_table)
        yield _tables_result(each.package, stored, *each.versions())


def _stored_version(database: Database, table: str) -> Version:
    statement = f"SELECT version_num FROM {table}"
    try:
        found: Version = database.read(lambda connection: connection.execute(statement).scalar())
    except TableMissing:
        return None
    return found


def _tables_result(package: str, stored: Version, newest: Version, known: set[str]) -> CheckResult:
    advice = "run `mayfly migrate --app`."
    if stored == newest:
        return CheckResult(OK, f"{package}: version {newest}")
    if stored is None:
        return CheckResult(WARNING, f"{package}: missing, and its jobs may need them: {advice}")
    text = f"{package}: version {version_number(stored)}, "
    if stored in known:
        return CheckResult(PROBLEM, f"{text}but its code needs {newest}: {advice}")
    if is_usable(stored, known):
        return CheckResult(OK, f"{text}newer than the {newest} of its code, which can use it")
    return CheckResult(PROBLEM, f"{text}which its code does not know: update the code on this host.")


def check_integrations(installation: Installation) -> Results:
    """An integration without its settings is disabled, which is not a problem."""
    handlers = installation.registry.handlers
    names, missing = required_names(handlers.values()), missing_settings(handlers)
    off = sorted({name for required in missing.values() for name in required})
    for name in off:
        types = ", ".join(sorted(each for each, required in missing.items() if name in required))
        yield CheckResult(OK, f"disabled: {name} is not set, so jobs of type {types} are cancelled.")
    if names and not off:
        yield CheckResult(OK, f"all configured: {', '.join(names)}")


def check_hooks(installation: Installation) -> Results:
    _ = installation.registry  # makes MAYFLY_HOME importable
    for variable, found in find_hooks(installation.settings, BEFORE, AFTER, ON_DEAD):
        if isinstance(found, HookUnusable):
            yield CheckResult(PROBLEM, str(found))
        else:
            yield CheckResult(OK, f"{variable}={found.name}")


def check_schedules(installation: Installation) -> Results:
    settings, registry = installation.settings, installation.registry
    found = load_schedules(settings)
    yield from (CheckResult(PROBLEM, str(each)) for each in found.problems)
    if declared_text() != synced_text(settings.home):
        text = "schedule() calls in Python differ from the synced file: run `mayfly schedules sync` on this host."
        yield CheckResult(PROBLEM, text)
    for entry in found.entries:
        for each in entry_problems(entry, registry, settings):
            status = PROBLEM if each.severity >= Severity.DEGRADED else WARNING
            yield CheckResult(status, f"{entry.where}: {each.text}")
    if found.entries:
        yield CheckResult(OK, f"{len(found.entries)} in {plural(len(schedule_files(settings)), 'file')}")


def check_launchers(installation: Installation) -> Results:
    """Their programs; nothing is submitted."""
    settings = installation.settings
    for name, launcher in settings.launchers.items():
        lanes = [lane for lane, own in settings.lanes.items() if own.launcher == name]
        programs = {line[0] for line in (launcher.submit, launcher.status, launcher.cancel)}
        missing = sorted(each for each in programs if shutil.which(each) is None)
        if missing:
            text = f"{name}: {' and '.join(missing)} not found: install it on this host, or correct PATH of cron."
            yield CheckResult(PROBLEM if lanes else WARNING, text)
        else:
            used = f"lanes {', '.join(lanes)}" if lanes else "used by no lane"
            yield CheckResult(OK, f"{name}: {launcher.submit[0]} found; {used}")


# --- monitoring: only the configuration is checked, nothing is sent -----------------------------------------


def check_metrics(installation: Installation) -> Results:
    path = installation.settings.metrics_textfile
    if path is None:
        return
    if importlib.util.find_spec("prometheus_client") is None:
        raise ExtraMissing("Metrics need prometheus_client", "metrics")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        advice = "create its directory, writable for the user of the dispatcher"
        yield CheckResult(PROBLEM, f"METRICS_TEXTFILE {path} cannot be written: {advice}.")
    else:
        yield CheckResult(OK, f"written to {path} by every cycle")


def check_heartbeat(installation: Installation) -> Results:
    url = installation.settings.heartbeat_url
    if url is not None:
        yield CheckResult(OK, host_of(url.get_secret_value()))


def check_alerts(installation: Installation) -> Results:
    settings = installation.settings
    for name, channel in CHANNELS.items():
        if receiver := channel.receiver(settings):
            yield CheckResult(OK, f"{name} {receiver}")
    targets = latency_targets(settings)
    if targets and not (settings.has_alerts or settings.metrics_textfile):
        lanes = ", ".join(targets)
        text = f"LATENCY_TARGET is set for {lanes}, but this host sends no alerts: see docs/how-to/monitor.md."
        yield CheckResult(WARNING, text)


DATABASE_CHECKS: tuple[Check, ...] = (
    check_database, check_hosts, check_locking, check_session, check_schema, check_clock, check_cycles, check_health,
    check_batches, check_sources, check_tables,
)  # fmt: skip
CHECKS: tuple[Check, ...] = (
    check_settings, check_log, check_state, check_wakeups, check_privacy, *DATABASE_CHECKS, check_handlers,
    check_packages, check_integrations, check_hooks, check_launchers, check_schedules, check_metrics, check_heartbeat,
    check_alerts, check_cron,
)  # fmt: skip
