"""Three real MariaDB nodes as a Galera cluster. Each can be killed and suspended, and its disk can be filled."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pymysql
from sqlalchemy import make_url

from scripts.faults.servers import ReachableMariaDB
from tests.servers import DidNotStart, Unavailable
from tests.servers.private import free_port

PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
NODES = 3
STARTS = 5  # Galera sometimes aborts because of a race between its threads
SYNCED_SECONDS = 60.0
FROZEN_SECONDS = 10.0  # a node that was suspended is evicted, and joins again by itself
STATE = "SHOW STATUS LIKE 'wsrep_local_state_comment'"


class GaleraNode(ReachableMariaDB):
    """The first node has the data and the account; the others copy everything from it when they join."""

    def __init__(self, first: "GaleraNode | None" = None) -> None:
        super().__init__(first.password if first else None)
        self.is_first = first is None
        self.members: list[GaleraNode] = []
        self.group_port, self._ist_port, self._sst_port = free_port(), free_port(), free_port()
        self._is_alone = True  # while the data directory is created
        self._bootstraps = False

    def start(self) -> None:
        _initialiser, program = self._require_programs()
        if self.directory is None:
            self._make_directory()
            self._fill_directory()
        for left in reversed(range(STARTS)):
            try:
                self._launch(program)
            except DidNotStart:
                self.kill()
                if not left:
                    raise
            else:
                self._bootstraps = False
                return

    def command(self, program: Path) -> list[str]:
        given = super().command(program)
        if self._is_alone:
            return given
        without = [each for each in given if not each.startswith("--init-file=")]
        return [*without, *self._cluster_settings(), *(["--wsrep-new-cluster"] if self._bootstraps else [])]

    def await_synced(self, seconds: float = SYNCED_SECONDS) -> bool:
        """Whether it becomes a synced member of the cluster within that time."""
        deadline = time.monotonic() + seconds
        while self._state() != "Synced":
            if not self.is_running or time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def _fill_directory(self) -> None:
        initialiser, program = self._require_programs()
        if self.is_first:
            self.initialise(initialiser)
            self._launch(program)  # as a plain server: it creates the account, and stops once cleanly
            self.stop()
            self._bootstraps = True
        else:
            data = self.home / "data"
            data.mkdir()
            if os.geteuid() == 0:
                identity = self._identity()
                os.chown(data, identity["user"], identity["group"])
        self._is_alone = False

    def _await_ready(self) -> None:
        if self._is_alone:
            super()._await_ready()
        elif not self.await_synced():
            raise DidNotStart(f"A Galera node did not join: {(self.home / 'log').read_text()[-2000:].strip()}")

    def _cluster_settings(self) -> Iterator[str]:
        addresses = ",".join(f"127.0.0.1:{each.group_port}" for each in self.members)
        provider_options = {
            "gmcast.listen_addr": f"tcp://127.0.0.1:{self.group_port}",
            "ist.recv_addr": f"127.0.0.1:{self._ist_port}",
            "evs.suspect_timeout": "PT2S",  # how long the others wait for a node that was killed
            "evs.keepalive_period": "PT0.3S",
            "gcache.size": "32M",
        }
        settings = {
            "binlog-format": "ROW",
            "innodb-autoinc-lock-mode": 2,
            "innodb-log-file-size": "32M",  # copied to a node that joins
            "wsrep-on": "ON",
            "wsrep-provider": PROVIDER,
            "wsrep-provider-options": ";".join(f"{name}={value}" for name, value in provider_options.items()),
            "wsrep-cluster-name": "torture",
            "wsrep-cluster-address": f"gcomm://{addresses}",
            "wsrep-node-address": f"127.0.0.1:{self.group_port}",
            "wsrep-sst-method": "rsync",
            "wsrep-sst-receive-address": f"127.0.0.1:{self._sst_port}",
        }
        yield from (f"--{name}={value}" for name, value in settings.items())

    def isolate(self, is_cut: bool) -> None:
        """Cut it off from the other nodes, or connect it again. Clients can still connect to it."""
        self._query(f"SET GLOBAL wsrep_provider_options = 'gmcast.isolate={is_cut:d}'")

    def _state(self) -> str:
        try:
            [(_name, state)] = self._query(STATE)
        except pymysql.MySQLError:
            return "away"
        return str(state)

    def _query(self, statement: str) -> list[tuple[object, ...]]:
        """Without SQLAlchemy: its ROLLBACK fails on a node that has not joined yet."""
        url = make_url(self.url("mysql"))
        connection = pymysql.connect(
            host=url.host, port=self.port, user=url.username, password=self.password, ssl_disabled=True,
            connect_timeout=2, read_timeout=5, autocommit=True,
        )  # fmt: skip
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


def galera_nodes() -> list[GaleraNode]:
    """Not started yet: they join one after the other, in this order."""
    if not PROVIDER.exists():
        raise Unavailable("Galera is not installed: run `apt-get install galera-4 rsync`.")
    first = GaleraNode()
    nodes = [first, *(GaleraNode(first) for _ in range(NODES - 1))]
    for each in nodes:
        each.members = nodes
    return nodes
