"""Send one message through one account, and classify the server's reply."""

import smtplib
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from handlers.mail.accounts import Account
from handlers.mail.bounces import is_bounce

SECONDS = 10.0  # for each step: connecting, a command, its reply


class TemporaryFailure(Exception):
    """Another account may succeed, or this one later."""


class PermanentFailure(Exception):
    """The server will never accept this message."""

    def __init__(self, reply: str, is_bounce: bool) -> None:
        super().__init__(reply)
        self.is_bounce = is_bounce


class LoginFailed(Exception):
    """The account is wrong, not the mail."""


class ReplyUnknown(Exception):
    """The message was handed over, and the reply was not read."""


def send(account: Account, recipient: str, message: bytes, hand_over: Callable[[], None]) -> str:
    """Returns the server's reply. `hand_over` is called right before the message is sent."""
    with _opened(account) as smtp:
        _expect(smtp.mail(account.sender))
        _expect(smtp.rcpt(recipient), to_recipient=True)
        hand_over()
        try:
            answer: tuple[int, bytes | str] = smtp.data(message)
        except smtplib.SMTPDataError as error:  # the reply to DATA itself: nothing was sent yet
            answer = error.smtp_code, error.smtp_error
        except (OSError, smtplib.SMTPException) as error:
            raise ReplyUnknown(type(error).__name__) from error
        reply = _expect(answer)
        with suppress(OSError, smtplib.SMTPException):
            smtp.quit()  # the message is accepted even if the server closes the connection first
        return reply


def log_in(account: Account, seconds: float = SECONDS) -> None:
    """Without sending: raises TemporaryFailure or LoginFailed, as `send` would."""
    with _opened(account, seconds) as smtp:
        smtp.quit()


@contextmanager
def _opened(account: Account, seconds: float = SECONDS) -> Iterator[smtplib.SMTP]:
    """Connected and logged in. Every error before the message is handed over is temporary."""
    try:
        with _connected(account, seconds) as smtp:
            _log_in(account, smtp)
            yield smtp
    except smtplib.SMTPResponseException as error:
        raise TemporaryFailure(f"{error.smtp_code} {_text(error.smtp_error)}") from error
    except (OSError, smtplib.SMTPException) as error:
        raise TemporaryFailure(f"{type(error).__name__}: {error}") from error


@contextmanager
def _connected(account: Account, seconds: float) -> Iterator[smtplib.SMTP]:
    context = None if account.tls == "none" else ssl.create_default_context(cafile=account.ca_file)
    if account.tls == "tls":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(account.host, account.port, timeout=seconds, context=context)
    else:
        smtp = smtplib.SMTP(account.host, account.port, timeout=seconds)
    try:
        if account.tls == "starttls":
            smtp.starttls(context=context)
        yield smtp
    finally:
        smtp.close()


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
