"""Handlers in docs/reference/python.md: each example runs unchanged, with stand-ins for what it calls."""

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from freezegun import freeze_time
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

import mayfly
from mayfly import Job, handler, registry
from mayfly.testing import drain, enqueued_jobs, run_inline, using_database
from mayfly.testing.database import prepare
from tests.docs.consoles import blocks, section_named
from tests.process.installation import Installation

PAGE = section_named("reference/python.md", "Handlers")
GIVEN = {"mayfly": mayfly, "handler": handler, "Job": Job, "text": text}


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declarations of the page's examples are removed after each test."""
    monkeypatch.setattr(registry, "_declared", dict(registry.declared()))
    monkeypatch.setattr("mayfly.client._apps", {})


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A database for the test, with two tables of an application."""
    found = prepare(None, None, tmp_path)(tmp_path)
    monkeypatch.setenv("DATABASE_URL", found)
    engine = create_engine(found, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER, card TEXT, charged_at TEXT)"))
        connection.execute(text("CREATE TABLE charges (order_id INTEGER)"))
        connection.execute(text("INSERT INTO orders VALUES (7, '4711', NULL)"))
    with using_database(found):
        yield engine


def run(words: str, **given: Any) -> dict[str, Any]:
    """The names that the first example with these words defines."""
    [example, *_] = [each for each in blocks(PAGE, "python") if words in each]
    names: dict[str, Any] = {"__name__": "page", **GIVEN, **given}
    exec(example, names)
    return names


def test_a_handler_returns_a_result() -> None:
    """The first example."""
    names = run('"resize_image"', resize=lambda path: (len(path), 2))

    assert run_inline(names["resize_image"], {"path": "a.png"}).result == {"width": 5, "height": 2}


def test_enqueued_jobs_exist_when_the_handler_is_done(engine: Engine) -> None:
    """Three orders; none of them if the third cannot be read."""
    orders = [SimpleNamespace(id=number) for number in (1, 2, 3)]
    import_orders = run('"import_orders"', fetch=lambda since: orders)["import_orders"]

    done = run_inline(import_orders, {"since": 1})
    orders[2] = SimpleNamespace()
    failed = run_inline(import_orders, {"since": 1}, raises=False)

    assert [each.payload for each in done.enqueued] == [{"order": 1}, {"order": 2}, {"order": 3}]
    assert (failed.kind, list(failed.enqueued)) == ("failed", [])


@pytest.mark.parametrize(
    ("now", "kind"),
    [("2026-12-23 10:00", "done"), ("2026-12-25 10:00", "snoozed"), ("2026-12-26 10:00", "snoozed")],
)
def test_business_hours(now: str, kind: str) -> None:
    """Wednesday is open; the holiday and Saturday are not."""
    with freeze_time(now):
        ran = run_inline(run("HOURS = ")["remind_customer"])

    assert ran.kind == kind
    if kind == "snoozed":
        assert f"{ran.outcome.run_at:%Y-%m-%d %H:%M}" == "2026-12-28 08:00"


def test_a_command_of_an_application(tmp_path: Path) -> None:
    """`mayfly orders 7`."""
    package = tmp_path / "shop" / "orders"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text(next(each for each in blocks(PAGE, "python") if "__commands__" in each))
    (package / "cli.py").write_text(next(each for each in blocks(PAGE, "python") if "@click.command()" in each))
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db", {"HANDLERS": "shop.orders"})
    made.run("mayfly", "migrate")

    ran = made.run("mayfly", "orders", "7")

    assert re.fullmatch(r"Job 1 enqueued at \d\d:\d\d UTC\.\n", ran.stdout), ran.stderr
    assert made.rows("SELECT type, payload FROM mayfly_jobs") == [("export_order", '{"order":7}')]
    made.end()


def test_concurrent_handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an event loop, and in a thread, with a real server."""
    (tmp_path / "page.txt").write_text("roses")
    names, connect = run('"ping"'), asyncio.open_connection
    with HTTPServer(("127.0.0.1", 0), partial(SilentHandler, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(asyncio, "open_connection", lambda host, port: connect(host, server.server_port))
        pinged = run_inline(names["ping"], {"host": "127.0.0.1"})
        fetched = run_inline(names["fetch"], {"url": f"http://127.0.0.1:{server.server_port}/page.txt"})
        server.shutdown()

    assert (pinged.result, fetched.result) == (200, 5)


class SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


def test_a_required_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the job is cancelled."""
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    summarise = run('"summarise"', ask=lambda key, words: f"{key}: {words}")["summarise"]

    assert run_inline(summarise, {"text": "roses"}).result == "test: roses"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert run_inline(summarise, {"text": "roses"}).reason == "integration not configured: OPENAI_API_KEY"


def test_queries_of_a_handler(engine: Engine) -> None:
    """What it wrote is committed, although the bank refuses."""

    def refuse(card: str) -> str:
        raise RuntimeError(f"card {card} is refused")

    charge = run("job.write(begin)", call_the_bank=refuse)["charge"]
    ran = run_inline(charge, {"order": 7}, raises=False)

    assert (ran.kind, "card 4711 is refused" in str(ran.reason)) == ("failed", True)
    with engine.begin() as connection:
        assert connection.scalar(text("SELECT charged_at IS NOT NULL FROM orders"))


def test_exactly_once(engine: Engine) -> None:
    """The charge and its receipt are committed with the job's `done`."""
    run("job.transaction() as connection")
    mayfly.enqueue("charge", {"order": 7})

    drained = drain(raises=False, lanes=["default"])

    assert drained.outcomes["done"] == 1
    assert [each.payload for each in enqueued_jobs("send_receipt")] == [{"order": 7}]
    with engine.begin() as connection:
        assert connection.scalar(text("SELECT order_id FROM charges")) == 7
