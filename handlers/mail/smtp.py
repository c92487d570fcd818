"""One message through one account, and whose matter its server's answer is: the account's, the mail's, nobody's."""

import smtplib
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from handlers.mail.accounts import Account
from handlers.mail.bounces import is_bounce

SECONDS = 10.0  # for each step: connecting, a command, its answer


class Passing(Exception):
    """Not now, or not here: another account may have more luck, or this one later."""


class Refused(Exception):
    """For good."""

    def __init__(self, said: str, is_bounce: bool) -> None:
        super().__init__(said)
        self.is_bounce = is_bounce


class LoginFailed(Exception):
    """The account is wrong, not the mail."""


class Unknown(Exception):
    """It was handed over, and nobody has heard the answer."""


def send(account: Account, recipient: str, message: bytes, hand_over: Callable[[], None]) -> str:
    """The server's answer. `hand_over` is called when the next step is the message itself."""
    with _opened(account) as smtp:
        _expect(smtp.mail(account.sender))
        _expect(smtp.rcpt(recipient), to_recipient=True)
        hand_over()
        try:
            answer: tuple[int, bytes | str] = smtp.data(message)
        except smtplib.SMTPDataError as error:  # the answer to DATA itself: nothing was sent yet
            answer = error.smtp_code, error.smtp_error
        except (OSError, smtplib.SMTPException) as error:
            raise Unknown(type(error).__name__) from error
        said = _expect(answer)
        with suppress(OSError, smtplib.SMTPException):
            smtp.quit()  # a server that hangs up by itself has taken it all the same
        return said


def log_in(account: Account, seconds: float = SECONDS) -> None:
    """And send nothing: raises Passing or LoginFailed, as `send` would have."""
    with _opened(account, seconds) as smtp:
        smtp.quit()


@contextmanager
def _opened(account: Account, seconds: float = SECONDS) -> Iterator[smtplib.SMTP]:
    """Connected and logged in. Whatever breaks before the message is handed over may pass."""
    try:
        with _connected(account, seconds) as smtp:
            _log_in(account, smtp)
            yield smtp
    except smtplib.SMTPResponseException as error:
        raise Passing(f"{error.smtp_code} {_text(error.smtp_error)}") from error
    except (OSError, smtplib.SMTPException) as error:
        raise Passing(f"{type(error).__name__}: {error}") from error


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
        if error.smtp_code < 500:  # it cannot tell just now
            raise
        raise LoginFailed(f"{error.smtp_code} {_text(error.smtp_error)}") from error


def _expect(answer: tuple[int, bytes | str], to_recipient: bool = False) -> str:
    code, words = answer
    said = f"{code} {_text(words)}"
    if 200 <= code < 300:
        return said
    raise Refused(said, is_bounce(said, to_recipient)) if code >= 500 else Passing(said)


def _text(words: bytes | str) -> str:
    text = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
    return " ".join(text.split())[:300]
