"""Authorization and audit: password hashes, logouts, tokens with their scopes, and the record of manual actions."""

import hashlib
import hmac
import os
import pwd
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any, NamedTuple

from mayfly.admin.jobs import facts_of, read_views
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import ConsoleMissing, TokenExists, WeakPassword
from mayfly.queue.outcome import bounded, storable
from mayfly.schema.tables import NAME_LENGTH

# --- the audit ----------------------------------------------------------------------------------------------

TERMINAL, HTTP, PAGE, PYTHON = "terminal", "http", "page", "python"


class Actor(NamedTuple):
    name: str
    via: str = PYTHON


def this_user(via: str) -> Actor:
    """The user of this process, or its uid where it has no name, as in a container."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return Actor(name[:NAME_LENGTH], via)


AUDIT_COLUMNS = ("done_at", "done_by", "via", "verb", "subject", "jobs", "reason")
MAX_TEXT_LENGTH = 4000  # characters of a subject or a reason: a list of ids may be as long as a command line
OWN_ENTRY = "done_at = :done_at AND done_by = :done_by AND verb = :verb AND subject = :subject"
FIND_ENTRY = f"SELECT id FROM mayfly_audit WHERE {OWN_ENTRY}"
ADD_ENTRY = f"UPDATE mayfly_audit SET jobs = jobs + :jobs WHERE {OWN_ENTRY}"


class AuditEntry(NamedTuple):
    actor: Actor
    verb: str
    subject: str  # the filter, lane or name that was given
    done_at: datetime
    reason: str | None = None

    def note(self, connection: Connection) -> None:
        """Write an entry without a number of jobs. Repeatable after a commit whose reply was lost."""
        row = self._row(None)
        if connection.execute(FIND_ENTRY, row).first() is None:
            connection.execute(connection.dialect.insert("mayfly_audit", AUDIT_COLUMNS), row)

    def add(self, connection: Connection, jobs: int) -> None:
        """Add the jobs of one slice. Repeatable: a slice that was committed finds nothing to change."""
        if not jobs:
            return
        row = self._row(jobs)
        if not connection.execute(ADD_ENTRY, row).rowcount:
            connection.execute(connection.dialect.insert("mayfly_audit", AUDIT_COLUMNS), row)

    def _row(self, jobs: int | None) -> dict[str, object]:
        subject, reason = bounded(storable(self.subject), MAX_TEXT_LENGTH), self.reason
        kept = None if reason is None else bounded(storable(reason), MAX_TEXT_LENGTH)
        return dict(zip(AUDIT_COLUMNS, (self.done_at, *self.actor, self.verb, subject, jobs, kept), strict=True))


def audited(database: Database, entry: AuditEntry, change: Callable[[Connection], bool | None]) -> bool:
    """Make a change and write its entry in one transaction; no entry if `change` returns False."""

    def work(connection: Connection) -> bool:
        is_change = change(connection) is not False
        if is_change:
            entry.note(connection)
        return is_change

    return database.run(work)


class AuditView(NamedTuple):
    id: int
    done_at: datetime
    done_by: str
    via: str
    verb: str
    subject: str
    jobs: int | None
    reason: str | None


def list_audit(connection: Connection, size: int = 50, before: int | None = None) -> list[AuditView]:
    """The newest first; `before` is the last id of the previous page."""
    older = " WHERE id < :before" if before is not None else ""
    source = f"mayfly_audit{older} ORDER BY id DESC LIMIT :size"
    return read_views(connection, AuditView, source, {"before": before, "size": size})


# --- passwords and tokens ------------------------------------------------------------------------------------

ENQUEUE, READ, OPERATE, WORK, METRICS = "enqueue", "read", "operate", "work", "metrics"
SCOPES = {
    ENQUEUE: "enqueue jobs",
    READ: "read jobs, lanes, cycles and runners",
    OPERATE: "retry, cancel, discard and delay jobs; pause and set lanes",
    WORK: "pull jobs of external lanes and settle them",
    METRICS: "scrape the metrics",
}


def scopes_text(scopes: Iterable[str]) -> str:
    """In a fixed order, as stored and shown."""
    given = set(scopes)
    return " ".join(each for each in SCOPES if each in given)


MIN_PASSWORD_LENGTH = 10
# Those of at least 10 characters that lists of leaked passwords begin with, and those that suggest themselves here.
COMMON_PASSWORDS = (
    "0123456789 0987654321 1111111111 1234567890 12345678910 1234567891 123456789a 123123123123 1q2w3e4r5t"
    " 1q2w3e4r5t6y 1qaz2wsx3edc a123456789 admin12345 admin123456 adminadmin administrator changeme123"
    " football123 iloveyou123 letmein123 mayflymayfly p@ssword123 passw0rd123 password01 password12 password123"
    " password1234 passwordpassword q1w2e3r4t5 qazwsxedcr qwerty12345 qwerty123456 qwertyuiop qwertyuiop123"
    " superadmin unknown123 welcome123 welcome1234"
)

# Verified for an unknown name, so that it takes as long as for a known one.
DUMMY_HASH = "$argon2id$v=19$m=65536,t=3,p=4$bWF5Zmx5LW1heWZseS1tYQ$5QyVHmGj0iG9Nd9HtbOxN9Vn6xrOc5pVYk1oYdCVXEY"


def refuse_weak(password: str) -> None:
    if len(password) < MIN_PASSWORD_LENGTH:
        raise WeakPassword(f"must have at least {MIN_PASSWORD_LENGTH} characters")
    if password.lower() in COMMON_PASSWORDS.split():
        raise WeakPassword("is a common one, which is guessed first")


def hash_password(password: str) -> str:
    hashed: str = _argon2().PasswordHasher().hash(password)
    return hashed


def password_matches(password_hash: str, password: str) -> bool:
    argon2 = _argon2()
    try:
        return bool(argon2.PasswordHasher().verify(password_hash, password))
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


def _argon2() -> ModuleType:
    try:
        import argon2  # an extra, and slow to import
    except ModuleNotFoundError as error:
        raise ConsoleMissing(error.name or "") from error
    return argon2


MAX_SESSION = timedelta(days=7)  # the largest CONSOLE_SESSION: a later setting may be longer than that of the logout


def end_session(connection: Connection, session_id: str, now: datetime) -> None:
    """Repeatable: the first logout counts. Deletes those of sessions that have expired."""
    connection.execute("DELETE FROM mayfly_logouts WHERE ended_at < :before", {"before": now - MAX_SESSION})
    row = {"session_id": session_id, "ended_at": now}
    connection.execute(connection.dialect.insert_missing("mayfly_logouts", ("session_id",), row), row)


def has_ended(connection: Connection, session_id: str) -> bool:
    found = connection.execute("SELECT 1 FROM mayfly_logouts WHERE session_id = :id", {"id": session_id})
    return found.first() is not None


PREFIX = "mayfly_"  # so that secret scanners recognise it
RANDOM_BYTES = 32  # cannot be guessed, so a plain hash is enough
LAST_USED_RESOLUTION = timedelta(minutes=1)  # of last_used_at: saves a write per request

BY_HASH = "mayfly_tokens WHERE token_hash = :token_hash"
REVOKE = (
    "UPDATE mayfly_tokens SET revoked_at = :now"
    " WHERE name = :name AND (revoked_at IS NULL OR revoked_at = :now)"  # = :now: by this call, whose reply was lost
)
USED = (
    "UPDATE mayfly_tokens SET last_used_at = :now"
    " WHERE name = :name AND (last_used_at IS NULL OR last_used_at < :before)"
)


class Token(NamedTuple):
    """A row of mayfly_tokens: the hash of the token, never the token itself."""

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
        facts = {**facts_of(self), "scopes": scopes_text(self.scopes).split(), "holds": self.holds(now)}
        del facts["token_hash"]
        return facts


def new_token_text() -> str:
    """Shown once; only its hash is stored."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def add_token(connection: Connection, new: Token, entry: AuditEntry) -> None:
    """Raises TokenExists for a name that was used before. Repeatable: the same token is found by its hash."""
    row = {**new._asdict(), "scopes": scopes_text(new.scopes)}
    connection.execute(connection.dialect.insert_missing("mayfly_tokens", ("name",), row), row)
    if not _tokens(connection, BY_HASH, {"token_hash": new.token_hash}):
        raise TokenExists(new.name)
    entry.note(connection)


def find_token(connection: Connection, text: str, now: datetime) -> Token | None:
    """The token of this text; None if it is unknown, revoked or expired."""
    wanted = hash_token(text)
    # The database's collation may be case-insensitive, and its comparison is not constant-time.
    found = (each for each in _tokens(connection, BY_HASH, {"token_hash": wanted}) if each.holds(now))
    return next((each for each in found if hmac.compare_digest(each.token_hash, wanted)), None)


def list_tokens(connection: Connection) -> list[Token]:
    return _tokens(connection, "mayfly_tokens ORDER BY name")


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


def _tokens(connection: Connection, source: str, values: Mapping[str, Any] | None = None) -> list[Token]:
    found = read_views(connection, Token, source, values)
    return [each._replace(scopes=frozenset(str(each.scopes).split())) for each in found]
