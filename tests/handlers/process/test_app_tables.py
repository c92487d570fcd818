"""`mayfly migrate --app` in an installation, and the libraries that a runner loads."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from mayfly.schema.metadata import jobs
from tests.handlers.process.installation import HandlersInstallation
from tests.process.installation import Installation

LOADED = """
import sys
from mayfly import handler

@handler("loaded")
def loaded(job):
    heavy = {"jinja2", "urllib3", "smtplib", "alembic", "sqlalchemy", "reportlab", "standardwebhooks"}
    return sorted(heavy & set(sys.modules))
"""


@pytest.fixture
def without_tables(tmp_path: Path) -> Iterator[HandlersInstallation]:
    """Created on first use, like a user's."""
    made = HandlersInstallation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db")
    yield made
    made.end()


def test_the_app_tables_are_created_on_request(without_tables: Installation) -> None:
    """The second run reports that they are up to date."""
    first, second = (without_tables.run("mayfly", "migrate", "--app") for _ in range(2))

    made = re.fullmatch(r"Created the tables of handlers, version (\d{4})\.\n", first.stdout)
    assert made, first.stderr
    assert second.stdout == f"The tables of handlers are up to date (version {made[1]}).\n"


def test_a_runner_loads_no_library_that_its_jobs_do_not_need(embedded: Installation) -> None:
    """For any area."""
    embedded.new_interpreters = True  # a forked process inherits imports
    (embedded.home / "loaded_modules.py").write_text(LOADED)
    embedded.enqueue("loaded")

    embedded.dispatch(HANDLERS="handlers,loaded_modules")

    [job] = embedded.rows(select(jobs.c.status, jobs.c.result))
    assert tuple(job) == ("done", "[]")
