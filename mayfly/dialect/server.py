"""Which server answered, by what it says of itself. Pure."""

import re
from typing import NamedTuple

# The first versions with SKIP LOCKED, or old enough for what we ask of them.
OLDEST = {"SQLite": (3, 35), "MariaDB": (10, 6), "MySQL": (8, 0, 1), "PostgreSQL": (12,)}


class Server(NamedTuple):
    product: str
    version: tuple[int, ...]  # empty where a server does not say

    def __str__(self) -> str:
        return f"{self.product} {_dotted(self.version[:3])}".strip()

    @property
    def is_known(self) -> bool:
        return not self.version or self.version >= OLDEST[self.product]

    @property
    def oldest(self) -> str:
        return _dotted(OLDEST[self.product])


def mysql_server(said: str) -> Server:
    """From its words: 5.5.5-10.11.6-MariaDB-0+deb12u1, 11.4.2-MariaDB, 8.4.3, 8.0.35-0ubuntu0.22.04.1."""
    match = re.match(r"([0-9]+)\.([0-9]+)\.([0-9]+)", said.removeprefix("5.5.5-"))  # for clients of long ago
    version = tuple(map(int, match.groups())) if match else ()
    return Server("MariaDB" if "MariaDB" in said else "MySQL", version)


def postgres_server(number: int) -> Server:
    """From its number: 150006 is 15.6."""
    return Server("PostgreSQL", (number // 10_000, number % 10_000))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
