"""What is plain: of every setting the forms that the model surely takes, and its bounds and default. Pure.

The model (model.py) takes more, and has the words for what it refuses; a test holds this table against it.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.settings.names import Names
from mayfly.settings.values import (
    KIB,
    LONGEST_LINGER,
    LONGEST_TIMEOUT,
    MIB,
    NAME_PATTERN,
    ON_DOUBT,
    POLL_INTERVALS,
    REDACTED,
    ROLES,
    SCHEDULE_FILES,
    SMTP_URL,
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
)

INFINITE = float("inf")


def _whole(value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value):
        return int(value)
    if type(value) is not int:  # True is one of those
        raise ValueError
    return value


def _number(value: object) -> float:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
        return float(value)
    if type(value) not in (int, float):
        raise ValueError
    return float(value)  # type: ignore[arg-type]


def _size(value: object) -> int:
    return _whole(read_size(value))


def _seconds(value: object) -> float:
    return _number(read_seconds(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 - a value that was written wrong, not a mistake of ours
    return value


def plain_name(value: object) -> str:
    if not re.fullmatch(NAME_PATTERN, _text(value)):
        raise ValueError
    return _text(value)


def plain_host_name(value: object) -> str:
    return check_host_name(_text(value))


def _prefix(value: object) -> str:
    return check_prefix(_text(value))


def _truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if _text(value) not in ("true", "false"):
        raise ValueError
    return value == "true"


def _checked(check: Callable[[str], str]) -> Callable[[object], str]:
    return lambda value: check(_text(value))


class Rule(NamedTuple):
    """How a setting is read, its bounds, and what holds where it is not set."""

    read: Callable[[object], Any]
    default: Any = None
    at_least: float = -INFINITE
    at_most: float = INFINITE
    above: float = -INFINITE
    below: float = INFINITE
    words: tuple[str, ...] = ()

    def accept(self, given: object) -> Any:
        value = self.read(given)
        if self.words and value not in self.words:
            raise ValueError
        if isinstance(value, int | float) and not self._in_bounds(value):
            raise ValueError
        return value

    def _in_bounds(self, value: float) -> bool:
        return self.at_least <= value <= self.at_most and self.above < value < self.below


def _count(default: int | None = None) -> Rule:
    return Rule(_whole, default, 1, 1000)


def _days(default: float | None) -> Rule:
    return Rule(_number, default, above=0)


def _one_of(*words: str) -> Rule:
    return Rule(_text, words[0], words=words)


SETTINGS: Mapping[str, Rule] = {
    "database_url": Rule(_text, "sqlite:///mayfly.db"),
    "batch_size": _count(5),
    "max_workers": _count(5),
    "min_workers": _count(1),
    "concurrency": _count(100),
    "host_max_workers": Rule(_whole, 32, 1, 10_000),
    "worker_timeout": Rule(_number, 50.0, at_least=1),
    "dispatch_timeout": Rule(_number, 55.0, above=1, below=60),
    "linger": Rule(_number, 0.0, 0, LONGEST_LINGER),
    "poll_interval": Rule(_number, 0.25, *POLL_INTERVALS),
    "worker_memory": Rule(_size, None, at_least=32 * MIB),
    "min_free_memory": Rule(_size, 64 * MIB, at_least=0),
    "max_load": Rule(_number, 10.0, at_least=0),
    "handlers": Rule(read_modules, ("handlers",)),
    "hooks_before": Rule(read_functions, ()),
    "hooks_after": Rule(read_functions, ()),
    "hooks_on_dead": Rule(read_functions, ()),
    "schedule_files": Rule(read_paths, SCHEDULE_FILES),
    "heartbeat_url": Rule(_checked(check_url)),
    "alert_webhook_url": Rule(_checked(check_url)),
    "alert_webhook_secret": Rule(_checked(check_webhook_secret)),
    "alert_mail_to": Rule(read_addresses, ()),
    "alert_mail_from": Rule(_checked(check_address)),
    "alert_smtp_url": Rule(_checked(check_smtp_url), SMTP_URL),
    "metrics_textfile": Rule(_checked(lambda value: str(check_textfile(Path(value))))),
    "otlp_endpoint": Rule(_checked(check_url)),
    "log_dir": Rule(_text, "logs"),
    "log_format": _one_of("text", "json"),
    "log_to": _one_of("file", "stdout", "syslog"),
    "state_dir": Rule(_text),
    "host_name": Rule(plain_host_name),
    "spawn": _one_of("fork", "exec"),
    "payload_limit": Rule(_size, 64 * KIB, KIB, 16 * MIB),
    "max_attempts": _count(5),
    "backoff_base": Rule(_number, 1.0, above=0),
    "backoff_cap": Rule(_number, 3600.0, above=0),
    "keep_done_days": _days(7.0),
    "keep_cancelled_days": _days(7.0),
    "keep_dead_days": _days(None),
    "keep_cycles_days": _days(90.0),
    "keep_runners_days": _days(7.0),
    "keep_audit_days": _days(365.0),
    "console_host": Rule(plain_host_name, "127.0.0.1"),
    "console_port": Rule(_whole, 8321, 1, 65_535),
    "console_prefix": Rule(_prefix),
    "console_tls_proxy": Rule(_truth, False),
    "console_body_limit": Rule(_size, MIB, KIB, 64 * MIB),
    "console_rate": Rule(_whole, 100, 1, 100_000),
    "console_password_hash": Rule(_checked(check_password_hash)),
    "console_session": Rule(_seconds, 43_200.0, 1, LONGEST_TIMEOUT),
    "console_environment": Rule(_checked(check_environment)),
    "redact": Rule(read_fields, REDACTED),
    "health_dead_limit": Rule(_whole, 0, 0, 1_000_000),
}
LANE: Mapping[str, Rule] = {
    "batch_size": _count(),
    "max_workers": _count(),
    "min_workers": _count(),
    "concurrency": _count(),
    "worker_timeout": Rule(_seconds, None, 1, LONGEST_TIMEOUT),
    "linger": Rule(_number, None, 0, LONGEST_LINGER),
    "rank": Rule(_whole, 0),
    "pool": Rule(plain_name),
    "external": Rule(_truth, False),
    "latency_target": Rule(_seconds, None, 1, LONGEST_TIMEOUT),
    "on_doubt": Rule(_text, words=ON_DOUBT),
}
ACCOUNT: Mapping[str, Rule] = {
    "role": Rule(_text, words=ROLES),
    "password_hash": Rule(_checked(check_password_hash)),
}
POOL = _count()
NAMES = Names(plain=frozenset(SETTINGS), lane=frozenset(LANE))
