"""The mail that reports alerts."""

from mayfly.monitoring.alerts import Alert, AlertKind
from mayfly.monitoring.channels import default_sender, mail_message
from tests.factories import NOON

DEAD = Alert("f1", AlertKind.DEAD, "send", "job 1 is dead", NOON, NOON)
OVER = Alert("f2", AlertKind.LATE, "mail", "the oldest job waits", NOON, NOON, told_at=NOON, recovered_at=NOON)


def test_one_mail_reports_all_alerts() -> None:
    """The first one is in the subject, and all are in the body."""
    message = mail_message([DEAD, OVER], "mayfly@web-1", ["ann@example.com", "ops@example.com"], "web-1", NOON)

    assert message["Subject"] == "[mayfly] ALERT: dead job: send and 1 more"
    assert message["To"] == "ann@example.com, ops@example.com"
    assert message["Auto-Submitted"] == "auto-generated"
    text = message.get_content()
    assert "ALERT: dead job: job 1 is dead" in text
    assert "RECOVERED: lane late: the oldest job waits" in text


def test_text_of_a_row_cannot_add_a_mail_header() -> None:
    """A type can have any name."""
    nasty = Alert("f", AlertKind.DEAD, "a\r\nBcc: eve@example.com", "b\nc", NOON, NOON)

    message = mail_message([nasty], "a@b", ["c@d"], "web-1", NOON)

    assert message["Bcc"] is None
    assert "\n" not in message["Subject"]


def test_a_host_with_any_name_can_be_the_sender() -> None:
    """Characters that an address cannot have are replaced."""
    assert default_sender("web_1:größe") == "mayfly@web-1-gr--e"
