"""Fixtures of all suites: databases on every engine, and servers that can be killed.

Without its database a test is skipped with a note at the end; with CI=true it fails.
"""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import freezegun
import pymysql
import pytest

from mayfly import client
from mayfly.db import dialects
from tests import failure_report
from tests.database_pool import DatabasePool
from tests.databases import Databases
from tests.hypothesis_profiles import use_profile
from tests.process.installation import Installation
from tests.servers import PRIVATE, PrivateServer, Unavailable, engine_names, server_url

Report = dict[str, dict[str, str]]

SERVERS = {"mariadb", "mysql", "postgres"}
LONG_CONNECT_SECONDS = 30  # on a busy machine a server may need seconds; tests of this limit set their own
# Run one after the other, in random order: few xdist workers start what they share (browser, consoles, tables).
TOGETHER = ("tests/browser/", "tests/process/console/", "tests/process/pages/", "tests/handlers/")
DATABASES = pytest.StashKey[Databases]()
REPORT = pytest.StashKey[Report]()  # of all xdist workers
SHARED = pytest.StashKey[frozenset[Installation]]()  # open before the test


@pytest.fixture(autouse=True)
def _own_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """The app of `mayfly.enqueue` has the settings of its test, and no later test may use them."""
    monkeypatch.setattr(client, "_apps", {})


@pytest.fixture(scope="session")
def databases(pytestconfig: pytest.Config) -> Databases:
    """Creates databases; most tests use `migrated_url` or `database_url` instead."""
    return pytestconfig.stash[DATABASES]


@pytest.fixture
def engine_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set by `pytest_generate_tests`; `parametrize("engine_name", [...], indirect=True)` overrides it."""
    monkeypatch.setattr(dialects, "CONNECT_SECONDS", LONG_CONNECT_SECONDS)
    return str(request.param)


@pytest.fixture
def database_url(engine_name: str, databases: Databases) -> Iterator[str]:
    """The URL of a new, empty database."""
    with databases.fresh(engine_name) as url:
        yield url


@pytest.fixture(scope="session")
def database_pool(databases: Databases) -> Iterator[DatabasePool]:
    """Databases that are cleaned and reused."""
    with DatabasePool(databases) as opened:
        yield opened


@pytest.fixture
def migrated_url(engine_name: str, database_pool: DatabasePool) -> Iterator[str]:
    """The URL of a clean database with Mayfly's tables. Hundreds of tests use one."""
    with database_pool.clean_database(engine_name) as url:
        yield url


@pytest.fixture(scope="module", params=sorted(PRIVATE))
def module_server(request: pytest.FixtureRequest, databases: Databases) -> Iterator[PrivateServer]:
    """The server behind `restartable_server`."""
    engine = str(request.param)
    if server_url(os.environ, engine) and PRIVATE[engine].programs() is None:
        pytest.skip(f"the {engine} server named by a variable must not be killed, and none is installed here")
    server = databases.private(engine)
    yield server
    server.remove()


@pytest.fixture
def restartable_server(module_server: PrivateServer) -> PrivateServer:
    """A running server of this test module, which can be stopped, killed and restarted."""
    if not module_server.is_running:
        module_server.start()
    return module_server


@pytest.fixture
def restartable_url(restartable_server: PrivateServer, databases: Databases) -> Iterator[str]:
    """The URL of a new database with Mayfly's tables on that server."""
    from mayfly.schema.migrations import migrate

    with databases.fresh_on(restartable_server, migrate) as url:
        yield url


@contextmanager
def or_skip() -> Iterator[None]:
    """Without its database a test is skipped, and fails in CI."""
    reason = None
    try:
        yield
    except Unavailable as error:
        reason = str(error)
    if reason is None:
        return
    if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows the log and the tables before they are removed."""
    report = yield
    if report.when == "call" and report.failed and isinstance(item, pytest.Function):
        report.sections.extend(failure_report.sections(item.funcargs, item.stash[SHARED]))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[SHARED] = failure_report.open_installations()
    with or_skip():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with or_skip():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--databases",
        choices=["sqlite", "usual", "all"],
        default="usual",
        help="usual: tests/database and tests marked every_database on every database, the others on SQLite",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The databases of a test. Tests of dialects need all of them, tests of processes seldom do."""
    if "engine_name" not in metafunc.fixturenames or _chooses_engines(metafunc.definition):
        return
    everywhere = metafunc.config.getoption("databases") != "sqlite" and (
        metafunc.config.getoption("databases") == "all"
        or "tests/database/" in metafunc.definition.path.as_posix()
        or metafunc.definition.get_closest_marker("every_database") is not None
    )
    names = engine_names(os.environ) if everywhere else ["sqlite"]
    metafunc.parametrize("engine_name", names, indirect=True)


def _chooses_engines(test: pytest.Item) -> bool:
    return any("engine_name" in mark.args[0] for mark in test.iter_markers("parametrize"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --databases=sqlite no server is started, not even for a test's own parameters."""
    items.sort(key=_group)
    if config.getoption("databases") == "sqlite":
        dropped = [item for item in items if _needs_server(item)]
        items[:] = [item for item in items if item not in set(dropped)]
        config.hook.pytest_deselected(items=dropped)


def _group(item: pytest.Item) -> int:
    return next((number for number, suite in enumerate(TOGETHER) if item.nodeid.startswith(suite)), len(TOGETHER))


def _needs_server(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    values = item.callspec.params.values()
    names = (name for value in values for name in (value if isinstance(value, tuple) else (value,)))
    return any(isinstance(name, str) and name in SERVERS for name in names)


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until the tests are collected
    freezegun.configure(
        extend_ignore_list=["_pytest.timing"]
    )  # or tests that freeze time would be listed as the slowest
    use_profile(full=config.getoption("databases") == "all")
    if not (server_url(os.environ, "mariadb") or server_url(os.environ, "mysql")):
        # Our own server has no TLS, for which PyMySQL loads all certificates of the machine at every connect (30 ms).
        pymysql.connections.SSL_ENABLED = False
    config.stash[DATABASES] = Databases(os.environ)
    empty: Report = {"used": {}, "unavailable": {}, "left behind": {}}
    config.stash[REPORT] = empty


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and tests stay: searching them for garbage again and again takes half the time of a collection."""
    gc.freeze()
    gc.enable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """SIGTERM ends the tests like Ctrl-C: the servers are stopped first."""
    pid = os.getpid()

    def interrupt(signum: int, frame: FrameType | None) -> None:
        if os.getpid() == pid:
            raise KeyboardInterrupt
        signal.signal(signum, signal.SIG_DFL)  # a fork of a test: it exits as without this handler
        os.kill(os.getpid(), signum)

    signal.signal(signal.SIGTERM, interrupt)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After the last fixture, also after Ctrl-C: remove the servers, and check that they are gone."""
    databases = session.config.stash[DATABASES]
    databases.close()
    if databases.leftovers():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    worker_output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if worker_output is not None:  # an xdist worker
        worker_output["databases"] = report_on(databases)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """An xdist worker has ended: add its databases to the summary."""
    report = getattr(node, "workeroutput", {}).get("databases", {})
    for part, found in node.config.stash[REPORT].items():
        found.update(report.get(part, {}))


def report_on(databases: Databases) -> Report:
    left_behind = dict.fromkeys(map(str, databases.leftovers()), "")
    return {"used": dict(databases.used), "unavailable": dict(databases.unavailable), "left behind": left_behind}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    seed = config.getoption("randomly_seed", None)  # None: -p no:randomly
    if seed is not None and (terminalreporter.stats.get("failed") or terminalreporter.stats.get("error")):
        terminalreporter.write_line(f"\nThe same order again: --randomly-seed={seed}")
    report, own = config.stash[REPORT], report_on(config.stash[DATABASES])
    used, unavailable, left_behind = ({**report[part], **own[part]} for part in report)
    if used or unavailable:
        terminalreporter.section("databases")
    for engine, version in sorted(used.items()):
        terminalreporter.write_line(f"{engine} {version}")
    for engine, reason in sorted(unavailable.items()):
        terminalreporter.write_line(f"NOT TESTED on {engine}: {reason}", red=True)
    for each in sorted(left_behind):
        terminalreporter.write_line(f"LEFT BEHIND: {each}", red=True)
