"""The READMEs of handlers run: all blocks of a page, in order, with the tables of all handlers."""

import json
import sys
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mayfly
from mayfly import registry
from mayfly.testing import run_inline, using_database
from tests.docs.consoles import all_blocks, blocks, is_settings, run_shell
from tests.handlers.providers import provider
from tests.process.installation import CHECKOUT, Installation

HANDLERS = CHECKOUT / "handlers"
PAGES = {str(path.relative_to(HANDLERS).parent): path for path in sorted(HANDLERS.rglob("README.md"))}
# The jobs that each page enqueues.
JOBS = {
    "ai": ["ai_summarize_board"],
    "boards": ["publish_post"],
    "campaigns": ["send_campaign", "record_contact_event"],
    "mail": ["send_email", "send_invoice"],
    "mailroom": ["poll_mailboxes", "aggregate_daily"],
    "maintenance": ["health_check"],
    "notify": ["notify_push"],
    "outreach": ["send_outreach", "unsubscribe"],
    "prospects": ["import_prospects", "dedup_prospects", "enrich_prospect"],
    "search": ["rebuild_search_index"],
}
# What the Python of the pages takes from the application around it.
GIVEN: dict[str, Any] = {
    "mayfly": mayfly,
    "publish_at": datetime(2030, 1, 1, 12, 0, tzinfo=UTC),
    "request": SimpleNamespace(args={"token": "x.y"}),
}
SHOWN_ONLY = {"", "json"}  # configuration of other programs, and data


@pytest.fixture
def platform_home(platform_url: str, tmp_path: Path) -> Iterator[Installation]:
    """A checkout with an empty database that has all tables."""
    for name, path in {"handlers": HANDLERS, "scripts": CHECKOUT / "scripts", ".venv": Path(sys.prefix)}.items():
        (tmp_path / name).symlink_to(path)
    made = Installation(tmp_path, platform_url, {"HANDLERS": "handlers"})
    yield made
    made.end()


@pytest.fixture(autouse=True)
def _declarations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the pages are removed after each test."""
    monkeypatch.setattr(registry, "_declared", dict(registry.declared()))


@pytest.mark.parametrize("area", PAGES)
def test_the_blocks_of_a_readme_run(platform_home: Installation, area: str) -> None:
    """Commands end with 0, payloads fit their models, statements fit the tables."""
    for language, text in all_blocks(PAGES[area].read_text("utf-8")):
        if language not in SHOWN_ONLY:
            run_block(platform_home, language, text)

    assert [row.type for row in platform_home.rows("SELECT type FROM mayfly_jobs ORDER BY id")] == JOBS.get(area, [])


def run_block(installation: Installation, language: str, text: str) -> None:
    if is_settings(language, text):
        with (installation.home / ".env").open("a") as settings:
            settings.write(text)
        return
    RUN[language](installation, text)


def run_commands(installation: Installation, text: str) -> None:
    ran = run_shell(installation, text.replace("/srv/mayfly", str(installation.home)))

    assert (ran.returncode, ran.stderr) == (0, ""), f"{text}\n{ran.stdout}"


def run_sql(installation: Installation, text: str) -> None:
    for statement in filter(None, map(str.strip, text.split(";\n"))):
        installation.execute(statement.removesuffix(";"))


def run_python(installation: Installation, text: str) -> None:
    with using_database(installation.url):
        exec(text, {**GIVEN, "__name__": "shop.example"})


RUN = {"sh": run_commands, "sql": run_sql, "python": run_python}


def test_the_handler_of_the_http_readme_calls_its_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the key, and returns the text of the response."""
    names: dict[str, Any] = {"__name__": "shop.example"}
    [block] = blocks(PAGES["http"].read_text("utf-8"), "python")
    exec(block, names)
    with provider() as vendor:
        vendor.body = json.dumps({"output_text": "short"}).encode()
        monkeypatch.setenv("OPENAI_BASE_URL", vendor.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
        ran = run_inline(names["summarise"], {"text": "long"})

    [request] = vendor.requests
    assert (ran.kind, ran.result) == ("done", "short")
    assert (request.path, request.headers["Authorization"]) == ("/v1/responses", "Bearer sk-1")


def test_the_script_of_the_notify_readme_prints_a_key_pair() -> None:
    """The private key first: 32 bytes, and a point on the curve."""
    [block] = blocks(PAGES["notify"].read_text("utf-8"), "python")
    with redirect_stdout(StringIO()) as printed:
        exec(block, {"__name__": "vapid"})

    private, public = (urlsafe_b64decode(line + "==") for line in printed.getvalue().split())
    assert (len(private), len(public), public[:1]) == (32, 65, b"\x04")
