"""`mayfly doctor`: look at everything a working installation needs, and say of each what to do about it."""

import importlib.util
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

from mayfly import bootstrap
from mayfly.admin.batches import never_sealed
from mayfly.bootstrap import load_registry
from mayfly.cli import cron_file
from mayfly.cli.checks import (
    CheckResult,
    CheckStatus,
    check_hooks,
    check_integrations,
    check_monitoring,
    check_schedules,
)
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import DatabaseError, MayflyError
from mayfly.format import GREEN, RED, YELLOW, format_duration, painted
from mayfly.process.state_dir import open_state_dir
from mayfly.registry import Registry
from mayfly.schema import tables
from mayfly.schema.version import require_version
from mayfly.settings import Loaded, Settings, load

STALE_AFTER = timedelta(minutes=3)  # cron missed more than one minute
SYSTEMD_TIMERS = (Path("/etc/systemd/system/mayfly.timer"), Path("/lib/systemd/system/mayfly.timer"))
LAST_CYCLE = "SELECT host, started_at, exit_code FROM mayfly_cycles ORDER BY id DESC LIMIT 1"
COMPILED = (
    "mayfly.db.database",
    "mayfly.cli.main",
    "click.core",
    "psutil._common",
)  # ours, and what every cycle needs


def run_checks() -> list[CheckResult]:
    """All checks, in the order in which one depends on the other; what cannot be looked at is left out."""
    try:
        loaded = load()
    except MayflyError as error:
        return [CheckResult("settings", CheckStatus.PROBLEM, str(error))]
    settings = loaded.settings
    findings = [*_settings(loaded), _log_directory(settings), _state_directory(settings)]
    findings += _database(settings)
    registry = load_registry(settings)
    findings += [*_handlers(settings, registry), *_app_tables(settings, registry)]
    findings += check_integrations(registry.handlers)
    findings += [*check_hooks(settings), *check_schedules(settings)]
    findings += check_monitoring(settings)
    findings += [_bytecode(), *_cron(settings)]
    return findings


def render_checks(findings: list[CheckResult], colour: bool) -> str:
    paint = {CheckStatus.OK: GREEN, CheckStatus.WARNING: YELLOW, CheckStatus.PROBLEM: RED}
    width = max(len(each.what) for each in findings)
    lines = []
    for each in findings:
        word = each.health.ljust(7)
        shown = painted(word, paint[each.health], colour)
        lines.append(f"{shown}  {each.what.ljust(width)}  " + each.text.replace("\n", "\n" + " " * (width + 11)))
    return "\n".join(lines)


def _ok(what: str, text: str) -> CheckResult:
    return CheckResult(what, CheckStatus.OK, text)


def _settings(loaded: Loaded) -> Iterator[CheckResult]:
    yield _ok("settings", f"read; MAYFLY_HOME is {loaded.settings.home}")
    for warning in loaded.warnings:
        yield CheckResult("settings", CheckStatus.WARNING, warning)


def _log_directory(settings: Settings) -> CheckResult:
    directory = settings.log_dir
    if settings.log_to != "file":
        return _ok("log", f"goes to {settings.log_to}")
    existing = next(each for each in (directory, *directory.parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        advice = f"make {existing} writable for this user, or set LOG_DIR"
        return CheckResult("log", CheckStatus.PROBLEM, f"{directory} cannot be written: {advice}.")
    return _ok("log", f"{directory} is writable")


def _state_directory(settings: Settings) -> CheckResult:
    try:
        return _ok("state", f"{open_state_dir(settings)} is private and writable")
    except MayflyError as error:
        return CheckResult("state", CheckStatus.PROBLEM, str(error))
    except OSError as error:
        return CheckResult("state", CheckStatus.PROBLEM, f"{error}. Set STATE_DIR to a directory of your own.")


def _database(settings: Settings) -> Iterator[CheckResult]:
    missing = bootstrap.missing_embedded(settings.database_url.get_secret_value())
    if missing is not None:
        yield CheckResult(
            "database", CheckStatus.WARNING, f"{missing} does not exist yet; the first job or cycle creates it."
        )
        return
    try:
        database = Database(settings.database_url.get_secret_value())
        yield _ok("database", f"{database.read(_server)} at {database.name}")
    except MayflyError as error:
        yield CheckResult("database", CheckStatus.PROBLEM, str(error))
        return
    for what, check in _CHECKS:
        try:
            yield check(database)
        except MayflyError as error:
            yield CheckResult(what, CheckStatus.PROBLEM, str(error))
            break
    database.close()


def _server(connection: Connection) -> str:
    return str(connection.dialect.server(connection.raw))


def _skip_locked(database: Database) -> CheckResult:
    database.read(lambda connection: connection.dialect.require_skip_locked(connection.raw))
    return _ok("locking", "claims do not wait for each other")


def _schema(database: Database) -> CheckResult:
    database.read(require_version)
    return _ok("schema", f"version {tables.VERSION}")


def _clock(database: Database) -> CheckResult:
    offset = database.clock.offset.total_seconds()
    if database.clock.is_skewed:
        text = f"this host is {-offset:+.1f} s off the database's clock; the database's rules, but check NTP here."
        return CheckResult("clock", CheckStatus.WARNING, text)
    return _ok("clock", f"{abs(offset) * 1000:.0f} ms from the database's")


def _last_cycle(database: Database) -> CheckResult:
    row = database.read(lambda connection: connection.execute(LAST_CYCLE).first())
    if row is None:
        return CheckResult(
            "cycles", CheckStatus.WARNING, "no cycle has run yet: is cron set up? See scripts/install-cron."
        )
    host, started_at, exit_code = row
    age = database.clock.now() - utc_from_driver(started_at)
    if age > STALE_AFTER:
        text = f"the last cycle began {format_duration(age)} ago on {host}: is cron running? See docs/cron.md."
        return CheckResult("cycles", CheckStatus.PROBLEM, text)
    if exit_code:
        text = f"the last cycle ended with code {exit_code}: see the log."
        return CheckResult("cycles", CheckStatus.WARNING, text)
    return _ok("cycles", f"the last one began {format_duration(age)} ago on {host}")


def _batches(database: Database) -> CheckResult:
    now = database.clock.now()
    found = database.read(lambda connection: never_sealed(connection, now))
    if not found:
        return _ok("batches", "none was left behind while it was being filled")
    (key, since), others = found[0], f" And {len(found) - 1} more." if found[1:] else ""
    age = format_duration(now - since)
    text = (
        f"{key} has been filled for {age}: did its producer die? `mayfly batches seal {key}` takes "
        f"what is in it for all, `mayfly batches abandon {key}` gives it up.{others}"
    )
    return CheckResult("batches", CheckStatus.WARNING, text)


_CHECKS: tuple[tuple[str, Callable[[Database], CheckResult]], ...] = (
    ("locking", _skip_locked),
    ("schema", _schema),
    ("clock", _clock),
    ("cycles", _last_cycle),
    ("batches", _batches),
)


def _handlers(settings: Settings, registry: Registry) -> Iterator[CheckResult]:
    for module, reason in registry.failures.items():
        yield CheckResult("handlers", CheckStatus.PROBLEM, f"{module} cannot be imported: {reason}")
    if not registry.handlers:
        yield CheckResult(
            "handlers", CheckStatus.PROBLEM, f"none found in {', '.join(settings.handlers)}: set HANDLERS."
        )
    else:
        yield _ok("handlers", f"{len(registry.handlers)} types: {', '.join(sorted(registry.handlers))}")


def _app_tables(settings: Settings, registry: Registry) -> Iterator[CheckResult]:
    """Left out where there is no database, or where not all of the code can be asked which tables it has."""
    url = settings.database_url.get_secret_value()
    if registry.failures or bootstrap.missing_embedded(url) is not None:
        return
    from mayfly.cli.checks import check_app_tables  # Alembic: a doctor has time, no cycle has

    try:
        yield from check_app_tables(url, settings.handlers)
    except DatabaseError:
        return  # told already


def _bytecode() -> CheckResult:
    missing = [name for name in COMPILED if not _is_compiled(name)]
    if missing:
        text = (
            f"not compiled: {', '.join(missing)}; every start is about three times slower. "
            "Run scripts/quickstart again, or `python -m compileall -q` on the checkout and the virtual environment."
        )
        return CheckResult("bytecode", CheckStatus.WARNING, text)
    return _ok("bytecode", "compiled")


def _is_compiled(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return True  # compiled to machine code, or not there at all
    return Path(importlib.util.cache_from_source(spec.origin)).exists()


def _cron(settings: Settings) -> Iterator[CheckResult]:
    files = cron_file.find_cron_files(cron_file.DIRECTORY, str(settings.home))
    timers = [each for each in SYSTEMD_TIMERS if each.exists()]
    for path in files:
        problems = cron_file.inspect_cron_file(cron_file.read_cron_file(path))
        yield from (CheckResult("cron", CheckStatus.PROBLEM, f"{path}: {problem}") for problem in problems)
        if not problems:
            yield _ok("cron", f"{path} starts the dispatcher")
    if timers and not files:
        yield _ok("cron", f"{timers[0]} starts the dispatcher")
    elif not files:
        text = "nothing in /etc/cron.d starts the dispatcher for this home: run scripts/install-cron."
        yield CheckResult("cron", CheckStatus.WARNING, text)
