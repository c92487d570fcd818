"""A database with several hosts, such as the nodes of a cluster: connect to the first one that accepts writes."""

from collections.abc import Iterator
from typing import Any

from mayfly.db.dialects import Dialect, ErrorKind, dialect_of_url, reason_of
from mayfly.errors import DatabaseAway
from mayfly.settings.values import host_urls, mask_password

# The URL of the host that was connected to last, by DATABASE_URL: a process waits for a dead host once, and its
# forked runners do not.
_last_used: dict[str, str] = {}


class DatabaseHosts:
    """The hosts of one DATABASE_URL. With a single host, `connect` adds nothing to the driver."""

    def __init__(self, url: str, dialect: Dialect) -> None:
        self._url = url
        self._dialect = dialect
        self._urls = host_urls(url)

    @property
    def are_several(self) -> bool:
        return len(self._urls) > 1

    def connect(self) -> Any:
        if not self.are_several:
            return self._dialect.connect(self._url)
        failures = []
        for url in self._in_order():
            try:
                raw = self._dialect.connect(url, for_writes=True)
            except self._dialect.errors as error:
                failures.append(f"{host_name(url)}: {reason_of(error)}")
            else:
                _last_used[self._url] = url
                return raw
        raise DatabaseAway(mask_password(self._url), f"no host accepts connections and writes: {'; '.join(failures)}")

    def check(self) -> Iterator[tuple[str, ErrorKind | None, str]]:
        """Connect to each host: its name, and the kind and text of the error if it cannot be used for writes."""
        for url in self._urls:
            try:
                self._dialect.connect(url, for_writes=True).close()
            except self._dialect.errors as error:
                yield host_name(url), self._dialect.error_kind(error), reason_of(error)
            else:
                yield host_name(url), None, ""

    def _in_order(self) -> list[str]:
        """As in DATABASE_URL, after the one that was used last."""
        return sorted(self._urls, key=lambda url: url != _last_used.get(self._url))


def writable_url(url: str) -> str:
    """The URL of the host that accepts writes, for libraries that connect by themselves."""
    dialect = dialect_of_url(url)
    hosts = DatabaseHosts(url, dialect)
    if not hosts.are_several:
        return url
    hosts.connect().close()
    return _last_used[url]


def host_name(url: str) -> str:
    """host:port of a URL with a single host, for messages."""
    address = url.rpartition("@")[2] if "@" in url else url.partition("://")[2]
    return address.partition("/")[0]
