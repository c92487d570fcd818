"""`mayfly dev` in docs/how-to/test-handlers.md: the server runs with the files, the table has the options."""

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mayfly.cli.setup import dev
from tests.docs.consoles import section_named
from tests.docs.projects import files_of
from tests.process.installation import Installation, wait_until
from tests.servers.private import free_port

PAGE = section_named("how-to/test-handlers.md", "Run jobs in development")


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db")
    yield made
    made.end()


def test_every_option_is_in_the_table() -> None:
    """With its default."""
    named = set(re.findall(r"--\w+", "".join(re.findall(r"^\| `--.*$", PAGE, re.MULTILINE))))
    options = [each for each in dev.params if isinstance(each, click.Option)]

    assert named == {name for each in options for name in (*each.opts, *each.secondary_opts)}
    assert {each.name: each.default for each in options}["every"] == "60s"


def test_the_server_runs_its_jobs(embedded: Installation) -> None:
    """From a request to a done job; when the server ends, `mayfly dev` and its dispatcher end too."""
    for name, text in files_of(PAGE).items():
        (embedded.home / name).parent.mkdir(exist_ok=True)
        (embedded.home / name).write_text(text)
    port = free_port()
    environment = embedded.environment(APP_ENV="development", HANDLERS="shop.jobs")
    with subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "--port", str(port), "main:app"],
        cwd=embedded.home,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            wait_until(lambda: answers(port), "the server accepts a request")
            wait_until(lambda: embedded.statuses().keys() == {"done"}, "the job is done")
        finally:
            server.send_signal(signal.SIGTERM)
            output, errors = server.communicate(timeout=60)
            print(output, errors)  # pytest shows them if this test fails

    assert "Completed 1 job" in output, errors
    assert embedded.processes() == []


def answers(port: int) -> bool:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/orders/7/confirmation", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return bool(response.status == 200)
    except OSError:
        return False
