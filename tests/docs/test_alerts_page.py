"""Alerts in docs/how-to/monitor.md: settings load, the receiver verifies webhooks, lines are those of the log."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mayfly import log_messages
from mayfly.admin.fleet import STALE_AFTER
from mayfly.fleet.cycles import FORGOTTEN_AFTER
from mayfly.log import render_text
from mayfly.monitoring.alerts import MAX_ATTEMPTS_READ, Alert, AlertKind
from mayfly.monitoring.channels import webhook_body
from mayfly.settings import load
from tests.docs.consoles import section_named
from tests.factories import NOON
from tests.process.installation import Installation
from tests.receivers import http_receiver
from tests.unit.dispatcher.test_summary import make_summary

PAGE = section_named("how-to/monitor.md", "Alerts")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


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


@pytest.fixture
def receiver_code() -> Any:
    names: dict[str, Any] = {}
    exec(compile(blocks("python")[0], "receiver.py", "exec"), names)
    return names["is_genuine"]


def test_the_receiver_verifies_webhooks(tmp_path: Path, receiver_code: Any) -> None:
    """It accepts one of a real cycle, and refuses a changed one or one with another key."""
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db")
    made.enqueue("give_up")
    with http_receiver() as receiver:
        made.dispatch(ALERT_WEBHOOK_URL=receiver.url, ALERT_WEBHOOK_SECRET=SECRET)
        made.end()

    [request] = receiver.requests
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert receiver_code(headers, request.body, SECRET)
    assert not receiver_code(headers, request.body + b" ", SECRET)
    assert not receiver_code(headers, request.body, SECRET.replace("M", "N"))
    assert not receiver_code({**headers, "webhook-timestamp": "1614265330"}, request.body, SECRET)


def test_the_message_has_these_fields() -> None:
    """All of them."""
    shown = json.loads(blocks("json")[0])
    sent = json.loads(webhook_body(Alert("f", AlertKind.DEAD, "s", "d", NOON, NOON), "web-1", NOON))

    assert (shown.keys(), shown["data"].keys()) == (sent.keys(), sent["data"].keys())
    assert shown["type"] == sent["type"]
    assert "`mayfly.alert.recovered`" in PAGE


def test_kinds_and_times_equal_the_code() -> None:
    """A change of the code must change the page."""
    table = PAGE.split("| kind | fires when | recovers when |")[1].split("\n\n")[0]

    assert re.findall(r"^\| `([^`]+)`", table, re.MULTILINE) == list(AlertKind)
    assert (STALE_AFTER.total_seconds(), FORGOTTEN_AFTER.days, MAX_ATTEMPTS_READ) == (180, 1, 10_000)


def test_the_lines_are_those_of_the_log() -> None:
    """Operators grep for them."""
    messages = [
        log_messages.side_process_failed("the heartbeat", "hc-ping.com answered 500"),
        log_messages.alert_undelivered("webhook", "example.com: TimeoutError: timed out"),
        log_messages.side_process_timed_out("alerts", 2.0),
    ]

    lines = "\n".join(render_text(each, "", NOON).partition("[] ")[2] for each in messages)

    assert f"```\n{lines}\n```" in PAGE


def test_the_summary_has_these_figures() -> None:
    """In this order."""
    from dispatcher.summary import summary_text

    [line] = re.findall(r"^cycle=\d+ host=.*$", PAGE, re.MULTILINE)

    assert re.findall(r"(\w+)=", line) == re.findall(r"(\w+)=", summary_text(make_summary(), "web-1"))
