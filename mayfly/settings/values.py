"""The settings as plain, read-only values, for the rest of the product. Does not import pydantic.

The fields are declared once, in model.py. At run time these classes hold the values that a model or a snapshot has
validated; for the type checker they have the fields of the models.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

if TYPE_CHECKING:
    from mayfly.settings.launcher_model import LauncherModel
    from mayfly.settings.model import AccountModel, LaneModel, LaneOnlyModel, SettingsModel
    from mayfly.settings.source_model import SourceModel
else:  # importing pydantic takes 150 ms
    AccountModel, LaneModel, LaneOnlyModel = (type("Model", (), {}) for _ in range(3))
    LauncherModel, SettingsModel, SourceModel = (type("Model", (), {}) for _ in range(3))

# Names of lanes, pools and accounts: they fit the column, and need no escaping in a log line or a URL.
NAME_RULE = "1 to 64 characters of A-Z a-z 0-9 _ . : -, the first one a letter, a digit or _"
NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}$"
# Names of sources: the unique key of a job begins with one, see mayfly.schema.tables.
SOURCE_RULE = "1 to 32 characters of A-Z a-z 0-9 _"
SOURCE_PATTERN = r"^[A-Za-z0-9_]{1,32}$"

Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)  # each has the rights of those before it
PLACEHOLDER = re.compile(r"\{([a-z_]+(?:\.\.\.)?)\}")  # in the commands of launchers
PresetName = Literal["slurm", "kubernetes", "ssh"]
PRESET_NAMES: tuple[PresetName, ...] = get_args(PresetName)
SCHEDULE_FILES = ("cron.d/schedule", "cron.d/schedule.d")  # the default; these may be missing, others may not


class Secret:
    """Text that tracebacks and log lines do not show."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret('***')"


class ReadOnly:
    """Attributes that are set once."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"can't set attribute {name!r}: settings are read-only")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def replace(self, **changes: Any) -> Self:
        return type(self)(**{**vars(self), **changes})


class LaneSettings(ReadOnly, LaneModel):
    """The settings of one lane; None stands for the global value."""


class AccountSettings(ReadOnly, AccountModel):
    """An account of the web console."""


class SourceSettings(ReadOnly, SourceModel):
    """An application's own table whose rows become jobs."""

    name: str
    lane: str

    @property
    def cancelled_value(self) -> str | int:
        """The status of a row whose job was cancelled."""
        return self.failed if self.cancelled is None else self.cancelled


class LauncherSettings(ReadOnly, LauncherModel):
    """How an engine starts runners; the lines of the preset are filled in."""

    name: str
    command: Sequence[str]  # type: ignore[assignment]
    submit: Sequence[str]  # type: ignore[assignment]
    status: Sequence[str]  # type: ignore[assignment]
    cancel: Sequence[str]  # type: ignore[assignment]

    @property
    def text(self) -> str:
        """The standard input of `submit`, with placeholders."""
        return self.manifest or ""

    @property
    def has_log_file(self) -> bool:
        return any("{log_file}" in item for item in (*self.submit, *(self.output or ())))


class Settings(ReadOnly, SettingsModel):
    """All settings of one installation."""

    unset_lane: LaneSettings  # for a lane without its own settings
    lanes: Mapping[str, LaneSettings]  # type: ignore[assignment]
    console_accounts: Mapping[str, AccountSettings]  # type: ignore[assignment]
    sources: Mapping[str, SourceSettings]  # type: ignore[assignment]
    launchers: Mapping[str, LauncherSettings]  # type: ignore[assignment]

    @property
    def longest_linger(self) -> float:
        """Seconds; 0 if no lane lingers."""
        return max([self.linger, *(each.linger or 0.0 for each in self.lanes.values())])

    @property
    def is_watched(self) -> bool:
        """Whether every cycle is reported somewhere, idle ones too."""
        return self.has_alerts or any((self.heartbeat_url, self.metrics_textfile, self.otlp_endpoint))

    @property
    def has_alerts(self) -> bool:
        return self.alert_webhook_url is not None or bool(self.alert_mail_to)

    @property
    def success_lanes(self) -> frozenset[str]:
        """Lanes with KEEP_SUCCESSES."""
        return frozenset(name for name, lane in self.lanes.items() if lane.keep_successes)

    @property
    def lanes_of_sources(self) -> frozenset[str]:
        return frozenset(each.lane for each in self.sources.values())

    def lane(self, name: str) -> "ResolvedLane":
        unset = vars(self.unset_lane)
        own = vars(self.lanes[name]) if name in self.lanes else {}
        given = {field: value for field, value in own.items() if value is not None}
        is_long = given.get("worker_timeout", self.worker_timeout) > self.dispatch_timeout
        # A job of a long lane must not wait for hours behind another one.
        batch = {"batch_size": 1} if is_long else {}
        return ResolvedLane(**{**unset, **vars(self), **batch, **given, "name": name, "is_long": is_long})


class ResolvedLane(ReadOnly, SettingsModel, LaneOnlyModel):
    """The settings that apply in one lane: its own, and the global ones for the rest."""

    name: str
    is_long: bool  # its runners outlive their dispatcher


def under_home(path: Path, home: Path) -> Path:
    """The path relative to home, never to the current directory: cron starts in another one.

    Symbolic links are not resolved: a snapshot of the settings would keep the old target.
    """
    return Path(os.path.normpath(home / _without_tilde(path)))


def _without_tilde(path: Path) -> Path:
    if path.parts[:1] and path.parts[0].startswith("~"):
        raise ValueError("must be written without ~, which differs by user")
    return path


# --- database URLs ----------------------------------------------------------------------------------------

DATABASE_RULE = "a URL that begins with sqlite:///, mysql://, mariadb://, postgres:// or postgresql://"
_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "mysql": "mysql+pymysql",
    "mysql+pymysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "mariadb+pymysql": "mysql+pymysql",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}

# user:password@host:port/database?options. Stricter than SQLAlchemy, which takes the text after a stray @ as host.
# Importing SQLAlchemy would also take 200 ms.
SERVER = (
    r"(?:(?P<user>[^:/@]*)(?::(?P<password>[^@]*))?@)?"
    r"(?:\[(?P<host6>[^\]/?]+)\]|(?P<host4>[^/:?@\[\],]*))(?::(?P<port>[0-9]{1,5}))?"
    r"/(?P<database>[^?/@]+)(?:\?(?P<query>[^@]*))?"
)


def database_url(text: str, home: Path) -> str:
    """The URL with its driver, and the path of a SQLite file made absolute. Errors never quote the URL."""
    scheme, separator, rest = text.strip().partition("://")
    driver = _DRIVERS.get(scheme.lower())
    named = re.fullmatch(r"(\w+)\+\w+", scheme.lower())
    if separator and driver is None and named and named[1] in _DRIVERS:
        raise ValueError(f"names a driver that Mayfly does not use: write {named[1]}:// instead of {named[0]}://")
    if not separator or driver is None or not rest.isprintable():
        raise ValueError
    return f"{driver}://{_sqlite(rest, home) if driver == 'sqlite' else _server(rest, scheme)}"


def _sqlite(rest: str, home: Path) -> str:
    path, mark, options = rest.partition("?")
    if path in ("", "/", "/:memory:") or path.startswith("/file:"):
        raise ValueError("must name a file, such as sqlite:///mayfly.db: a database in memory is lost at exit")
    if not path.startswith("/"):
        raise ValueError("needs three slashes before a relative path and four before an absolute one")
    # Links are resolved: the host lock is named after the URL, and two spellings of one file must share it.
    absolute = str((home / _without_tilde(Path(path[1:]))).resolve())
    if "%" in absolute or "?" in absolute:
        # SQLAlchemy 2.0 takes them literally, 2.1 decodes them: an upgrade would open another file.
        raise ValueError("must be a path without % and ?, including that of MAYFLY_HOME")
    return f"/{absolute}{mark}{options}"


def _server(rest: str, scheme: str) -> str:
    if rest.count("@") > 1:
        raise ValueError("has more than one @: in a password or an option, write it as %40")
    hosts = host_urls(f"{scheme}://{rest}")
    for each in hosts:
        match = re.fullmatch(SERVER, each.partition("://")[2])
        if match is None or not 1 <= int(match["port"] or 1) <= 65535:
            raise ValueError(f"must look like {scheme.lower()}://user:password@host:port/database")
        if len(hosts) > 1 and not (match["host4"] or match["host6"]):
            raise ValueError("has an empty name in its list of hosts: write host1:port,host2:port")
    return rest


def host_urls(url: str) -> list[str]:
    """A URL of database_url() for each host that it names, such as the nodes of a cluster, in their order."""
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite":
        return [url]
    account, at, address = rest.rpartition("@")
    hosts, slash, database = address.partition("/")
    return [f"{scheme}{separator}{account}{at}{host}{slash}{database}" for host in hosts.split(",")]


def without_password(url: str) -> str:
    """A URL of database_url() without its password: it does not change when the password does."""
    scheme, separator, rest = url.partition("://")
    account, at, address = rest.partition("@")
    if not at or account.startswith("/"):  # no account, or the path of a file
        return url
    return f"{scheme}{separator}{account.partition(':')[0]}@{address}"


def mask_password(text: str) -> str:
    """The text with *** for everything that could be the password of a URL; if in doubt, it masks too much."""
    # To the last @: otherwise the second half of a password with an unencoded @ would be shown.
    masked = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", text, flags=re.DOTALL)
    return re.sub(r"([?&][^=&]*(?:pass|pwd|secret|token)[^=&]*=)[^&]*", r"\1***", masked, flags=re.IGNORECASE)
