"""Settings that are fine alone and do not fit each other. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from mayfly.settings.names import Key


class Conflict(NamedTuple):
    values: Mapping[Key, object]
    rule: str


class LaneLimits(Protocol):
    """What is said of one lane; None is the global value."""

    @property
    def max_workers(self) -> int | None: ...
    @property
    def min_workers(self) -> int | None: ...
    @property
    def pool(self) -> str | None: ...


class Limits(Protocol):
    """The settings that may stand in each other's way."""

    @property
    def worker_timeout(self) -> float: ...
    @property
    def dispatch_timeout(self) -> float: ...
    @property
    def min_workers(self) -> int: ...
    @property
    def max_workers(self) -> int: ...
    @property
    def backoff_base(self) -> float: ...
    @property
    def backoff_cap(self) -> float: ...
    @property
    def alert_webhook_url(self) -> object: ...
    @property
    def alert_webhook_secret(self) -> object: ...
    @property
    def lanes(self) -> Mapping[str, LaneLimits]: ...
    @property
    def pools(self) -> Mapping[str, int]: ...


def conflicts_in(settings: Limits) -> Iterator[Conflict]:
    if settings.worker_timeout >= settings.dispatch_timeout:
        rule = "must be WORKER_TIMEOUT < DISPATCH_TIMEOUT < 60, so that each guard fires before the next"
        yield _between(settings, rule, "worker_timeout", "dispatch_timeout")
    if settings.min_workers > settings.max_workers:
        yield _between(settings, "must be MIN_WORKERS <= MAX_WORKERS", "min_workers", "max_workers")
    if settings.backoff_base > settings.backoff_cap:
        yield _between(settings, "must be BACKOFF_BASE <= BACKOFF_CAP", "backoff_base", "backoff_cap")
    if settings.alert_webhook_url and not settings.alert_webhook_secret:
        rule = "needs ALERT_WEBHOOK_SECRET: a receiver must be able to tell whose word it is"
        yield _between(settings, rule, "alert_webhook_url")
    for name, lane in settings.lanes.items():
        yield from _conflicts_of_lane(settings, name, lane)


def _conflicts_of_lane(settings: Limits, name: str, lane: LaneLimits) -> Iterator[Conflict]:
    fewest, most = lane.min_workers or settings.min_workers, lane.max_workers or settings.max_workers
    if fewest > most and (lane.min_workers or lane.max_workers):
        low: Key = ("lanes", name, "min_workers") if lane.min_workers else ("min_workers",)
        high: Key = ("lanes", name, "max_workers") if lane.max_workers else ("max_workers",)
        yield Conflict({low: fewest, high: most}, f"must be MIN_WORKERS <= MAX_WORKERS in the lane {name}")
    if lane.pool is not None and lane.pool not in settings.pools:
        pools = f"pools are {', '.join(sorted(settings.pools))}" if settings.pools else "there are none yet"
        rule = f"is not a pool; {pools}, and POOLS__NAME=3 or [pools] in mayfly.toml adds one"
        yield Conflict({("lanes", name, "pool"): lane.pool}, rule)


def _between(settings: Any, rule: str, *names: str) -> Conflict:
    return Conflict({(name,): getattr(settings, name) for name in names}, rule)
