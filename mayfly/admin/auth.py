"""Access to the console and the HTTP API: password hashes, and tokens with their scopes."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly.admin.audit import AuditEntry
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import ConsoleMissing, TokenExists

ENQUEUE, READ, OPERATE, WORK, METRICS = "enqueue", "read", "operate", "work", "metrics"
SCOPES = {
    ENQUEUE: "enqueue jobs",
    READ: "see jobs, lanes, cycles and runners",
    OPERATE: "retry, cancel, discard and delay jobs; pause and set lanes",
    WORK: "pull jobs of external lanes and settle them",
    METRICS: "scrape the metrics",
}


def scopes_text(scopes: Iterable[str]) -> str:
    """As stored and shown: always in the same order."""
    given = set(scopes)
    return " ".join(each for each in SCOPES if each in given)


MIN_PASSWORD_LENGTH = 8

# Checked for an unknown name, so that it takes as long as for a known one.
DUMMY_HASH = "$argon2id$v=19$m=65536,t=3,p=4$bWF5Zmx5LW1heWZseS1tYQ$5QyVHmGj0iG9Nd9HtbOxN9Vn6xrOc5pVYk1oYdCVXEY"


def hash_password(password: str) -> str:
    try:
        from argon2 import PasswordHasher  # an extra, and slow to import
    except ModuleNotFoundError as error:
        raise ConsoleMissing(error.name or "") from error
    return PasswordHasher().hash(password)


def password_matches(password_hash: str, password: str) -> bool:
    from argon2 import PasswordHasher  # as above
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return PasswordHasher().verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


PREFIX = "mayfly_"  # so that secret scanners recognise it
RANDOM_BYTES = 32  # too many to guess, so a plain hash is enough
LAST_USED_RESOLUTION = timedelta(minutes=1)  # of last_used_at: saves a write per request

COLUMNS = ("name", "token_hash", "scopes", "created_at", "created_by", "expires_at", "revoked_at", "last_used_at")
ALL = f"SELECT {', '.join(COLUMNS)} FROM mayfly_tokens"
BY_HASH = f"{ALL} WHERE token_hash = :token_hash"
REVOKE = (
    "UPDATE mayfly_tokens SET revoked_at = :now"
    " WHERE name = :name AND (revoked_at IS NULL OR revoked_at = :now)"  # = :now: by this call, whose reply was lost
)
USED = (
    "UPDATE mayfly_tokens SET last_used_at = :now"
    " WHERE name = :name AND (last_used_at IS NULL OR last_used_at < :before)"
)


class Token(NamedTuple):
    """A row of the table: its hash and scopes, never the token itself."""

    name: str
    token_hash: str
    scopes: frozenset[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def holds(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def needs_use_recorded(self, now: datetime) -> bool:
        """Whether last_used_at is out of date."""
        return self.last_used_at is None or now - self.last_used_at > LAST_USED_RESOLUTION

    def facts(self, now: datetime) -> dict[str, Any]:
        return {
            "name": self.name,
            "scopes": scopes_text(self.scopes).split(),
            "holds": self.holds(now),
            "created_at": self.created_at.isoformat(timespec="seconds"),
            "created_by": self.created_by,
            "expires_at": self.expires_at and self.expires_at.isoformat(timespec="seconds"),
            "revoked_at": self.revoked_at and self.revoked_at.isoformat(timespec="seconds"),
            "last_used_at": self.last_used_at and self.last_used_at.isoformat(timespec="seconds"),
        }


def new_token_text() -> str:
    """Shown once; only its hash is stored."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def add_token(connection: Connection, new: Token, entry: AuditEntry) -> None:
    """Raises TokenExists for a name that was ever used. Repeatable: the same token is found by its hash."""
    row = {**new._asdict(), "scopes": scopes_text(new.scopes)}
    connection.execute(connection.dialect.insert_missing("mayfly_tokens", ("name",), COLUMNS), row)
    if connection.execute(BY_HASH, {"token_hash": new.token_hash}).first() is None:
        raise TokenExists(new.name)
    entry.note(connection)


def find_token(connection: Connection, text: str, now: datetime) -> Token | None:
    """The token of this text; None if it is unknown, revoked or expired."""
    wanted = hash_token(text)
    row = connection.execute(BY_HASH, {"token_hash": wanted}).first()
    if row is None:
        return None
    token = _token(*row)
    # The database's collation may be case-insensitive, and its comparison is not constant-time.
    return token if hmac.compare_digest(token.token_hash, wanted) and token.holds(now) else None


def list_tokens(connection: Connection) -> list[Token]:
    return [_token(*row) for row in connection.execute(f"{ALL} ORDER BY name").all()]


def revoke_token(connection: Connection, entry: AuditEntry) -> bool:
    """True if it existed and was valid. The row stays: the audit names it, and its name is never reused."""
    if connection.execute(REVOKE, {"name": entry.subject, "now": entry.done_at}).rowcount != 1:
        return False
    entry.note(connection)
    return True


def record_use(connection: Connection, token: Token, now: datetime) -> None:
    connection.execute(USED, {"name": token.name, "now": now, "before": now - LAST_USED_RESOLUTION})


def hash_token(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _token(name: str, token_hash: str, scopes: str, created_at: Any, created_by: str, *times: Any) -> Token:
    later = (at and utc_from_driver(at) for at in times)
    return Token(name, token_hash, frozenset(scopes.split()), utc_from_driver(created_at), created_by, *later)
