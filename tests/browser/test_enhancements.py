"""What the script adds to pages: sorted columns, local times, pickers."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.browsers import Visitors
from tests.browser.consoles import Console
from tests.browser.test_live_updates import SOON


def cells(page: Page, label: str) -> list[str]:
    return page.locator(f"tr[id^='lane-'] [data-label='{label}']").all_inner_texts()


def header(page: Page, name: str) -> Locator:
    return page.get_by_role("columnheader", name=name, exact=True)


def numbers(texts: list[str]) -> list[int]:
    return [int(re.sub(r"\D", "", each)) for each in texts]


def test_columns_are_sorted_and_stay_sorted(visitors: Visitors, shop: Console) -> None:
    """By their values, not by their texts; also after an update, with the focus on the header."""
    page = visitors.open(shop, "admin", "/login")
    page.clock.install()
    page.goto("/lanes")
    before = numbers(cells(page, "Done 1 h"))
    header(page, "Done 1 h").get_by_role("button").click()
    ascending = numbers(cells(page, "Done 1 h"))
    header(page, "Done 1 h").get_by_role("button").press("Enter")
    descending = numbers(cells(page, "Done 1 h"))
    shop.installation.enqueue("noop", lane="sorted")
    page.clock.run_for(SOON)

    assert (ascending, descending) == (sorted(before), sorted(before, reverse=True))
    assert len(set(before)) > 3
    expect(page.locator("#lane-sorted")).to_be_visible()
    expect(header(page, "Done 1 h")).to_have_attribute("aria-sort", "descending")
    expect(header(page, "Done 1 h").get_by_role("button")).to_be_focused()
    after = numbers(cells(page, "Done 1 h"))
    assert after == sorted(after, reverse=True)


def test_times_have_the_local_time_in_their_tooltip(visitors: Visitors, shop: Console) -> None:
    """Beside UTC."""
    page = visitors.open(shop, "vera", "/audit", timezone_id="Asia/Tokyo")
    title = page.locator("main time").first.get_attribute("title") or ""
    moments = re.fullmatch(r"(\S+) (\d\d)(\S+) UTC\n(\S+) (\d\d)(\S+) Asia/Tokyo", title)

    assert moments
    assert (int(moments[2]) + 9) % 24 == int(moments[5])
    assert moments[3] == moments[6]


def test_a_picked_time_is_written_as_text(visitors: Visitors, shop: Console) -> None:
    """The field still takes durations."""
    page = visitors.open(shop, "admin", "/pause?kind=lane&name=mail")
    page.get_by_label("Pick a time in UTC").fill("2030-01-31T12:00")

    expect(page.get_by_label(re.compile("^Until"))).to_have_value("2030-01-31T12:00")


def test_secrets_are_typed_into_password_inputs(visitors: Visitors, shop: Console) -> None:
    """After a mistake the page does not contain them either."""
    visitors.expect("422")
    page = visitors.open(shop, "admin", "/enqueue?type=sync_shop")
    page.get_by_label("Api Key").fill("geheim")
    page.get_by_label("Since").fill("2026-05-04T12:00")
    page.get_by_label("Pages").fill("0")
    page.get_by_role("button", name="Enqueue in").click()

    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Api Key")).to_have_attribute("type", "password")
    expect(page.get_by_label("Since")).to_have_value("2026-05-04T12:00")
    assert "geheim" not in page.content()
