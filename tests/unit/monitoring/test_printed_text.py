"""Text that a process of another machine has printed."""

from pathlib import Path

from mayfly.monitoring.redact import printed_text
from tests.unit.settings.factories import settings_in

URL = "mysql://mayfly:pass-of-the-database@db/app"


def test_secrets_are_masked(tmp_path: Path) -> None:
    """The password of the database, also alone, those of other URLs, and the fields of REDACT."""
    settings = settings_in(tmp_path, {"DATABASE_URL": URL})
    text = f"{URL}\npass-of-the-database\nhttps://me:other-password@host/x\ntoken=abcdef rest\nkept"

    shown = printed_text(text, settings)

    assert not [each for each in ("pass-of-the-database", "other-password", "abcdef") if each in shown]
    assert shown.endswith("rest\nkept")


def test_control_characters_are_replaced(tmp_path: Path) -> None:
    """Text may not move the cursor of a terminal, or reverse a line."""
    shown = printed_text("a\x1b[2Jb\x00\u202ec\td\r\ne", settings_in(tmp_path, {}))

    assert shown == "a\ufffd[2Jb\ufffd\ufffdc\td\ne"


def test_the_end_is_kept_in_valid_text(tmp_path: Path) -> None:
    """Cut between two characters, not inside one."""
    assert printed_text("€" * 100, settings_in(tmp_path, {}), max_bytes=10) == "€€€"
