"""Alerts in docs/how-to/monitor.md: settings load, fields and times are those of the code."""

import json
import re
from pathlib import Path

from mayfly.admin.fleet import STALE_AFTER
from mayfly.fleet.cycles import FORGOTTEN_AFTER
from mayfly.monitoring.alerts import MAX_ATTEMPTS_READ, Alert, AlertKind
from mayfly.monitoring.channels import webhook_body
from mayfly.settings import load
from tests.docs.consoles import section_named
from tests.factories import NOON

PAGE = section_named("how-to/monitor.md", "Alerts")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.+?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_settings_load(tmp_path: Path) -> None:
    """Without a warning, and no secret is shown."""
    (tmp_path / ".env").write_text(blocks("sh")[0])

    loaded = load({"MAYFLY_HOME": str(tmp_path)})

    assert loaded.warnings == ()
    assert loaded.settings.lane("mail").latency_target == 300
    shown = {each.name: each.value for each in loaded.origins}
    assert (shown["HEARTBEAT_URL"], shown["ALERT_WEBHOOK_URL"], shown["ALERT_WEBHOOK_SECRET"]) == ("***",) * 3
    assert shown["ALERT_SMTP_URL"] == "smtp://user:***@mail.example.com:587"


def test_the_message_has_these_fields() -> None:
    """All of them."""
    shown = json.loads(blocks("json")[0])
    sent = json.loads(webhook_body(Alert("f", AlertKind.DEAD, "s", "d", NOON, NOON), "web-1", NOON))

    assert (shown.keys(), shown["data"].keys()) == (sent.keys(), sent["data"].keys())
    assert shown["type"] == sent["type"]
    assert "`mayfly.alert.recovered`" in PAGE


def test_kinds_and_times_equal_the_code() -> None:
    """A change of the code must change the page."""
    table = PAGE.split("| kind | fires when |")[1].split("\n\n")[0]

    assert re.findall(r"^\| `([^`]+)`", table, re.MULTILINE) == list(AlertKind)
    assert (STALE_AFTER.total_seconds(), FORGOTTEN_AFTER.days, MAX_ATTEMPTS_READ) == (180, 1, 10_000)
