"""Tokens in the table, on every database: found by their hash, and by nothing else."""

from datetime import timedelta

import pytest

from mayfly.admin import auth
from mayfly.admin.audit import Actor, AuditEntry
from mayfly.admin.auth import Token
from mayfly.db.database import Database
from mayfly.errors import TokenExists
from tests.database.factories import rows_of
from tests.tables import audit
from tests.tables import tokens as rows


def add(database: Database, name: str, text: str, **columns: object) -> Token:
    now = database.clock.now()
    new = Token(name, auth.hash_token(text), frozenset({"read", "work"}), now, "ann", **columns)  # type: ignore[arg-type]
    deed = AuditEntry(Actor("ann", "terminal"), "create token", name, now)
    database.run(lambda connection: auth.add_token(connection, new, deed))
    return new


def find(database: Database, text: str) -> Token | None:
    now = database.clock.now()
    return database.read(lambda connection: auth.find_token(connection, text, now))


def test_a_token_is_found_by_its_text_and_never_kept(database: Database) -> None:
    """Neither another one, nor its hash, nor its name opens anything."""
    text = auth.new_token_text()
    new = add(database, "shop", text)

    found = find(database, text)

    assert found == new
    assert [find(database, each) for each in (text[:-1], text.upper(), new.token_hash, "shop", "", "\udc80")] == [
        None
    ] * 6
    assert text not in str(rows_of(database, rows))


def test_a_name_is_given_once(database: Database) -> None:
    """Also after it was revoked; and the first stays as it is."""
    text = auth.new_token_text()
    add(database, "shop", text)

    with pytest.raises(TokenExists):
        add(database, "shop", auth.new_token_text())

    assert find(database, text) is not None


def test_a_token_that_is_over_opens_nothing(database: Database) -> None:
    """Be it by its time or by somebody's hand."""
    now = database.clock.now()
    add(database, "old", "old", expires_at=now)
    add(database, "lent", "lent", expires_at=now + timedelta(hours=1))
    add(database, "taken", "taken")
    deed = AuditEntry(Actor("bob", "terminal"), "revoke token", "taken", now)

    revoked = [database.run(lambda connection: auth.revoke_token(connection, deed)) for _ in range(2)]
    later = deed._replace(done_at=now + timedelta(seconds=1))

    assert [find(database, each) is not None for each in ("old", "lent", "taken")] == [False, True, False]
    assert revoked == [True, True]  # the second is the first one's, whose answer was lost
    assert not database.run(lambda connection: auth.revoke_token(connection, later))
    assert [(row.verb, row.subject, row.done_by) for row in rows_of(database, audit)][-1] == (
        "revoke token",
        "taken",
        "bob",
    )


def test_when_it_was_used_is_known_to_the_minute(database: Database) -> None:
    """A write for each request would be dear."""
    token = add(database, "shop", "text")
    now = database.clock.now()
    for seconds in (0, 30, 90):
        at = now + timedelta(seconds=seconds)
        database.once(lambda connection, at=at: auth.record_use(connection, token, at))  # type: ignore[misc]

    found = find(database, "text")

    assert found is not None
    assert found.last_used_at == now + timedelta(seconds=90)
    assert not found.needs_use_recorded(now + timedelta(seconds=100))
