"""Tokens in the table: found only by the hash of their text."""

from datetime import datetime, timedelta
from functools import partial

import pytest

from mayfly.admin import auth
from mayfly.admin.auth import Actor, AuditEntry, Token
from mayfly.db.database import Database
from mayfly.errors import TokenExists
from mayfly.schema.metadata import audit
from mayfly.schema.metadata import tokens as rows
from tests.database.factories import rows_of


def add(database: Database, name: str, text: str, **columns: object) -> Token:
    now = database.clock.now()
    new = Token(name, auth.hash_token(text), frozenset({"read", "work"}), now, "ann", **columns)  # type: ignore[arg-type]
    entry = AuditEntry(Actor("ann", "terminal"), "create token", name, now)
    database.run(lambda connection: auth.add_token(connection, new, entry))
    return new


def find(database: Database, text: str) -> Token | None:
    now = database.clock.now()
    return database.read(lambda connection: auth.find_token(connection, text, now))


def test_a_token_is_found_by_its_text_which_is_not_stored(database: Database) -> None:
    """Another text, its hash or its name do not match."""
    text = auth.new_token_text()
    new = add(database, "shop", text)

    found = find(database, text)

    assert found == new
    assert [find(database, each) for each in (text[:-1], text.upper(), new.token_hash, "shop", "", "\udc80")] == [
        None
    ] * 6
    assert text not in str(rows_of(database, rows))


def test_a_name_is_used_once(database: Database) -> None:
    """Also after it was revoked; the first token is unchanged."""
    text = auth.new_token_text()
    add(database, "shop", text)

    with pytest.raises(TokenExists):
        add(database, "shop", auth.new_token_text())

    assert find(database, text) is not None


def test_an_expired_or_revoked_token_is_refused(database: Database) -> None:
    """From the time of its expiry or its revocation on."""
    now = database.clock.now()
    add(database, "old", "old", expires_at=now)
    add(database, "lent", "lent", expires_at=now + timedelta(hours=1))
    add(database, "taken", "taken")
    entry = AuditEntry(Actor("bob", "terminal"), "revoke token", "taken", now)

    revoked = [database.run(lambda connection: auth.revoke_token(connection, entry)) for _ in range(2)]
    later = entry._replace(done_at=now + timedelta(seconds=1))

    assert [find(database, each) is not None for each in ("old", "lent", "taken")] == [False, True, False]
    assert revoked == [True, True]  # the second is a repeat of the first, whose answer was lost
    assert not database.run(lambda connection: auth.revoke_token(connection, later))
    assert [(row.verb, row.subject, row.done_by) for row in rows_of(database, audit)][-1] == (
        "revoke token",
        "taken",
        "bob",
    )


def test_the_last_use_is_stored_to_the_minute(database: Database) -> None:
    """A write for each request would be expensive."""
    token = add(database, "shop", "text")
    now = database.clock.now()
    for seconds in (0, 30, 90):
        at = now + timedelta(seconds=seconds)
        database.once(lambda connection, at=at: auth.record_use(connection, token, at))  # type: ignore[misc]

    found = find(database, "text")

    assert found is not None
    assert found.last_used_at == now + timedelta(seconds=90)
    assert not found.needs_use_recorded(now + timedelta(seconds=100))


def test_a_session_that_was_ended_stays_ended(database: Database) -> None:
    """As long as the longest session; later logouts then delete it. A logout may be repeated."""
    now = database.clock.now()

    def end(session_id: str, at: datetime) -> None:
        database.run(lambda connection: auth.end_session(connection, session_id, at))

    def ended() -> list[bool]:
        return [database.read(partial(auth.has_ended, session_id=each)) for each in ("old", "new", "NEW", "other")]

    for at in (now, now + timedelta(days=6)):
        end("old", at)
    end("new", now + timedelta(days=6, hours=23))
    both = ended()
    end("newest", now + timedelta(days=7, seconds=1))

    assert both == [True, True, False, False]
    assert ended() == [False, True, False, False]
