"""Pages that renew themselves: what somebody is doing there stays as it is, and it can be stopped."""

from playwright.sync_api import Page, expect

from tests.browser.browsers import Visitors
from tests.browser.consoles import Console

SOON = 6000  # milliseconds, by the page's clock: it looks again after five seconds


def open_list(visitors: Visitors, shop: Console, lane: str, count: int) -> tuple[Page, list[int]]:
    ids = shop.installation.enqueue("noop", lane=lane, count=count)
    page = visitors.open(shop, "olga", "/login")
    page.clock.install()
    page.goto(f"/jobs?lane={lane}")
    return page, ids


def tick(page: Page, job_id: int) -> None:
    page.get_by_label(f"Job {job_id}", exact=True).check()


def test_ticks_focus_and_scroll_survive_an_update(visitors: Visitors, shop: Console) -> None:
    """A new job comes in above; boxes, the one with the focus, what is typed and the place on the page stay."""
    page, ids = open_list(visitors, shop, "lively", 60)
    page.get_by_label("Text anywhere").fill("half a word")
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
    expect(page.get_by_label("Text anywhere")).to_have_value("half a word")
    assert page.evaluate("scrollY") == 700


def test_what_is_unfolded_stays_so(visitors: Visitors, shop: Console) -> None:
    """On the page of a job whose status changes meanwhile."""
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
    """Nothing is asked until they go on; then at once."""
    page, _ids = open_list(visitors, shop, "calm", 3)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "x-mayfly-live" in request.headers else None)
    page.get_by_role("button", name="Live").click()
    [new] = shop.installation.enqueue("noop", lane="calm")
    page.clock.run_for(20 * SOON)
    expect(page.get_by_role("button", name="Paused")).to_have_attribute("aria-pressed", "false")
    assert asked == []

    page.get_by_role("button", name="Paused").click()

    expect(page.get_by_role("link", name=str(new), exact=True)).to_be_visible()
    assert len(asked) == 1
