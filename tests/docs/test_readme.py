"""README and docs match the code: links and scripts exist, the SQL runs, the tables are those of the code."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from mayfly import registry
from mayfly.cli.cron_file import render_entry
from mayfly.queue.policy import Backoff
from mayfly.testing import run_inline
from tests.docs.consoles import blocks

CHECKOUT = Path(__file__).parent.parent.parent
READMES = (*(CHECKOUT / "handlers").rglob("README.md"), *(CHECKOUT / "examples").rglob("README.md"))
PAGES = sorted([CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *(CHECKOUT / "docs").rglob("*.md"), *READMES])
README = (CHECKOUT / "README.md").read_text("utf-8")
MAX_README_WORDS = 1000


def test_the_readme_is_short() -> None:
    """It fits into ten minutes of reading; everything else is in docs/."""
    assert len((CHECKOUT / "README.md").read_text().split()) <= MAX_README_WORDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_linked_file_exists(page: Path) -> None:
    """A relative link names a file of the checkout."""
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())

    assert [each for each in linked if not (page.parent / each).exists()] == []


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.parent.name)
def test_every_linked_heading_exists(page: Path) -> None:
    """In READMEs, which are not part of the site: its build checks the links of docs/."""
    linked = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())

    assert [(file, anchor) for file, anchor in linked if anchor not in anchors_of(page.parent / file, page)] == []


def anchors_of(linked: Path, page: Path) -> set[str]:
    """Of all headings; a link without a file is to the page itself."""
    text = (page if linked.is_dir() else linked).read_text()
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_named_script_exists(page: Path) -> None:
    """`scripts/…` in a page is a script that can be run."""
    named = set(re.findall(r"scripts/[a-z-]+(?![\w/])", page.read_text()))

    assert [each for each in named if not (CHECKOUT / each).exists()] == []


@pytest.mark.parametrize(("busy", "kind"), [(False, "done"), (True, "failed")])
def test_the_handler_of_the_readme_runs(monkeypatch: pytest.MonkeyPatch, busy: bool, kind: str) -> None:
    """It returns a result, or is retried after a minute."""
    monkeypatch.setattr(registry, "_declared", {})
    names: dict[str, Any] = {"deliver": lambda to, subject: SimpleNamespace(busy=busy, id="<1@example.com>")}

    exec(blocks(README, "python")[0], names)
    ran = run_inline(names["send_note"], {"to": "ann@example.com", "subject": "Hello"})

    assert (ran.kind, ran.reason) == (kind, "the server is busy" if busy else None)
    assert busy or ran.result == {"message_id": "<1@example.com>"}


def test_the_readme_enqueues_jobs(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python, the second one with a session of the application, and by SQL."""
    monkeypatch.setenv("DATABASE_URL", migrated_url)
    monkeypatch.setattr("mayfly.client._apps", {})
    engine = create_engine(migrated_url, poolclass=NullPool)
    with Session(engine) as session:
        exec(blocks(README, "python")[1], {"note": {"to": "ann@example.com"}, "session": session})
        session.execute(text(blocks(README, "sql")[0]))
        session.commit()
        found = session.execute(text("SELECT type, unique_key FROM mayfly_jobs ORDER BY id")).all()

    assert [tuple(each) for each in found] == [("send_note", None), ("send_note", "welcome:42"), ("noop", None)]


def test_the_cron_line_is_the_one_that_is_installed() -> None:
    """For a virtual environment in /srv/shop."""
    [line] = re.findall(r"^\* \* \* \* \* .+$", README, re.MULTILINE)
    entry = render_entry(user="mayfly", home="/srv/shop", python="/srv/shop/.venv/bin/python", mailto=None)

    assert line in entry.splitlines()


def test_the_backoff_equals_the_code() -> None:
    """docs/reference/python.md shows the first delays, and from which attempt on a delay is the longest."""
    page = (CHECKOUT / "docs" / "reference" / "python.md").read_text()
    [(first, longest)] = re.findall(r"defaults that is ([\d, ]+), … seconds, and an hour from attempt (\d+) on", page)
    delays = {attempt: Backoff().delay(attempt) for attempt in range(1, 20)}

    assert [int(each) for each in first.split(", ")] == [delays[attempt] for attempt in range(1, 5)]
    assert min(attempt for attempt in delays if delays[attempt] == 3600) == int(longest)
