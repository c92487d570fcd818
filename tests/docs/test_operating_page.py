"""docs/how-to/operate.md: its example works, command by command; the pages name every command."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.cli import VERBS
from tests.docs.consoles import CHECKOUT, page_named, run_consoles
from tests.process.installation import Installation

PAGE = page_named("how-to/operate.md")
WRITTEN_BY_HAND = (CHECKOUT / "README.md", CHECKOUT / "docs/tutorial.md", *(CHECKOUT / "docs/how-to").glob("*.md"))

HANDLER = """
from mayfly import handler

ADDRESSES = {"ann": "ann@example.org"}


@handler("post_invoice", lane="invoices", max_attempts=1)
def post_invoice(job):
    ADDRESSES[job.payload["customer"]]
"""


@pytest.fixture
def invoices(tmp_path: Path) -> Iterator[Installation]:
    """An installation with a handler of invoices, after a cycle with one good invoice and three bad ones."""
    (tmp_path / "invoices.py").write_text(HANDLER)
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db", {"HANDLERS": "tests.basic_handlers,invoices"})
    for customer, count in (("ann", 1), ("bob", 3)):
        payload = f'{{"customer": "{customer}"}}'
        made.enqueue("post_invoice", payload, count, lane="invoices", max_attempts=1)
    made.dispatch()
    yield made
    made.end()


def test_the_example_works(invoices: Installation) -> None:
    """Each command, in order, prints what the page shows."""
    assert run_consoles(invoices, PAGE) == 6


def test_every_command_is_named() -> None:
    """On a page that is not generated."""
    pages = "\n".join(page.read_text("utf-8") for page in WRITTEN_BY_HAND)

    assert set(VERBS) - set(re.findall(r"mayfly\s(\w+)", pages)) == set()
