"""What a process imports: an application that only enqueues and a runner of plain functions must start fast."""

import subprocess
import sys

import pytest

import mayfly
from tests.process.installation import CHECKOUT


def modules_after(statement: str) -> set[str]:
    """All modules that a new interpreter has loaded after a statement."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_mayfly_loads_no_dependency() -> None:
    """Public names are imported on first use."""
    assert not modules_after("import mayfly") & {"sqlalchemy", "pydantic", "alembic", "click", "psutil", "pymysql"}


def test_declaring_a_handler_needs_no_driver() -> None:
    """A module of handlers can be imported and tested without a database."""
    loaded = modules_after("from mayfly import Job, Retry, handler")

    assert not loaded & {"pymysql", "psycopg", "alembic"}


def test_a_runner_of_plain_functions_loads_no_executor() -> None:
    """asyncio and threads are for handlers that need them."""
    loaded = modules_after("import runner.cli")

    assert not loaded & {"runner.concurrent_batch", "runner.execution", "runner.asyncio_jobs", "asyncio"}


def test_every_public_name_exists() -> None:
    """Each name of `mayfly.__all__` can be imported; any other name is an AttributeError."""
    assert all(getattr(mayfly, name) is not None for name in mayfly.__all__)
    with pytest.raises(AttributeError, match="no attribute 'engin'"):
        mayfly.engin  # noqa: B018
