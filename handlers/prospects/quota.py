"""How often Hunter may be asked, as the setting HUNTER_QUOTA says: 500/month."""

import re
from typing import Any, NamedTuple

from mayfly import MayflyError, rate

KEY = "hunter"
A_SECOND = 10  # what their verifier bears, the slower of the two
WRITTEN = re.compile(r"([1-9][0-9]{0,8})/(minute|hour|day|week|month)")


class BadQuota(MayflyError):
    """Says how it is written."""

    def __init__(self) -> None:
        super().__init__("HUNTER_QUOTA must look like 500/month; also minute, hour, day or week.")


class Quota(NamedTuple):
    most: int
    per: str


def read_quota(text: str) -> Quota:
    found = WRITTEN.fullmatch(text.strip())
    if found is None:
        raise BadQuota
    return Quota(int(found[1]), found[2])


def limits_of(quota: Quota) -> list[Any]:
    """Both have one key: who takes it has both, or neither."""
    return [rate(KEY, quota.most, per=quota.per), rate(KEY, A_SECOND, per="second")]
