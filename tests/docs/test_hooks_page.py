"""docs/how-to/monitor.md is correct: its example of hooks is installed and run."""

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from mayfly.monitoring.hooks import MAX_ATTEMPTS
from mayfly.queue.outcome import OutcomeKind
from tests.docs.consoles import section_named
from tests.process.installation import Installation

PAGE = section_named("how-to/monitor.md", "Hooks")


def block(language: str) -> str:
    [found] = re.findall(rf"^```{language}\n(.+?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
def pager() -> Iterator[tuple[str, list[str]]]:
    """The URL of an alert receiver, and the received texts."""
    texts: list[str] = []

    class Pager(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with HTTPServer(("127.0.0.1", 0), Pager) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", texts
        server.shutdown()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Installation]:
    """An installation with the page's files in its home."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "watching.py").write_text(block("python"))
    (tmp_path / ".env").write_text(block("sh"))
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db")
    yield made
    made.end()


def test_the_example_works(shop: Installation, pager: tuple[str, list[str]]) -> None:
    """In real runners: a span in the log for each job, an alert for the dead one."""
    url, texts = pager
    done, dead = shop.enqueue("noop")[0], shop.enqueue("give_up")[0]

    cycle = shop.dispatch(PAGER_URL=url)

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert re.search(rf"printed: span type=noop job={done} outcome=done seconds=0\.\d+$", shop.log, re.MULTILINE)
    assert f"span type=give_up job={dead} outcome=dead" in shop.log
    assert texts == [f"job {dead} (give_up) is dead: no such customer"]


def test_the_outcomes_equal_the_code() -> None:
    """All but `crashed`: the process that would call `after` is gone."""
    [listed] = re.findall(r"outcomes in the totals \(([^)]+)\)", PAGE)

    assert set(re.findall(r"`([^`]+)`", listed)) == set(OutcomeKind) - {OutcomeKind.CRASHED}
    assert f"with backoff, {MAX_ATTEMPTS} times" in PAGE
