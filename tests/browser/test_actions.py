"""Acting on jobs by clicking, with and without JavaScript. tests/process/pages tests the actions themselves."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browsers import Visitors
from tests.browser.consoles import Console


def retry_one(page: Page, job_id: int) -> None:
    """From the page of the job through the confirmation and back."""
    page.goto(f"/jobs/{job_id}")
    page.get_by_role("button", name="Retry…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retry 1 job in staging?")
    page.get_by_label("Reason").fill("the vendor is back")
    page.get_by_role("button", name="Retry 1 job in staging").click()
    expect(page).to_have_url(f"/jobs/{job_id}")


def audit_entries(console: Console, verb: str) -> list[Any]:
    query = "SELECT done_by, via, jobs, reason FROM mayfly_audit WHERE verb = :verb ORDER BY id DESC"
    return [tuple(row) for row in console.installation.rows(query, verb=verb)]


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_a_dead_job_is_retried(visitors: Visitors, shop: Console, scripts: bool) -> None:
    """It is due again with all its attempts; the page confirms it, and the audit has user and reason."""
    [job_id] = shop.installation.enqueue("noop", lane="fixed", status="dead", attempts=5)
    page = visitors.open(shop, "olga", java_script_enabled=scripts)

    retry_one(page, job_id)

    expect(page.get_by_role("status").first).to_contain_text("1 job due again")
    job = shop.installation.job(job_id)
    assert (job.status, job.attempts) == ("pending", 0)
    assert audit_entries(shop, "retry")[0] == ("olga", "page", 1, "the vendor is back")


def test_only_selected_jobs_are_cancelled(visitors: Visitors, shop: Console) -> None:
    """Two of four; going back from the confirmation changes nothing."""
    ids = shop.installation.enqueue("noop", lane="picked", count=4)
    page = visitors.open(shop, "olga", "/jobs?lane=picked")
    for each in ids[:2]:
        page.get_by_label(f"Job {each}", exact=True).check()
    page.get_by_role("button", name="Cancel selected…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 2 jobs in staging?")
    page.get_by_role("link", name="Go back").click()
    assert [shop.installation.job(each).status for each in ids] == ["pending"] * 4
    page.go_back()

    page.get_by_role("button", name="Cancel 2 jobs in staging").click()

    expect(page.get_by_role("status").first).to_contain_text("2 jobs cancelled")
    assert [shop.installation.job(each).status for each in ids] == ["cancelled", "cancelled", "pending", "pending"]
