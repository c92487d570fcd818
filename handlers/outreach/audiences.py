"""The audience of a blast (everybody, a board or a list), page by page in a stable order."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, func, select, true

from handlers.boards.tables import members, people
from handlers.outreach.payloads import Audience, BoardAudience, ListAudience
from handlers.outreach.tables import recipients


class Recipient(NamedTuple):
    position: int  # in the order of the audience, from 1
    email: str
    name: str


class _AudienceQuery(NamedTuple):
    source: FromClause
    position: ColumnElement[int]
    email: ColumnElement[str]
    name: ColumnElement[str]
    condition: ColumnElement[bool]


def page(connection: Connection, to: Audience, after: int, limit: int) -> list[Recipient]:
    source, position, email, name, condition = _query(to)
    query = select(position, email, name).select_from(source).where(condition, position > after)
    return [Recipient._make(row) for row in connection.execute(query.order_by(position).limit(limit))]


def count(connection: Connection, to: Audience) -> int:
    query = _query(to)
    counted = select(func.count()).select_from(query.source).where(query.condition)
    return int(connection.execute(counted).scalar_one())


def _query(to: Audience) -> _AudienceQuery:
    p, m, r = people.c, members.c, recipients.c
    match to:
        case BoardAudience():
            joined = members.join(people, p.id == m.person_id)
            return _AudienceQuery(joined, m.person_id, p.email, p.name, m.board_id == to.board)
        case ListAudience():
            return _AudienceQuery(recipients, r.id, r.email, r.name, r.list_key == to.list)
    return _AudienceQuery(people, p.id, p.email, p.name, true())
