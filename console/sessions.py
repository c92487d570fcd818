"""Accounts of the web console, and sessions in signed cookies."""

import hmac
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from itsdangerous import BadData, URLSafeSerializer
from starlette.requests import Request
from starlette.responses import Response

from mayfly.clock import milliseconds
from mayfly.settings import Settings
from mayfly.settings.values import ROLES

VIEWER, OPERATOR, ADMIN = ROLES  # each includes the rights of those before it
SESSION_COOKIE = "mayfly_session"
RENEW_AFTER = 0.1  # of its length: a session in use does not expire, and not every response sets a cookie


class ConsoleAccount(NamedTuple):
    name: str
    role: str
    password_hash: str


class Session(NamedTuple):
    """A logged-in account."""

    name: str
    role: str
    nonce: str
    started_ms: int
    csrf_token: str  # required in every form

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


def accounts_of(settings: Settings) -> Mapping[str, ConsoleAccount]:
    """CONSOLE_PASSWORD_HASH is the password of the account `admin`, even if CONSOLE_ACCOUNTS has that name too."""
    found = {
        name: ConsoleAccount(name, each.role, each.password_hash.get_secret_value())
        for name, each in settings.console_accounts.items()
    }
    if settings.console_password_hash is not None:
        found[ADMIN] = ConsoleAccount(ADMIN, ADMIN, settings.console_password_hash.get_secret_value())
    return found


class SessionStore:
    """Sessions are signed cookies; the database has only those that were ended by logout (mayfly_logouts).

    The signing key is derived from the account's password hash, so a new password ends all its sessions, and from
    the environment, so a cookie of one installation is invalid in another.
    """

    def __init__(self, settings: Settings, environment: str) -> None:
        self.accounts = accounts_of(settings)
        self._length = timedelta(seconds=settings.console_session)
        self._environment = environment
        self._cookie_path = settings.console_prefix or "/"
        self._has_tls_proxy = settings.console_tls_proxy

    def start(self, name: str, now: datetime, nonce: str | None = None) -> str:
        """Return the value of the cookie. With a nonce, renew that session."""
        account = self.accounts[name]
        return str(self._signer(account).dumps([name, nonce or secrets.token_urlsafe(16), milliseconds(now)]))

    def read(self, cookie: str, now: datetime) -> Session | None:
        """Return None if the cookie is forged or expired."""
        _is_signed, claimed = URLSafeSerializer("").loads_unsafe(cookie)
        account = self.accounts.get(_name_in(claimed))
        if account is None:
            return None
        try:
            name, nonce, started_ms = self._signer(account).loads(cookie)
        except (BadData, ValueError, TypeError):
            return None
        if milliseconds(now) - started_ms > self._length / timedelta(milliseconds=1):
            return None
        return Session(name, account.role, nonce, started_ms, self._csrf_token(account, nonce))

    def needs_renewal(self, session: Session, now: datetime) -> bool:
        return milliseconds(now) - session.started_ms > RENEW_AFTER * (self._length / timedelta(milliseconds=1))

    def set_cookie(self, request: Request, response: Response, value: str) -> None:
        max_age = int(self._length.total_seconds())
        response.set_cookie(SESSION_COOKIE, value, max_age, **self._cookie_options(request))

    def delete_cookie(self, request: Request, response: Response) -> None:
        response.delete_cookie(SESSION_COOKIE, **self._cookie_options(request))

    def _cookie_options(self, request: Request) -> dict[str, Any]:
        """Scripts cannot read it, cross-site forms do not send it; with TLS, it is never sent without it."""
        secure = self._has_tls_proxy or request.url.scheme == "https"
        return {"path": self._cookie_path, "secure": secure, "httponly": True, "samesite": "lax"}

    def _signer(self, account: ConsoleAccount) -> URLSafeSerializer:
        return URLSafeSerializer(self._key(account), salt="mayfly session")

    def _csrf_token(self, account: ConsoleAccount, nonce: str) -> str:
        return hmac.new(self._key(account), f"csrf {nonce}".encode(), sha256).hexdigest()

    def _key(self, account: ConsoleAccount) -> bytes:
        return sha256(f"{self._environment}\n{account.name}\n{account.password_hash}".encode()).digest()


def _name_in(claimed: Any) -> str:
    return claimed[0] if isinstance(claimed, list) and claimed and isinstance(claimed[0], str) else ""
