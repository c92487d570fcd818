"""docs/how-to/pull-workers.md is correct: its curl examples run in order, and its worker works."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.admin.auth import SCOPES
from tests.docs.consoles import page_named
from tests.process.console.api import Api
from tests.process.installation import Installation, wait_until
from tests.servers import program

CHECKOUT = Path(__file__).parents[2]
PAGE = page_named("how-to/pull-workers.md")
WORKER = CHECKOUT / "docs" / "how-to" / "worker.mjs"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db", {"LANES__IMAGES__EXTERNAL": "true"})
    made.dispatch()  # cron is running
    yield Api(made)
    made.end()


def examples() -> list[tuple[str, str]]:
    """Each command of the page with the output below it."""
    pairs = re.findall(r"^```sh\n(curl .+?)^```\n+```json\n(.+?)\n```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(pairs) == PAGE.count("```sh\ncurl")
    return pairs


def test_the_examples_work(api: Api) -> None:
    """Each prints what the page shows; … is any text."""
    program("curl")
    claim = ""
    for command, expected in examples():
        here = command.replace("http://127.0.0.1:8321", f"http://127.0.0.1:{api.port}")
        environment = {**os.environ, "MAYFLY_TOKEN": api.token, "CLAIM": claim}

        ran = subprocess.run(["sh", "-c", here], env=environment, capture_output=True, text=True, timeout=300)

        assert ran.returncode == 0, ran.stderr
        assert re.fullmatch(".+".join(map(re.escape, expected.split("…"))), ran.stdout), ran.stdout
        found = json.loads(ran.stdout).get("jobs")
        claim = found[0].get("claim", claim) if found else claim


def test_the_worker_works(api: Api) -> None:
    """30 lines of Node without dependencies: it completes and fails jobs, and ends on SIGTERM."""
    node = program("node")
    [good] = api.installation.enqueue("resize", '{"image": 7, "width": 640}', lane="images")
    [odd] = api.installation.enqueue("paint", lane="images", max_attempts=1)
    environment = {
        "MAYFLY_URL": f"http://127.0.0.1:{api.port}",
        "MAYFLY_TOKEN": api.token,
        "PATH": os.environ["PATH"],
    }
    worker = subprocess.Popen([node, WORKER], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: api.installation.statuses() == {"done": 1, "dead": 1}, "both are settled")
    finally:
        worker.terminate()
        _out, errors = worker.communicate(timeout=120)

    assert len(WORKER.read_text("utf-8").splitlines()) <= 30
    assert json.loads(api.installation.job(good).result) == {"image": 7, "width": 640, "height": 480}
    assert "TypeError" in api.installation.job(odd).last_error
    assert (worker.returncode, errors) == (0, "")


def test_the_named_operations_exist(api: Api) -> None:
    """With these methods; the generated page has all of them."""
    paths = api.ask("GET", "/api/v1/openapi.json").json["paths"]
    served = {f"{method.upper()} {path.removeprefix('/api/v1')}" for path, found in paths.items() for method in found}
    named = set(re.findall(r"`((?:GET|POST|PUT) /[^`?]*)`", PAGE))

    assert named
    assert named <= served


def test_the_table_of_scopes_equals_the_code() -> None:
    """With the description of each."""
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", PAGE.split("## Enqueue")[0], flags=re.MULTILINE))

    assert rows == SCOPES
