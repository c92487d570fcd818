"""What holds for every screen: accessibility in both themes and at every width, no JavaScript, links, keyboard."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browsers import Visitors
from tests.browser.checks import Finding, check
from tests.browser.consoles import Console
from tests.browser.screens import SCREENS, address_of

WIDE, PHONE = 1280, 360  # px
NOT_FOR_VIEWERS = {"enqueue", "settings"}
OTHERS = {"login": "/login", "error": "/nowhere"}


def check_all_variants(page: Page) -> set[Finding]:
    found: set[Finding] = set()
    for colours in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if colours == "dark" else "light")
        for width in (WIDE, PHONE):
            page.set_viewport_size({"width": width, "height": 800})
            found |= {each.on(f"{colours}, {width} px") for each in check(page)}
    return found


@pytest.mark.parametrize("screen", SCREENS)
def test_every_screen_is_accessible(visitors: Visitors, shop: Console, screen: str) -> None:
    """Labels, names, headings, tables, contrast, focus and width."""
    page = visitors.open(shop, "admin", address_of(screen, shop.installation))

    assert not (found := check_all_variants(page)), "\n".join(map(str, found))


@pytest.mark.parametrize("path", OTHERS.values())
def test_login_and_error_pages_are_accessible(visitors: Visitors, shop: Console, path: str) -> None:
    """By the same rules."""
    if path == "/nowhere":
        visitors.expect("404")
    page = visitors.open(shop, None if path == "/login" else "vera", path)

    assert not (found := check_all_variants(page)), "\n".join(map(str, found))


def test_every_screen_is_tested(visitors: Visitors, shop: Console) -> None:
    """The navigation has the same screens as these tests."""
    page = visitors.open(shop, "admin")

    links = page.get_by_role("navigation", name="Screens").get_by_role("link").all()
    known = {urlsplit(path).path for path in SCREENS.values()}
    assert {urlsplit(each.get_attribute("href") or "").path for each in links} == known - {"/jobs/{dead}"}


@pytest.mark.parametrize("name", ["admin", "vera"])
def test_every_screen_works_without_scripts(visitors: Visitors, shop: Console, name: str) -> None:
    """It is complete when it is loaded."""
    page = visitors.open(shop, name, java_script_enabled=False)
    for screen in SCREENS.keys() - (NOT_FOR_VIEWERS if name == "vera" else set()):
        answer = page.goto(address_of(screen, shop.installation))

        assert answer is not None
        assert answer.status == 200
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_role("button", name="Set", exact=True).first).to_be_visible()


def test_every_link_works(visitors: Visitors, shop: Console) -> None:
    """One of each kind: same page, same names of parameters."""
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
    """In the order of the page, beginning with the link past the navigation."""
    page = visitors.open(shop, "admin", "/login")
    page.clock.install(time=0)
    page.clock.pause_at(1)  # time stands still: an update would replace elements that have been reached
    page.goto("/lanes")
    reachable = "a[href], button, input:not([type=hidden]), select, summary"
    expected = page.locator(reachable).evaluate_all("all => all.filter((each) => each.checkVisibility()).length")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    reached = 1
    while page.evaluate("document.activeElement.dataset.reached = 'yes'") and reached < 2 * expected:
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body || 'reached' in document.activeElement.dataset"):
            break
        reached += 1
    page.get_by_role("link", name="Skip to content").press("Enter")

    assert reached == expected
    expect(page.get_by_role("main")).to_be_focused()


def test_times_are_relative_with_an_exact_tooltip(visitors: Visitors, shop: Console) -> None:
    """And a machine-readable attribute."""
    page = visitors.open(shop, "vera", "/audit", timezone_id="UTC")
    time = page.locator("main time").last  # the first may be "just now", by a test that ran before

    assert re.fullmatch(r"\d+ (s|min|h) ago", time.inner_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", time.get_attribute("title") or "")
    assert (time.get_attribute("datetime") or "").endswith("Z")


def test_the_theme_can_be_chosen(visitors: Visitors, shop: Console) -> None:
    """Without JavaScript, for any preference of the system; the choice is kept."""
    page = visitors.open(shop, "vera", "/lanes", java_script_enabled=False, color_scheme="light")
    page.get_by_label("Theme").select_option("dark")
    page.get_by_role("button", name="Set", exact=True).click()

    expect(page).to_have_url(f"{shop.origin}/lanes")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.goto("/jobs")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    assert max(map(int, re.findall(r"[0-9]+", dark)[:3])) < 64
