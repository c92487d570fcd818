"""Sessions: a signed cookie says who somebody is and since when. Only who has logged out is kept here."""

import hmac
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from itsdangerous import BadData, URLSafeSerializer

from console.web.accounts import Account, Person
from mayfly.clock import milliseconds

COOKIE = "mayfly_session"
RENEWED_AFTER = 0.1  # of its length: one that is used does not end, and not every answer sets a cookie


class Session(NamedTuple):
    person: Person
    nonce: str
    begun_ms: int
    csrf: str  # what every form must bring back


class Sessions:
    """The key of each comes from the account's own hash: a new password ends all sessions that the old one began."""

    def __init__(self, accounts: Mapping[str, Account], length_seconds: float, place: str) -> None:
        self._accounts = accounts
        self._length = timedelta(seconds=length_seconds)
        self._place = place  # the environment: what is signed here is worth nothing in another
        self._ended: dict[str, datetime] = {}

    @property
    def length(self) -> timedelta:
        return self._length

    def begin(self, name: str, now: datetime, nonce: str | None = None) -> str:
        """The cookie's value; with a nonce it is the same session, as new."""
        account = self._accounts[name]
        return str(self._signer(account).dumps([name, nonce or secrets.token_urlsafe(16), milliseconds(now)]))

    def read(self, cookie: str, now: datetime) -> Session | None:
        """None for one that is nobody's, too old, or ended."""
        _is_signed, claimed = URLSafeSerializer("").loads_unsafe(cookie)
        account = self._accounts.get(_name_in(claimed))
        if account is None:
            return None
        try:
            name, nonce, begun_ms = self._signer(account).loads(cookie)
        except (BadData, ValueError, TypeError):
            return None
        if nonce in self._ended or milliseconds(now) - begun_ms > self._length / timedelta(milliseconds=1):
            return None
        return Session(Person(name, account.role), nonce, begun_ms, self._csrf(account, nonce))

    def is_old(self, session: Session, now: datetime) -> bool:
        """Enough to be renewed."""
        return milliseconds(now) - session.begun_ms > RENEWED_AFTER * (self._length / timedelta(milliseconds=1))

    def end(self, session: Session, now: datetime) -> None:
        """Nobody can use a copy of its cookie either, as long as this process lives."""
        self._ended = {nonce: until for nonce, until in self._ended.items() if until > now}
        self._ended[session.nonce] = now + self._length

    def _signer(self, account: Account) -> URLSafeSerializer:
        return URLSafeSerializer(self._key(account), salt="mayfly session")

    def _csrf(self, account: Account, nonce: str) -> str:
        return hmac.new(self._key(account), f"csrf {nonce}".encode(), sha256).hexdigest()

    def _key(self, account: Account) -> bytes:
        return sha256(f"{self._place}\n{account.name}\n{account.password_hash}".encode()).digest()


def _name_in(claimed: Any) -> str:
    return claimed[0] if isinstance(claimed, list) and claimed and isinstance(claimed[0], str) else ""
