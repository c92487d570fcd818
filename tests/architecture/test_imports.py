"""Who may import whom: the table of design section 6, and what must stay cheap or out of the house."""

import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser

import pytest

import mayfly
from tests.architecture.sources import PACKAGES, ROOT, Source, sources, told

TESTING = "mayfly/testing"  # a room of its own in mayfly's house: it runs jobs, and nobody else in there imports it
MAY_IMPORT = {
    "mayfly": {"mayfly"},
    "dispatcher": {"dispatcher", "mayfly"},
    "runner": {"runner", "mayfly"},
    "handlers": {"handlers", "mayfly"},
    "console": {"console", "mayfly"},
    TESTING: {"mayfly", "runner"},
}
IN_THE_FORKED_CHILD = {
    ("dispatcher", "runner")
}  # inside a function only: the dispatcher never loads what runs handlers
OURS = {*PACKAGES, "tests", "scripts"}


def room_of(source: Source) -> str:
    return TESTING if source.path.startswith(f"{TESTING}/") else source.package


def broken_table(source: Source) -> Iterator[str]:
    for each in source.imports:
        if room_of(source) != TESTING and f"{each.module}.".startswith("mayfly.testing."):
            yield source.at(each.line, "what is for tests is imported by tests alone")
        if each.top in OURS - MAY_IMPORT[room_of(source)]:
            late = (source.package, each.top) in IN_THE_FORKED_CHILD
            if each.at_start or not late:
                where = ", but inside a function" if late else ""
                yield source.at(each.line, f"{source.package} may not import {each.module}{where}")


MIGRATIONS = ("mayfly/migrations/", "handlers/migrations/")  # those of handlers are written in the same words


def behind_the_shop_window(source: Source) -> Iterator[str]:
    for each in source.imports:
        if source.path.startswith(MIGRATIONS) and each.module.startswith("mayfly.schema.migrations."):
            continue
        if each.module == "mayfly":
            for name in each.names:
                if name not in mayfly.__all__:
                    yield source.at(each.line, f"{name} is not among what mayfly shows")
        elif each.top == "mayfly":
            yield source.at(each.line, f"handlers see only what `from mayfly import …` shows, not {each.module}")


def alembic_elsewhere(source: Source) -> Iterator[str]:
    if source.path.startswith(MIGRATIONS):
        return
    for each in source.imports:
        if each.top == "alembic":
            yield source.at(each.line, "only mayfly/migrations imports Alembic")
        reached = {each.module, *(f"{each.module}.{name}" for name in each.names)}
        if each.at_start and any(f"{module}.".startswith("mayfly.schema.migrations.") for module in reached):
            yield source.at(each.line, "Alembic is slow to import: import mayfly.schema.migrations where it is used")


SQLALCHEMY = (*MIGRATIONS, "mayfly/db/sqlalchemy.py")  # and what imports those imports it
SQLALCHEMY_LATER = ("mayfly/db/database.py", "mayfly/db/connection.py", "mayfly/db/url.py")


def sqlalchemy_elsewhere(source: Source) -> Iterator[str]:
    if source.path.startswith(SQLALCHEMY):
        return
    for each in source.imports:
        reached = {each.module, *(f"{each.module}.{name}" for name in each.names)}
        if each.top == "sqlalchemy" and not each.for_types and source.path not in SQLALCHEMY_LATER:
            yield source.at(each.line, "SQLAlchemy is for migrations and for job.transaction() alone")
        elif each.at_start and (each.top == "sqlalchemy" or "mayfly.db.sqlalchemy" in reached):
            yield source.at(each.line, "SQLAlchemy is slow to import: import it where it is used")


WEB = {"fastapi", "starlette", "uvicorn", "anyio", "h11", "httptools"}


def web_elsewhere(source: Source) -> Iterator[str]:
    for each in source.imports:
        if each.top in WEB and source.package != "console":
            yield source.at(each.line, "only console/ serves HTTP; nobody else needs its packages")


DRIVERS = {"pymysql", "psycopg", "sqlite3", "MySQLdb", "psycopg2"}
ONE_DIALECT = ("mayfly.db.dialects.mysql", "mayfly.db.dialects.postgres", "mayfly.db.dialects.sqlite")


def drivers_elsewhere(source: Source) -> Iterator[str]:
    if source.path.startswith("mayfly/dialect/"):
        return
    for each in source.imports:
        reached = {each.module, *(f"{each.module}.{name}" for name in each.names)}
        if each.top in DRIVERS or reached & set(ONE_DIALECT):
            yield source.at(each.line, "only mayfly/dialect/ knows the drivers; ask it for a Dialect")


DANGEROUS = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml"}


def dangerous(source: Source) -> Iterator[str]:
    for each in source.imports:
        if each.top in DANGEROUS:
            yield source.at(each.line, f"payloads are data: no {each.top}")
    for name, call in source.calls():
        if name in ("eval", "exec", "compile", "builtins.eval", "builtins.exec"):
            yield source.at(call.lineno, f"payloads are data: no {name}()")


def imports_by_text(source: Source) -> Iterator[str]:
    for name, call in source.calls():
        if name in ("importlib.import_module", "__import__", "importlib.__import__"):
            yield source.at(call.lineno, "imports by a text, which the table above cannot see")


# --- the rules --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", PACKAGES)
def test_each_room_imports_only_what_it_may(package: str) -> None:
    """mayfly none of the others; dispatcher and runner mayfly; the dispatcher the runner only after the fork."""
    found = [each for source in sources(package) for each in broken_table(source)]

    assert not found, told(found)


def test_handlers_see_only_the_shop_window() -> None:
    """What `mayfly/__init__` shows can be promised to last; what lies behind it cannot."""
    found = [each for source in sources("handlers") for each in behind_the_shop_window(source)]

    assert not found, told(found)


def test_alembic_is_imported_for_migrations_alone() -> None:
    """It costs more to import than all the rest of a cycle."""
    found = [each for source in sources() for each in alembic_elsewhere(source)]

    assert not found, told(found)


def test_sqlalchemy_is_imported_by_few_and_late() -> None:
    """A cycle, a runner and enqueue() do without it: it costs more to import than all the rest of them."""
    found = [each for source in sources() for each in sqlalchemy_elsewhere(source)]

    assert not found, told(found)


def test_the_few_who_may_import_sqlalchemy_do() -> None:
    """A rule about a file that was moved, or that no longer needs it, would hold for ever."""
    found = {source.path for source in sources() for each in source.imports if each.top == "sqlalchemy"}

    assert {*SQLALCHEMY_LATER, "mayfly/db/sqlalchemy.py", "mayfly/schema/migrations.py"} <= found


def test_only_the_console_knows_the_web() -> None:
    """Its packages are an extra: cron's minute works without them, and never pays for them."""
    found = [each for source in sources() for each in web_elsewhere(source)]

    assert not found, told(found)
    assert not loaded_after("import dispatcher.cli, runner.cli, mayfly.cli.main") & WEB


def test_only_the_dialects_import_drivers() -> None:
    """And nobody asks for a certain one of them."""
    found = [each for source in sources() for each in drivers_elsewhere(source)]

    assert not found, told(found)


def test_payloads_are_data() -> None:
    """Neither pickle nor eval nor their kind, anywhere: what stands in a row is never code."""
    found = [each for source in sources() for each in dangerous(source)]

    assert not found, told(found)


def test_modules_are_named_by_text_in_few_places() -> None:
    """Where handlers and hooks are found by their settings, a dialect by a URL, and where the shop windows open."""
    found = {each.partition(":")[0] for source in sources() for each in imports_by_text(source)}

    by_setting = {"mayfly/registry.py", "mayfly/monitoring/hooks.py", "mayfly/db/dialects.py"}
    assert found <= {"mayfly/__init__.py", "mayfly/testing/__init__.py", *by_setting}, told(sorted(found))


def loaded_after(statement: str) -> set[str]:
    """The top names of all modules that a new interpreter has after a statement."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return {module.partition(".")[0] for module in run.stdout.split()}


def test_to_import_mayfly_costs_next_to_nothing() -> None:
    """Everything behind the shop window is imported on first use."""
    assert not loaded_after("import mayfly") & {"sqlalchemy", "pydantic", "alembic", "click", "psutil", "pymysql"}


def test_to_declare_a_handler_needs_no_driver() -> None:
    """A module of handlers can be imported, and tested, without a database."""
    loaded = loaded_after("from mayfly import Job, Retry, handler")

    assert not loaded & {"pymysql", "psycopg", "alembic", "pydantic_settings"}


def test_a_runner_of_plain_functions_loads_no_more_than_they_need() -> None:
    """The event loop, threads and what keeps them in order are for handlers that ask for them."""
    script = "import sys, runner.cli\nprint(*(name for name in sys.modules if name.startswith('runner')))"
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert not {f"runner.{each}" for each in ("crew", "runs", "loop", "threads", "mailbox")} & set(run.stdout.split())


def test_every_package_is_installed() -> None:
    """A checkout has what setup.cfg forgets to name; an installed Mayfly has not."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    found = {source.path.rpartition("/")[0].replace("/", ".") for source in sources()}

    assert set(config["options"]["packages"].split()) == found


def test_everything_in_the_shop_window_is_there() -> None:
    """What is shown can be had, and a name that is not says so."""
    assert all(getattr(mayfly, name) is not None for name in mayfly.__all__)
    with pytest.raises(AttributeError, match="no attribute 'engin'"):
        mayfly.engin  # noqa: B018


# --- the rules themselves ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("mayfly/x.py", "import dispatcher"),
        ("mayfly/jobs/x.py", "from runner.main import live"),
        ("mayfly/x.py", "def late():\n    import runner"),
        ("dispatcher/x.py", "from runner import cli"),
        ("dispatcher/x.py", "if True:\n    import runner.cli"),
        ("dispatcher/x.py", "def late():\n    from handlers import samples"),
        ("runner/x.py", "import dispatcher.plan"),
        ("handlers/x.py", "import runner"),
        ("console/x.py", "from dispatcher import cycle"),
        ("runner/x.py", "from tests import factories"),
        ("mayfly/testing/x.py", "def late():\n    import dispatcher.cycle"),
        ("mayfly/client.py", "from mayfly.testing.database import pinned_offset"),
        ("handlers/x.py", "import mayfly.testing"),
    ],
)
def test_a_broken_table_is_seen(path: str, text: str) -> None:
    """With file and line."""
    (found,) = broken_table(Source(path, text))

    assert found.startswith(f"{path}:{text.count(chr(10)) + 1}: ")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("dispatcher/x.py", "def child():\n    from runner.cli import run_assigned"),
        ("dispatcher/x.py", "import dispatcher.plan\nfrom mayfly.queue import claim"),
        ("dispatcher/x.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import runner.guard"),
        ("mayfly/testing/x.py", "from runner.invoke import Invoker\nfrom mayfly.testing import clock"),
        ("mayfly/jobs/x.py", "from . import claim\nfrom ..clock import pause"),
        ("console/x.py", "import flask\nfrom mayfly import events"),
    ],
)
def test_what_the_table_allows_is_not_seen(path: str, text: str) -> None:
    """Third parties are nobody's business here."""
    assert list(broken_table(Source(path, text))) == []


@pytest.mark.parametrize(
    "text", ["from mayfly import engine", "import mayfly.db.database", "from mayfly.queue.insert import Door"]
)
def test_a_look_behind_the_window_is_seen(text: str) -> None:
    """However it is written."""
    assert len(list(behind_the_shop_window(Source("handlers/x.py", text)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import alembic",
        "def f():\n    from alembic import op",
        "from mayfly.schema.migrations import migrate",
        "from mayfly import migrations",
        "import mayfly.schema.migrations.ddl",
    ],
)
def test_alembic_elsewhere_is_seen(text: str) -> None:
    """Itself anywhere, and what imports it at module level."""
    assert len(list(alembic_elsewhere(Source("mayfly/x.py", text)))) == 1


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("mayfly/x.py", "import sqlalchemy", 1),
        ("mayfly/x.py", "def f():\n    from sqlalchemy.exc import DBAPIError", 1),
        ("mayfly/x.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sqlalchemy", 0),
        ("mayfly/x.py", "from mayfly.db.sqlalchemy import lend", 1),
        ("mayfly/x.py", "from mayfly import lending", 1),
        ("mayfly/db/database.py", "from sqlalchemy.exc import DBAPIError", 1),
        ("mayfly/db/database.py", "def f():\n    from sqlalchemy.exc import DBAPIError", 0),
        ("mayfly/db/database.py", "def f():\n    from mayfly.db.sqlalchemy import lend", 0),
        ("mayfly/db/sqlalchemy.py", "import sqlalchemy", 0),
        ("mayfly/migrations/x.py", "import sqlalchemy", 0),
    ],
)
def test_sqlalchemy_elsewhere_is_seen(path: str, text: str, found: int) -> None:
    """Where it may not be at all, and where it comes too early."""
    assert len(list(sqlalchemy_elsewhere(Source(path, text)))) == found


@pytest.mark.parametrize(
    "text", ["import pymysql", "from psycopg.rows import dict_row", "from mayfly.db.dialects import sqlite"]
)
def test_a_driver_elsewhere_is_seen(text: str) -> None:
    """However it is written."""
    assert len(list(drivers_elsewhere(Source("mayfly/x.py", text)))) == 1
    assert list(drivers_elsewhere(Source("mayfly/dialect/x.py", text))) == []


@pytest.mark.parametrize("text", ["import fastapi", "def f():\n    from starlette.types import Scope"])
def test_the_web_elsewhere_is_seen(text: str) -> None:
    """Late imports, too."""
    assert len(list(web_elsewhere(Source("dispatcher/x.py", text)))) == 1
    assert list(web_elsewhere(Source("console/x.py", text))) == []


@pytest.mark.parametrize("text", ["import pickle", "from pickle import loads", "eval('1')", "x = exec(y)"])
def test_what_turns_data_into_code_is_seen(text: str) -> None:
    """However it is written."""
    assert len(list(dangerous(Source("mayfly/x.py", text)))) == 1
