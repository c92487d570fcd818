"""The mail that tells of alerts."""

from mayfly.monitoring.alerts import Alert, AlertKind
from mayfly.monitoring.channels import default_sender, mail_message
from tests.factories import NOON

DEAD = Alert("f1", AlertKind.DEAD, "send", "job 1 is dead", NOON, NOON)
OVER = Alert("f2", AlertKind.LATE, "mail", "the oldest job waits", NOON, NOON, told_at=NOON, recovered_at=NOON)


def test_one_mail_tells_all() -> None:
    """The first in its subject, each in its text."""
    message = mail_message([DEAD, OVER], "mayfly@web-1", ["ann@example.com", "ops@example.com"], "web-1", NOON)

    assert message["Subject"] == "[mayfly] ALERT: dead job: send and 1 more"
    assert message["To"] == "ann@example.com, ops@example.com"
    assert message["Auto-Submitted"] == "auto-generated"
    text = message.get_content()
    assert "ALERT: dead job: job 1 is dead" in text
    assert "over: lane late: the oldest job waits" in text


def test_what_comes_from_a_row_is_never_a_head_of_the_mail() -> None:
    """A type may be called anything."""
    nasty = Alert("f", AlertKind.DEAD, "a\r\nBcc: eve@example.com", "b\nc", NOON, NOON)

    message = mail_message([nasty], "a@b", ["c@d"], "web-1", NOON)

    assert message["Bcc"] is None
    assert "\n" not in message["Subject"]


def test_a_host_is_a_sender_whatever_its_name() -> None:
    """Names of hosts have all kinds of letters."""
    assert default_sender("web_1:größe") == "mayfly@web-1-gr--e"
