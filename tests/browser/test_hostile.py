"""Whatever anybody writes into a job is shown as the text it is, on every screen, and is never run."""

import pytest
from playwright.sync_api import expect
from sqlalchemy import Connection, insert

from tests.browser.browsers import Visitors
from tests.browser.consoles import Console
from tests.browser.screens import SCREENS
from tests.looking import run
from tests.process.installation import Installation
from tests.tables import audit, pauses

SCRIPT = "<script>document.title = 'taken'</script>"
PICTURE = "<img src=x onerror=\"document.title = 'taken'\">"
QUOTED = "\"><b onmouseover='1'>'"


def attack(installation: Installation) -> None:
    """By plain SQL, where nothing is checked."""
    installation.enqueue(
        SCRIPT, f'{{"{SCRIPT}": "</script>{SCRIPT}"}}', lane=f"a{PICTURE}"[:64], status="dead", waiting_for=PICTURE,
        last_error=f"ValueError: {SCRIPT}\n{PICTURE}", group_key=f"g{QUOTED}", unique_key=f"u{PICTURE}",
    )  # fmt: skip
    installation.enqueue(QUOTED, lane=QUOTED)
    now = installation.now()
    paused = {"name": f"x{PICTURE}", "paused_at": now, "paused_by": PICTURE, "reason": SCRIPT}
    deed = {"done_at": now, "done_by": PICTURE, "via": "page", "verb": "retry", "subject": SCRIPT, "reason": QUOTED}

    def write(connection: Connection) -> None:
        connection.execute(insert(pauses), [{"kind": kind, **paused} for kind in ("lane", "type")])
        connection.execute(insert(audit), [deed])

    run(installation.database, write)


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_what_a_job_brings_stays_text(console: Console, visitors: Visitors) -> None:
    """Type, lane, payload, error, keys and reasons: no element comes of them, and the policy is never needed."""
    attack(console.installation)
    page = visitors.open(console, "admin")
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
