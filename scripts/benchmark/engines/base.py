"""What every database can be asked for."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from tests.databases import Databases
from tests.servers import PrivateServer

TABLES = ("mayfly_jobs", "mayfly_attempts", "mayfly_runners", "mayfly_cycles", "mayfly_totals", "mayfly_lanes")


class Engine(ABC):
    """One kind of database. Servers run with the settings they come with."""

    name: ClassVar[str]
    title: ClassVar[str]  # as people write it
    driver: ClassVar[str]
    pid_file: ClassVar[str | None]  # in the home of a private server
    bare_batch: ClassVar[int]  # with which the bare loop is fastest

    @abstractmethod
    def numbers(self, first: int, last: int) -> str:
        """A table expression `numbers` with one column n."""

    @abstractmethod
    def moment(self, at: datetime) -> str:
        """An expression: n milliseconds after `at`."""

    @abstractmethod
    def address(self, url: URL) -> Mapping[str, Any]:
        """What the driver's connect() is given."""

    @abstractmethod
    def rest(self, connection: Connection) -> None:
        """Statistics are fresh and nothing waits to be written: no run pays for what was done before it."""

    def server_pid(self, databases: Databases) -> int | None:
        """The private server's process; None where there is no server."""
        if self.pid_file is None:
            return None
        server = databases.server(self.name)
        assert isinstance(server, PrivateServer)
        return int((server.home / self.pid_file).read_text().split()[0])

    def empty(self, connection: Connection) -> None:
        for table in TABLES:
            connection.execute(text(f"TRUNCATE TABLE {table}"))
