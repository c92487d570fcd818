"""The visitors themselves: whatever goes wrong on a page ends a test, unless the test expects it."""

from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from tests.browser.browsers import Visitors

POLICY = "<meta http-equiv='Content-Security-Policy' content=\"script-src 'none'\">"
GOES_WRONG = {
    "console: broken": "<script>console.error('broken')</script>",
    "script: .*nowhere": "<script>nowhere()</script>",
    "CSP: script-src": f"{POLICY}<script>1</script>",
    "elsewhere: GET http://127.0.0.1:1/": "<img src='http://127.0.0.1:1/x.png'>",
    "failed: GET http://127.0.0.1:1/": "<img src='http://127.0.0.1:1/x.png'>",
}


@pytest.mark.parametrize("problem", GOES_WRONG)
def test_what_goes_wrong_on_a_page_is_found(browser: Browser, problem: str) -> None:
    """And is no problem for a test that expects it."""
    careless, careful = Visitors(browser), Visitors(browser)
    careful.expect(problem)
    careful.expect(".")
    for each in (careless, careful):
        each.open().goto(f"data:text/html,{quote(GOES_WRONG[problem])}")

    with pytest.raises(AssertionError, match=f"went wrong: .*{problem}"):
        careless.leave()
    careful.leave()


def test_what_is_expected_in_vain_is_found_too(browser: Browser) -> None:
    """Or a test would go on expecting what nobody does any more."""
    visitors = Visitors(browser)
    visitors.open()
    visitors.expect("answer: 403")

    with pytest.raises(AssertionError, match="expected in vain"):
        visitors.leave()
