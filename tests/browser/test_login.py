"""Login and sessions in a real browser. Refused logins and forged requests are tested in tests/process/pages."""

from playwright.sync_api import Page, Route, expect

from tests.browser.browsers import Visitors
from tests.browser.consoles import ENVIRONMENT, PASSWORD, Console
from tests.process.installation import wait_until

LIVE = {"X-Mayfly-Live": "1"}  # of live updates: they do not extend a session


def log_in(page: Page, name: str, password: str = PASSWORD) -> None:
    page.get_by_label("Account").fill(name)
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")
    page.wait_for_load_state()


def test_a_user_logs_in_and_out(visitors: Visitors, shop: Console) -> None:
    """The login leads to the requested page; after the logout a copy of the cookie is refused."""
    page = visitors.open(shop, path="/jobs?status=dead")
    log_in(page, "olga")
    expect(page).to_have_url(f"{shop.origin}/jobs?status=dead")
    expect(page.get_by_role("banner")).to_contain_text("olga operator")
    expect(page.get_by_role("banner")).to_contain_text(ENVIRONMENT)
    [cookie] = [each for each in page.context.cookies() if each["name"] == "mayfly_session"]
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Log in").wait_for()
    page.context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": shop.origin}])

    page.goto("/jobs")

    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_scripts_cannot_read_the_session_cookie(visitors: Visitors, shop: Console) -> None:
    """HttpOnly and SameSite."""
    page = visitors.open(shop, "vera", "/jobs")

    [cookie] = [each for each in page.context.cookies() if each["name"] == "mayfly_session"]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert "mayfly_session" not in page.evaluate("document.cookie")


def test_an_expired_session_leads_to_the_login_and_back(visitors: Visitors, strict: Console) -> None:
    """An open page notices it with its next live update, which does not extend the session."""
    visitors.expect("401")
    page = visitors.open(strict, path="/jobs?status=dead")
    page.clock.install()
    log_in(page, "vera")
    expect(page).to_have_url(f"{strict.origin}/jobs?status=dead")
    wait_until(lambda: page.request.get("/jobs", headers=LIVE).status == 401, "the session has expired")

    page.clock.run_for(6000)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    log_in(page, "vera")

    expect(page).to_have_url(f"{strict.origin}/jobs?status=dead")


def test_another_site_cannot_act_with_the_session(visitors: Visitors, shop: Console) -> None:
    """A form of another site, sent by a browser that is logged in."""
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

    assert answered.value.headers["location"] == "/login"  # the browser did not send the cookie
    assert shop.installation.job(job_id).status == "dead"
