"""The pytest plugin, in real pytest runs of another project."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.db.database import Database
from mayfly.schema.metadata import jobs
from mayfly.schema.migrations import migrate
from tests.database.factories import rows_of
from tests.databases import Databases
from tests.factories import insert_row

pytest_plugins = ["pytester"]

TWO_TESTS = """
    from mayfly import enqueue
    from mayfly.testing import assert_enqueued, drain

    def test_one(mayfly_db):
        enqueue("noop", {"of": "one"})
        assert drain().outcomes == {"done": 1}

    def test_two(mayfly_db):
        assert_enqueued("noop", count=0)
        enqueue("noop", {"of": "two"})
        assert_enqueued("noop", {"of": "two"}, count=1)
"""

HANDLERS = """
from mayfly import Job, handler


@handler("noop")
def noop(job: Job) -> None: ...
"""

# Plugins that only our own tests need: they load modules that ours must not load, and one shuffles the tests.
WITHOUT_OTHER_PLUGINS = [f"-pno:{name}" for name in ("schemathesis", "anyio", "hypothesispytest", "randomly")]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory with tests and a handler, and nothing of ours but the installed packages."""
    monkeypatch.setenv("MAYFLY_HOME", str(pytester.path))
    (pytester.path / "handlers.py").write_text(HANDLERS)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", *WITHOUT_OTHER_PLUGINS, *arguments, timeout=180)


def write_ini(project: pytest.Pytester, url: str) -> None:
    project.makeini(f"[pytest]\nmayfly_db_url = {url}\n")


def test_an_unused_plugin_imports_nothing(project: pytest.Pytester) -> None:
    """The plugin is loaded, but no other module of ours or of our dependencies."""
    project.makepyfile(
        """
        import sys

        def test_it():
            print("loaded:", *sorted(sys.modules))
        """
    )

    result = run(project, "-s")

    result.assert_outcomes(passed=1)
    [line] = [line for line in result.outlines if line.startswith("loaded:") or " loaded:" in line]
    loaded = set(line.partition("loaded:")[2].split())
    ours = {each for each in loaded if each.partition(".")[0] in ("mayfly", "runner", "dispatcher", "handlers")}
    assert ours == {"mayfly", "mayfly.testing", "mayfly.testing.plugin"}
    assert not loaded & {"sqlalchemy", "pydantic", "alembic", "click", "psutil", "asyncio"}


def test_each_test_has_its_own_database_migrated_once(project: pytest.Pytester) -> None:
    """Each gets a copy of a template made for the first test; the database of the settings is never created."""
    project.makepyfile(TWO_TESTS)

    result = run(project, "--setup-show", "--basetemp=made")

    result.assert_outcomes(passed=2)
    assert len([line for line in result.outlines if re.search(r"SETUP +S mayfly_db_template", line)]) == 1
    made = sorted(str(path.relative_to(project.path)) for path in project.path.rglob("*.db"))
    assert made == ["made/mayfly0/template.db", "made/test_one0/mayfly.db", "made/test_two0/mayfly.db"]


def test_programs_started_by_a_test_use_its_database(project: pytest.Pytester) -> None:
    """Every process that loads the settings, for example `mayfly enqueue`."""
    project.makepyfile(
        """
        import subprocess, sys
        from mayfly.testing import assert_enqueued

        def test_it(mayfly_db):
            subprocess.run([sys.executable, "-m", "mayfly", "enqueue", "noop", '{"from": "a shell"}'], check=True)

            assert_enqueued("noop", {"from": "a shell"}, count=1)
        """
    )

    run(project).assert_outcomes(passed=1)


def test_a_job_in_the_database_of_the_application_is_refused(project: pytest.Pytester) -> None:
    """The error says what to do; a connection to the test's database is accepted."""
    url = f"sqlite:///{project.path / 'shop.db'}"
    migrate(url)
    project.makepyfile(
        f"""
        from mayfly import enqueue
        from mayfly.testing import assert_enqueued
        from sqlalchemy import create_engine
        from sqlalchemy.orm import Session

        def test_of_the_application(mayfly_db):
            with Session(create_engine({url!r})) as session:
                enqueue("noop", connection=session)
                session.commit()

        def test_of_the_test(mayfly_db):
            with Session(create_engine(mayfly_db.url)) as session:
                enqueue("noop", connection=session)
                session.commit()
            assert_enqueued("noop", count=1)
        """
    )

    result = run(project)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Connect to mayfly_db.url in the test, or set mayfly_db_url in pytest's settings*"])
    assert rows_of(Database(url), jobs) == []


def test_freezegun_sets_the_clock(project: pytest.Pytester) -> None:
    """As a decorator, which includes the fixture, and as a context manager."""
    project.makepyfile(
        """
        from datetime import datetime, UTC, timedelta
        from freezegun import freeze_time
        from mayfly import enqueue
        from mayfly.testing import drain, enqueued_jobs

        @freeze_time("2001-02-03 04:05")
        def test_decorated(mayfly_db):
            enqueue("noop")
            assert enqueued_jobs()[0].run_at == datetime(2001, 2, 3, 4, 5, tzinfo=UTC)
            assert drain().outcomes == {"done": 1}

        def test_inside(mayfly_db):
            enqueue("noop", delay=3600)
            assert len(drain()) == 0
            with freeze_time(timedelta(hours=2)):
                assert drain().outcomes == {"done": 1}
        """
    )

    run(project).assert_outcomes(passed=2)


# --- a configured database --------------------------------------------------------------------------------


# Fixtures that open a database come before `project`: pytester forgets every module that is imported after it.


@pytest.fixture
def named(engine_name: str, databases: Databases, tmp_path: Path) -> Iterator[Database]:
    """With `test` in its name, as a file or on a server; not migrated yet."""
    with databases.fresh(engine_name) as url:
        database = Database(f"sqlite:///{tmp_path}/test.db" if engine_name == "sqlite" else url)
        database.read(lambda connection: connection.execute("SELECT 1").all())
        yield database
        database.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Database]:
    """A database in use."""
    migrate(f"sqlite:///{tmp_path}/shop.db")
    database = Database(f"sqlite:///{tmp_path}/shop.db")
    insert_row(database)
    yield database
    database.close()


def payloads(database: Database) -> list[str]:
    query = "SELECT payload FROM mayfly_jobs ORDER BY id"
    return [row[0] for row in database.read(lambda connection: connection.execute(query).all())]


@pytest.mark.every_database
def test_a_configured_database_is_emptied_before_each_test(named: Database, project: pytest.Pytester) -> None:
    """It is migrated once; the rows of the last test stay until the next run."""
    project.makepyfile(TWO_TESTS)
    write_ini(project, named.url)

    results = [run(project), run(project)]

    for result in results:
        result.assert_outcomes(passed=2)
    assert payloads(named) == ['{"of":"two"}']


def test_used_limits_are_reset_for_the_next_test(project: pytest.Pytester) -> None:
    """All tables are emptied except the locks, whose rows belong to the schema."""
    limited = "@handler('send', limits=[rate('mail', 1, per='day')])\ndef send(job): ...\n"
    (project.path / "handlers.py").write_text(f"from mayfly import handler, rate\n\n{limited}")
    project.makepyfile(
        """
        import pytest
        from mayfly import enqueue
        from mayfly.testing import drain

        @pytest.mark.parametrize("number", [1, 2])
        def test_one_mail_per_day(mayfly_db, number):
            enqueue("send")
            enqueue("send")

            assert drain().outcomes == {"done": 1, "snoozed": 1}
        """
    )
    write_ini(project, f"sqlite:///{project.path}/test.db")

    run(project).assert_outcomes(passed=2)


def test_a_conftest_can_set_the_database(project: pytest.Pytester) -> None:
    """For example one that the tests start themselves."""
    project.makepyfile(TWO_TESTS)
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def mayfly_db_url(tmp_path_factory):
            return f"sqlite:///{tmp_path_factory.mktemp('own')}/test.db"
        """
    )

    result = run(project, "--basetemp=made")

    result.assert_outcomes(passed=2)
    assert [path.name for path in project.path.rglob("*.db")] == ["test.db"]


def test_a_database_without_test_in_its_name_is_refused(shop: Database, project: pytest.Pytester) -> None:
    """With an error message, and no row is changed."""
    project.makepyfile(TWO_TESTS)
    write_ini(project, shop.url)

    result = run(project)

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["*shop.db has no `test` in its name, and its tables are emptied before each test: use a separate one, *"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    assert payloads(shop) == ["{}"]


@pytest.mark.slow
def test_parallel_test_processes_need_a_database_each(project: pytest.Pytester, tmp_path: Path) -> None:
    """{worker} in the name separates them; otherwise they would empty each other's tables."""
    project.makepyfile(TWO_TESTS)
    write_ini(project, f"sqlite:///{tmp_path}/test.db")
    shared = run(project, "-n", "1")
    write_ini(project, f"sqlite:///{tmp_path}/test_{{worker}}.db")
    apart, alone = run(project, "-n", "2"), run(project)

    shared.assert_outcomes(errors=2)
    shared.stdout.fnmatch_lines(["*write {worker} into its name, as in shop_test_{worker}*"])
    apart.assert_outcomes(passed=2)
    alone.assert_outcomes(passed=2)
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["test_gw0.db", "test_gw1.db", "test_main.db"]


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mysql://shop:hunter2@127.0.0.1:1/shop_test", "*shop_test can't be reached: *"),
        ("oracle://shop:hunter2@db/test", "The database for tests must be a URL that begins with sqlite:///, *"),
        pytest.param(
            "mysql://shop:hunter@2@db/test", "The database for tests has more than one @: *", marks=pytest.mark.slow
        ),
    ],
)
def test_a_wrong_url_is_an_error_message(project: pytest.Pytester, url: str, sentence: str) -> None:
    """As for DATABASE_URL, once, and without the password."""
    project.makepyfile("def test_it(mayfly_db): ...")
    write_ini(project, url)

    result = run(project)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([sentence])
    result.stdout.no_fnmatch_line("*another exception*")
    result.stdout.no_fnmatch_line("*hunter*")
