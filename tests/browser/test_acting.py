"""Acting on jobs and lanes by clicking: the count before it happens, the deed, the row in the audit."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browsers import Visitors
from tests.browser.consoles import Console

BULK = 450  # more than are done before the answer: it takes a page that shows the progress


def retry_one(page: Page, job_id: int) -> None:
    """From the list of the dead to the deed; ends on the job's own page."""
    page.goto("/dead")
    page.goto(f"/jobs/{job_id}")
    page.get_by_role("button", name="Retry…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retry 1 job in staging?")
    page.get_by_label("Reason").fill("the vendor is back")
    page.get_by_role("button", name="Retry 1 job in staging").click()
    expect(page).to_have_url(f"/jobs/{job_id}")


def deeds(console: Console, verb: str) -> list[Any]:
    query = "SELECT done_by, via, jobs, reason FROM mayfly_audit WHERE verb = :verb ORDER BY id DESC"
    return [tuple(row) for row in console.installation.rows(query, verb=verb)]


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_a_dead_job_is_retried(visitors: Visitors, shop: Console, scripts: bool) -> None:
    """It is due again with all its tries, the page says so, and the audit knows who did it and why."""
    [job_id] = shop.installation.enqueue("noop", lane="mended", status="dead", attempts=5)
    page = visitors.open(shop, "olga", java_script_enabled=scripts)

    retry_one(page, job_id)

    expect(page.get_by_role("status").first).to_contain_text("1 job due again")
    job = shop.installation.job(job_id)
    assert (job.status, job.attempts) == ("pending", 0)
    assert deeds(shop, "retry")[0] == ("olga", "page", 1, "the vendor is back")


def test_all_that_match_a_filter_are_cancelled(console: Console, visitors: Visitors) -> None:
    """With their number before it happens; in slices, with a result; nothing beside the filter is touched."""
    console.installation.enqueue("noop", lane="bulk", count=BULK)
    [other] = console.installation.enqueue("sleep", lane="bulk")
    page = visitors.open(console, "olga", "/jobs?lane=bulk&type=noop&status=pending")
    page.get_by_role("button", name="Cancel all that match…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Cancel {BULK} jobs in staging?")
    assert console.installation.job(other - 1).status == "pending"
    page.get_by_label("Reason").fill("not tonight")

    page.get_by_role("button", name=f"Cancel {BULK} jobs in staging").click()

    expect(page.get_by_text(f"{BULK} jobs cancelled")).to_be_visible()
    query = "SELECT type, status, COUNT(*) AS number FROM mayfly_jobs WHERE lane = 'bulk' GROUP BY type, status"
    counted = {(row.type, row.status): row.number for row in console.installation.rows(query)}
    assert counted == {("noop", "cancelled"): BULK, ("sleep", "pending"): 1}
    assert deeds(console, "cancel")[0] == ("olga", "page", BULK, "not tonight")


def test_only_those_that_are_ticked_are_meant(visitors: Visitors, shop: Console) -> None:
    """Two of four; to leave them leaves them."""
    ids = shop.installation.enqueue("noop", lane="picked", count=4)
    page = visitors.open(shop, "olga", "/jobs?lane=picked")
    for each in ids[:2]:
        page.get_by_label(f"Job {each}", exact=True).check()
    page.get_by_role("button", name="Cancel selected…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 2 jobs in staging?")
    page.get_by_role("link", name="Leave them").click()
    assert [shop.installation.job(each).status for each in ids] == ["pending"] * 4
    page.go_back()

    page.get_by_role("button", name="Cancel 2 jobs in staging").click()

    expect(page.get_by_role("status").first).to_contain_text("2 jobs cancelled")
    assert [shop.installation.job(each).status for each in ids] == ["cancelled", "cancelled", "pending", "pending"]


def test_a_paused_lane_is_obeyed_by_the_next_dispatcher(visitors: Visitors, shop: Console) -> None:
    """Its plan has no runner for the lane, and says who paused it and why; resumed, it has."""

    def planned() -> dict[str, Any]:
        shown = json.loads(shop.installation.dispatch("--dry-run", "--json").stdout)
        [lane] = [each for each in shown["lanes"] if each["lane"] == "held-up"]
        return dict(lane)

    shop.installation.enqueue("noop", lane="held-up")
    page = visitors.open(shop, "olga", "/lanes")
    page.get_by_role("row", name="held-up").get_by_role("link", name="Pause…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Pause the lane held-up in staging?")
    page.get_by_label("Reason").fill("the vendor is down")
    page.get_by_label("Ends by itself").fill("2h")
    page.get_by_role("button", name="Pause held-up in staging").click()
    row = page.get_by_role("row", name="held-up")
    expect(row).to_contain_text("the vendor is down, by olga")
    paused = planned()
    row.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("row", name="held-up").get_by_role("link", name="Pause…")).to_be_visible()

    assert (paused["planned"], "the vendor is down" in str(paused)) == (0, True)
    assert planned()["planned"] == 1


def test_workers_are_set_and_unset(visitors: Visitors, shop: Console) -> None:
    """An empty field is what the settings say."""
    page = visitors.open(shop, "admin", "/lanes")
    for given, shown in (("3", "/ 3"), ("", "/ 8")):
        row = page.get_by_role("row", name="mail", exact=False).first
        row.get_by_label("Most runners of mail").fill(given)
        row.get_by_role("button", name="Set").click()

        expect(page.get_by_role("row", name="mail").first).to_contain_text(shown)


def test_a_job_is_enqueued_by_a_form_made_of_its_schema(visitors: Visitors, shop: Console) -> None:
    """What does not fit is told, and nothing that was typed is lost; what fits is a job."""
    visitors.expect("422")
    page = visitors.open(shop, "olga", "/enqueue?type=resize_image")
    fields = page.get_by_role("main")
    fields.get_by_label("image").fill("7")
    fields.get_by_label("width").fill("9")
    page.get_by_role("button", name="Enqueue in staging").click()
    expect(page.get_by_role("alert")).to_contain_text("width")
    expect(fields.get_by_label("image")).to_have_value("7")
    fields.get_by_label("width").fill("900")
    page.get_by_role("button", name="Enqueue in staging").click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("resize_image")
    [newest] = shop.installation.rows("SELECT * FROM mayfly_jobs ORDER BY id DESC LIMIT 1")
    assert (newest.type, json.loads(newest.payload), newest.lane) == (
        "resize_image",
        {"image": 7, "width": 900},
        "images",
    )
