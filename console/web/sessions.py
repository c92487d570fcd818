"""Who may log in, and what each may do. Pure."""

import hmac
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from itsdangerous import BadData, URLSafeSerializer

from mayfly.clock import milliseconds
from mayfly.settings import Settings
from mayfly.settings.values import ROLES

VIEWER, OPERATOR, ADMIN = ROLES  # each may what those before it may


class ConsoleAccount(NamedTuple):
    name: str
    role: str
    password_hash: str


class Person(NamedTuple):
    """Somebody who is logged in."""

    name: str
    role: str

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


def accounts_of(settings: Settings) -> Mapping[str, ConsoleAccount]:
    """CONSOLE_PASSWORD_HASH is the password of the account `admin`, whatever CONSOLE_ACCOUNTS says of that name."""
    found = {
        name: ConsoleAccount(name, each.role, each.password_hash.get_secret_value())
        for name, each in settings.console_accounts.items()
    }
    if settings.console_password_hash is not None:
        found[ADMIN] = ConsoleAccount(ADMIN, ADMIN, settings.console_password_hash.get_secret_value())
    return found


MAX_ADDRESSES = 10_000
FORGET_AFTER_SECONDS = 3600.0  # after the last failure
FIRST_WAIT, LONGEST_WAIT = 30.0, 900.0  # seconds


class Failures(NamedTuple):
    number: int
    last_at: float


class LoginAttempts:
    """Some failures are free; each one after those doubles the wait, for an address as for an account.

    Who waits is refused even with the right password: otherwise he could go on guessing.
    """

    def __init__(self, free: int) -> None:
        self._free = free
        self._failed: dict[str, Failures] = {}

    def wait(self, who: str, now: float) -> float:
        """Seconds until he may try again; 0 if he may now."""
        known = self._failed.get(who)
        if known is None or now - known.last_at > FORGET_AFTER_SECONDS or known.number < self._free:
            return 0.0
        pause = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(10, known.number - self._free))
        return max(0.0, known.last_at + pause - now)

    def fail(self, who: str, now: float) -> None:
        known = self._failed.get(who, Failures(0, now))
        number = 0 if now - known.last_at > FORGET_AFTER_SECONDS else known.number
        self._failed[who] = Failures(number + 1, now)
        if len(self._failed) > MAX_ADDRESSES:
            self._forget(now)

    def succeed(self, who: str) -> None:
        self._failed.pop(who, None)

    def _forget(self, now: float) -> None:
        """Those that no longer wait; if all do, the older half."""
        waiting = {who: each for who, each in self._failed.items() if self.wait(who, now)}
        newest = sorted(waiting.items(), key=lambda item: item[1].last_at)[-MAX_ADDRESSES // 2 :]
        self._failed = dict(newest)


COOKIE = "mayfly_session"
RENEWED_AFTER = 0.1  # of its length: one that is used does not end, and not every answer sets a cookie


class Session(NamedTuple):
    person: Person
    nonce: str
    begun_ms: int
    csrf: str  # what every form must bring back


class SessionStore:
    """The key of each comes from the account's own hash: a new password ends all sessions that the old one began."""

    def __init__(self, accounts: Mapping[str, ConsoleAccount], length_seconds: float, place: str) -> None:
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

    def _signer(self, account: ConsoleAccount) -> URLSafeSerializer:
        return URLSafeSerializer(self._key(account), salt="mayfly session")

    def _csrf(self, account: ConsoleAccount, nonce: str) -> str:
        return hmac.new(self._key(account), f"csrf {nonce}".encode(), sha256).hexdigest()

    def _key(self, account: ConsoleAccount) -> bytes:
        return sha256(f"{self._place}\n{account.name}\n{account.password_hash}".encode()).digest()


def _name_in(claimed: Any) -> str:
    return claimed[0] if isinstance(claimed, list) and claimed and isinstance(claimed[0], str) else ""
