"""The READMEs of handlers match the code: sections, job types, bounce codes."""

import re

import pytest

from handlers.mail.bounces import BAD_ADDRESS_CODES, UNKNOWN_RECIPIENT_CODES
from mayfly.registry import load_handlers
from tests.process.installation import CHECKOUT

HANDLERS = CHECKOUT / "handlers"
SECTIONS = ["Try it", "Settings", "Jobs", "Guarantees", "When a job is stuck"]
TYPES = {
    name: each
    for name, each in load_handlers(["handlers"]).handlers.items()
    if each.where.startswith("handlers.") and not each.where.startswith("handlers.samples")
}
AREAS = sorted({each.where.split(".")[1] for each in TYPES.values()})


@pytest.mark.parametrize("area", AREAS)
def test_all_areas_have_the_same_sections(area: str) -> None:
    """In the same order, so that a reader of one finds everything in the others."""
    assert re.findall(r"^## (.+)$", page(area), re.MULTILINE) == SECTIONS


@pytest.mark.parametrize("area", AREAS)
def test_a_readme_lists_the_types_of_its_area(area: str) -> None:
    """With lane and payload, and no other."""
    listed = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \|", section(area, "Jobs"), re.MULTILINE)

    assert sorted(listed) == sorted(
        (name, each.lane, each.model.__name__ if each.model else "")
        for name, each in TYPES.items()
        if each.where.split(".")[1] == area
    )


def test_the_overview_links_to_every_area() -> None:
    """By its name."""
    assert sorted(re.findall(r"^\| \[(\w+)\]\(\1/README\.md\)", page("."), re.MULTILINE)) == AREAS


def test_the_readme_lists_the_bounce_codes() -> None:
    """In the order of the code."""
    listed = page("outreach").split("is suppressed as `bounced`")[1]

    assert re.findall(r"5\.\d\.\d+", listed)[: len(BAD_ADDRESS_CODES)] == list(BAD_ADDRESS_CODES)
    assert re.findall(r"\b55\d\b", listed)[:3] == list(UNKNOWN_RECIPIENT_CODES)


def page(area: str) -> str:
    return (HANDLERS / area / "README.md").read_text("utf-8")


def section(area: str, title: str) -> str:
    return page(area).split(f"\n## {title}\n")[1].split("\n## ")[0]
