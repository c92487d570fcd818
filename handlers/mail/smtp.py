"""Send one message through one account, on a connection that a runner reuses, and classify the server's reply."""

import smtplib
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from threading import Lock, Timer

from handlers.mail.accounts import Account
from handlers.mail.bounces import is_bounce

SECONDS = 10.0  # for each step: connecting, a command, its reply
IDLE_SECONDS = 1.0  # a connection without a message is closed after this, at the latest after twice as long
MAX_MESSAGES = 100  # per connection; some servers allow no more


class TemporaryFailure(Exception):
    """Another account may succeed, or this account later."""


class PermanentFailure(Exception):
    """The server will never accept this message."""

    def __init__(self, reply: str, is_bounce: bool) -> None:
        super().__init__(reply)
        self.is_bounce = is_bounce


class LoginFailed(Exception):
    """The account is at fault, not the email."""


class ReplyUnknown(Exception):
    """The message was handed over, and the reply was not read."""


def send(
    account: Account, recipient: str, message: bytes, hand_over: Callable[[], None], bounces_to: str | None = None
) -> str:
    """Send and return the server's reply. `hand_over` is called right before the message is sent.

    `bounces_to` is the sender of the envelope, by default that of the account.
    """
    with _failures():
        connection = _begin_mail(account, bounces_to or account.sender)
        with _closed_on_error(connection.smtp):
            _expect(connection.smtp.rcpt(recipient), to_recipient=True)
            hand_over()
            reply = _expect(_send_data(connection.smtp, message))
    IDLE.keep(account, connection)
    return reply


def log_in(account: Account, seconds: float = SECONDS) -> None:
    """Log in without sending; raise TemporaryFailure or LoginFailed, as `send` would."""
    with _failures():
        _open(account, seconds).smtp.quit()


@dataclass
class SmtpConnection:
    smtp: smtplib.SMTP
    messages: int = 0  # sent so far


class IdleConnections:
    """Connections of this runner between two emails, at most one per account.

    They are closed after a moment, because a runner without an email to send does not count in `at_once`.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[Account, SmtpConnection] = {}
        self._idle: set[Account] = set()  # not used since the timer has last fired
        self._timer: Timer | None = None  # one for all: a thread per email would take longer than its commands

    def take(self, account: Account) -> SmtpConnection | None:
        with self._lock:
            self._idle.discard(account)
            return self._kept.pop(account, None)

    def keep(self, account: Account, connection: SmtpConnection) -> None:
        connection.messages += 1
        if connection.messages >= MAX_MESSAGES:
            _quit(connection)
            return
        with self._lock:
            self._kept[account] = connection
            self._set_timer()

    def _set_timer(self) -> None:
        """Unless it is set already. The caller has the lock."""
        if self._timer is None and self._kept:
            self._timer = Timer(IDLE_SECONDS, self._close_idle)
            self._timer.daemon = True
            self._timer.start()

    def _close_idle(self) -> None:
        with self._lock:
            closed = [self._kept.pop(account) for account in self._idle]
            self._idle = set(self._kept)
            self._timer = None
            self._set_timer()
        for connection in closed:
            _quit(connection)

    def close(self, account: Account) -> None:
        connection = self.take(account)
        if connection is not None:
            _quit(connection)


IDLE = IdleConnections()


def _quit(connection: SmtpConnection) -> None:
    with suppress(OSError, smtplib.SMTPException):  # the server may have closed it already
        connection.smtp.quit()
    connection.smtp.close()


def _begin_mail(account: Account, sender: str) -> SmtpConnection:
    """Name the sender, on the idle connection if the server still accepts it there."""
    kept = IDLE.take(account)
    if kept is not None:
        with suppress(OSError, smtplib.SMTPException, TemporaryFailure, PermanentFailure):
            _expect(kept.smtp.mail(sender))
            return kept
        kept.smtp.close()
    connection = _open(account, SECONDS)
    with _closed_on_error(connection.smtp):
        _expect(connection.smtp.mail(sender))
    return connection


def _send_data(smtp: smtplib.SMTP, message: bytes) -> tuple[int, bytes | str]:
    try:
        return smtp.data(message)
    except smtplib.SMTPDataError as error:  # the reply to the DATA command: nothing is sent yet
        return error.smtp_code, error.smtp_error
    except (OSError, smtplib.SMTPException) as error:
        raise ReplyUnknown(type(error).__name__) from error


@contextmanager
def _failures() -> Iterator[None]:
    """Every other error before the message is handed over is temporary."""
    try:
        yield
    except smtplib.SMTPResponseException as error:
        raise TemporaryFailure(f"{error.smtp_code} {_text(error.smtp_error)}") from error
    except (OSError, smtplib.SMTPException) as error:
        raise TemporaryFailure(f"{type(error).__name__}: {error}") from error


@contextmanager
def _closed_on_error(smtp: smtplib.SMTP) -> Iterator[None]:
    try:
        yield
    except BaseException:
        smtp.close()
        raise


def _open(account: Account, seconds: float) -> SmtpConnection:
    """Connect and log in."""
    context = None if account.tls == "none" else tls_context(account.ca_file)
    if account.tls == "tls":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(account.host, account.port, timeout=seconds, context=context)
    else:
        smtp = smtplib.SMTP(account.host, account.port, timeout=seconds)
    with _closed_on_error(smtp):
        if account.tls == "starttls":
            smtp.starttls(context=context)
        _log_in(account, smtp)
    return SmtpConnection(smtp)


@cache
def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Once per runner: it reads all certificates of the system."""
    return ssl.create_default_context(cafile=ca_file)


def _log_in(account: Account, smtp: smtplib.SMTP) -> None:
    smtp.ehlo_or_helo_if_needed()
    if account.user is None:
        return
    try:
        smtp.login(account.user, account.password or "")
    except smtplib.SMTPNotSupportedError as error:
        raise LoginFailed("the server offers no login") from error
    except smtplib.SMTPAuthenticationError as error:
        if error.smtp_code < 500:  # a temporary error
            raise
        raise LoginFailed(f"{error.smtp_code} {_text(error.smtp_error)}") from error


def _expect(answer: tuple[int, bytes | str], to_recipient: bool = False) -> str:
    code, words = answer
    reply = f"{code} {_text(words)}"
    if 200 <= code < 300:
        return reply
    raise PermanentFailure(reply, is_bounce(reply, to_recipient)) if code >= 500 else TemporaryFailure(reply)


def _text(words: bytes | str) -> str:
    text = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
    return " ".join(text.split())[:300]
