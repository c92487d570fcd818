"""The settings as all other rooms see them: plain values, whichever way they were read.

NamedTuples, because an idle cycle has them too, and to import dataclasses would cost it a good part of its time.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Secret:
    """Not shown by a traceback or a log line; only who asks for it by name gets it."""

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


class LaneSettings(NamedTuple):
    """What may be said of one lane; None is the global value."""

    batch_size: int | None = None
    max_workers: int | None = None
    min_workers: int | None = None
    concurrency: int | None = None
    worker_timeout: float | None = None
    linger: float | None = None
    rank: int = 0  # smaller is served first
    pool: str | None = None  # its lanes share one cap
    external: bool = False  # never dispatched
    latency_target: float | None = None  # seconds that a due job may wait before somebody is told
    on_doubt: str | None = None  # of what cannot be taken back: for its handlers to read


class AccountSettings(NamedTuple):
    """Somebody who may log in to the web console."""

    role: str
    password_hash: Secret


class ResolvedLane(NamedTuple):
    """What holds for one lane, the global values filled in."""

    name: str
    batch_size: int
    max_workers: int
    min_workers: int
    concurrency: int
    worker_timeout: float
    is_long: bool  # its runners outlive their dispatcher
    linger: float
    rank: int
    pool: str | None
    external: bool
    latency_target: float | None = None
    on_doubt: str | None = None


class Settings(NamedTuple):
    """All settings of one installation; docs/settings.md says what each one means."""

    home: Path
    database_url: Secret
    batch_size: int
    max_workers: int
    min_workers: int
    concurrency: int
    host_max_workers: int
    worker_timeout: float
    dispatch_timeout: float
    linger: float
    poll_interval: float
    worker_memory: int | None
    min_free_memory: int
    max_load: float
    handlers: tuple[str, ...]
    hooks_before: tuple[str, ...]
    hooks_after: tuple[str, ...]
    hooks_on_dead: tuple[str, ...]
    schedule_files: tuple[Path, ...]
    heartbeat_url: Secret | None
    alert_webhook_url: Secret | None
    alert_webhook_secret: Secret | None
    alert_mail_to: tuple[str, ...]
    alert_mail_from: str | None
    alert_smtp_url: Secret
    metrics_textfile: Path | None
    otlp_endpoint: str | None
    log_dir: Path
    log_format: str
    log_to: str
    state_dir: Path | None
    host_name: str
    spawn: str
    payload_limit: int
    max_attempts: int
    backoff_base: float
    backoff_cap: float
    keep_done_days: float
    keep_cancelled_days: float
    keep_dead_days: float | None
    keep_cycles_days: float
    keep_runners_days: float
    keep_audit_days: float
    console_host: str
    console_port: int
    console_prefix: str | None
    console_tls_proxy: bool
    console_body_limit: int
    console_rate: int
    console_password_hash: Secret | None
    console_session: float
    console_environment: str | None
    redact: tuple[str, ...]
    health_dead_limit: int
    console_accounts: Mapping[str, AccountSettings]
    lanes: Mapping[str, LaneSettings]
    pools: Mapping[str, int]

    @property
    def longest_linger(self) -> float:
        """Seconds; 0 where no lane lingers."""
        return max([self.linger, *(each.linger or 0.0 for each in self.lanes.values())])

    @property
    def is_watched(self) -> bool:
        """Whether anybody is told of each cycle: then none is too idle for that."""
        return self.has_alerts or any((self.heartbeat_url, self.metrics_textfile, self.otlp_endpoint))

    @property
    def has_alerts(self) -> bool:
        return self.alert_webhook_url is not None or bool(self.alert_mail_to)

    def lane(self, name: str) -> ResolvedLane:
        own = self.lanes.get(name, LaneSettings())
        timeout = own.worker_timeout or self.worker_timeout
        is_long = timeout > self.dispatch_timeout
        return ResolvedLane(
            name=name,
            batch_size=own.batch_size or (1 if is_long else self.batch_size),  # nobody waits for hours behind another
            max_workers=own.max_workers or self.max_workers,
            min_workers=own.min_workers or self.min_workers,
            concurrency=own.concurrency or self.concurrency,
            worker_timeout=timeout,
            is_long=is_long,
            linger=self.linger if own.linger is None else own.linger,  # 0 is a lane that does not
            rank=own.rank,
            pool=own.pool,
            external=own.external,
            latency_target=own.latency_target,
            on_doubt=own.on_doubt,
        )
