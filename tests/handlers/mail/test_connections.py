"""SMTP connections: reused by the emails of a runner, closed when idle, replaced when lost."""

import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from handlers.mail import smtp
from handlers.mail.accounts import Account, read_accounts
from tests.handlers.mail.servers import PASSWORD, USER, Certificate, Post, make_certificate, post_office
from tests.process.installation import wait_until

MESSAGE = b"Subject: Hello\r\n\r\nDear you\r\n"
MAILS = 500
MIN_SPEEDUP = 5


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def office(certificate: Certificate) -> Iterator[Post]:
    """With TLS and a login: one login per connection."""
    with post_office(certificate, tls="tls") as post:
        yield post


def account_of(post: Post, ca_file: Path, scheme: str = "smtps") -> Account:
    login = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}"
    [account] = read_accounts(f"{scheme}://{login}@127.0.0.1:{post.port}?from=ann@shop.example&ca={ca_file}")
    return account


@pytest.fixture
def send(office: Post, certificate: Certificate) -> Iterator[Callable[..., None]]:
    account = account_of(office, certificate.file)

    def send_to(*recipients: str) -> None:
        for each in recipients:
            smtp.send(account, each, MESSAGE, lambda: None)

    yield send_to
    smtp.IDLE.close(account)


def recipients(count: int) -> list[str]:
    return [f"{number}@example.com" for number in range(count)]


def test_mails_share_a_connection(office: Post, send: Callable[..., None]) -> None:
    """And a login; the mails arrive apart."""
    send(*recipients(3))

    assert (len(office.logins), sorted(office.counts)) == (1, recipients(3))


def test_a_connection_has_a_limited_number_of_mails(
    office: Post, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers refuse more."""
    monkeypatch.setattr(smtp, "MAX_MESSAGES", 2)

    send(*recipients(5))

    assert (len(office.logins), len(office.taken)) == (3, 5)


def test_a_lost_connection_is_replaced(office: Post, send: Callable[..., None]) -> None:
    """The server has closed it between two mails: neither is lost or sent twice."""
    send("0@example.com")
    office.end_connections()

    send("1@example.com")

    assert (len(office.logins), office.counts) == (2, {"0@example.com": 1, "1@example.com": 1})


def test_a_refused_recipient_does_not_harm_the_next_mail(office: Post, send: Callable[..., None]) -> None:
    """Its half dialogue is not continued."""
    office.at_rcpt["0@example.com"] = ["550 no such user"]
    with pytest.raises(smtp.PermanentFailure):
        send("0@example.com")

    send("1@example.com")

    assert office.counts == {"1@example.com": 1}


def test_an_idle_connection_is_closed(
    office: Post, certificate: Certificate, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would count at the provider, but not in `at_once`."""
    monkeypatch.setattr(smtp, "IDLE_SECONDS", 0.05)

    send("0@example.com")

    wait_until(lambda: all(each.is_closing() for each in office.transports), "the connection is closed")
    assert smtp.IDLE.take(account_of(office, certificate.file)) is None


@pytest.mark.slow
def test_five_hundred_mails_are_sent_five_times_as_fast(
    certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over TLS on loopback, verified with the system's certificates, compared with one connection per mail."""
    trusted = tmp_path / "trusted.pem"
    system = ssl.get_default_verify_paths().cafile
    trusted.write_text("".join(Path(each).read_text() for each in (system, certificate.file) if each))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with post_office(certificate, tls="starttls") as post:
        account = replace(account_of(post, certificate.file, "smtp"), ca_file=None)
        once, reused = sending_seconds(account, is_reused=False), sending_seconds(account, is_reused=True)

    times = f"{once:.2f} s with one connection each, {reused:.2f} s on reused ones"
    print(f"{MAILS} mails: {times}, {once / reused:.1f}x")
    assert once / reused >= MIN_SPEEDUP


def sending_seconds(account: Account, is_reused: bool) -> float:
    started = time.monotonic()
    for each in recipients(MAILS):
        smtp.send(account, each, MESSAGE, lambda: None)
        if not is_reused:
            smtp.IDLE.close(account)
            smtp.tls_context.cache_clear()
    smtp.IDLE.close(account)
    return time.monotonic() - started
