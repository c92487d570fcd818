"""The fixtures that every floor shares: databases of all engines, and servers that may be killed.

A database that cannot be had skips its tests on a laptop, with a note at the end; with CI=true it fails them.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import handlers.ai
import handlers.boards
import handlers.care
import handlers.mail
import handlers.notify
import handlers.outreach
import handlers.prospects
import handlers.samples
import handlers.search  # noqa: F401 - declared before any test hides what is declared: a module is imported once
from tests.databases import Databases
from tests.servers import PRIVATE, PrivateServer, Unavailable, engine_names, server_url
from tests.shelf import Shelf

Report = dict[str, dict[str, str]]

DATABASES = pytest.StashKey[Databases]()
REPORT = pytest.StashKey[Report]()  # of the processes that share the tests


@pytest.fixture(scope="session")
def databases(pytestconfig: pytest.Config) -> Databases:
    """What makes databases; most tests want `migrated_url` or `database_url` instead."""
    return pytestconfig.stash[DATABASES]


@pytest.fixture(params=engine_names(os.environ))
def engine_name(request: pytest.FixtureRequest) -> str:
    """Each engine in turn; `parametrize("engine_name", [...], indirect=True)` narrows it."""
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
    from mayfly.migrations import migrate

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
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with or_skip():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with or_skip():
        yield


def pytest_configure(config: pytest.Config) -> None:
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
