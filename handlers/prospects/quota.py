"""The quota for Hunter, from the setting HUNTER_QUOTA: 500/month."""

import re
from typing import Any, NamedTuple

from mayfly import MayflyError, rate

KEY = "hunter"
PER_SECOND = 10  # the limit of their verifier, the lower of the two
QUOTA_FORMAT = re.compile(r"([1-9][0-9]{0,8})/(minute|hour|day|week|month)")


class BadQuota(MayflyError):
    def __init__(self) -> None:
        super().__init__("HUNTER_QUOTA must be a number per minute, hour, day, week or month, such as 500/month.")


class Quota(NamedTuple):
    limit: int
    per: str


def read_quota(text: str) -> Quota:
    found = QUOTA_FORMAT.fullmatch(text.strip())
    if found is None:
        raise BadQuota
    return Quota(int(found[1]), found[2])


def limits_of(quota: Quota) -> list[Any]:
    """Two limits with one key: job.take grants both or neither."""
    return [rate(KEY, quota.limit, per=quota.per), rate(KEY, PER_SECOND, per="second")]
