"""Whatever anybody writes into a job is shown as the text it is, on every screen, and is never run."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.browsers import Visitors
from tests.browser.consoles import Console
from tests.browser.screens import SCREENS
from tests.process.installation import Installation

SCRIPT = "<script>document.title = 'taken'</script>"
PICTURE = "<img src=x onerror=\"document.title = 'taken'\">"
QUOTED = "\"><b onmouseover='1'>'"


@pytest.fixture
def attacked(databases: object, tmp_path: Path, migrated_url: str) -> Installation:
    made = Installation(tmp_path, migrated_url)
    made.enqueue(
        SCRIPT, f'{{"{SCRIPT.replace(chr(34), "")}": "</script>{SCRIPT}"}}', lane=f"a{PICTURE}"[:64], status="dead",
        last_error=f"ValueError: {SCRIPT}\n{PICTURE}", group_key=f"g{QUOTED}", unique_key=f"u{PICTURE}",
        waiting_for=PICTURE,
    )  # fmt: skip
    made.enqueue(QUOTED, lane=QUOTED)
    for reason in (SCRIPT, PICTURE):
        made.run("mayfly", "pause", "type", "noop", "--reason", reason)
        made.run("mayfly", "pause", "lane", "mail", "--reason", reason)
    made.run("mayfly", "lanes", "set", "mail", "max_workers=2", "--reason", PICTURE)
    return made


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_what_a_job_brings_stays_text(visitors: Visitors, attacked: Installation) -> None:
    """Type, lane, payload, error, keys and reasons: no element comes of them, and the policy is never needed."""
    page = visitors.open(Console(attacked), "admin")
    seen = ""
    for screen, path in SCREENS.items():
        page.goto(path.format(dead=1))

        assert page.title() != "taken", screen
        expect(page.locator("main script, main img, [onerror], [onmouseover]")).to_have_count(0)
        seen += page.inner_text("body")
    page.goto(f"/jobs?type={SCRIPT}&lane={QUOTED}&text={PICTURE}")
    expect(page.get_by_label("Type")).to_have_value(SCRIPT)
    page.goto("/jobs/confirm?id=1&verb=retry&back=javascript:alert(1)")
    expect(page.get_by_role("link", name="Leave them")).to_have_attribute("href", "/")

    assert page.locator("main script, main img").count() == 0
    assert (SCRIPT in seen, PICTURE in seen, QUOTED in seen) == (True, True, True)
    attacked.end()
