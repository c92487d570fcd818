"""What holds for every screen: all can use it, in both colours, at every width, without scripts, behind a proxy."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from mayfly.schema.migrations import migrate
from tests.browser.browsers import Visitors
from tests.browser.checks import Finding, check
from tests.browser.consoles import Console
from tests.browser.screens import SCREENS, address_of
from tests.databases import Databases
from tests.process.installation import Installation

WIDE, PHONE = 1280, 360  # px
NOT_FOR_VIEWERS = {"enqueue", "settings"}
OTHERS = {"login": "/login", "refusal": "/nowhere"}


def check_in_all_looks(page: Page) -> set[Finding]:
    found: set[Finding] = set()
    for colours in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if colours == "dark" else "light")
        for width in (WIDE, PHONE):
            page.set_viewport_size({"width": width, "height": 800})
            found |= {each.on(f"{colours}, {width} px") for each in check(page)}
    return found


@pytest.mark.parametrize("screen", SCREENS)
def test_everybody_can_use_it(visitors: Visitors, shop: Console, screen: str) -> None:
    """Labels, names, headings, tables, contrast, focus and width; and nothing goes wrong while it is opened."""
    page = visitors.open(shop, "admin", address_of(screen, shop.installation))

    assert not (found := check_in_all_looks(page)), "\n".join(map(str, found))


@pytest.mark.parametrize("path", OTHERS.values())
def test_everybody_can_use_what_stands_before_the_screens(visitors: Visitors, shop: Console, path: str) -> None:
    """The login, and what is shown where there is nothing."""
    if path == "/nowhere":
        visitors.expect("404")
    page = visitors.open(shop, None if path == "/login" else "vera", path)

    assert not (found := check_in_all_looks(page)), "\n".join(map(str, found))


def test_no_screen_is_forgotten_here(visitors: Visitors, shop: Console) -> None:
    """What the navigation leads to is what these tests look at."""
    page = visitors.open(shop, "admin")

    links = page.get_by_role("navigation", name="Screens").get_by_role("link").all()
    known = {urlsplit(path).path for path in SCREENS.values()}
    assert {urlsplit(each.get_attribute("href") or "").path for each in links} == known - {"/jobs/{dead}"}


@pytest.mark.parametrize("name", ["admin", "vera"])
def test_every_screen_works_without_scripts(visitors: Visitors, shop: Console, name: str) -> None:
    """It is there, with what it is about, and nothing waits for a script."""
    page = visitors.open(shop, name, java_script_enabled=False)
    for screen in SCREENS.keys() - (NOT_FOR_VIEWERS if name == "vera" else set()):
        answer = page.goto(address_of(screen, shop.installation))

        assert answer is not None
        assert answer.status == 200
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_role("button", name="Set", exact=True).first).to_be_visible()


def test_every_link_leads_somewhere(visitors: Visitors, shop: Console) -> None:
    """One of each kind: the same page with the same fields in its address is the same kind."""
    page = visitors.open(shop, "admin")
    kinds: dict[str, str] = {}
    for screen in SCREENS:
        page.goto(address_of(screen, shop.installation))
        for link in page.evaluate("[...document.querySelectorAll('a[href]')].map((each) => each.href)"):
            parts = urlsplit(link)
            kind = f"{re.sub(r'[0-9]+', '…', parts.path)}?{sorted(parse_qs(parts.query))}"
            kinds.setdefault(kind, link)

    answers = {link: page.request.get(link).status for link in kinds.values()}

    assert {link: status for link, status in answers.items() if status != 200} == {}
    assert len(answers) > len(SCREENS)


def test_the_keyboard_reaches_everything(visitors: Visitors, shop: Console) -> None:
    """In the order of the page, beginning with the way past the navigation."""
    page = visitors.open(shop, "admin", "/lanes")
    reachable = "a[href], button, input:not([type=hidden]), select, summary"
    expected = page.locator(reachable).evaluate_all("all => all.filter((each) => each.checkVisibility()).length")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    reached = 1
    while page.evaluate("document.activeElement.dataset.reached = 'yes'") and reached < 2 * expected:
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body || 'reached' in document.activeElement.dataset"):
            break
        reached += 1
    page.get_by_role("link", name="Skip to the content").press("Enter")

    assert reached == expected
    expect(page.get_by_role("main")).to_be_focused()


def test_times_are_relative_with_the_exact_one_on_hover(visitors: Visitors, shop: Console) -> None:
    """For people, for those who compare with a log, and for machines."""
    page = visitors.open(shop, "vera", "/audit")
    time = page.locator("main time").first

    assert re.fullmatch(r"\d+ (s|min|h) ago", time.inner_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", time.get_attribute("title") or "")
    assert (time.get_attribute("datetime") or "").endswith("Z")


def test_colours_can_be_chosen(visitors: Visitors, shop: Console) -> None:
    """Whatever the system prefers, and without a script; the choice stays."""
    page = visitors.open(shop, "vera", "/lanes", java_script_enabled=False, color_scheme="light")
    page.get_by_label("Colours").select_option("dark")
    page.get_by_role("button", name="Set", exact=True).click()

    expect(page).to_have_url(f"{shop.origin}/lanes")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.goto("/jobs")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    assert max(map(int, re.findall(r"[0-9]+", dark)[:3])) < 64


@pytest.fixture
def behind(databases: Databases, tmp_path: Path) -> Iterator[Console]:
    """One that a proxy shows under a path."""
    with databases.fresh("sqlite", migrate) as url:
        made = Installation(tmp_path, url)
        yield Console(made, {"CONSOLE_PREFIX": "/mayfly"})
        made.end()


def test_it_works_under_the_prefix_of_a_proxy(behind: Console, visitors: Visitors) -> None:
    """Every address on every screen has it, and the cookies are for nothing else on that host."""
    [job_id] = behind.installation.enqueue("noop", status="dead")
    page = visitors.open(behind, "admin", "/mayfly/")
    for path in SCREENS.values():
        page.goto(f"/mayfly{path.format(dead=job_id)}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        addresses = page.evaluate(
            "[...document.querySelectorAll('[href], [src], [action]')].map((each) =>"
            " each.getAttribute('href') || each.getAttribute('src') || each.getAttribute('action'))"
        )
        assert [each for each in addresses if not each.startswith(("/mayfly", "#", "?", "https://"))] == []

    assert {each["path"] for each in page.context.cookies()} == {"/mayfly"}
