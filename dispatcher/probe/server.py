"""Which server answered, by what it says of itself. Pure."""

import re
from typing import NamedTuple

# The first versions whose statements are known here. Never below what mayfly.dialect.require_skip_locked asks for;
# MySQL writes its upsert in another way since 8.0.20.
OLDEST = {"SQLite": (3, 35), "MariaDB": (10, 6), "MySQL": (8, 0, 20), "PostgreSQL": (12,)}


class Server(NamedTuple):
    product: str
    version: tuple[int, ...]

    def __str__(self) -> str:
        """As mayfly.dialect.server_name writes it."""
        return f"{self.product} {'.'.join(map(str, self.version[:3]))}"

    @property
    def is_known(self) -> bool:
        return self.version >= OLDEST[self.product]


def mysql_server(version: str) -> Server:
    """From SELECT VERSION(): 10.11.6-MariaDB-0+deb12u1, 8.4.3, 8.0.35-0ubuntu0.22.04.1."""
    match = re.match(r"([0-9]+)\.([0-9]+)\.([0-9]+)(?:$|-(MariaDB)\b|-(?!.*MariaDB))", version)
    if match is None:
        raise ValueError(version)
    return Server(match[4] or "MySQL", _numbers(match[1], match[2], match[3]))


def postgres_server(version: str) -> Server:
    """From SELECT version(): PostgreSQL 15.6 (Debian 15.6-0+deb12u1) on …"""
    match = re.match(r"PostgreSQL ([0-9]+)\.([0-9]+) ", version)
    if match is None:
        raise ValueError(version)
    return Server("PostgreSQL", _numbers(match[1], match[2]))


def _numbers(*texts: str) -> tuple[int, ...]:
    return tuple(map(int, texts))
