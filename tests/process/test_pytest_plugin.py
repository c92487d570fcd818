"""The pytest plugin, in real runs of pytest on somebody else's project."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.db.database import Database
from mayfly.schema.migrations import migrate
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

# Plugins that only our own tests need: they load what ours must not, and one of them shuffles the tests.
OTHERS_LEFT_OUT = [f"-pno:{name}" for name in ("schemathesis", "anyio", "hypothesispytest", "randomly")]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory with tests and a handler, and nothing of ours but what is installed."""
    monkeypatch.setenv("MAYFLY_HOME", str(pytester.path))
    (pytester.path / "handlers.py").write_text(HANDLERS)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", *OTHERS_LEFT_OUT, *arguments, timeout=180)


def write_ini(project: pytest.Pytester, url: str) -> None:
    project.makeini(f"[pytest]\nmayfly_db_url = {url}\n")


def test_a_project_that_does_not_use_it_pays_nothing(project: pytest.Pytester) -> None:
    """The plugin is loaded, and not one module more: neither ours nor those that ours need."""
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


def test_each_test_has_a_database_of_its_own_migrated_once(project: pytest.Pytester) -> None:
    """A file each, copied from one that is made when the first test asks; the settings' own is never made."""
    project.makepyfile(TWO_TESTS)

    result = run(project, "--setup-show", "--basetemp=made")

    result.assert_outcomes(passed=2)
    assert len([line for line in result.outlines if re.search(r"SETUP +S mayfly_db_template", line)]) == 1
    made = sorted(str(path.relative_to(project.path)) for path in project.path.rglob("*.db"))
    assert made == ["made/mayfly0/template.db", "made/test_one0/mayfly.db", "made/test_two0/mayfly.db"]


def test_programs_that_a_test_starts_are_in_its_database(project: pytest.Pytester) -> None:
    """Whoever loads the settings is: `mayfly enqueue` in a process of its own, say."""
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


def test_the_clock_of_a_test_is_freezeguns(project: pytest.Pytester) -> None:
    """As a decorator, around fixture and all, and as a context."""
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


# --- a database that somebody names -----------------------------------------------------------------------


# What these open must be asked for before `project`: pytester forgets every module that is imported after it.


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
def test_a_database_that_is_named_is_emptied_before_each_test(named: Database, project: pytest.Pytester) -> None:
    """Migrated once; what the last test has left can be looked at, and is gone with the next run."""
    project.makepyfile(TWO_TESTS)
    write_ini(project, named.url)

    results = [run(project), run(project)]

    for result in results:
        result.assert_outcomes(passed=2)
    assert payloads(named) == ['{"of":"two"}']


def test_a_conftest_can_name_one(project: pytest.Pytester) -> None:
    """For a database that the tests start themselves, say."""
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
    """With a sentence, and no row is harmed."""
    project.makepyfile(TWO_TESTS)
    write_ini(project, shop.url)

    result = run(project)

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["*shop.db has no `test` in its name, and its tables are emptied before each test: use one of its own, *"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    assert payloads(shop) == ["{}"]


@pytest.mark.slow
def test_processes_that_share_the_tests_need_one_each(project: pytest.Pytester, tmp_path: Path) -> None:
    """{worker} in the name tells them apart; without it they would empty each other's."""
    project.makepyfile(TWO_TESTS)
    write_ini(project, f"sqlite:///{tmp_path}/test.db")
    shared = run(project, "-n", "1")
    write_ini(project, f"sqlite:///{tmp_path}/test_{{worker}}.db")
    apart, alone = run(project, "-n", "2"), run(project)

    shared.assert_outcomes(errors=2)
    shared.stdout.fnmatch_lines(["*Write {worker} into its name, as in shop_test_{worker}*"])
    apart.assert_outcomes(passed=2)
    alone.assert_outcomes(passed=2)
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["test_gw0.db", "test_gw1.db", "test_main.db"]


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mysql://shop:hunter2@127.0.0.1:1/shop_test", "*shop_test can't be reached: *"),
        ("oracle://shop:hunter2@db/test", "The database for tests must be a URL that begins with sqlite:///, *"),
        ("mysql://shop:hunter@2@db/test", "The database for tests has more than one @: *"),
    ],
)
def test_a_wrong_url_is_a_sentence(project: pytest.Pytester, url: str, sentence: str) -> None:
    """As for DATABASE_URL, once, and the password is not in it."""
    project.makepyfile("def test_it(mayfly_db): ...")
    write_ini(project, url)

    result = run(project)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([sentence])
    result.stdout.no_fnmatch_line("*another exception*")
    result.stdout.no_fnmatch_line("*hunter*")
