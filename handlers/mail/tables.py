"""The tables of stored templates, digests and invoices, and the queries of this area."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Insert,
    Integer,
    Select,
    String,
    Table,
    case,
    func,
    insert,
    literal,
    or_,
    select,
)

from handlers.boards.tables import boards, members, people, posts
from handlers.schema import Id, LongText, UtcTimestamp, metadata, tenant_column

templates = Table(
    "app_templates",
    metadata,
    tenant_column(primary_key=True),
    Column("template_key", String(190), primary_key=True),
    Column("subject", String(500), nullable=False),
    Column("text_body", LongText),
    Column("html_body", LongText),
    Column("created_at", UtcTimestamp, nullable=False),
)

digests = Table(
    "app_digests",
    metadata,
    Column("person_id", Id, primary_key=True, autoincrement=False),
    Column("until_at", UtcTimestamp, nullable=False),  # later posts are in the next digest
    Column("number", Integer, nullable=False),
)

invoice_years = Table(
    "app_invoice_years",
    metadata,
    Column("year", Integer, primary_key=True, autoincrement=False),
    Column("last_number", Integer, nullable=False),
)

invoices = Table(
    "app_invoices",
    metadata,
    Column("id", Id, primary_key=True),
    Column("reference", String(190), nullable=False),  # chosen by the application; unique
    Column("year", Integer, nullable=False),
    Column("number", Integer, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("net", Id, nullable=False),  # cents, like the next two
    Column("vat", Id, nullable=False),
    Column("total", Id, nullable=False),
    Column("content", LongText, nullable=False),  # JSON: the printed content, as issued
    Column("issued_at", UtcTimestamp, nullable=False),
)

# --- digests ----------------------------------------------------------------------------------------------


def count_news(person_id: int, since_at: datetime, until_at: datetime) -> Select[Any]:
    return select(func.count()).select_from(_JOINED).where(*_is_news(person_id, since_at, until_at))


def newest_news(person_id: int, since_at: datetime, until_at: datetime, limit: int) -> Select[Any]:
    """Title, author and text of the newest posts, by board."""
    p = posts.c
    newest = (
        select(p.id, p.board_id, p.author_id, p.published_at, p.body)
        .select_from(_JOINED)
        .where(*_is_news(person_id, since_at, until_at))
        .order_by(p.published_at.desc(), p.id.desc())
        .limit(limit)
        .subquery("newest")
    )
    n = newest.c
    unnamed = case((n.author_id.is_(None), "The co-facilitator"), else_="Someone")
    return (
        select(boards.c.title, func.coalesce(people.c.name, unnamed), n.body)
        .select_from(newest.join(boards, boards.c.id == n.board_id).outerjoin(people, people.c.id == n.author_id))
        .order_by(boards.c.title, n.board_id, n.published_at, n.id)
    )


def people_with_news(after: int, last: int, until_at: datetime) -> Select[Any]:
    """People with news among the ids from after + 1 to last.

    Compares the mark with the newest post of each board. With EXISTS (a post after the mark), MySQL would read all
    posts of a board without news.
    """
    m, d = members.c, digests.c
    newest_at = (
        select(posts.c.published_at)
        .where(posts.c.board_id == m.board_id, *_by_others(until_at))
        .order_by(posts.c.published_at.desc())
        .limit(1)
        .correlate(members)
        .scalar_subquery()
    )
    seen_at = case((m.joined_at > d.until_at, m.joined_at), else_=d.until_at)
    has_news = select(m.board_id).where(m.person_id == d.person_id, newest_at > seen_at).correlate(digests).exists()
    return select(d.person_id).where(d.person_id > after, d.person_id <= last, has_news).order_by(d.person_id)


def add_missing_marks(after: int, last: int, until_at: datetime) -> Insert:
    has_mark = select(digests.c.person_id).where(digests.c.person_id == people.c.id).exists()
    missing = select(people.c.id, literal(until_at, UtcTimestamp()), literal(0)).where(
        people.c.id > after, people.c.id <= last, ~has_mark
    )
    return insert(digests).from_select(["person_id", "until_at", "number"], missing)


_JOINED = members.join(posts, posts.c.board_id == members.c.board_id)


def _is_news(person_id: int, since_at: datetime, until_at: datetime) -> list[ColumnElement[bool]]:
    at = posts.c.published_at
    return [members.c.person_id == person_id, at > since_at, at > members.c.joined_at, *_by_others(until_at)]


def _by_others(until_at: datetime) -> list[ColumnElement[bool]]:
    p = posts.c
    other_author = or_(p.author_id.is_(None), p.author_id != members.c.person_id)
    return [p.state == "published", p.published_at <= until_at, other_author]
