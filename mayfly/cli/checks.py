"""What `mayfly doctor` found about one thing."""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from alembic.script import ScriptDirectory

from mayfly import json_text
from mayfly.bootstrap import load_registry
from mayfly.clock import host_now
from mayfly.db.database import Database
from mayfly.errors import EnqueueError, ExtraMissing, HookUnusable, TableMissing
from mayfly.monitoring.hooks import AFTER, BEFORE, ON_DEAD, find_hooks
from mayfly.queue.insert import JobValidator
from mayfly.registry import Handler, Registry, missing_settings, required_names
from mayfly.schedules.declare import declared_text, synced_text
from mayfly.schedules.files import read_schedules
from mayfly.schedules.next_due import schedule_files
from mayfly.schedules.parse import ScheduleEntry
from mayfly.schema.migrations.apps import AppTables, app_tables
from mayfly.schema.version import Version
from mayfly.settings import Settings


class CheckStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class CheckResult:
    """One line: what was looked at, how it is, and what to do if it is not well."""

    what: str
    health: CheckStatus
    text: str

    @property
    def is_problem(self) -> bool:
        return self.health is CheckStatus.PROBLEM

    def facts(self) -> dict[str, str]:
        return {"check": self.what, "health": self.health.value, "text": self.text}


DEFAULT_LANE = "default"


def check_schedules(settings: Settings) -> Iterator[CheckResult]:
    """Nothing at all where there are none."""
    registry = load_registry(settings)
    files = schedule_files(settings)
    found = read_schedules(files, settings.home, settings.payload_limit)
    for problem in found.problems:
        yield _schedules_result(CheckStatus.PROBLEM, str(problem))
    if declared_text() != synced_text(settings.home):
        text = "what schedule() declares in Python is not what was synced: run `mayfly schedules sync` on this host."
        yield _schedules_result(CheckStatus.PROBLEM, text)
    for entry in found.entries:
        for health, reason in _doubts(entry, registry, settings):
            yield _schedules_result(health, f"{entry.where}: {reason}")
    if found.entries:
        yield _schedules_result(CheckStatus.OK, f"{len(found.entries)} in {len(files)} files")


def _doubts(entry: ScheduleEntry, registry: Registry, settings: Settings) -> Iterator[tuple[CheckStatus, str]]:
    """What only somebody who knows the handlers can see."""
    if entry.command is not None:
        program = shlex.split(entry.command)[0]
        path = str(settings.home / program) if "/" in program else shutil.which(program)
        if path is None or not os.access(path, os.X_OK):
            yield CheckStatus.PROBLEM, f"{program} is no program that this user can run."
        return
    handler = registry.get(entry.type)
    if handler is None:
        text = f"no handler for type {entry.type!r} is known here.{registry.did_you_mean(entry.type)}"
        yield CheckStatus.WARNING, text
        return
    try:
        validator = JobValidator.from_settings(settings, host_now)
        validator.validate(entry.type, json_text.decode(entry.payload), handler)
    except EnqueueError as error:
        yield CheckStatus.PROBLEM, str(error)
    if entry.lane == DEFAULT_LANE != handler.lane:
        text = f"its jobs go to lane {entry.lane!r}, the handler's is {handler.lane!r}: write lane={handler.lane}"
        yield CheckStatus.WARNING, text


def _schedules_result(health: CheckStatus, text: str) -> CheckResult:
    return CheckResult("schedules", health, text)


def check_hooks(settings: Settings) -> Iterator[CheckResult]:
    """Nothing at all where there are none. After the handlers, which say what is wrong with their own modules."""
    for variable, found in find_hooks(settings, BEFORE, AFTER, ON_DEAD):
        if isinstance(found, HookUnusable):
            yield CheckResult("hooks", CheckStatus.PROBLEM, str(found))
        else:
            yield CheckResult("hooks", CheckStatus.OK, f"{variable}={found.name}")


def check_monitoring(settings: Settings) -> Iterator[CheckResult]:
    """Nothing at all where nobody watches. Nobody is told anything by a mere look."""
    if settings.metrics_textfile is not None:
        yield _textfile(settings.metrics_textfile)
    if settings.heartbeat_url is not None:
        yield CheckResult("heartbeat", CheckStatus.OK, _reachable(settings.heartbeat_url.get_secret_value()))
    if settings.alert_webhook_url is not None:
        yield CheckResult(
            "alerts", CheckStatus.OK, "webhook, " + _reachable(settings.alert_webhook_url.get_secret_value())
        )
    if settings.alert_mail_to:
        yield CheckResult("alerts", CheckStatus.OK, f"mail to {', '.join(settings.alert_mail_to)}")
    targets = [lane for lane, each in settings.lanes.items() if each.latency_target is not None]
    if targets and not (settings.has_alerts or settings.metrics_textfile):
        text = f"LATENCY_TARGET of {', '.join(targets)}: nobody is told by this host, see docs/alerts.md"
        yield CheckResult("alerts", CheckStatus.WARNING, text)


def _textfile(path: Path) -> CheckResult:
    if find_spec("prometheus_client") is None:
        return CheckResult(
            "metrics", CheckStatus.PROBLEM, str(ExtraMissing("Metrics need prometheus_client", "metrics"))
        )
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        advice = "make that directory, and let the user that runs the dispatcher write there"
        return CheckResult("metrics", CheckStatus.PROBLEM, f"METRICS_TEXTFILE {path} cannot be written: {advice}.")
    return CheckResult("metrics", CheckStatus.OK, f"written to {path} by every cycle")


def _reachable(url: str) -> str:
    """Its host alone: the rest is as good as a password. In the open, others can read along."""
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0].partition("?")[0]
    return f"at {host}" + (" (not encrypted)" if scheme == "http" else "")


APP_TABLES = "tables"
APP_TABLES_ADVICE = "run `mayfly migrate --app`."


def check_app_tables(url: str, modules: Sequence[str]) -> Iterator[CheckResult]:
    database = Database(url)
    try:
        for tables in app_tables(modules):
            script = ScriptDirectory.from_config(tables.config())
            known = {each.revision for each in script.walk_revisions()}
            yield _app_tables_result(tables.package, _stored(database, tables), script.get_current_head(), known)
    finally:
        database.close()


def _app_tables_result(package: str, stored: Version, newest: Version, known: set[str]) -> CheckResult:
    if stored == newest:
        return CheckResult(APP_TABLES, CheckStatus.OK, f"those of {package} have version {newest}")
    if stored is None:  # perhaps nobody needs them
        return CheckResult(
            APP_TABLES,
            CheckStatus.WARNING,
            f"those of {package} are missing, and its jobs may need them: {APP_TABLES_ADVICE}",
        )
    if stored in known:
        text = f"those of {package} have version {stored}, its code needs {newest}: {APP_TABLES_ADVICE}"
    else:
        text = f"those of {package} have version {stored}, which its code does not know: update it on this host."
    return CheckResult(APP_TABLES, CheckStatus.PROBLEM, text)


def _stored(database: Database, tables: AppTables) -> Version:
    asking = f"SELECT version_num FROM {tables.version_table}"
    try:
        found: Version = database.read(lambda connection: connection.execute(asking).scalar())
    except TableMissing:
        return None
    return found


INTEGRATIONS = "integrations"


def check_integrations(handlers: Mapping[str, Handler]) -> Iterator[CheckResult]:
    """One that is off is somebody's decision, not a problem; but who wonders should find it here."""
    if not required_names(handlers.values()):
        return
    missing = missing_settings(handlers)
    off = sorted({name for names in missing.values() for name in names})
    for name in off:
        types = ", ".join(sorted(each for each, names in missing.items() if name in names))
        yield CheckResult(INTEGRATIONS, CheckStatus.OK, f"off: {name} is not set: jobs of {types} are cancelled.")
    if not off:
        yield CheckResult(
            INTEGRATIONS, CheckStatus.OK, "all are configured: " + ", ".join(required_names(handlers.values()))
        )
