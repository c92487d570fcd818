"""Live updates keep the state of the page, and can be paused."""

from playwright.sync_api import Page, expect

from tests.browser.browsers import Visitors
from tests.browser.consoles import Console

SOON = 6000  # milliseconds, by the clock of the page: it updates after five seconds


def open_list(visitors: Visitors, shop: Console, lane: str, count: int) -> tuple[Page, list[int]]:
    ids = shop.installation.enqueue("noop", lane=lane, count=count)
    page = visitors.open(shop, "olga", "/login")
    page.clock.install()
    page.goto(f"/jobs?lane={lane}")
    return page, ids


def tick(page: Page, job_id: int) -> None:
    page.get_by_label(f"Job {job_id}", exact=True).check()


def test_checkboxes_focus_and_scroll_survive_an_update(visitors: Visitors, shop: Console) -> None:
    """While a new job appears above them; typed text stays too."""
    page, ids = open_list(visitors, shop, "lively", 60)
    page.get_by_label("Text", exact=True).fill("half a word")
    for each in ids[-12:-10]:
        tick(page, each)
    page.get_by_label(f"Job {ids[-15]}", exact=True).focus()
    page.evaluate("scrollTo(0, 700)")
    [new] = shop.installation.enqueue("noop", lane="lively")

    page.clock.run_for(SOON)
    page.get_by_role("link", name=str(new), exact=True).wait_for()

    ticked = page.locator("input[name=tick]:checked").evaluate_all("boxes => boxes.map((box) => box.value)")
    assert sorted(ticked) == sorted(map(str, ids[-12:-10]))
    expect(page.get_by_label(f"Job {ids[-15]}", exact=True)).to_be_focused()
    expect(page.get_by_label("Text", exact=True)).to_have_value("half a word")
    assert page.evaluate("scrollY") == 700


def test_open_details_stay_open(visitors: Visitors, shop: Console) -> None:
    """On the page of a job that changes meanwhile."""
    query = "SELECT id FROM mayfly_jobs WHERE status = 'dead' AND type = 'charge_card' ORDER BY id"
    job_id = shop.installation.rows(query)[0].id
    page = visitors.open(shop, "olga", "/login")
    page.clock.install()
    page.goto(f"/jobs/{job_id}")
    page.get_by_text("Traceback").first.click()
    shop.installation.execute(f"UPDATE mayfly_jobs SET priority = 0 WHERE id = {job_id}")

    page.clock.run_for(SOON)

    expect(page.locator(".facts")).to_contain_text("high")
    expect(page.get_by_text("gateway.charge(order.card").first).to_be_visible()


def test_updates_can_be_paused(visitors: Visitors, shop: Console) -> None:
    """No request is sent until they are resumed; then one at once."""
    page, _ids = open_list(visitors, shop, "calm", 3)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url) if "x-mayfly-live" in request.headers else None)
    page.get_by_role("button", name="Live").click()
    [new] = shop.installation.enqueue("noop", lane="calm")
    page.clock.run_for(20 * SOON)
    expect(page.get_by_role("button", name="Paused")).to_have_attribute("aria-pressed", "false")
    assert requests == []

    page.get_by_role("button", name="Paused").click()

    expect(page.get_by_role("link", name=str(new), exact=True)).to_be_visible()
    assert len(requests) == 1
