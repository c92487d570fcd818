"""The kinds of values that settings have, as pydantic's types: how each is read, and in words what it allows."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from mayfly.settings.values import (
    ENVIRONMENT_RULE,
    NAME_PATTERN,
    NAME_RULE,
    PASSWORD_HASH_RULE,
    PREFIX_RULE,
    REDACT_RULE,
    SMTP_RULE,
    check_address,
    check_environment,
    check_host_name,
    check_password_hash,
    check_prefix,
    check_smtp_url,
    check_textfile,
    check_url,
    check_webhook_secret,
    read_addresses,
    read_fields,
    read_functions,
    read_modules,
    read_paths,
    read_seconds,
    read_size,
    refuse_bool,
    size_text,
)


def whole(low: int, high: int) -> Any:
    return Field(ge=low, le=high, description=f"a whole number from {low} to {high}")


def size(low: int, high: int | None = None) -> Any:
    bounds = f"at least {size_text(low)}" if high is None else f"from {size_text(low)} to {size_text(high)}"
    return Field(ge=low, le=high, description=f"bytes, or a size such as 512M or 1.5G, {bounds}")


def seconds(low: float, high: float) -> Any:
    return Field(ge=low, le=high, description=f"a number of seconds from {low:g} to {high:g}")


def duration(low: float, high: float) -> Any:
    bounds = f"from {low:g} s to {high / 3600:g} h"
    return Field(ge=low, le=high, description=f"a number of seconds, or a duration such as 90s, 15m or 3h, {bounds}")


def one_of(*words: str) -> Any:
    return Field(description=" or ".join([", ".join(words[:-1]), words[-1]]))


def _secretly(check: Callable[[str], str]) -> Callable[[SecretStr], SecretStr]:
    return lambda secret: SecretStr(check(secret.get_secret_value()))


NUMBER = BeforeValidator(refuse_bool)
SIZE = BeforeValidator(read_size)
DURATION = BeforeValidator(read_seconds)

Count = Annotated[int, whole(1, 1000), NUMBER]
Real = Annotated[float, Field(allow_inf_nan=False), NUMBER]
Days = Annotated[Real, Field(gt=0, description="a number of days, more than 0")]
Modules = Annotated[
    tuple[str, ...],
    BeforeValidator(read_modules),
    Field(description="dotted module names, separated by commas"),
]
Functions = Annotated[
    tuple[str, ...],
    BeforeValidator(read_functions),
    Field(description="module:function, or several separated by commas"),
]
Paths = Annotated[
    tuple[Path, ...],
    BeforeValidator(read_paths),
    Field(description="files or directories, separated by commas"),
]
Addresses = Annotated[
    tuple[str, ...],
    BeforeValidator(read_addresses),
    Field(description="addresses, separated by commas"),
]
Address = Annotated[str, AfterValidator(check_address)]
Url = Annotated[str, AfterValidator(check_url)]
SecretUrl = Annotated[SecretStr, AfterValidator(_secretly(check_url))]
WebhookSecret = Annotated[SecretStr, AfterValidator(_secretly(check_webhook_secret))]
PasswordHash = Annotated[
    SecretStr, AfterValidator(_secretly(check_password_hash)), Field(description=PASSWORD_HASH_RULE)
]
Environment = Annotated[str, AfterValidator(check_environment), Field(description=ENVIRONMENT_RULE)]
Fields = Annotated[tuple[str, ...], BeforeValidator(read_fields), Field(description=REDACT_RULE)]
SmtpUrl = Annotated[SecretStr, AfterValidator(_secretly(check_smtp_url)), Field(description=SMTP_RULE)]
Textfile = Annotated[Path, AfterValidator(check_textfile)]
HostName = Annotated[
    str,
    AfterValidator(check_host_name),
    Field(description="1 to 64 printable characters without white space"),
]
Prefix = Annotated[str, AfterValidator(check_prefix), Field(description=PREFIX_RULE)]
Name = Annotated[str, Field(pattern=NAME_PATTERN, description=NAME_RULE)]
