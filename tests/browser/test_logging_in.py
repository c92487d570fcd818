"""Who gets in: the right password, the wrong one, too many of them, a session that is over, pages of others."""

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.browsers import Visitors
from tests.browser.consoles import ENVIRONMENT, PASSWORD, ROLES, Console
from tests.process.installation import wait_until

LIVE = {"X-Mayfly-Live": "1"}  # what a page sends that renews itself: it does not keep a session alive


def log_in(page: Page, name: str, password: str = PASSWORD) -> None:
    page.get_by_label("Account").fill(name)
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")
    page.wait_for_load_state()


@pytest.mark.parametrize("name", ROLES)
def test_somebody_logs_in_and_out(visitors: Visitors, shop: Console, name: str) -> None:
    """To the page that he asked for, as who he is; afterwards a copy of his cookie is worth nothing."""
    page = visitors.open(shop, path="/jobs?status=dead")
    log_in(page, name)
    expect(page).to_have_url(f"{shop.origin}/jobs?status=dead")
    expect(page.get_by_role("banner")).to_contain_text(f"{name} {ROLES[name]}")
    expect(page.get_by_role("banner")).to_contain_text(ENVIRONMENT)
    [cookie] = [each for each in page.context.cookies() if each["name"] == "mayfly_session"]
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Log in").wait_for()
    page.context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": shop.origin}])

    page.goto("/jobs")

    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_the_session_is_out_of_reach_of_scripts(visitors: Visitors, shop: Console) -> None:
    """HttpOnly, and not for requests that come from elsewhere."""
    page = visitors.open(shop, "vera", "/jobs")

    [cookie] = [each for each in page.context.cookies() if each["name"] == "mayfly_session"]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert "mayfly_session" not in page.evaluate("document.cookie")


def test_a_wrong_password_is_told_and_enough_of_them_lock_out(visitors: Visitors, strict: Console) -> None:
    """One account alone: the right password must wait too, others get in."""
    visitors.expect("401")
    visitors.expect("429")
    page = visitors.open(strict, path="/login")
    for _ in range(5):
        log_in(page, "olga", "wrong horse battery")
        expect(page.get_by_role("alert")).to_have_text("There is no such account, or the password is wrong.")
        expect(page.get_by_label("Account")).to_have_value("olga")
        expect(page.get_by_label("Password")).to_have_value("")
    log_in(page, "nobody", "wrong horse battery")
    expect(page.get_by_role("alert")).to_have_text("There is no such account, or the password is wrong.")

    log_in(page, "olga")
    expect(page.get_by_role("alert")).to_contain_text("Too many attempts: wait for")
    assert page.context.cookies() == []

    log_in(page, "vera")
    expect(page.get_by_role("banner")).to_contain_text("vera viewer")


def test_a_session_that_is_over_leads_back_by_way_of_the_login(visitors: Visitors, strict: Console) -> None:
    """Also a page that is open and only renews itself: it says so by itself, and keeps no session alive."""
    visitors.expect("401")
    page = visitors.open(strict, path="/jobs?status=dead")
    page.clock.install()
    log_in(page, "vera")
    expect(page).to_have_url(f"{strict.origin}/jobs?status=dead")
    wait_until(lambda: page.request.get("/jobs", headers=LIVE).status == 401, "the session is over")

    page.clock.run_for(6000)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    log_in(page, "vera")

    expect(page).to_have_url(f"{strict.origin}/jobs?status=dead")


def test_a_viewer_is_refused_by_the_server(visitors: Visitors, shop: Console) -> None:
    """He sees nothing to click; and with his own session and token the request itself is refused."""
    [job_id] = shop.installation.enqueue("noop", lane="refused", status="dead")
    page = visitors.open(shop, "vera", f"/jobs/{job_id}")
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    token = page.locator("input[name=csrf]").first.get_attribute("value") or ""
    deeds: dict[str, dict[str, str | float | bool]] = {
        "/jobs/act": {"verb": "retry", "id": str(job_id)},
        "/pause": {"kind": "lane", "name": "refused"},
        "/lanes/workers": {"name": "refused", "workers": "3"},
        "/enqueue": {"type": "noop"},
    }

    answers = {path: page.request.post(path, form={**form, "csrf": token}).status for path, form in deeds.items()}

    assert answers == dict.fromkeys(deeds, 403)
    assert shop.installation.job(job_id).status == "dead"
    assert shop.installation.rows("SELECT 1 FROM mayfly_pauses WHERE name = 'refused'") == []


@pytest.mark.parametrize("token", ["", "wrong"])
def test_what_brings_no_token_is_refused(visitors: Visitors, shop: Console, token: str) -> None:
    """Even from a page of ours, by somebody who may."""
    [job_id] = shop.installation.enqueue("noop", lane="refused", status="dead")
    visitors.expect("answer: 403 POST")
    visitors.expect("console: .*403")
    page = visitors.open(shop, "olga", f"/jobs/confirm?id={job_id}&verb=retry")
    page.evaluate("value => document.querySelectorAll('[name=csrf]').forEach((each) => each.value = value)", token)

    page.get_by_role("button", name="Retry 1 job").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("That is not for you")
    assert shop.installation.job(job_id).status == "dead"


def test_another_page_cannot_act_for_somebody(visitors: Visitors, shop: Console) -> None:
    """A form on a page elsewhere that is sent to the console, in a browser that has a session there."""
    visitors.expect("http://elsewhere.test/")
    [job_id] = shop.installation.enqueue("noop", lane="refused", status="dead")
    page = visitors.open(shop, "olga", f"/jobs/{job_id}")
    token = page.locator("input[name=csrf]").first.get_attribute("value")
    fields = {"csrf": token, "verb": "retry", "id": str(job_id)}
    inputs = "".join(f"<input name={name} value='{value}'>" for name, value in fields.items())
    form = f"<form method=post action='{shop.origin}/jobs/act'>{inputs}<button>Win</button></form>"

    def serve(route: Route) -> None:
        route.fulfill(body=form, content_type="text/html")

    page.context.route("http://elsewhere.test/", serve)
    page.goto("http://elsewhere.test/")
    with page.expect_response(f"{shop.origin}/jobs/act") as answered:
        page.get_by_role("button", name="Win").click()

    assert answered.value.headers["location"] == "/login"  # the session did not come with it
    assert shop.installation.job(job_id).status == "dead"


@pytest.mark.parametrize("header", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://elsewhere.test"}])
def test_where_a_request_comes_from_counts_beside_the_token(
    visitors: Visitors, shop: Console, header: dict[str, str]
) -> None:
    """Origin where the browser says no more, as it does to plain-HTTP names of an intranet."""
    [job_id] = shop.installation.enqueue("noop", lane="refused", status="dead")
    page = visitors.open(shop, "olga", f"/jobs/{job_id}")
    token = page.locator("input[name=csrf]").first.get_attribute("value") or ""
    form: dict[str, str | float | bool] = {"csrf": token, "verb": "retry", "id": str(job_id)}

    refused = page.request.post("/jobs/act", form=form, headers=header)
    before = shop.installation.job(job_id).status
    own = page.request.post("/jobs/act", form=form, headers={"Origin": shop.origin})

    assert (refused.status, before, own.status) == (403, "dead", 200)
