"""The layout of lists: readable at the width of a laptop and on a phone, whatever the names and errors."""

import pytest
from playwright.sync_api import Page

from tests.browser.browsers import Visitors
from tests.browser.consoles import Console
from tests.browser.screens import SCREENS, address_of

LAPTOP, PHONE = {"width": 1366, "height": 768}, {"width": 390, "height": 844}
ERROR = f"ConnectionError: {'/'.join(['api.example.com', 'orders'] * 6)} did not answer within the timeout of 30 s"
# Lines of each text node, and the parts between separators that are on more than one line.
BROKEN = """(selector) => [...document.querySelectorAll(selector)].flatMap((cell) => {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
    while (walker.nextNode()) {
        const node = walker.currentNode;
        for (const word of node.data.matchAll(/[A-Za-z0-9]+/g)) {
            const range = document.createRange();
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map((each) => each.top)).size > 1) found.push(word[0]);
        }
    }
    return found;
})"""
# Links in a sentence are as high as its text.
SMALL = """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary")]
    .filter((each) => each.checkVisibility() && !each.matches("p a, .skip, .host a, label a, dd a, li a"))
    .map((each) => [each.getBoundingClientRect(), each.outerHTML.slice(0, 120)])
    .filter(([box]) => box.width < 24 || box.height < 24)
    .map(([box, text]) => `${Math.round(box.width)} x ${Math.round(box.height)}: ${text}`)"""
LONG = ("customer_relationship_synchronisation_of_the_northern_region_x64", "x" * 64)
NAMES = "[data-label=ID], [data-label=Type], [data-label=Lane], [data-label=Status], [data-label=Ended]"


def dead_jobs(console: Console, count: int, type_name: str = "send_email", lane: str = "mail") -> None:
    made = console.installation
    made.enqueue(
        type_name, lane=lane, count=count, status="dead", attempts=5, last_error=f"{ERROR}\n  in line 7",
        finished_at=made.now(),
    )  # fmt: skip


def sideways(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    return int(page.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"))


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_names_and_ids_are_not_broken_inside_words(
    visitors: Visitors, console: Console, size: dict[str, int]
) -> None:
    """A long error takes the width that is left."""
    dead_jobs(console, 3)
    dead_jobs(console, 1, "synchronise_customers_of_the_northern_region", "customer-relationship.imports")
    page = visitors.open(console, "admin", "/jobs", viewport=size)

    assert page.evaluate(BROKEN, NAMES) == []
    assert sideways(page) == 0


def test_fifty_dead_jobs_fit_on_a_few_screens_of_a_phone(visitors: Visitors, console: Console) -> None:
    """Each is a compact row with its error."""
    dead_jobs(console, 60)
    page = visitors.open(console, "admin", "/jobs?status=dead", viewport=PHONE)

    assert page.locator("tbody tr").count() == 50
    assert page.evaluate("document.scrollingElement.scrollHeight") <= 6000
    assert sideways(page) == 0


def test_the_navigation_is_visible_on_a_phone(visitors: Visitors, shop: Console) -> None:
    """All of it, without scrolling sideways."""
    page = visitors.open(shop, "admin", viewport=PHONE)
    links = page.get_by_role("navigation", name="Screens").get_by_role("link")
    boxes = [each.bounding_box() for each in links.all()]

    assert len(boxes) > 10
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"] for box in boxes)


@pytest.mark.parametrize("screen", SCREENS)
def test_targets_are_large_enough_for_a_finger(visitors: Visitors, shop: Console, screen: str) -> None:
    """At least 24 pixels in both directions."""
    page = visitors.open(shop, "admin", address_of(screen, shop.installation), viewport=PHONE)

    assert page.evaluate(SMALL) == []


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_long_names_fit_on_every_screen(visitors: Visitors, console: Console, size: dict[str, int]) -> None:
    """Names of 64 characters, with and without separators."""
    made = console.installation
    for name in LONG:
        dead_jobs(console, 1, name, name)
        made.enqueue(name, lane=name, count=2)
    page = visitors.open(console, "admin", viewport=size)
    wide = {}
    paths = ("/", "/jobs", "/jobs?status=dead", "/jobs/1", "/dead", "/lanes", "/types", f"/types?name={LONG[0]}")
    for path in (*paths, f"/pause?kind=lane&name={LONG[1]}", "/jobs/confirm?verb=retry&id=1"):
        page.goto(path)
        wide[path] = sideways(page)

    assert {path: more for path, more in wide.items() if more} == {}
    page.goto("/lanes")
    assert page.evaluate(BROKEN, f"[id='lane-{LONG[0]}'] th") == []
