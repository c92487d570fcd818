"""Access tokens of Gmail accounts. One runner at a time refreshes a token, under a lease in its row."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import Connection, select, update

from handlers.campaigns.senders import Sender, SenderFailed
from handlers.campaigns.tables import gmail_tokens
from handlers.http import HttpClient
from handlers.upsert import insert_missing
from mayfly import Job, Retry, Snooze, setting

GMAIL_URL = "https://gmail.googleapis.com"
TOKEN_URL = "https://oauth2.googleapis.com"  # noqa: S105 - not a secret
REFRESH_BEFORE = timedelta(minutes=5)  # a token is refreshed this long before it expires
LEASE = timedelta(seconds=40)  # longer than a refresh may take
LEASE_WAIT_SECONDS = 5.0
REVOKED = (400, 401)  # with the error invalid_grant or invalid_client: a new consent is needed
FIELDS = ("client_id", "client_secret", "refresh_token")


@dataclass(frozen=True)
class _StoredToken:
    access_token: str | None
    expires_at: datetime | None
    leased_by: str | None

    def is_valid(self, until: datetime) -> bool:
        return self.access_token is not None and self.expires_at is not None and self.expires_at > until


def access_token(job: Job, sender: Sender, secret: str) -> str:
    """A valid token. While another runner refreshes it, the old one is used, or the job is snoozed."""
    now, owner = job.now, f"{job.id}:{job.claims}"
    token = job.read(lambda connection: _select(connection, sender.id))
    if not token.is_valid(now + REFRESH_BEFORE):
        token = job.write(lambda connection: _lease(connection, sender, owner, now))
        if token.leased_by == owner:  # committed: no transaction is open while the provider answers
            return _refresh(job, sender, secret, owner)
    if not token.is_valid(now):
        reason = f"another runner refreshes the access token of {sender.name}"
        raise Snooze(after=LEASE_WAIT_SECONDS, reason=reason)
    return str(token.access_token)


def forget_token(job: Job, sender: Sender) -> None:
    """The provider refused it before it expired."""
    change = update(gmail_tokens).where(gmail_tokens.c.sender_id == sender.id).values(expires_at=None)
    job.write(lambda connection: connection.execute(change))


def _select(connection: Connection, sender_id: int) -> _StoredToken:
    t = gmail_tokens.c
    row = connection.execute(
        select(t.access_token, t.expires_at, t.leased_by).where(t.sender_id == sender_id)
    ).first()  # fmt: skip
    return _StoredToken(None, None, None) if row is None else _StoredToken(*row)


def _lease(connection: Connection, sender: Sender, owner: str, now: datetime) -> _StoredToken:
    insert_missing(connection, gmail_tokens, {"sender_id": sender.id, "tenant_id": sender.tenant_id})
    t = gmail_tokens.c
    is_free = t.lease_until.is_(None) | (t.lease_until <= now)
    is_due = t.expires_at.is_(None) | (t.expires_at <= now + REFRESH_BEFORE)
    change = update(gmail_tokens).where(t.sender_id == sender.id, is_free, is_due)
    connection.execute(change.values(leased_by=owner, lease_until=now + LEASE))
    return _select(connection, sender.id)


def _refresh(job: Job, sender: Sender, secret: str, owner: str) -> str:
    values: dict[str, Any] = {}
    try:
        values = _values(_request(sender, secret), job.now)
    finally:
        _write_back(job, sender, owner, values)
    return str(values["access_token"])


def _values(answer: Any, now: datetime) -> dict[str, Any]:
    try:
        expires_at = now + timedelta(seconds=float(answer["expires_in"]))
        return {"access_token": str(answer["access_token"]), "expires_at": expires_at}
    except (KeyError, TypeError, ValueError) as error:
        raise Retry("the token server answered without access_token and expires_in") from error


def _request(sender: Sender, secret: str) -> Any:
    # Without quotes: an answer may repeat the request, which has the refresh token.
    client = HttpClient(setting("GOOGLE_TOKEN_URL", TOKEN_URL), quotes=False)
    form = urlencode({"grant_type": "refresh_token", **_credentials(sender, secret)}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    response = client.call("POST", "/token", form, headers, expected=REVOKED)
    if response.status in REVOKED:
        raise SenderFailed(f"{client.host} refused the refresh token ({response.status}): renew {sender.credential}")
    return response.json()


def _credentials(sender: Sender, secret: str) -> dict[str, str]:
    try:
        found = json.loads(secret)
        return {name: str(found[name]) for name in FIELDS}
    except (KeyError, TypeError, ValueError):
        reason = f"{sender.credential} must be a JSON object with {', '.join(FIELDS)}"
        raise SenderFailed(reason) from None


def _write_back(job: Job, sender: Sender, owner: str, values: dict[str, Any]) -> None:
    """Ends the lease, if it is still ours."""
    t = gmail_tokens.c
    change = update(gmail_tokens).where(t.sender_id == sender.id, t.leased_by == owner)
    job.write(lambda connection: connection.execute(change.values(leased_by=None, lease_until=None, **values)))
