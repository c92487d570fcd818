"""Visitors fail a test for every problem on a page that it does not expect."""

from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from tests.browser.browsers import Visitors

POLICY = "<meta http-equiv='Content-Security-Policy' content=\"script-src 'none'\">"
PROBLEMS = {
    "console: broken": "<script>console.error('broken')</script>",
    "script: .*nowhere": "<script>nowhere()</script>",
    "CSP: script-src": f"{POLICY}<script>1</script>",
    "other host: GET http://127.0.0.1:1/": "<img src='http://127.0.0.1:1/x.png'>",
    "failed: GET http://127.0.0.1:1/": "<img src='http://127.0.0.1:1/x.png'>",
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_problems_on_a_page_are_found(browser: Browser, problem: str) -> None:
    """Unless the test expects them."""
    careless, careful = Visitors(browser), Visitors(browser)
    careful.expect(problem)
    careful.expect(".")
    for each in (careless, careful):
        each.open().goto(f"data:text/html,{quote(PROBLEMS[problem])}")

    with pytest.raises(AssertionError, match=f"unexpected: .*{problem}"):
        careless.leave()
    careful.leave()


def test_an_expected_problem_must_occur(browser: Browser) -> None:
    """Otherwise a test would keep an outdated expectation."""
    visitors = Visitors(browser)
    visitors.open()
    visitors.expect("answer: 403")

    with pytest.raises(AssertionError, match="did not occur"):
        visitors.leave()
