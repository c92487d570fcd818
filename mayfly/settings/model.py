"""Every setting with its default and its bounds: the door for all that is not plain. Pure."""

import socket
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from mayfly.settings.conflicts import conflicts_in
from mayfly.settings.kinds import (
    DURATION,
    NUMBER,
    SIZE,
    Address,
    Addresses,
    Count,
    Days,
    Environment,
    Fields,
    Functions,
    HostName,
    Modules,
    Name,
    PasswordHash,
    Paths,
    Prefix,
    Real,
    SecretUrl,
    SmtpUrl,
    Textfile,
    Url,
    WebhookSecret,
    duration,
    one_of,
    seconds,
    size,
    whole,
)
from mayfly.settings.names import ACCOUNTS, SECRETS, Key, Names
from mayfly.settings.problems import CONFLICTS
from mayfly.settings.shape import AccountSettings, LaneSettings, Secret, Settings
from mayfly.settings.values import (
    DATABASE_RULE,
    ENVIRONMENT_RULE,
    KIB,
    LONGEST_LINGER,
    LONGEST_TIMEOUT,
    MIB,
    ON_DOUBT,
    PASSWORD_HASH_RULE,
    POLL_INTERVALS,
    PREFIX_RULE,
    REDACTED,
    ROLES,
    SCHEDULE_FILES,
    SMTP_URL,
    TEXTFILE_RULE,
    URL_RULE,
    WEBHOOK_SECRET_RULE,
    database_url,
    under_home,
)

LaneCount = Annotated[int | None, whole(1, 1000), NUMBER]


class LaneModel(BaseModel):
    """What may be said of one lane, and in which bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    batch_size: LaneCount = None
    max_workers: LaneCount = None
    min_workers: LaneCount = None
    concurrency: LaneCount = None
    worker_timeout: Annotated[Real | None, duration(1, LONGEST_TIMEOUT), DURATION] = None
    linger: Annotated[Real | None, seconds(0, LONGEST_LINGER)] = None
    rank: Annotated[int, Field(description="a whole number"), NUMBER] = 0
    pool: Annotated[Name | None, Field(description="the name of a pool")] = None
    external: Annotated[bool, Field(description="true or false")] = False
    latency_target: Annotated[Real | None, duration(1, LONGEST_TIMEOUT), DURATION] = None
    on_doubt: Annotated[Literal["hold", "resend"] | None, one_of(*ON_DOUBT)] = None


class AccountModel(BaseModel):
    """Somebody who may log in to the web console."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    role: Annotated[Literal["viewer", "operator", "admin"], one_of(*ROLES)]
    password_hash: PasswordHash


class SettingsModel(BaseSettings):
    """The settings and their bounds. A field's description is what its error and docs/settings.md say."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,  # relative defaults belong under home too
        hide_input_in_errors=True,  # pydantic would quote what was given, and that may be a password
    )

    # First, because the paths that follow are relative to it.
    home: Annotated[Path, Field(description="an existing directory, as an absolute path")]
    database_url: Annotated[SecretStr, Field(description=DATABASE_RULE)] = SecretStr("sqlite:///mayfly.db")
    batch_size: Count = 5
    max_workers: Count = 5
    min_workers: Annotated[Count, Field(description="a whole number from 1 to MAX_WORKERS")] = 1
    concurrency: Count = 100
    host_max_workers: Annotated[int, whole(1, 10_000), NUMBER] = 32
    worker_timeout: Annotated[
        Real,
        Field(ge=1, description="a number of seconds from 1, below DISPATCH_TIMEOUT"),
    ] = 50
    dispatch_timeout: Annotated[
        Real, Field(gt=1, lt=60, description="a number of seconds above WORKER_TIMEOUT, below 60")
    ] = 55
    linger: Annotated[Real, seconds(0, LONGEST_LINGER)] = 0.0
    poll_interval: Annotated[Real, seconds(*POLL_INTERVALS)] = 0.25
    worker_memory: Annotated[int | None, size(32 * MIB), SIZE] = None
    min_free_memory: Annotated[int, size(0), SIZE] = 64 * MIB
    max_load: Annotated[Real, Field(ge=0, description="a number, 0 or more")] = 10.0
    handlers: Modules = ("handlers",)
    hooks_before: Functions = ()
    hooks_after: Functions = ()
    hooks_on_dead: Functions = ()
    schedule_files: Paths = tuple(map(Path, SCHEDULE_FILES))
    heartbeat_url: SecretUrl | None = Field(None, description=URL_RULE)
    alert_webhook_url: SecretUrl | None = Field(None, description=URL_RULE)
    alert_webhook_secret: WebhookSecret | None = Field(None, description=WEBHOOK_SECRET_RULE)
    alert_mail_to: Addresses = ()
    alert_mail_from: Annotated[Address | None, Field(description="an address")] = None
    alert_smtp_url: SmtpUrl = SecretStr(SMTP_URL)
    metrics_textfile: Annotated[Textfile | None, Field(description=TEXTFILE_RULE)] = None
    otlp_endpoint: Annotated[Url | None, Field(description=URL_RULE)] = None
    log_dir: Annotated[Path, Field(description="a directory")] = Path("logs")
    log_format: Annotated[Literal["text", "json"], one_of("text", "json")] = "text"
    log_to: Annotated[Literal["file", "stdout", "syslog"], one_of("file", "stdout", "syslog")] = "file"
    state_dir: Annotated[Path | None, Field(description="a directory")] = None
    host_name: HostName = Field(default_factory=lambda: socket.gethostname())
    spawn: Annotated[Literal["fork", "exec"], one_of("fork", "exec")] = "fork"
    payload_limit: Annotated[int, size(KIB, 16 * MIB), SIZE] = 64 * KIB
    max_attempts: Count = 5
    backoff_base: Annotated[Real, Field(gt=0, description="a number of seconds, more than 0")] = 1.0
    backoff_cap: Annotated[Real, Field(gt=0, description="a number of seconds, at least BACKOFF_BASE")] = 3600.0
    keep_done_days: Days = 7
    keep_cancelled_days: Days = 7
    keep_dead_days: Annotated[Days | None, Field(description="a number of days, more than 0")] = None
    keep_cycles_days: Days = 90
    keep_runners_days: Days = 7
    keep_audit_days: Days = 365
    console_host: HostName = "127.0.0.1"
    console_port: Annotated[int, whole(1, 65_535), NUMBER] = 8321
    console_prefix: Annotated[Prefix | None, Field(description=PREFIX_RULE)] = None
    console_tls_proxy: Annotated[bool, Field(description="true or false")] = False
    console_body_limit: Annotated[int, size(KIB, 64 * MIB), SIZE] = MIB
    console_rate: Annotated[int, whole(1, 100_000), NUMBER] = 100
    console_password_hash: Annotated[PasswordHash | None, Field(description=PASSWORD_HASH_RULE)] = None
    console_session: Annotated[Real, duration(1, LONGEST_TIMEOUT), DURATION] = 43_200.0
    console_environment: Annotated[Environment | None, Field(description=ENVIRONMENT_RULE)] = None
    redact: Fields = REDACTED
    health_dead_limit: Annotated[int, whole(0, 1_000_000), NUMBER] = 0
    console_accounts: Annotated[dict[Name, AccountModel], Field(description="a table for each account")] = {}
    lanes: Annotated[dict[Name, LaneModel], Field(description="a table for each lane")] = {}
    pools: Annotated[dict[Name, Count], Field(description="a whole number from 1 to 1000")] = {}

    def as_plain(self) -> Settings:
        """What leaves this door: checked, and nothing of pydantic left."""
        fields = {name: getattr(self, name) for name in Settings._fields}
        for name in SECRETS:
            fields[name] = fields[name] and Secret(fields[name].get_secret_value())
        fields[ACCOUNTS] = {
            name: AccountSettings(each.role, Secret(each.password_hash.get_secret_value()))
            for name, each in self.console_accounts.items()
        }
        fields["lanes"] = {name: LaneSettings(**lane.model_dump()) for name, lane in self.lanes.items()}
        return Settings(**fields)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        *others: PydanticBaseSettingsSource,  # noqa: ARG003
        **more: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments only: load() reads the places itself, for pydantic does not say whose word a value is."""
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
    def _database_is_known(cls, url: SecretStr, info: ValidationInfo) -> SecretStr:
        home = info.data.get("home")
        return SecretStr(database_url(url.get_secret_value(), home)) if home else url

    @model_validator(mode="after")
    def _values_fit_each_other(self) -> Self:
        conflicts = list(conflicts_in(self))
        if conflicts:
            text = "; ".join(conflict.rule for conflict in conflicts)
            raise PydanticCustomError(CONFLICTS, "{text}", {"text": text, "conflicts": conflicts})
        return self


NAMES = Names(
    plain=frozenset(SettingsModel.model_fields) - {"home", ACCOUNTS, "lanes", "pools"},
    lane=frozenset(LaneModel.model_fields),
)


def allowed(key: Key) -> str:
    """In words, what the setting may be."""
    inner: dict[str, type[BaseModel]] = {"lanes": LaneModel, ACCOUNTS: AccountModel}
    is_inner = key[0] in inner and len(key) == 3
    field = inner[key[0]].model_fields[key[2]] if is_inner else SettingsModel.model_fields[key[0]]
    return field.description or ""
