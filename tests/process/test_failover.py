"""Under load the server in use goes away: the next cycle works with another one, and nothing is lost or doubled."""

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import mayfly
from mayfly import json_text
from mayfly.client import App, use_app
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import DatabaseAway, DatabaseError
from mayfly.schema.migrations import migrate
from scripts.faults.galera import GaleraNode
from tests.databases import Databases
from tests.process.installation import Installation, wait_until
from tests.servers import PostgresServer, PostgresStandby, PrivateServer
from tests.unit.settings.factories import settings_in

NAME = "failover"
HOSTS = ("anna", "bert")
SETTINGS = {
    "WORKER_TIMEOUT": "6",
    "DISPATCH_TIMEOUT": "8",
    "BATCH_SIZE": "4",
    "MAX_WORKERS": "4",
    "BACKOFF_BASE": "0.05",
}
PART = 40  # jobs before the failure, and after it
PAUSE_SECONDS = 0.02  # between two jobs of the producer
INSERT = "INSERT INTO mayfly_jobs (type, payload) VALUES ('locked_run', :payload)"
END_SECONDS = 180.0


class Cluster(ABC):
    """Servers with the same data. The first one is used until `fail`, and `survivor` afterwards."""

    first: PrivateServer
    survivor: PrivateServer

    @property
    @abstractmethod
    def url(self) -> str:
        """With all hosts."""

    @abstractmethod
    def fail(self) -> None:
        """The first server can no longer be used; returns when another one accepts writes."""

    def rejoin(self) -> PrivateServer | None:
        """The first server comes back; returns it when it has all data, or None if it stays away."""
        return None


class Galera(Cluster):
    def __init__(self, nodes: list[GaleraNode]) -> None:
        self.nodes = nodes
        self.first, self.survivor = nodes[0], nodes[1]

    @property
    def url(self) -> str:
        return several(self.nodes)

    def rejoin(self) -> PrivateServer | None:
        assert self.nodes[0].await_synced()
        return self.first


class GaleraWithDeadNode(Galera):
    def fail(self) -> None:
        self.first.kill()

    def rejoin(self) -> PrivateServer | None:
        self.first.start()
        return super().rejoin()


class GaleraWithCutNode(Galera):
    """The node still accepts connections, and refuses statements."""

    def fail(self) -> None:
        self.nodes[0].isolate(True)

    def rejoin(self) -> PrivateServer | None:
        self.nodes[0].isolate(False)
        return super().rejoin()


class PromotedStandby(Cluster):
    def __init__(self, primary: PostgresServer, standby: PostgresStandby) -> None:
        self.first, self.survivor, self._standby = primary, standby, standby

    @property
    def url(self) -> str:
        return several([self.first, self.survivor])

    def fail(self) -> None:
        self.first.kill()
        self._standby.promote()


def several(servers: list[GaleraNode] | list[PrivateServer]) -> str:
    before, _, after = servers[0].url(NAME).partition(f"127.0.0.1:{servers[0].port}")
    return f"{before}{','.join(f'127.0.0.1:{each.port}' for each in servers)}{after}"


@pytest.fixture(scope="module")
def nodes(databases: Databases) -> list[GaleraNode]:
    return databases.galera()


@pytest.fixture
def cluster(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Cluster]:
    """By the class that is given as a parameter."""
    made: Cluster
    if issubclass(request.param, Galera):
        made = request.param(request.getfixturevalue("nodes"))
        made.first.create_database(NAME)
        migrate(made.first.url(NAME))
        yield made
        made.survivor.drop_database(NAME)
        return
    primary, standby = databases.postgres_pair()
    made = PromotedStandby(primary, standby)
    made.first.create_database(NAME)
    migrate(made.first.url(NAME))
    standby.require_at_commit()
    wait_until(lambda: standby.is_synchronous, "the standby is synchronous")
    yield made
    for each in (standby, primary):
        each.remove()


class Producer:
    """Enqueues jobs one by one, half of them with a row in the ledger; records the number of each committed one."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._numbers = 0
        self.committed: set[int] = set()
        self.failures = 0

    def enqueue(self) -> None:
        self._numbers += 1
        number = self._numbers
        payload = json_text.encode({"number": number, "seconds": 0.01, "insert": number % 2 == 0})
        try:
            self._database.once(lambda connection: connection.execute(INSERT, {"payload": payload}))
        except DatabaseError:
            self.failures += 1
        else:
            self.committed.add(number)

    def close(self) -> None:
        self._database.close()


class CronHost:
    """The next cycle starts when one has ended."""

    def __init__(self, installation: Installation, name: str) -> None:
        self._installation = installation
        self._own = {"HOST_NAME": name, "STATE_DIR": str(installation.home / name)}
        self.cycles: list[tuple[float, int, str]] = []  # start, exit code and stderr

    def run_cycle(self) -> None:
        started = monotonic()
        ran = self._installation.dispatch(**self._own)
        self.cycles.append((started, ran.returncode, ran.stderr))

    def has_begun_after(self, moment: float) -> bool:
        """Whether a cycle has begun after that, and ended."""
        return any(started > moment for started, _code, _stderr in self.cycles)


@contextmanager
def repeated(work: Callable[[], object], pause_seconds: float = 0.0) -> Iterator[list[BaseException]]:
    """In a thread, until the end of the block; yields what it has raised."""
    over, raised = threading.Event(), list[BaseException]()

    def repeat() -> None:
        try:
            while not over.wait(pause_seconds):
                work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield raised
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [GaleraWithDeadNode, GaleraWithCutNode, PromotedStandby], indirect=True)
def test_another_server_takes_over(cluster: Cluster, tmp_path: Path) -> None:
    """Each committed job is there and done, each row of the ledger exists once, and no claim has started twice.

    Every cycle that starts after the failure succeeds.
    """
    cluster.first.run_in(NAME, ["CREATE TABLE test_rows (job_id BIGINT)"])
    installation = Installation(tmp_path, cluster.survivor.url(NAME), {**SETTINGS, "DATABASE_URL": cluster.url})
    producer, hosts = Producer(cluster.url), [CronHost(installation, name) for name in HOSTS]
    with repeated(hosts[0].run_cycle) as anna, repeated(hosts[1].run_cycle) as bert:
        with repeated(producer.enqueue, PAUSE_SECONDS) as production:
            wait_until(lambda: done_jobs(installation) >= PART, "the first jobs are done")
            cluster.fail()
            failed_at, before = monotonic(), done_jobs(installation)
            wait_until(lambda: done_jobs(installation) >= before + PART, "further jobs are done", END_SECONDS)
        wait_until(lambda: installation.statuses().keys() == {"done"}, "all jobs are done", END_SECONDS)
        wait_until(lambda: all(host.has_begun_after(failed_at) for host in hosts), "each host had another cycle")
    producer.close()

    assert anna == bert == production == []
    assert [each for host in hosts for each in host.cycles if each[0] > failed_at and each[1:] != (0, "")] == []
    assert not any("Traceback" in stderr for host in hosts for _start, _code, stderr in host.cycles)
    check(installation, producer)
    again = cluster.rejoin()
    if again is not None:
        wait_until(lambda: row_counts(again) == row_counts(cluster.survivor), "the node has the rows of the others")
    installation.end()


def done_jobs(installation: Installation) -> int:
    return installation.statuses().get("done", 0)


def check(installation: Installation, producer: Producer) -> None:
    jobs = {row.id: json_text.decode(row.payload) for row in installation.rows("SELECT id, payload FROM mayfly_jobs")}
    numbers = Counter(each["number"] for each in jobs.values())
    assert producer.committed <= numbers.keys(), "a committed job is lost"
    ledger = Counter(row.job_id for row in installation.rows("SELECT job_id FROM test_rows"))
    assert ledger == {job_id: 1 for job_id, payload in jobs.items() if payload["insert"]}
    runs = [line.split() for line in (installation.home / "runs").read_text().splitlines()]
    assert max(Counter((job_id, claims) for job_id, claims, _runner, _alone in runs).values()) == 1
    assert {alone for *_, alone in runs} == {"alone"}


def row_counts(server: PrivateServer) -> list[object]:
    tables = ("mayfly_jobs", "test_rows")
    return [server.execute(f"SELECT COUNT(*) FROM {NAME}.{table}") for table in tables]


@pytest.mark.slow
def test_a_node_without_its_cluster_leaves_no_doubt_about_a_job(nodes: list[GaleraNode], tmp_path: Path) -> None:
    """It refuses the INSERT before it runs it: enqueue() uses another node, or reports that none can be reached.

    A COMMIT whose answer is lost is another case: tests/database/test_lost_commit.py.
    """
    cut = nodes[0]
    cut.create_database(NAME)
    migrate(cut.url(NAME))
    alone, on_all = Database(cut.url(NAME)), Database(several(nodes))
    for each in (alone, on_all):
        each.connect()
    cut.isolate(True)
    try:
        wait_until(lambda: refuses(cut.url(NAME)), "the node has left the cluster")

        with pytest.raises(DatabaseAway, match="1047"):
            enqueue_in(alone, tmp_path)
        job = enqueue_in(on_all, tmp_path)
    finally:
        cut.isolate(False)
    assert cut.await_synced()
    found = nodes[1].execute(f"SELECT id FROM {NAME}.mayfly_jobs")
    for each in (alone, on_all):
        each.close()
    cut.drop_database(NAME)
    assert [row[0] for row in found] == [job]


def enqueue_in(database: Database, home: Path) -> int | None:
    use_app(App(settings_in(home, {}), database))
    return mayfly.enqueue("noop")


def refuses(url: str) -> bool:
    database = Database(url)
    try:
        database.read(lambda connection: connection.execute("SELECT COUNT(*) FROM mayfly_jobs"))
    except DatabaseAway:
        return True
    finally:
        database.close()
    return False


@pytest.mark.slow
def test_a_node_that_has_not_applied_a_commit_is_not_used(nodes: list[GaleraNode]) -> None:
    """Otherwise a runner would not find the claim that it committed on the lost node."""
    first, behind, current = nodes
    first.create_database("behind")
    first.run_in("behind", ["CREATE TABLE test_rows (job_id BIGINT)"])
    before, _, after = first.url("behind").partition(f"127.0.0.1:{first.port}")
    database = Database(f"{before}127.0.0.1:{behind.port},127.0.0.1:{current.port}{after}")
    with behind.engine_for("mysql").connect() as lock:
        lock.exec_driver_sql("FLUSH TABLES WITH READ LOCK")
        first.run_in("behind", ["INSERT INTO test_rows VALUES (1)"])

        found = database.read(lambda connection: connection.execute("SELECT COUNT(*) FROM test_rows").scalar())

    database.close()
    assert behind.await_synced()
    first.drop_database("behind")
    assert found == 1
