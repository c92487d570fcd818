"""The types of settings: how each is parsed, and which values are allowed.

The title of a type describes the allowed values, in errors ("must be …") and in the docs. A validator
raises a ValueError without a message where the title is enough, and with one where it can be more specific.
"""

import re
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, StringConstraints

from mayfly.format import parse_duration
from mayfly.settings.values import NAME_PATTERN, NAME_RULE, SOURCE_PATTERN, SOURCE_RULE, Secret

KIB, MIB, GIB = 1024, 1024**2, 1024**3
MAX_LINGER = 55.0  # seconds: to the end of the minute
MAX_DURATION = 7 * 24 * 3600.0  # seconds


def setting(default: Any, meaning: str) -> Any:
    return Field(default, description=meaning)


def size_text(count: int) -> str:
    """67108864 as 64M; a number that is not round stays as it is."""
    for unit, letter in ((GIB, "G"), (MIB, "M"), (KIB, "K")):
        if count and count % unit == 0:
            return f"{count // unit}{letter}"
    return str(count)


# --- parsing ----------------------------------------------------------------------------------------------


def _refuse_bool(value: object) -> object:
    # pydantic reads true as 1: `batch_size = true` in mayfly.toml would pass for a number.
    if isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - pydantic lets a TypeError through
    return value


def _read_size(value: object) -> object:
    """Bytes, or with a unit: K, M and G are powers of 1024, with or without B or iB, as in systemd and Docker."""
    if not isinstance(value, str):
        return _refuse_bool(value)
    match = re.fullmatch(r"([0-9]+)(?:(?:\.([0-9]+))? ?([KMG])(?:I?B)?)?", value.strip().upper())
    if match is None:
        raise ValueError
    whole, fraction, unit = match[1], match[2] or "", match[3] or ""
    return int(whole + fraction) * {"": 1, "K": KIB, "M": MIB, "G": GIB}[unit] // 10 ** len(fraction)


def _read_duration(value: object) -> object:
    return parse_duration(value.strip()).total_seconds() if isinstance(value, str) else _refuse_bool(value)


def _read_list(value: object) -> tuple[str, ...]:
    """Text with commas, or a list in mayfly.toml."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str | Path) for item in items):
        raise ValueError
    texts = tuple(str(item).strip() for item in items)
    if not all(texts):
        raise ValueError
    return texts


def _prom_file(path: Path) -> Path:
    if path.suffix != ".prom":
        raise ValueError
    return path


def _column_value(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError  # noqa: TRY004 - pydantic lets a TypeError through
    return value


def _column_values(value: object) -> object:
    """TOML has no null, so "NULL" stands for it."""
    items = value if isinstance(value, list | tuple) else [value]
    if not items:
        raise ValueError
    return tuple(None if item == "NULL" else _column_value(item) for item in items)


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name} is not a time zone of this system; names look like Europe/Berlin") from None
    return name


def secret(pattern: str) -> PlainValidator:
    def read(value: object) -> Secret:
        text = value.get_secret_value() if isinstance(value, Secret) else value
        if not isinstance(text, str) or not re.fullmatch(pattern, text):
            raise ValueError
        return Secret(text)

    return PlainValidator(read)


NUMBER = BeforeValidator(_refuse_bool)
SIZE = BeforeValidator(_read_size)
LIST = BeforeValidator(_read_list)

# --- bounds -----------------------------------------------------------------------------------------------


def whole(low: int, high: int) -> Any:
    return Field(ge=low, le=high, title=f"an integer from {low} to {high}")


def size(low: int, high: int | None = None) -> Any:
    bounds = f"at least {size_text(low)}" if high is None else f"from {size_text(low)} to {size_text(high)}"
    return Field(ge=low, le=high, title=f"bytes, or a size such as 512M or 1.5G, {bounds}")


def seconds(low: float, high: float) -> Any:
    return Field(ge=low, le=high, title=f"a number of seconds from {low:g} to {high:g}")


def one_of(*words: str) -> Any:
    return Field(title=" or ".join([", ".join(words[:-1]), words[-1]]))


# --- patterns ---------------------------------------------------------------------------------------------

_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?"
# Without a user, which servers would log, and without a fragment, which is never sent.
_URL = rf"https?://{_HOST}(?:[/?][!-\"$-~]*)?"
_SMTP_URL = rf"smtps?://(?:[!-.0-9;-?A-~]+:[!-.0-?A-~]+@)?{_HOST}/?"
_MAIL_ADDRESS = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+"  # strict: it goes into a mail header
# The format of argon2: a plain password is refused.
_ARGON2 = r"\$argon2id\$v=[0-9]+\$m=[0-9]+,t=[0-9]+,p=[0-9]+\$[A-Za-z0-9+/]{11,}\$[A-Za-z0-9+/]{22,}"
# The format of Standard Webhooks: the base64 of 24 to 64 bytes.
_WEBHOOK_SECRET = r"whsec_(?:X{4}){8,20}(?:X{4}(?:X{2}==)?|X{2}==|X{3}=)?".replace("X", "[A-Za-z0-9+/]")
PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")  # for shells and engines
_IDENTIFIER = r"[^\W\d]\w*"
_MODULE = rf"{_IDENTIFIER}(\.{_IDENTIFIER})*"
_PRINTABLE = r"[^\p{C}\p{Z}]"  # and no whitespace
_URL_PREFIX = r"(/[A-Za-z0-9_.~-]+){1,8}"  # only characters that HTML and URLs need not escape


def _text(pattern: str, title: str | None = None) -> Any:
    return Field(pattern=f"^{pattern}$", title=title)


# --- types ------------------------------------------------------------------------------------------------

Count = Annotated[int, whole(1, 1000), NUMBER]
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
SourceName = Annotated[str, Field(pattern=SOURCE_PATTERN, title=SOURCE_RULE)]
HostName = Annotated[str, _text(f"{_PRINTABLE}{{1,64}}", "1 to 64 printable characters without whitespace")]
Label = Annotated[str, _text(f"({_PRINTABLE}| ){{1,32}}", "1 to 32 printable characters")]
Url = Annotated[str, _text(_URL, "a URL that begins with http:// or https://")]
UrlPrefix = Annotated[str, _text(_URL_PREFIX, "a path that begins with / and does not end with one, such as /mayfly")]
Textfile = Annotated[
    Path, AfterValidator(_prom_file), Field(title="a file whose name ends in .prom (node_exporter ignores others)")
]
MailAddress = Annotated[str, _text(_MAIL_ADDRESS, "an email address")]
SecretUrl = Annotated[Secret, secret(_URL), Field(title="a URL that begins with http:// or https://")]
PasswordHash = Annotated[Secret, secret(_ARGON2), Field(title="what `mayfly password` prints")]
SmtpUrl = Annotated[
    Secret,
    secret(_SMTP_URL),
    Field(title="smtp://host:25 or smtps://host:465, with user:password@ before the host if needed"),
]
WebhookSecret = Annotated[
    Secret, secret(_WEBHOOK_SECRET), Field(title="whsec_ and the base64 of 24 to 64 random bytes")
]
_SQL_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,62}"  # quoted in SQL nevertheless
TableName = Annotated[
    str, _text(rf"({_SQL_NAME}\.)?{_SQL_NAME}", "the name of a table, with its schema before a dot if needed")
]
ColumnName = Annotated[str, _text(_SQL_NAME, "the name of a column")]
ColumnNames = Annotated[tuple[ColumnName, ...], LIST, Field(min_length=1, max_length=50, title="1 to 50 columns")]
ColumnValue = Annotated[str | int, BeforeValidator(_column_value), Field(title="text or an integer")]
ColumnValues = Annotated[
    tuple[str | int | None, ...],
    BeforeValidator(_column_values),
    Field(title='text or an integer, or a list of them; "NULL" is NULL'),
]
ZoneName = Annotated[str, AfterValidator(_known_zone), Field(title="a time zone, such as UTC or Europe/Berlin")]
_Module = Annotated[str, _text(_MODULE)]
_Function = Annotated[str, _text(f"{_MODULE}:{_IDENTIFIER}")]  # the colon separates module and function
_FieldName = Annotated[str, StringConstraints(to_lower=True)]
Modules = Annotated[tuple[_Module, ...], LIST, Field(title="dotted module names, separated by commas")]
Functions = Annotated[tuple[_Function, ...], LIST, Field(title="module:function, or several separated by commas")]
Paths = Annotated[tuple[Path, ...], LIST, Field(title="files or directories, separated by commas")]
FieldNames = Annotated[tuple[_FieldName, ...], LIST, Field(title="names of payload fields, separated by commas")]
MailAddresses = Annotated[
    tuple[Annotated[str, _text(_MAIL_ADDRESS)], ...], LIST, Field(title="email addresses, separated by commas")
]
