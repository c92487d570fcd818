"""What a token may be for. Pure."""

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
    """As the table has them, and people read them: always in the same order."""
    given = set(scopes)
    return " ".join(each for each in SCOPES if each in given)


MIN_PASSWORD_LENGTH = 8

# Of a password that nobody has: to try it takes as long as to try a real one.
DUMMY_HASH = "$argon2id$v=19$m=65536,t=3,p=4$bWF5Zmx5LW1heWZseS1tYQ$5QyVHmGj0iG9Nd9HtbOxN9Vn6xrOc5pVYk1oYdCVXEY"


def hash_password(password: str) -> str:
    try:
        from argon2 import PasswordHasher  # here: only those need it who make or check one
    except ModuleNotFoundError as error:
        raise ConsoleMissing(error.name or "") from error
    return PasswordHasher().hash(password)


def password_matches(password_hash: str, password: str) -> bool:
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return PasswordHasher().verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


PREFIX = "mayfly_"  # so that scanners of repositories know one when they see it
RANDOM_BYTES = 32  # with so many bits a plain hash is enough: nobody can try them all
LAST_USED_RESOLUTION = timedelta(minutes=1)  # how exactly it is known when a token was used last

COLUMNS = ("name", "token_hash", "scopes", "created_at", "created_by", "expires_at", "revoked_at", "last_used_at")
ALL = f"SELECT {', '.join(COLUMNS)} FROM mayfly_tokens"
BY_HASH = f"{ALL} WHERE token_hash = :token_hash"
REVOKE = (
    "UPDATE mayfly_tokens SET revoked_at = :now"
    " WHERE name = :name AND (revoked_at IS NULL OR revoked_at = :now)"  # by a first try whose answer was lost
)
USED = (
    "UPDATE mayfly_tokens SET last_used_at = :now"
    " WHERE name = :name AND (last_used_at IS NULL OR last_used_at < :before)"
)


class Token(NamedTuple):
    """One as the table has it: what it is for, and never what it is."""

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

    def is_unseen(self, now: datetime) -> bool:
        """Whether it is worth a write that it is used."""
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
    """To be shown to whoever asked for it, and to nobody after that."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def add_token(connection: Connection, new: Token, deed: AuditEntry) -> None:
    """Whose name was never given before; what a first try has written, whose answer was lost, is the same token."""
    row = {**new._asdict(), "scopes": scopes_text(new.scopes)}
    connection.execute(connection.dialect.insert_missing("mayfly_tokens", ("name",), COLUMNS), row)
    if connection.execute(BY_HASH, {"token_hash": new.token_hash}).first() is None:
        raise TokenExists(new.name)
    deed.note(connection)


def find_token(connection: Connection, text: str, now: datetime) -> Token | None:
    """Whose token this is; None if it is nobody's, or no longer."""
    wanted = hash_token(text)
    row = connection.execute(BY_HASH, {"token_hash": wanted}).first()
    if row is None:
        return None
    token = _token(*row)
    # A collation may take for equal what is not; and how long it takes must not tell how much of it is right.
    return token if hmac.compare_digest(token.token_hash, wanted) and token.holds(now) else None


def list_tokens(connection: Connection) -> list[Token]:
    return [_token(*row) for row in connection.execute(f"{ALL} ORDER BY name").all()]


def revoke_token(connection: Connection, deed: AuditEntry) -> bool:
    """True if it was there, and held. Its row stays: audit rows name it, and its name is not given again."""
    if connection.execute(REVOKE, {"name": deed.subject, "now": deed.done_at}).rowcount != 1:
        return False
    deed.note(connection)
    return True


def record_use(connection: Connection, token: Token, now: datetime) -> None:
    connection.execute(USED, {"name": token.name, "now": now, "before": now - LAST_USED_RESOLUTION})


def hash_token(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _token(name: str, token_hash: str, scopes: str, created_at: Any, created_by: str, *times: Any) -> Token:
    later = (at and utc_from_driver(at) for at in times)
    return Token(name, token_hash, frozenset(scopes.split()), utc_from_driver(created_at), created_by, *later)
