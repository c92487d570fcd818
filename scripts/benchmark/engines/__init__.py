"""What the benchmarks do differently on each database: make rows, and let the server come to rest."""

from scripts.benchmark.engines.base import Engine
from scripts.benchmark.engines.mariadb import MariaDB
from scripts.benchmark.engines.postgres import Postgres
from scripts.benchmark.engines.sqlite import SQLite

ENGINES: dict[str, Engine] = {"mariadb": MariaDB(), "postgres": Postgres(), "sqlite": SQLite()}

__all__ = ["ENGINES", "Engine"]
