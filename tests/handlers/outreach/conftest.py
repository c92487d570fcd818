"""A configured platform, and the SMTP server for its mails."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

import handlers.mail
from handlers.mail.accounts import limits_of, read_accounts
from mayfly.registry import declared
from tests.handlers.mail.servers import Post, post_office
from tests.handlers.outreach.audience import SETTINGS, Tables


@pytest.fixture
def tables(platform: str, monkeypatch: pytest.MonkeyPatch) -> Tables:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    return Tables(platform)


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    """The server that send_email uses."""
    with post_office(None) as opened:
        pool = read_accounts(f"smtp://127.0.0.1:{opened.port}?from=ann@shop.example&tls=none")
        monkeypatch.setattr(handlers.mail, "ACCOUNTS", pool)
        known = cast(dict[str, Any], declared())
        monkeypatch.setitem(known, "send_email", replace(known["send_email"], takes=tuple(limits_of(pool))))
        yield opened
