"""The settings as the rest of the product sees them: plain, read-only values. Does not import pydantic.

The fields are declared once, in model.py. At run time these classes hold whatever a model or a snapshot has
validated; for the type checker they have the fields of the models.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

if TYPE_CHECKING:
    from mayfly.settings.model import AccountModel, LaneModel, LaneOnlyModel, SettingsModel
else:  # importing pydantic takes 150 ms
    AccountModel, LaneModel, LaneOnlyModel, SettingsModel = (type("Model", (), {}) for _ in range(4))

# Names of lanes, pools and accounts: they fit the column, a log line and a URL without being escaped.
NAME_RULE = "1 to 64 of A-Z a-z 0-9 _ . : - and begin with a letter, a digit or _"
NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}$"

Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)  # each has the rights of those before it
SCHEDULE_FILES = ("cron.d/schedule", "cron.d/schedule.d")  # the default; these may be missing, others may not


class Secret:
    """A text that tracebacks and log lines do not show."""

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
    """The settings of one lane; None is the global value."""


class AccountSettings(ReadOnly, AccountModel):
    """An account of the web console."""


class Settings(ReadOnly, SettingsModel):
    """All settings of one installation."""

    unset_lane: LaneSettings  # of a lane without settings of its own
    lanes: Mapping[str, LaneSettings]  # type: ignore[assignment]
    console_accounts: Mapping[str, AccountSettings]  # type: ignore[assignment]

    @property
    def longest_linger(self) -> float:
        """Seconds; 0 where no lane lingers."""
        return max([self.linger, *(each.linger or 0.0 for each in self.lanes.values())])

    @property
    def is_watched(self) -> bool:
        """Whether every cycle is reported somewhere, idle ones too."""
        return self.has_alerts or any((self.heartbeat_url, self.metrics_textfile, self.otlp_endpoint))

    @property
    def has_alerts(self) -> bool:
        return self.alert_webhook_url is not None or bool(self.alert_mail_to)

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
    """Relative paths are relative to home, never to the current directory: cron starts in another one.

    Symbolic links are not resolved: a snapshot of the settings would keep the old target.
    """
    return Path(os.path.normpath(home / _without_tilde(path)))


def _without_tilde(path: Path) -> Path:
    if path.parts[:1] and path.parts[0].startswith("~"):
        raise ValueError("must be written without ~, which is another directory for each user")
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

# user:password@host:port/database?options. Stricter than SQLAlchemy, which takes the text after a stray @ for a
# host, and independent of it: importing SQLAlchemy takes 200 ms.
_SERVER = r"(?:[^:/@]*(?::[^@]*)?@)?(?:\[[^\]/?]+\]|[^/:?@\[\]]*)(?::(?P<port>[0-9]{1,5}))?/[^?/@]+(?:\?[^@]*)?"


def database_url(text: str, home: Path) -> str:
    """The URL with its driver, and the path of a SQLite file made absolute. Errors never quote the URL."""
    scheme, separator, rest = text.strip().partition("://")
    driver = _DRIVERS.get(scheme.lower())
    if not separator or driver is None or not rest.isprintable():
        raise ValueError
    return f"{driver}://{_sqlite(rest, home) if driver == 'sqlite' else _server(rest, scheme)}"


def _sqlite(rest: str, home: Path) -> str:
    path, mark, options = rest.partition("?")
    if path in ("", "/", "/:memory:") or path.startswith("/file:"):
        raise ValueError("must name a file, as in sqlite:///mayfly.db: one in memory ends with its process")
    if not path.startswith("/"):
        raise ValueError("needs three slashes before a relative path and four before an absolute one")
    # Links are resolved: the host lock is named after the URL, and two spellings of one file must share it.
    absolute = str((home / _without_tilde(Path(path[1:]))).resolve())
    if "%" in absolute or "?" in absolute:
        # SQLAlchemy 2.0 takes them as they are, 2.1 decodes them: two versions, two database files.
        raise ValueError("must be a path without % and ?, the one of MAYFLY_HOME included")
    return f"/{absolute}{mark}{options}"


def _server(rest: str, scheme: str) -> str:
    if rest.count("@") > 1:
        raise ValueError("has more than one @: write one that is part of a password or an option as %40")
    match = re.fullmatch(_SERVER, rest)
    if match is None or not 1 <= int(match["port"] or 1) <= 65535:
        raise ValueError(f"must look like {scheme.lower()}://user:password@host:port/database")
    return rest


def without_password(url: str) -> str:
    """A URL as database_url() returns it, without the password: it stays the same when the password changes."""
    scheme, separator, rest = url.partition("://")
    account, at, address = rest.partition("@")
    if not at or account.startswith("/"):  # no account, or the path of a file
        return url
    return f"{scheme}{separator}{account.partition(':')[0]}@{address}"


def mask_password(text: str) -> str:
    """The text with *** for everything that could be the password of a URL; in doubt it masks too much."""
    # To the last @: otherwise the second half of a password with an unencoded @ would be shown.
    masked = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", text, flags=re.DOTALL)
    return re.sub(r"([?&][^=&]*(?:pass|pwd|secret|token)[^=&]*=)[^&]*", r"\1***", masked, flags=re.IGNORECASE)
