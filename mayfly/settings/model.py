"""Every setting: its name, type, default, bounds and meaning.

A new setting is one field here. Its title says which values are allowed, in the words of the error and of
docs/settings.md ("must be …"); its description says what it does. docs/settings.md is written from both by
scripts/settings_page.py.

A validator raises a bare ValueError where the title says all there is to say, and one with a clause of its own where
it knows better what is wrong.
"""

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from mayfly.settings.values import (
    DATABASE_RULE,
    NAME_PATTERN,
    NAME_RULE,
    ROLES,
    SCHEDULE_FILES,
    AccountSettings,
    LaneSettings,
    Role,
    Secret,
    Settings,
    database_url,
    under_home,
)

# ("batch_size",) or ("lanes", "send_email", "rank") or ("pools", "email") or ("console_accounts", "ann", "role")
Key = tuple[str, ...]

KIB, MIB, GIB = 1024, 1024**2, 1024**3
MAX_LINGER = 55.0  # seconds: to the end of the minute
MAX_DURATION = 7 * 24 * 3600.0  # seconds

# --- how values are read ----------------------------------------------------------------------------------


def size_text(count: int) -> str:
    """67108864 as 64M; a number that is not round stays as it is."""
    for unit, letter in ((GIB, "G"), (MIB, "M"), (KIB, "K")):
        if count and count % unit == 0:
            return f"{count // unit}{letter}"
    return str(count)


def _refuse_bool(value: object) -> object:
    # pydantic reads true as 1: `batch_size = true` in mayfly.toml would pass for a number.
    if isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - pydantic lets a TypeError through
    return value


def _read_size(value: object) -> object:
    """Bytes, or with a unit: a letter is a power of 1024, with and without B or iB, as for systemd and Docker."""
    if not isinstance(value, str):
        return _refuse_bool(value)
    match = re.fullmatch(r"([0-9]+)(?:(?:\.([0-9]+))? ?([KMG])(?:I?B)?)?", value.strip().upper())
    if match is None:
        raise ValueError
    whole, fraction, unit = match[1], match[2] or "", match[3] or ""
    return int(whole + fraction) * {"": 1, "K": KIB, "M": MIB, "G": GIB}[unit] // 10 ** len(fraction)


def _read_duration(value: object) -> object:
    """90, or 90s, 15m, 3h."""
    if not isinstance(value, str):
        return _refuse_bool(value)
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh]?)", value.strip())
    if match is None:
        raise ValueError
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def _read_list(value: object) -> tuple[str, ...]:
    """A text with commas, or a list of mayfly.toml."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str | Path) for item in items):
        raise ValueError
    texts = tuple(str(item).strip() for item in items)
    if not all(texts):
        raise ValueError
    return texts


def _each(check: Callable[[str], str]) -> AfterValidator:
    return AfterValidator(lambda items: tuple(check(item) for item in items))


def _module(name: str) -> str:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError
    return name


def _function(text: str) -> str:
    """module:function; the colon says where the name of the module ends."""
    module, _, name = text.partition(":")
    _module(module)
    if not name.isidentifier():
        raise ValueError
    return text


def _matching(pattern: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError
        return text

    return check


_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?"
# Without an account, which servers would log, and without a fragment, which no server sees.
_url = _matching(rf"https?://{_HOST}(?:[/?][!-\"$-~]*)?")
_smtp_url = _matching(rf"smtps?://(?:[!-.0-9;-?A-~]+:[!-.0-?A-~]+@)?{_HOST}/?")
_mail_address = _matching(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+")  # strict: it goes into a mail header
# As argon2 writes it: a password in its place is refused.
_password_hash = _matching(
    r"\$argon2id\$v=[0-9]+\$m=[0-9]+,t=[0-9]+,p=[0-9]+\$[A-Za-z0-9+/]{11,}\$[A-Za-z0-9+/]{22,}"
)
_base64_secret = _matching(r"whsec_(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def _webhook_secret(text: str) -> str:
    """As Standard Webhooks specifies it."""
    encoded = _base64_secret(text).removeprefix("whsec_")
    if not 24 <= len(encoded) // 4 * 3 - encoded.count("=") <= 64:
        raise ValueError
    return text


def _printable(text: str, longest: int) -> str:
    if not (text.strip() and len(text) <= longest and text.isprintable()):
        raise ValueError
    return text


def _host_name(text: str) -> str:
    if " " in text:  # no other white space is printable
        raise ValueError
    return _printable(text, 64)


def _textfile(path: Path) -> Path:
    if path.suffix != ".prom":
        raise ValueError
    return path


def _secret(check: Callable[[str], str]) -> PlainValidator:
    def read(value: object) -> Secret:
        text = value.get_secret_value() if isinstance(value, Secret) else value
        if not isinstance(text, str):
            raise ValueError  # noqa: TRY004 - pydantic lets a TypeError through
        return Secret(check(text))

    return PlainValidator(read)


# --- types ------------------------------------------------------------------------------------------------


def _whole(low: int, high: int) -> Any:
    return Field(ge=low, le=high, title=f"an integer from {low} to {high}")


def _size(low: int, high: int | None = None) -> Any:
    bounds = f"at least {size_text(low)}" if high is None else f"from {size_text(low)} to {size_text(high)}"
    return Field(ge=low, le=high, title=f"bytes, or a size such as 512M or 1.5G, {bounds}")


def _seconds(low: float, high: float) -> Any:
    return Field(ge=low, le=high, title=f"a number of seconds from {low:g} to {high:g}")


def _one_of(*words: str) -> Any:
    return Field(title=" or ".join([", ".join(words[:-1]), words[-1]]))


NUMBER = BeforeValidator(_refuse_bool)
SIZE = BeforeValidator(_read_size)
LIST = BeforeValidator(_read_list)

Count = Annotated[int, _whole(1, 1000), NUMBER]
Number = Annotated[float, Field(allow_inf_nan=False), NUMBER]
Duration = Annotated[
    float,
    Field(
        ge=1,
        le=MAX_DURATION,
        allow_inf_nan=False,
        title=f"a number of seconds, or a duration such as 90s, 15m or 3h, from 1 s to {MAX_DURATION / 3600:g} h",
    ),
    BeforeValidator(_read_duration),
]
Days = Annotated[Number, Field(gt=0, title="a number of days, more than 0")]
Flag = Annotated[bool, Field(title="true or false")]
Directory = Annotated[Path, Field(title="a directory")]
Name = Annotated[str, Field(pattern=NAME_PATTERN, title=NAME_RULE)]
HostName = Annotated[str, AfterValidator(_host_name), Field(title="1 to 64 printable characters without white space")]
Url = Annotated[str, AfterValidator(_url), Field(title="a URL that begins with http:// or https://")]
SecretUrl = Annotated[Secret, _secret(_url), Field(title="a URL that begins with http:// or https://")]
PasswordHash = Annotated[Secret, _secret(_password_hash), Field(title="what `mayfly password` prints")]
Modules = Annotated[tuple[str, ...], LIST, _each(_module), Field(title="dotted module names, separated by commas")]
Functions = Annotated[
    tuple[str, ...], LIST, _each(_function), Field(title="module:function, or several separated by commas")
]
Paths = Annotated[tuple[Path, ...], LIST, Field(title="files or directories, separated by commas")]
FieldNames = Annotated[
    tuple[str, ...], LIST, _each(str.lower), Field(title="names of payload fields, separated by commas")
]
MailAddress = Annotated[str, AfterValidator(_mail_address), Field(title="an address")]
MailAddresses = Annotated[tuple[str, ...], LIST, _each(_mail_address), Field(title="addresses, separated by commas")]
SmtpUrl = Annotated[
    Secret,
    _secret(_smtp_url),
    Field(title="smtp://host:25 or smtps://host:465, with user:password@ before the host if needed"),
]
WebhookSecret = Annotated[
    Secret, _secret(_webhook_secret), Field(title="whsec_ and the base64 of 24 to 64 random bytes")
]
Textfile = Annotated[
    Path, AfterValidator(_textfile), Field(title="a file whose name ends in .prom: node_exporter reads no other")
]
# Only characters that need no escaping, so that pages can contain it as it is.
UrlPrefix = Annotated[
    str,
    AfterValidator(_matching(r"(/[A-Za-z0-9_.~-]+){1,8}")),
    Field(title="a path that begins with / and does not end with one, such as /mayfly"),
]
Label = Annotated[str, AfterValidator(lambda text: _printable(text, 32)), Field(title="1 to 32 printable characters")]


# --- lanes and accounts -----------------------------------------------------------------------------------


class LaneOnlyModel(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """Settings that only a lane has."""

    rank: Annotated[int, Field(title="an integer"), NUMBER] = Field(
        0, description="when the host is short of slots, the lane with the smallest rank is served first"
    )
    pool: Annotated[Name | None, Field(title="the name of a pool")] = Field(
        None, description="the lanes of a pool together have no more runners than its cap"
    )
    external: Flag = Field(
        False,
        description="never dispatched: workers outside of Mayfly [pull from it](http-api.md#workers-in-any-language)",
    )
    latency_target: Duration | None = Field(
        None,
        description="how long a due job of this lane may wait before `GET /health` reports it and "
        "[an alert is sent](alerts.md)",
    )
    on_doubt: Annotated[Literal["hold", "resend"] | None, _one_of("hold", "resend")] = Field(
        None,
        description="what handlers of this lane do when [it is unknown](../handlers/mail/README.md#doubt) "
        "whether something that cannot be undone has happened; each handler has its own default",
    )


class LaneModel(LaneOnlyModel):
    """Settings of one lane. Those that have the name of a global setting override it; None is the global value."""

    batch_size: Count | None = Field(None, description="as above, for this lane")
    max_workers: Count | None = Field(None, description="as above, for this lane")
    min_workers: Count | None = Field(None, description="as above, for this lane; at most the lane's `max_workers`")
    concurrency: Count | None = Field(None, description="as above, for this lane")
    worker_timeout: Duration | None = Field(
        None,
        description="as above, for this lane; above DISPATCH_TIMEOUT it is a [long lane](long-lanes.md), whose "
        "runners outlive their dispatcher",
    )
    linger: Annotated[Number | None, _seconds(0, MAX_LINGER)] = Field(None, description="as above, for this lane")


class AccountModel(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """An account of the web console."""

    role: Annotated[Role, _one_of(*ROLES)] = Field(
        description="a viewer sees, an operator also acts, an admin also sees the settings"
    )
    password_hash: PasswordHash = Field(description="a secret")


# --- all settings -----------------------------------------------------------------------------------------


class SettingsModel(BaseSettings):
    """The settings of one installation. Secrets have the type Secret; each can also be read from NAME_FILE."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,  # relative defaults are relative to home too
        hide_input_in_errors=True,  # pydantic would quote the value, which may be a password
    )

    # First, because the paths that follow are relative to it.
    home: Annotated[Path, Field(title="an existing directory, as an absolute path")] = Field(
        description="where `.env`, `mayfly.toml` and all relative paths belong; environment only"
    )
    database_url: Annotated[Secret, _secret(str), Field(title=DATABASE_RULE)] = Field(
        Secret("sqlite:///mayfly.db"), description="the database with the jobs; a [secret](#secrets)"
    )
    batch_size: Count = Field(5, description="jobs that one runner is planned for, and the size of its first claim")
    max_workers: Count = Field(5, description="most runners of one lane at a time, in the whole fleet")
    min_workers: Annotated[Count, Field(title="an integer from 1 to MAX_WORKERS")] = Field(
        1, description="fewest runners of a lane that has work"
    )
    concurrency: Count = Field(
        100,
        description="most jobs with [`async def` or `threads=`](handlers.md#many-at-once) that one runner runs at a "
        "time",
    )
    host_max_workers: Annotated[int, _whole(1, 10_000), NUMBER] = Field(
        32, description="most runners on this host, over all lanes"
    )
    worker_timeout: Annotated[Number, Field(ge=1, title="a number of seconds from 1, below DISPATCH_TIMEOUT")] = (
        Field(50, description="when a runner stops claiming and interrupts the jobs that still run")
    )
    dispatch_timeout: Annotated[
        Number, Field(gt=1, lt=60, title="a number of seconds above WORKER_TIMEOUT, below 60")
    ] = Field(55, description="when the dispatcher ends every runner that is left")
    linger: Annotated[Number, _seconds(0, MAX_LINGER)] = Field(
        0.0, description="how long the dispatcher stays and [polls for new work](linger.md); 0 disables it"
    )
    poll_interval: Annotated[Number, _seconds(0.05, 5.0)] = Field(
        0.25,
        description="how often it then polls; less and less often, down to once a second, while there is no work",
    )
    worker_memory: Annotated[int | None, _size(32 * MIB), SIZE] = Field(
        None, description="a runner whose resident memory is above it is ended; none: no limit"
    )
    min_free_memory: Annotated[int, _size(0), SIZE] = Field(
        64 * MIB, description="free memory required per planned runner; 0 disables the check"
    )
    max_load: Annotated[Number, Field(ge=0, title="a number, 0 or more")] = Field(
        10.0, description="1-minute load per core above which at most one runner is started; 0 disables the check"
    )
    handlers: Modules = Field(
        ("handlers",), description="where handlers are found; packages are searched. `mayfly.toml` also takes a list"
    )
    hooks_before: Functions = Field((), description="[called before each job](hooks.md)")
    hooks_after: Functions = Field((), description="[called after each job](hooks.md), with its outcome")
    hooks_on_dead: Functions = Field((), description="[called for each job that is dead](hooks.md#on_dead)")
    schedule_files: Paths = Field(
        tuple(map(Path, SCHEDULE_FILES)),
        description="where [schedules](schedules.md) are read; of a directory, every file. Those of the default may "
        "be missing",
    )
    heartbeat_url: SecretUrl | None = Field(
        None, description="[requested at the start and the end of every cycle](alerts.md); a [secret](#secrets)"
    )
    alert_webhook_url: SecretUrl | None = Field(
        None, description="[where alerts are posted](alerts.md); a [secret](#secrets)"
    )
    alert_webhook_secret: WebhookSecret | None = Field(
        None, description="the key that signs them; a [secret](#secrets)"
    )
    alert_mail_to: MailAddresses = Field((), description="[recipients of alerts by mail](alerts.md#by-mail)")
    alert_mail_from: MailAddress | None = Field(None, description="the sender; none: mayfly@ and the host's name")
    alert_smtp_url: SmtpUrl = Field(
        Secret("smtp://localhost:25"), description="the mail server; a [secret](#secrets)"
    )
    metrics_textfile: Textfile | None = Field(None, description="[written by every cycle](metrics.md#by-a-file)")
    otlp_endpoint: Url | None = Field(None, description="where [traces](tracing.md) are sent")
    log_dir: Directory = Field(Path("logs"), description="where `dispatcher.log` is written")
    log_format: Annotated[Literal["text", "json"], _one_of("text", "json")] = Field(
        "text", description="lines for people or for machines"
    )
    log_to: Annotated[Literal["file", "stdout", "syslog"], _one_of("file", "stdout", "syslog")] = Field(
        "file", description="where the log goes"
    )
    state_dir: Directory | None = Field(None, description="where the host lock is kept; none: chosen by Mayfly")
    host_name: HostName = Field(
        default_factory=lambda: socket.gethostname(),
        description="this host's name in the tables; two dispatchers with two names count as two hosts",
    )
    spawn: Annotated[Literal["fork", "exec"], _one_of("fork", "exec")] = Field(
        "fork",
        description="fork runners from the dispatcher (3 ms each), or start a new interpreter for each (600 ms)",
    )
    payload_limit: Annotated[int, _size(KIB, 16 * MIB), SIZE] = Field(
        64 * KIB, description="largest payload that is accepted"
    )
    max_attempts: Count = Field(
        5, description="attempts before a job is dead, unless the job or its handler says otherwise"
    )
    backoff_base: Annotated[Number, Field(gt=0, title="a number of seconds, more than 0")] = Field(
        1.0, description="the wait before a retry is 2^attempt times this"
    )
    backoff_cap: Annotated[Number, Field(gt=0, title="a number of seconds, at least BACKOFF_BASE")] = Field(
        3600.0, description="longest wait before a retry"
    )
    keep_done_days: Days = Field(7, description="how long done jobs are kept")
    keep_cancelled_days: Days = Field(7, description="how long cancelled jobs are kept")
    keep_dead_days: Days | None = Field(None, description="how long dead jobs are kept; none: forever")
    keep_cycles_days: Days = Field(90, description="how long the figures of each cycle are kept")
    keep_runners_days: Days = Field(7, description="how long the records of runners are kept")
    keep_audit_days: Days = Field(365, description="how long the records of manual actions are kept")
    console_host: HostName = Field(
        "127.0.0.1",
        description="the address on which [`python -m console`](http-api.md) listens; any but a loopback address "
        "needs `CONSOLE_TLS_PROXY`",
    )
    console_port: Annotated[int, _whole(1, 65_535), NUMBER] = Field(8321, description="its port")
    console_prefix: UrlPrefix | None = Field(
        None, description="the path under which a proxy serves it, whether or not the proxy strips it"
    )
    console_tls_proxy: Flag = Field(
        False,
        description="a proxy terminates TLS in front of it; without one, tokens would cross the network in clear",
    )
    console_body_limit: Annotated[int, _size(KIB, 64 * MIB), SIZE] = Field(
        MIB, description="largest request body that it reads"
    )
    console_rate: Annotated[int, _whole(1, 100_000), NUMBER] = Field(
        100, description="requests per second allowed for each token, and for each address without one"
    )
    console_password_hash: PasswordHash | None = Field(
        None,
        description="the password of the account `admin` of the [web console](console.md); without one, and without "
        "`CONSOLE_ACCOUNTS`, it only starts with `--api-only`; a [secret](#secrets)",
    )
    console_session: Duration = Field(43_200.0, description="how long an inactive session stays logged in")
    console_environment: Label | None = Field(
        None,
        description="the name of this installation in the web console, on every page and before every action that "
        "cannot be undone; none: the host's name. One that begins with prod or live is shown in red",
    )
    redact: FieldNames = Field(
        ("password", "secret", "token", "api_key", "authorization"),
        description="what the web console shows as ••• in payloads, results and errors, at any depth",
    )
    health_dead_limit: Annotated[int, _whole(0, 1_000_000), NUMBER] = Field(
        0, description="jobs that may have died in the last hour before `GET /health` reports it"
    )
    console_accounts: Annotated[dict[Name, AccountModel], Field(title="a table for each account")] = Field(
        {}, description="[other accounts than `admin`](#accounts)"
    )
    lanes: Annotated[dict[Name, LaneModel], Field(title="a table for each lane")] = Field(
        {}, description="[what differs in a lane](#lanes-and-pools)"
    )
    pools: Annotated[dict[Name, Count], Field(title="an integer from 1 to 1000")] = Field(
        {}, description="[caps that lanes share](#lanes-and-pools)"
    )

    def as_plain(self) -> Settings:
        """What the rest of the product gets: validated, and without pydantic."""
        fields = {name: getattr(self, name) for name in SettingsModel.model_fields}
        fields["lanes"] = {name: LaneSettings(**dict(lane)) for name, lane in self.lanes.items()}
        fields["console_accounts"] = {
            name: AccountSettings(**dict(each)) for name, each in self.console_accounts.items()
        }
        return Settings(**fields, unset_lane=LaneSettings(**dict(LaneModel())))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        *others: PydanticBaseSettingsSource,  # noqa: ARG003
        **more: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments only: loading.py reads the sources, because pydantic does not say which one a value is from."""
        return (init_settings,)

    @field_validator("home")
    @classmethod
    def _home_is_absolute(cls, home: Path) -> Path:
        if not home.is_absolute():
            raise ValueError
        return home.resolve()

    @field_validator("log_dir", "state_dir", "metrics_textfile")
    @classmethod
    def _path_is_under_home(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        home = info.data.get("home")  # missing where home itself is wrong
        return under_home(path, home) if path and home else path

    @field_validator("schedule_files")
    @classmethod
    def _paths_are_under_home(cls, paths: tuple[Path, ...], info: ValidationInfo) -> tuple[Path, ...]:
        home = info.data.get("home")
        return tuple(under_home(path, home) for path in paths) if home else paths

    @field_validator("database_url")
    @classmethod
    def _database_is_known(cls, url: Secret, info: ValidationInfo) -> Secret:
        home = info.data.get("home")
        return Secret(database_url(url.get_secret_value(), home)) if home else url

    @model_validator(mode="after")
    def _values_fit_each_other(self) -> Self:
        conflicts = list(_conflicts(self))
        if conflicts:
            text = "; ".join(conflict.rule for conflict in conflicts)
            raise PydanticCustomError(CONFLICTS, "{text}", {"text": text, "conflicts": conflicts})
        return self


# --- settings that do not fit each other ------------------------------------------------------------------

CONFLICTS = "conflicts"  # pydantic's type of an error that carries Conflicts


class Conflict(NamedTuple):
    values: Mapping[Key, object]
    rule: str


def _conflicts(settings: SettingsModel) -> Iterator[Conflict]:
    if settings.worker_timeout >= settings.dispatch_timeout:
        rule = "must be WORKER_TIMEOUT < DISPATCH_TIMEOUT < 60, so that each guard fires before the next"
        yield _between(settings, rule, "worker_timeout", "dispatch_timeout")
    if settings.min_workers > settings.max_workers:
        yield _between(settings, "must be MIN_WORKERS <= MAX_WORKERS", "min_workers", "max_workers")
    if settings.backoff_base > settings.backoff_cap:
        yield _between(settings, "must be BACKOFF_BASE <= BACKOFF_CAP", "backoff_base", "backoff_cap")
    if settings.alert_webhook_url and not settings.alert_webhook_secret:
        rule = "needs ALERT_WEBHOOK_SECRET: the receiver must be able to verify the sender"
        yield _between(settings, rule, "alert_webhook_url")
    for name, lane in settings.lanes.items():
        yield from _lane_conflicts(settings, name, lane)


def _lane_conflicts(settings: SettingsModel, name: str, lane: LaneModel) -> Iterator[Conflict]:
    fewest, most = lane.min_workers or settings.min_workers, lane.max_workers or settings.max_workers
    if fewest > most and (lane.min_workers or lane.max_workers):
        low: Key = ("lanes", name, "min_workers") if lane.min_workers else ("min_workers",)
        high: Key = ("lanes", name, "max_workers") if lane.max_workers else ("max_workers",)
        yield Conflict({low: fewest, high: most}, f"must be MIN_WORKERS <= MAX_WORKERS in the lane {name}")
    if lane.pool is not None and lane.pool not in settings.pools:
        pools = f"pools are {', '.join(sorted(settings.pools))}" if settings.pools else "there are none yet"
        rule = f"is not a pool; {pools}, and POOLS__NAME=3 or [pools] in mayfly.toml adds one"
        yield Conflict({("lanes", name, "pool"): lane.pool}, rule)


def _between(settings: SettingsModel, rule: str, *names: str) -> Conflict:
    return Conflict({(name,): getattr(settings, name) for name in names}, rule)


# --- what the fields say about themselves -----------------------------------------------------------------

TABLES: Mapping[str, type[BaseModel]] = {"lanes": LaneModel, "console_accounts": AccountModel}


def field_of(key: Key) -> FieldInfo:
    """The field of a setting; of a pool, the field of all pools."""
    model = TABLES[key[0]] if len(key) == 3 else SettingsModel
    return model.model_fields[key[-1] if len(key) == 3 else key[0]]


def allowed_values(field: FieldInfo) -> str:
    """The title of the field, or of its type where that may also be None."""
    return field.title or next(each.title for each in _inner(field.annotation, FieldInfo) if each.title)


def is_secret(key: Key) -> bool:
    return key[0] != "home" and Secret in _inner(field_of(key).annotation, type)


def _inner(annotation: Any, kind: type) -> Iterator[Any]:
    """Everything of this kind inside of a type such as Annotated[…] | None."""
    if isinstance(annotation, kind):
        yield annotation
    for each in get_args(annotation):
        yield from _inner(each, kind)


SECRETS = tuple(name for name in SettingsModel.model_fields if is_secret((name,)))
