"""How the values of settings are read from what people write. Pure, and cheap to import: no pydantic here.

A reader raises a bare ValueError where its field's description says all there is to say, and one with a
clause of its own where it knows better what is wrong.
"""

import re
from pathlib import Path

KIB, MIB, GIB = 1024, 1024**2, 1024**3
LONGEST_LINGER = 55.0  # seconds: to the end of the minute
POLL_INTERVALS = (0.05, 5.0)  # seconds: below it the database is asked all the time, above it there is no hurry


def size_text(count: int) -> str:
    """As people write it, 67108864 is 64M; what is no round number stays as it is."""
    for unit, letter in ((GIB, "G"), (MIB, "M"), (KIB, "K")):
        if count and count % unit == 0:
            return f"{count // unit}{letter}"
    return str(count)


# A letter means a power of 1024, with and without B or iB: what systemd, Docker and PHP mean by 512M.
_UNITS = {"": 1, "K": KIB, "M": MIB, "G": GIB}
_SIZE = r"([0-9]+)(?:(?:\.([0-9]+))? ?([KMG])(?:I?B)?)?"


def read_size(value: object) -> object:
    if not isinstance(value, str):
        return refuse_bool(value)
    match = re.fullmatch(_SIZE, value.strip().upper())
    if match is None:
        raise ValueError
    whole, fraction, unit = match[1], match[2] or "", match[3] or ""
    return int(whole + fraction) * _UNITS[unit] // 10 ** len(fraction)


LONGEST_TIMEOUT = 7 * 24 * 3600.0  # seconds, of a long lane: who needs more than a week needs another tool
_DURATIONS = {"": 1, "s": 1, "m": 60, "h": 3600}


def read_seconds(value: object) -> object:
    """90, or 90s, 15m, 3h."""
    if not isinstance(value, str):
        return refuse_bool(value)
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh]?)", value.strip())
    if match is None:
        raise ValueError
    return float(match[1]) * _DURATIONS[match[2]]


def refuse_bool(value: object) -> object:
    # pydantic reads true as 1: `batch_size = true` in mayfly.toml would pass for a number.
    if isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - pydantic lets a TypeError through
    return value


def read_modules(value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError
    modules = tuple(name.strip() for name in names)
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise ValueError
    return modules


def read_functions(value: object) -> tuple[str, ...]:
    """`module:function`: the colon says where the module's name ends, whatever can be imported just now."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError
    functions = tuple(name.strip() for name in names)
    for function in functions:
        module, _, name = function.partition(":")
        if not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            raise ValueError
    return functions


# Where schedules are looked for; these may be missing, others may not.
SCHEDULE_FILES = ("cron.d/schedule", "cron.d/schedule.d")


def read_paths(value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str | Path) for name in names):
        raise ValueError
    paths = tuple(str(name).strip() for name in names)
    if not all(paths):
        raise ValueError
    return paths


def check_host_name(value: str) -> str:
    if not (1 <= len(value) <= 64 and value.isprintable() and " " not in value):  # no other space is printable
        raise ValueError
    return value


# Where a proxy shows the console: what is behind it has no other characters, so nothing need be escaped.
PREFIX_RULE = "a path that begins with / and does not end with one, such as /mayfly"


def check_prefix(value: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9_.~-]+){1,8}", value):
        raise ValueError
    return value


PASSWORD_HASH_RULE = "what `mayfly password` prints"  # noqa: S105 - what one looks like


def check_password_hash(value: str) -> str:
    """As argon2 writes it; whoever puts the password itself there must not find the console open for a guess."""
    numbers = r"v=[0-9]+\$m=[0-9]+,t=[0-9]+,p=[0-9]+"
    if not re.fullmatch(rf"\$argon2id\${numbers}\$[A-Za-z0-9+/]{{11,}}\$[A-Za-z0-9+/]{{22,}}", value):
        raise ValueError
    return value


ENVIRONMENT_RULE = "1 to 32 printable characters"


def check_environment(value: str) -> str:
    if not (len(value.strip()) >= 1 and len(value) <= 32 and value.isprintable()):
        raise ValueError
    return value


REDACTED = ("password", "secret", "token", "api_key", "authorization")  # named so by most who have any
REDACT_RULE = "names of payload fields, separated by commas"


def read_fields(value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError
    fields = tuple(name.strip().lower() for name in names)
    if not all(fields):
        raise ValueError
    return fields


# What becomes of an effect that cannot be taken back and may have happened already.
ON_DOUBT = ("hold", "resend")

ROLES = ("viewer", "operator", "admin")  # each may what those before it may


URL_RULE = "a URL that begins with http:// or https://"
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?"


def check_url(value: str) -> str:
    """Without an account, which would stand in logs of servers, and without a fragment, which no server sees."""
    if not re.fullmatch(rf"https?://{_HOST}(?:[/?][!-\"$-~]*)?", value):
        raise ValueError
    return value


SMTP_URL = "smtp://localhost:25"
SMTP_RULE = "smtp://host:25 or smtps://host:465, with user:password@ before the host if need be"


def check_smtp_url(value: str) -> str:
    if not re.fullmatch(rf"smtps?://(?:[^\s:/@]+:[^\s/@]+@)?{_HOST}/?", value) or not value.isascii():
        raise ValueError
    return value


WEBHOOK_SECRET_RULE = "whsec_ and the base64 of 24 to 64 random bytes"  # noqa: S105 - what one looks like


def check_webhook_secret(value: str) -> str:
    """As the Standard Webhooks have it."""
    if not re.fullmatch(r"whsec_(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", value):
        raise ValueError
    encoded = value.removeprefix("whsec_")
    if not 24 <= len(encoded) // 4 * 3 - encoded.count("=") <= 64:
        raise ValueError
    return value


def check_address(value: str) -> str:
    """Rather strict: it goes into the head of a mail."""
    if not re.fullmatch(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+", value):
        raise ValueError
    return value


def read_addresses(value: object) -> tuple[str, ...]:
    addresses = value.split(",") if isinstance(value, str) else value
    if not isinstance(addresses, list | tuple) or not all(isinstance(each, str) for each in addresses):
        raise ValueError
    return tuple(check_address(each.strip()) for each in addresses)


TEXTFILE_RULE = "a file whose name ends in .prom: node_exporter reads no other"


def check_textfile(path: Path) -> Path:
    if path.suffix != ".prom":
        raise ValueError
    return path


# One pattern for lanes and pools: what fits the column, a log line and a URL without being escaped.
NAME_RULE = "1 to 64 of A-Z a-z 0-9 _ . : - and begin with a letter, a digit or _"
NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}$"


def under_home(path: Path, home: Path) -> Path:
    """Relative paths belong to home, never to the current directory: cron starts elsewhere."""
    if path.parts[:1] and path.parts[0].startswith("~"):
        raise ValueError("must be written without ~, which is another directory for each user")
    return (home / path).resolve()


# What people write, and the driver that it means.
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
DATABASE_RULE = "a URL that begins with sqlite:///, mysql://, mariadb://, postgres:// or postgresql://"

# user:password@host:port/database?options. Stricter than SQLAlchemy, which takes what follows a stray @ for a
# host, and not left to it, because settings must stay cheap to load.
_SERVER = r"(?:[^:/@]*(?::[^@]*)?@)?(?:\[[^\]/?]+\]|[^/:?@\[\]]*)(?::(?P<port>[0-9]{1,5}))?/[^?/@]+(?:\?[^@]*)?"


def database_url(text: str, home: Path) -> str:
    """The URL with its driver named and a SQLite path made absolute. Its errors never quote the URL."""
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
    absolute = str(under_home(Path(path[1:]), home))
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
    """A URL as database_url() gives it, without the user's password: what stays when that is changed."""
    scheme, separator, rest = url.partition("://")
    account, at, address = rest.partition("@")
    if not at or account.startswith("/"):  # no account, or the path of a file
        return url
    return f"{scheme}{separator}{account.partition(':')[0]}@{address}"


def mask_password(text: str) -> str:
    """The text with *** for whatever could be a URL's password; rather too much masked than too little."""
    # To the last @, because a password whose @ was not encoded would show its second half otherwise.
    masked = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", text, flags=re.DOTALL)
    return re.sub(r"([?&][^=&]*(?:pass|pwd|secret|token)[^=&]*=)[^&]*", r"\1***", masked, flags=re.IGNORECASE)
