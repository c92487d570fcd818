"""The tables of prospects, merges and cached responses, and the statements that several jobs use."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Float, Integer, String, Table, bindparam, select, update

from handlers.prospects.match_keys import keys_of
from handlers.schema import Id, LongText, UtcTimestamp, metadata
from handlers.upsert import insert_missing

MAX_LENGTHS = {
    "email": 190, "name": 190, "company": 190, "title": 190, "phone": 190, "website": 500, "linkedin": 500,
    "city": 190, "country": 190, "notes": 10_000,
}  # fmt: skip
FIELDS = tuple(MAX_LENGTHS)
KEYS = ("email_key", "by_name", "by_company")  # see match_keys; NULL if the fields do not suffice
EMAIL_FIELDS = ("email_status", "email_score")  # of the address
KNOWN = (*FIELDS, *EMAIL_FIELDS)
MAX_CHAIN_LENGTH = 1000  # of merges into merges; a longer one is a cycle, created by manual changes

prospects = Table(
    "app_prospects",
    metadata,
    Column("id", Id, primary_key=True),
    *(Column(name, LongText if name == "notes" else String(length)) for name, length in MAX_LENGTHS.items()),
    Column("email_status", String(32)),  # as the verifier reports it
    Column("email_score", Integer),
    *(Column(name, String(190)) for name in KEYS),
    Column("merged_into", Id),  # the prospect that replaces this one
    Column("import_id", Id),  # the job; NULL: not imported
    Column("line", Id),  # of the imported file
    Column("created_at", UtcTimestamp, nullable=False),
    Column("updated_at", UtcTimestamp, nullable=False),
    Column("enriched_at", UtcTimestamp),
)

merges = Table(
    "app_merges",
    metadata,
    Column("id", Id, primary_key=True),
    Column("winner_id", Id, nullable=False),
    Column("loser_id", Id, nullable=False),
    Column("rule", String(16), nullable=False),  # mail, similarity or review
    Column("score", Float, nullable=False),  # 100: equal
    Column("changes", LongText, nullable=False),  # JSON: each field of the winner before and after
    Column("job_id", Id, nullable=False),
    Column("merged_at", UtcTimestamp, nullable=False),
    Column("undone_at", UtcTimestamp),
    Column("undone_by", Id),  # the job
)

proposals = Table(  # pairs that may be duplicates: a person decides
    "app_merge_proposals",
    metadata,
    Column("id", Id, primary_key=True),
    Column("winner_id", Id, nullable=False),  # unique together with loser_id
    Column("loser_id", Id, nullable=False),
    Column("score", Float, nullable=False),  # 100: equal
    Column("state", String(16), nullable=False),  # open, merged, rejected or obsolete
    Column("job_id", Id, nullable=False),
    Column("proposed_at", UtcTimestamp, nullable=False),
    Column("reviewed_at", UtcTimestamp),
)

cached_answers = Table(
    "app_cached_answers",
    metadata,
    Column("provider", String(32), primary_key=True),
    Column("question_key", String(64), primary_key=True),  # SHA-256 of the request
    Column("question", LongText, nullable=False),
    Column("answer", LongText, nullable=False),  # JSON: the part that is used
    Column("answered_at", UtcTimestamp, nullable=False),
)

Prospect = dict[str, Any]


def insert_new(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Skip lines that are already imported, so that a step can be repeated."""
    insert_missing(connection, prospects, rows)


def lock(connection: Connection, ids: Collection[int]) -> dict[int, Prospect]:
    """The existing prospects by id, locked until the transaction ends."""
    c = prospects.c
    columns = [c[name] for name in ("id", "merged_into", *KNOWN)]
    query = select(*columns).where(c.id.in_(sorted(ids))).order_by(c.id).with_for_update()
    return {row["id"]: dict(row) for row in connection.execute(query).mappings()}


def lock_surviving(connection: Connection, prospect_id: int) -> Prospect | None:
    """The prospect, or the one it was merged into; None if there is none."""
    wanted = prospect_id
    for _ in range(MAX_CHAIN_LENGTH):
        found = lock(connection, {wanted}).get(wanted)
        if found is None or found["merged_into"] is None:
            return found
        wanted = found["merged_into"]
    return None


def store(connection: Connection, changed: Sequence[Prospect], now: datetime) -> None:
    if not changed:
        return
    rows = [
        {"row_id": each["id"], "updated_at": now, **{name: each[name] for name in KNOWN}, **keys_of(each)}
        for each in changed
    ]
    connection.execute(update(prospects).where(prospects.c.id == bindparam("row_id")), rows)
