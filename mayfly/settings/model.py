"""Every setting: its name, type, default, bounds and meaning.

A new setting is one field here, with its meaning as the description. `scripts/docs reference` writes the tables of
docs/reference/settings.md from this module.
"""

import socket
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from mayfly.settings import types as t
from mayfly.settings.launcher_model import LauncherModel, launcher_conflicts, resolved
from mayfly.settings.source_model import SourceModel, source_conflicts
from mayfly.settings.sources import HOME
from mayfly.settings.types import KIB, MIB, setting
from mayfly.settings.values import (
    DATABASE_RULE,
    ROLES,
    SCHEDULE_FILES,
    AccountSettings,
    LaneSettings,
    Role,
    Secret,
    Settings,
    SourceSettings,
    database_url,
    under_home,
)

# ("batch_size",) or ("lanes", "send_email", "rank") or ("pools", "email") or ("console_accounts", "ann", "role")
Key = tuple[str, ...]


# --- lanes and accounts -----------------------------------------------------------------------------------


class LaneOnlyModel(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """Settings that only a lane has."""

    rank: Annotated[int, Field(title="an integer"), t.NUMBER] = setting(
        0, "when a host has too few free slots, lanes with a lower rank are served first"
    )
    pool: Annotated[t.Name | None, Field(title="the name of a pool")] = setting(
        None, "the pool of this lane; its cap limits the runners of all its lanes together"
    )
    external: t.Flag = setting(
        False,
        "no runners are started; external workers [pull the jobs](../how-to/pull-workers.md#workers-in-any-language)",
    )
    launcher: Annotated[t.Name | None, Field(title="the name of a launcher")] = setting(
        None, "starts the runners of this lane [on other machines](../how-to/launchers.md); none: on this host"
    )
    latency_target: t.Duration | None = setting(
        None,
        "maximum wait of a due job; above it, `GET /health` reports the lane and "
        "[an alert is sent](../how-to/monitor.md)",
    )
    keep_successes: t.Flag = setting(
        False,
        "successful attempts are [kept as failed ones are](../how-to/operate.md#attempts), one row for each done job",
    )
    on_doubt: Annotated[Literal["hold", "resend"] | None, t.one_of("hold", "resend")] = setting(
        None,
        "what handlers do when the result of an irreversible action is unknown (handlers/mail/README.md, Doubt); "
        "none: the default of the handler",
    )


class LaneModel(LaneOnlyModel):
    """Settings of one lane. Those that have the name of a global setting override it; None is the global value."""

    batch_size: t.Count | None = setting(None, "as above, for this lane")
    max_workers: t.Count | None = setting(None, "as above, for this lane")
    min_workers: t.Count | None = setting(None, "as above, for this lane; at most the lane's `max_workers`")
    concurrency: t.Count | None = setting(None, "as above, for this lane")
    worker_timeout: t.Duration | None = setting(
        None,
        "as above, for this lane; above DISPATCH_TIMEOUT it is a [long lane](../how-to/long-jobs.md#long-lanes), "
        "whose runners outlive their dispatcher",
    )
    linger: Annotated[t.Number | None, t.seconds(0, t.MAX_LINGER)] = setting(None, "as above, for this lane")
    worker_memory: Annotated[int | None, t.size(32 * MIB), t.SIZE] = setting(None, "as above, for this lane")


class AccountModel(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """An account of the web console."""

    role: Annotated[Role, t.one_of(*ROLES)] = Field(
        description="viewers can read, operators can also act, admins can also see the settings"
    )
    password_hash: t.PasswordHash = Field(description="a secret")


# --- all settings -----------------------------------------------------------------------------------------


class SettingsModel(BaseModel):
    """The settings of one installation. Secrets have the type Secret; each can also be read from NAME_FILE.

    loading.py reads the sources: pydantic-settings does not report the source of a value.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,  # relative defaults are relative to home too
        hide_input_in_errors=True,  # pydantic would quote the value, which may be a password
    )

    # First, because the paths that follow are relative to it.
    home: Annotated[Path, Field(title="an existing directory, as an absolute path")] = Field(
        description="directory of `.env` and `mayfly.toml`, and base of relative paths; environment only"
    )
    database_url: Annotated[Secret, t.secret("(?s).*"), Field(title=DATABASE_RULE)] = setting(
        Secret("sqlite:///mayfly.db"), "the database with the jobs; a [secret](#secrets)"
    )
    batch_size: t.Count = setting(5, "due jobs per planned runner, and the number of jobs in its first claim")
    max_workers: t.Count = setting(5, "maximum number of runners per lane, in the whole fleet")
    min_workers: Annotated[t.Count, Field(title="an integer from 1 to MAX_WORKERS")] = setting(
        1, "minimum number of runners for a lane with due jobs"
    )
    concurrency: t.Count = setting(
        100, "maximum number of concurrent [`async def` or `threads=`](python.md#many-at-once) jobs per runner"
    )
    host_max_workers: Annotated[int, t.whole(1, 10_000), t.NUMBER] = setting(
        32, "maximum number of runners on this host, over all lanes"
    )
    worker_timeout: Annotated[t.Number, Field(ge=1, title="a number of seconds from 1, below DISPATCH_TIMEOUT")] = (
        setting(50, "time after which a runner stops claiming and interrupts the jobs still running")
    )
    dispatch_timeout: Annotated[
        t.Number, Field(gt=1, lt=60, title="a number of seconds above WORKER_TIMEOUT, below 60")
    ] = setting(55, "time after which the dispatcher terminates the remaining runners")
    linger: Annotated[t.Number, t.seconds(0, t.MAX_LINGER)] = setting(
        0.0, "how long the dispatcher stays and [polls for new jobs](../how-to/low-latency.md); 0 disables it"
    )
    poll_interval: Annotated[t.Number, t.seconds(0.05, 5.0)] = setting(
        1.0, "longest time between two polls of a lane that lingers; shorter while jobs arrive"
    )
    worker_memory: Annotated[int | None, t.size(32 * MIB), t.SIZE] = setting(
        None, "maximum resident memory of a runner, which is killed above it; none: no limit"
    )
    min_free_memory: Annotated[int, t.size(0), t.SIZE] = setting(
        64 * MIB, "free memory required per planned runner; 0 disables the check"
    )
    max_load: Annotated[t.Number, Field(ge=0, title="a number, 0 or more")] = setting(
        10.0, "1-minute load per core above which at most one runner is started; 0 disables the check"
    )
    handlers: t.Modules = setting(
        (),
        "modules with handlers; packages are searched recursively. `mayfly.toml` also takes a list. none: the "
        "package `handlers` of MAYFLY_HOME, if it has one",
    )
    hooks_before: t.Functions = setting((), "functions [called before each job](../how-to/monitor.md#hooks)")
    hooks_after: t.Functions = setting(
        (), "functions [called after each job](../how-to/monitor.md#hooks), with its outcome"
    )
    hooks_on_dead: t.Functions = setting((), "functions [called for each dead job](../how-to/monitor.md#on_dead)")
    schedule_files: t.Paths = setting(
        tuple(map(Path, SCHEDULE_FILES)),
        "files with [schedules](../how-to/schedule.md); in a directory, every file is read. "
        "The default paths may be missing",
    )
    heartbeat_url: t.SecretUrl | None = setting(
        None, "URL [requested at the start and the end of every cycle](../how-to/monitor.md); a [secret](#secrets)"
    )
    alert_webhook_url: t.SecretUrl | None = setting(
        None, "URL [to which alerts are posted](../how-to/monitor.md); a [secret](#secrets)"
    )
    alert_webhook_secret: t.WebhookSecret | None = setting(None, "key that signs these alerts; a [secret](#secrets)")
    alert_mail_to: t.MailAddresses = setting((), "[recipients of alerts by mail](../how-to/monitor.md#by-mail)")
    alert_mail_from: t.MailAddress | None = setting(None, "sender of these mails; none: mayfly@ and the host name")
    alert_smtp_url: t.SmtpUrl = setting(Secret("smtp://localhost:25"), "mail server; a [secret](#secrets)")
    metrics_textfile: t.Textfile | None = setting(
        None, "file [written by every cycle](../how-to/monitor.md#by-a-file)"
    )
    otlp_endpoint: t.Url | None = setting(None, "endpoint to which [traces](../how-to/monitor.md#tracing) are sent")
    log_dir: t.Directory = setting(Path("logs"), "directory of `dispatcher.log`")
    log_group: t.Name | None = setting(
        None, "group that may read new logs: their mode is 0640 instead of 0600; see [Files](#files)"
    )
    log_format: Annotated[Literal["text", "json"], t.one_of("text", "json")] = setting(
        "text", "plain text, or one JSON object per line"
    )
    log_to: Annotated[Literal["file", "stdout", "syslog"], t.one_of("file", "stdout", "syslog")] = setting(
        "file", "destination of the log"
    )
    state_dir: t.Directory | None = setting(
        None, "directory of runtime files, such as the host lock; none: automatic"
    )
    wake_dir: t.Directory | None = setting(
        None,
        "directory of the sockets of [wake-ups](../how-to/low-latency.md#producers-of-another-user); none: the state "
        "directory, for producers of the same user",
    )
    host_name: t.HostName = Field(
        default_factory=lambda: socket.gethostname(),
        description="name of this host in the tables; dispatchers with different names count as different hosts. "
        "In [Kubernetes](../how-to/containers.md#the-name-of-the-host) the default is kubernetes",
    )
    spawn: Annotated[Literal["fork", "exec"], t.one_of("fork", "exec")] = setting(
        "fork", "fork runners from the dispatcher (3 ms each), or start a new interpreter for each (600 ms)"
    )
    payload_limit: Annotated[int, t.size(KIB, 16 * MIB), t.SIZE] = setting(64 * KIB, "maximum size of a payload")
    max_attempts: t.Count = setting(5, "maximum number of attempts, unless the job or its handler sets another")
    backoff_base: Annotated[t.Number, Field(gt=0, title="a number of seconds, more than 0")] = setting(
        1.0, "the delay before a retry is 2^attempt times this"
    )
    backoff_cap: Annotated[t.Number, Field(gt=0, title="a number of seconds, at least BACKOFF_BASE")] = setting(
        3600.0, "maximum delay before a retry"
    )
    unknown_type_grace: t.Duration = setting(
        3600.0,
        "how long jobs [of a type without a handler](python.md#unknown-types) wait for one; then they are dead",
    )
    keep_done_days: t.Days = setting(7, "how long done jobs are kept")
    keep_cancelled_days: t.Days = setting(7, "how long cancelled jobs are kept")
    keep_dead_days: t.Days | None = setting(None, "how long dead jobs are kept; none: forever")
    keep_cycles_days: t.Days = setting(90, "how long the figures of each cycle are kept")
    keep_runners_days: t.Days = setting(7, "how long the records of runners are kept")
    keep_audit_days: t.Days = setting(365, "how long the records of manual actions are kept")
    console_host: t.HostName = setting(
        "127.0.0.1",
        "address on which [`mayfly console`](../how-to/pull-workers.md) listens; any but a loopback address "
        "requires `CONSOLE_TLS_PROXY`",
    )
    console_port: Annotated[int, t.whole(1, 65_535), t.NUMBER] = setting(8321, "port of the console")
    console_prefix: t.UrlPrefix | None = setting(
        None, "path under which a proxy serves the console, whether or not the proxy strips it"
    )
    console_tls_proxy: t.Flag = setting(
        False, "a proxy in front of the console terminates TLS; without one, tokens would be sent unencrypted"
    )
    console_body_limit: Annotated[int, t.size(KIB, 64 * MIB), t.SIZE] = setting(MIB, "maximum size of a request body")
    console_rate: Annotated[int, t.whole(1, 100_000), t.NUMBER] = setting(
        100,
        "requests per second allowed per token, per "
        "[worker](../how-to/pull-workers.md#workers-in-any-language) that uses a token, and per address "
        "without one",
    )
    console_password_hash: t.PasswordHash | None = setting(
        None,
        "password of the account `admin` of the [web console](../how-to/console.md); without one, and without "
        "`CONSOLE_ACCOUNTS`, the console only starts with `--api-only`; a [secret](#secrets)",
    )
    console_session: t.Duration = setting(43_200.0, "how long an inactive session stays logged in")
    console_environment: t.Label | None = setting(
        None,
        "name of this installation, on every page of the web console and in the confirmation of every "
        "irreversible action; none: the host name. A name that begins with prod or live is shown in red",
    )
    redact: t.FieldNames = setting(
        ("password", "secret", "token", "api_key", "authorization"),
        "fields of payloads, at any depth, that the web console shows as •••; their values are masked in the errors "
        "of jobs in logs, alerts and [traces](../how-to/monitor.md#tracing), too",
    )
    health_dead_limit: Annotated[int, t.whole(0, 1_000_000), t.NUMBER] = setting(
        0, "number of jobs that may die within an hour before status and `GET /health` warn"
    )
    console_accounts: Annotated[dict[t.Name, AccountModel], Field(title="a table for each account")] = setting(
        {}, "[accounts besides `admin`](#accounts)"
    )
    lanes: Annotated[dict[t.Name, LaneModel], Field(title="a table for each lane")] = setting(
        {}, "[settings of a lane](#lanes-and-pools)"
    )
    pools: Annotated[dict[t.Name, t.Count], Field(title="an integer from 1 to 1000")] = setting(
        {}, "[caps shared by several lanes](#lanes-and-pools)"
    )
    sources: Annotated[dict[t.SourceName, SourceModel], Field(title="a table for each source")] = setting(
        {}, "[tables of the application whose rows become jobs](#sources); only in `mayfly.toml`"
    )
    launchers: Annotated[dict[t.Name, LauncherModel], Field(title="a table for each launcher")] = setting(
        {}, "[engines that start runners on other machines](#launchers); only in `mayfly.toml`"
    )

    def as_plain(self) -> Settings:
        """What the rest of the product gets: validated, and without pydantic."""
        fields = {name: getattr(self, name) for name in SettingsModel.model_fields}
        fields["lanes"] = {name: LaneSettings(**dict(lane)) for name, lane in self.lanes.items()}
        fields["console_accounts"] = {
            name: AccountSettings(**dict(each)) for name, each in self.console_accounts.items()
        }
        fields["sources"] = {
            name: SourceSettings(**{**dict(each), "name": name, "lane": each.lane or name})
            for name, each in self.sources.items()
        }
        fields["launchers"] = {name: resolved(name, each) for name, each in self.launchers.items()}
        return Settings(**fields, unset_lane=LaneSettings(**dict(LaneModel())))

    @field_validator("log_dir", "state_dir", "wake_dir", "metrics_textfile", "schedule_files")
    @classmethod
    def _is_under_home(
        cls, given: Path | tuple[Path, ...] | None, info: ValidationInfo
    ) -> Path | tuple[Path, ...] | None:
        home = info.data["home"]
        if isinstance(given, tuple):
            return tuple(under_home(path, home) for path in given)
        return under_home(given, home) if given else None

    @field_validator("database_url")
    @classmethod
    def _database_is_known(cls, url: Secret, info: ValidationInfo) -> Secret:
        return Secret(database_url(url.get_secret_value(), info.data["home"]))


# --- conflicting settings ---------------------------------------------------------------------------------


def conflicts(settings: Settings) -> Iterator[tuple[str, list[Key]]]:
    """The rules that are broken, each with the settings that break it."""
    if settings.worker_timeout >= settings.dispatch_timeout:
        rule = "must be WORKER_TIMEOUT < DISPATCH_TIMEOUT < 60, so that each guard fires before the next"
        yield rule, [("worker_timeout",), ("dispatch_timeout",)]
    if settings.min_workers > settings.max_workers:
        yield "must be MIN_WORKERS <= MAX_WORKERS", [("min_workers",), ("max_workers",)]
    if settings.backoff_base > settings.backoff_cap:
        yield "must be BACKOFF_BASE <= BACKOFF_CAP", [("backoff_base",), ("backoff_cap",)]
    if settings.alert_webhook_url and not settings.alert_webhook_secret:
        rule = "needs ALERT_WEBHOOK_SECRET: the receiver must be able to verify the sender"
        yield rule, [("alert_webhook_url",)]
    for name, lane in settings.lanes.items():
        minimum, maximum = lane.min_workers or settings.min_workers, lane.max_workers or settings.max_workers
        if minimum > maximum and (lane.min_workers or lane.max_workers):  # else it is the global conflict
            low: Key = ("lanes", name, "min_workers") if lane.min_workers else ("min_workers",)
            high: Key = ("lanes", name, "max_workers") if lane.max_workers else ("max_workers",)
            yield f"must be MIN_WORKERS <= MAX_WORKERS in the lane {name}", [low, high]
        if lane.pool is not None and lane.pool not in settings.pools:
            pools = f"pools are {', '.join(sorted(settings.pools))}" if settings.pools else "there are none yet"
            rule = f"is not a pool; {pools}, and POOLS__NAME=3 or [pools] in mayfly.toml adds one"
            yield rule, [("lanes", name, "pool")]
        if lane.launcher is not None:
            for rule in _launcher_rules(settings, lane.launcher, lane.external):
                yield rule, [("lanes", name, "launcher")]
    for source in settings.sources.values():
        for rule, field in source_conflicts(source, settings):
            yield rule, [("sources", source.name, field)]
    for launcher in settings.launchers.values():
        for rule, key in launcher_conflicts(launcher, settings):
            yield rule, [tuple(key)]


def _launcher_rules(settings: Settings, launcher: str, is_external: bool) -> Iterator[str]:
    if launcher not in settings.launchers:
        known = f"those are {', '.join(sorted(settings.launchers))}" if settings.launchers else "there are none yet"
        yield f"is not a launcher; {known}, and [launchers.{launcher}] in mayfly.toml adds one"
    if is_external:
        yield "has no effect in an external lane, where no runners are started; remove one of the two"


# --- metadata of the fields -------------------------------------------------------------------------------

TABLES: Mapping[str, type[BaseModel]] = {
    "lanes": LaneModel,
    "console_accounts": AccountModel,
    "sources": SourceModel,
    "launchers": LauncherModel,
}
ONLY_IN_TOML = ("sources", "launchers")  # SQL and commands from the environment would be too easy to inject


def field_of(key: Key) -> FieldInfo:
    """The field of a setting; of a pool, the field of all pools."""
    model = TABLES[key[0]] if len(key) == 3 else SettingsModel
    return model.model_fields[key[-1] if len(key) == 3 else key[0]]


def allowed_values(field: FieldInfo) -> str:
    """The title of the field, or of its type where that may also be None."""
    return field.title or next(each.title for each in _inner(field.annotation, FieldInfo) if each.title)


def is_secret(key: Key) -> bool:
    return Secret in _inner(field_of(key).annotation, type)


def _inner(annotation: Any, kind: type) -> Iterator[Any]:
    """All objects of this kind inside a type such as Annotated[…] | None."""
    if isinstance(annotation, kind):
        yield annotation
    for each in get_args(annotation):
        yield from _inner(each, kind)


# --- names ------------------------------------------------------------------------------------------------


def variable_of(key: Key) -> str:
    """The name of the setting: of the variable, or its key in mayfly.toml if it can only be set there."""
    if key[0] in ONLY_IN_TOML:
        return ".".join(key)
    return HOME if key == ("home",) else "__".join(key).upper()


PLAIN = tuple(name for name in SettingsModel.model_fields if name not in ("home", "pools", *TABLES))  # one value each
SECRET_FILES = {(name,): f"{variable_of((name,))}_FILE" for name in PLAIN if is_secret((name,))}


def key_of(variable: str) -> Key | None:
    """LANES__SEND_EMAIL__RANK is ("lanes", "send_email", "rank"); None for a name that is not a setting."""
    head, separator, rest = variable.partition("__")
    kind = head.lower() if separator and head == head.upper() else ""
    if kind == "pools":
        return (kind, rest.lower()) if rest else None
    if kind in TABLES and kind not in ONLY_IN_TOML:
        name, _, word = rest.rpartition("__")  # from the right: a lane may have __ in its name
        return (kind, name.lower(), word.lower()) if name and _is_name(word, TABLES[kind].model_fields) else None
    return (variable.lower(),) if _is_name(variable, PLAIN) else None


def _is_name(word: str, known: Container[str]) -> bool:
    return word == word.upper() and word.lower() in known
