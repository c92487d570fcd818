"""The fixtures that every floor shares: databases of all engines, and servers that may be killed.

A database that cannot be had skips its tests on a laptop, with a note at the end; with CI=true it fails them.
"""

import os
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import freezegun
import pytest

from tests import failure_report
from tests.database_pool import Shelf
from tests.databases import Databases
from tests.hypothesis_profiles import use_profile
from tests.servers import PRIVATE, PrivateServer, Unavailable, engine_names, server_url

Report = dict[str, dict[str, str]]

SERVERS = {"mariadb", "mysql", "postgres"}
DATABASES = pytest.StashKey[Databases]()
REPORT = pytest.StashKey[Report]()  # of the processes that share the tests


@pytest.fixture(scope="session")
def databases(pytestconfig: pytest.Config) -> Databases:
    """What makes databases; most tests want `migrated_url` or `database_url` instead."""
    return pytestconfig.stash[DATABASES]


@pytest.fixture
def engine_name(request: pytest.FixtureRequest) -> str:
    """Given by `pytest_generate_tests`; `parametrize("engine_name", [...], indirect=True)` chooses others."""
    return str(request.param)


@pytest.fixture
def database_url(engine_name: str, databases: Databases) -> Iterator[str]:
    """The URL of a new, empty database."""
    with databases.fresh(engine_name) as url:
        yield url


@pytest.fixture(scope="session")
def shelf(databases: Databases) -> Iterator[Shelf]:
    """The databases that are used again; see there."""
    with Shelf(databases) as opened:
        yield opened


@pytest.fixture
def migrated_url(engine_name: str, shelf: Shelf) -> Iterator[str]:
    """The URL of a database with Mayfly's tables that looks like new. Hundreds of tests ask for one."""
    with shelf.like_new(engine_name) as url:
        yield url


@pytest.fixture(scope="module", params=sorted(PRIVATE))
def module_server(request: pytest.FixtureRequest, databases: Databases) -> Iterator[PrivateServer]:
    """The server behind `restartable_server`."""
    engine = str(request.param)
    if server_url(os.environ, engine) and PRIVATE[engine].programs() is None:
        pytest.skip(f"the {engine} server that a variable names is not ours to kill, and none is installed here")
    server = databases.private(engine)
    yield server
    server.remove()


@pytest.fixture
def restartable_server(module_server: PrivateServer) -> PrivateServer:
    """A server of this module's own that runs, and may be stopped, killed and restarted."""
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
    """Without its database a test is skipped on a laptop, and fails in CI."""
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
    """A failure shows the log and the tables, while they are still there."""
    report = yield
    if report.when == "call" and report.failed and isinstance(item, pytest.Function):
        report.sections.extend(failure_report.sections(item.funcargs))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
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
    """Which databases a test runs on. A law about dialects needs all of them, a law about processes seldom does."""
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
    """With --databases=sqlite no server is started, whatever the tests' own parameters are."""
    if config.getoption("databases") == "sqlite":
        dropped = [item for item in items if _needs_server(item)]
        items[:] = [item for item in items if item not in set(dropped)]
        config.hook.pytest_deselected(items=dropped)


def _needs_server(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    values = item.callspec.params.values()
    names = (name for value in values for name in (value if isinstance(value, tuple) else (value,)))
    return any(isinstance(name, str) and name in SERVERS for name in names)


def pytest_configure(config: pytest.Config) -> None:
    freezegun.configure(extend_ignore_list=["_pytest.timing"])  # or the slowest tests would be those that freeze time
    use_profile(full=config.getoption("databases") == "all")
    config.stash[DATABASES] = Databases(os.environ)
    empty: Report = {"used": {}, "unavailable": {}, "left behind": {}}
    config.stash[REPORT] = empty


def pytest_sessionstart(session: pytest.Session) -> None:
    """SIGTERM ends the tests as Ctrl-C does: the servers are taken down first."""
    tests = os.getpid()

    def interrupt(signum: int, frame: FrameType | None) -> None:
        if os.getpid() == tests:
            raise KeyboardInterrupt
        signal.signal(signum, signal.SIG_DFL)  # a fork of a test: it dies as if this handler had never been
        os.kill(os.getpid(), signum)

    signal.signal(signal.SIGTERM, interrupt)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After the last fixture, also after Ctrl-C: remove the servers, and see that they are gone."""
    databases = session.config.stash[DATABASES]
    databases.close()
    if databases.leftovers():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    told: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if told is not None:  # one of several processes that share the tests (xdist)
        told["databases"] = report_on(databases)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process that shared the tests has ended: what it says belongs to the summary of all."""
    report = getattr(node, "workeroutput", {}).get("databases", {})
    for part, found in node.config.stash[REPORT].items():
        found.update(report.get(part, {}))


def report_on(databases: Databases) -> Report:
    left_behind = dict.fromkeys(map(str, databases.leftovers()), "")
    return {"used": dict(databases.used), "unavailable": dict(databases.unavailable), "left behind": left_behind}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"\nThe same order again: --randomly-seed={config.getoption('randomly_seed')}")
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
