"""Hand a message over to the provider of its sender: SMTP, the Gmail API, or a Twilio-compatible API."""

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from urllib.parse import quote, urlencode

from handlers.campaigns.gmail import GMAIL_URL, access_token, forget_token
from handlers.campaigns.senders import AnswerUnknown, MessageRefused, Sender, SenderBusy, SenderFailed
from handlers.http import HttpClient, HttpResponse, ResponseTooLarge, ResponseUnknown
from handlers.mail import smtp
from handlers.mail.accounts import Account, read_accounts
from handlers.mail.message import compose
from handlers.mail.payloads import Mail
from mayfly import Dead, Job, MayflyError, Retry, setting

# Otherwise a user with the right to add senders could send any setting to their own server.
CREDENTIAL = r"SENDER_[A-Z0-9_]{1,57}"
ACCOUNT_ERRORS = (401, 403)  # the account is at fault, not the message
# Gmail reports them with status 403: https://developers.google.com/workspace/gmail/api/guides/handle-errors
RATE_LIMITS = {"rateLimitExceeded", "userRateLimitExceeded", "dailyLimitExceeded"}
TWILIO_URL = "https://api.twilio.com"
VOICE = "voicemail"


@dataclass(frozen=True)
class RenderedMessage:
    """With the contact's fields filled in. `key` identifies the message for the receiver."""

    channel: str
    to: str
    text: str
    mail: Mail | None = None  # of an email
    key: str = ""
    bounces_to: str | None = None  # the sender of the envelope, if it is not that of the account


def hand_over(job: Job, sender: Sender, message: RenderedMessage, before: Callable[[], None]) -> str:
    """Send the message and return the provider's answer. `before` is called right before it is sent.

    Raises SenderFailed, SenderBusy, MessageRefused or AnswerUnknown; Retry or Snooze if the service is unavailable.
    """
    secret = secret_of(sender)
    match sender.provider:
        case "smtp":
            return _over_smtp(sender, secret, message, before)
        case "gmail":
            return _over_gmail(job, sender, secret, message, before)
    return _over_twilio(sender, secret, message, before)


def secret_of(sender: Sender) -> str:
    if not re.fullmatch(CREDENTIAL, sender.credential):
        raise SenderFailed(f"{sender.credential} must be the name of a setting that begins with SENDER_")
    secret = setting(sender.credential, "")
    if not secret or not secret.isascii() or not secret.isprintable():
        raise SenderFailed(f"{sender.credential} is not set, or is not one line of ASCII")
    return secret


# --- SMTP -------------------------------------------------------------------------------------------------


def _over_smtp(sender: Sender, secret: str, message: RenderedMessage, before: Callable[[], None]) -> str:
    account = _account(sender, secret)
    try:
        return smtp.send(account, message.to, _composed(sender, message), before, message.bounces_to)
    except smtp.LoginFailed as error:
        raise SenderFailed(str(error)) from error
    except smtp.TemporaryFailure as error:
        raise SenderBusy(str(error)) from error
    except smtp.PermanentFailure as error:
        raise MessageRefused(str(error), error.is_bounce) from error
    except smtp.ReplyUnknown as error:
        raise AnswerUnknown(str(error)) from error


def _account(sender: Sender, secret: str) -> Account:
    """The setting has one URL, as in SMTP_ACCOUNTS: smtp://user:password@host:587?from=ann@shop.example."""
    try:
        [account] = read_accounts(secret)
    except (MayflyError, ValueError):  # an error of SMTP_ACCOUNTS would name that setting
        raise SenderFailed(f"{sender.credential} must be one URL like smtp://user:password@host:587?from=…") from None
    return account


def _composed(sender: Sender, message: RenderedMessage) -> bytes:
    assert message.mail is not None
    return compose(message.mail, sender.address, message.key)


# --- the Gmail API ----------------------------------------------------------------------------------------


def _over_gmail(
    job: Job, sender: Sender, secret: str, message: RenderedMessage, before: Callable[[], None]
) -> str:  # fmt: skip
    token = access_token(job, sender, secret)
    body = b'{"raw":"' + urlsafe_b64encode(_composed(sender, message)) + b'"}'
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    before()
    client = HttpClient(setting("GMAIL_URL", GMAIL_URL))
    response = _call(client, "/gmail/v1/users/me/messages/send", body, headers)
    if response.status == ACCOUNT_ERRORS[0]:
        forget_token(job, sender)
        raise SenderBusy(f"{response.host} refused the access token: it will be refreshed")
    if response.status == ACCOUNT_ERRORS[1] and _reasons(response) & RATE_LIMITS:
        raise SenderBusy(f"{response.host} has a rate limit for this account")
    return _answer(response, "id")


def _reasons(response: HttpResponse) -> set[str]:
    """Of an error, as Google's APIs report it."""
    try:
        return {str(each["reason"]) for each in response.json()["error"]["errors"]}
    except (Retry, KeyError, TypeError):
        return set()


# --- Twilio -----------------------------------------------------------------------------------------------


def _over_twilio(sender: Sender, secret: str, message: RenderedMessage, before: Callable[[], None]) -> str:
    """The setting has the account and its token: AC…:token."""
    account, _, token = secret.partition(":")
    if not account or not token:
        raise SenderFailed(f"{sender.credential} must be the account SID and the token, as in AC…:token")
    form = {"To": message.to, "From": sender.address}
    if message.channel == VOICE:
        form["Twiml"] = f"<Response><Say>{escape(message.text)}</Say></Response>"
    else:
        form["Body"] = message.text
    resource = "Calls" if message.channel == VOICE else "Messages"
    path = f"/2010-04-01/Accounts/{quote(account, safe='')}/{resource}.json"
    headers = {
        "Authorization": f"Basic {b64encode(secret.encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    before()
    client = HttpClient(setting("TWILIO_URL", TWILIO_URL))
    return _answer(_call(client, path, urlencode(form).encode(), headers), "sid")


def _call(client: HttpClient, path: str, body: bytes, headers: dict[str, str]) -> HttpResponse:
    try:
        response = client.call("POST", path, body, headers, expected=ACCOUNT_ERRORS)
    except (ResponseUnknown, ResponseTooLarge) as error:
        raise AnswerUnknown(str(error)) from error
    except Dead as error:
        raise MessageRefused(str(error)) from error
    return response


def _answer(response: HttpResponse, field: str) -> str:
    if response.status in ACCOUNT_ERRORS:
        raise SenderFailed(f"{response.host} returned {response.status}: the account is refused")
    try:
        return str(response.json()[field])
    except (Retry, KeyError, TypeError) as error:  # it was accepted, by a proxy at least
        raise AnswerUnknown(f"{response.host} returned {response.status} without {field}") from error
