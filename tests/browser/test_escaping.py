"""Values of jobs are shown as text on every screen, and are never interpreted."""

from urllib.parse import quote

import pytest
from playwright.sync_api import expect
from sqlalchemy import Connection, insert

from mayfly.schema.metadata import audit, pauses
from tests.browser.browsers import Visitors
from tests.browser.consoles import Console
from tests.browser.screens import SCREENS
from tests.process.installation import Installation
from tests.sqlalchemy_engines import run

SCRIPT = "<script>document.title = 'taken'</script>"
PICTURE = "<img src=x onerror=\"document.title = 'taken'\">"
QUOTED = "\"><b onmouseover='1'>'"


def attack(installation: Installation) -> None:
    """By plain SQL, which is not validated."""
    installation.enqueue(
        SCRIPT, f'{{"{SCRIPT}": "</script>{SCRIPT}"}}', lane=f"a{PICTURE}"[:64], status="dead", waiting_for=PICTURE,
        last_error=f"ValueError: {SCRIPT}\n{PICTURE}", group_key=f"g{QUOTED}", unique_key=f"u{PICTURE}",
    )  # fmt: skip
    installation.enqueue(QUOTED, lane=QUOTED)
    now = installation.now()
    paused = {"name": f"x{PICTURE}", "paused_at": now, "paused_by": PICTURE, "reason": SCRIPT}
    entry = {"done_at": now, "done_by": PICTURE, "via": "page", "verb": "retry", "subject": SCRIPT, "reason": QUOTED}

    def write(connection: Connection) -> None:
        connection.execute(insert(pauses), [{"kind": kind, **paused} for kind in ("lane", "type")])
        connection.execute(insert(audit), [entry])

    run(installation.database, write)


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_values_of_jobs_are_escaped(console: Console, visitors: Visitors) -> None:
    """Type, lane, payload, error, keys and reasons: they create no element, and cause no violation of the policy."""
    attack(console.installation)
    page = visitors.open(console, "admin")
    seen = ""
    evil = quote(SCRIPT)
    more = [f"/pause?name={evil}", f"/enqueue?type={evil}", f"/dead?lane={evil}", "/jobs/confirm?verb=retry&id=1"]
    more += [f"/jobs?error={evil}&group={evil}", f"/jobs/confirm?all=retry&type={evil}&back=%22%3E{evil}"]
    for path in [*SCREENS.values(), *more]:
        page.goto(path.format(dead=1))

        assert page.title() != "taken", path
        expect(page.locator("main script, main img, [onerror], [onmouseover]")).to_have_count(0)
        seen += page.inner_text("body")
    page.goto(f"/jobs?type={SCRIPT}&lane={QUOTED}&text={PICTURE}")
    expect(page.get_by_label("Type")).to_have_value(SCRIPT)
    page.goto("/jobs/confirm?id=1&verb=retry&back=javascript:alert(1)")
    expect(page.get_by_role("link", name="Go back")).to_have_attribute("href", "/")

    assert page.locator("main script, main img").count() == 0
    assert (SCRIPT in seen, PICTURE in seen, QUOTED in seen) == (True, True, True)
