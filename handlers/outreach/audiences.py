"""The audience of a blast (everybody, a board, a list or prospects), page by page in a stable order."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, RowMapping, func, or_, select, true

from handlers.boards.tables import members, people
from handlers.outreach.payloads import Audience, BoardAudience, ListAudience, ProspectAudience, ProspectFilter
from handlers.outreach.tables import recipients
from handlers.prospects.tables import prospects

PROSPECT_FIELDS = ("company", "title", "website", "linkedin", "city", "country")  # for templates
OPTED_OUT = "opted out"  # the status of a person who wants no mail


class Recipient(NamedTuple):
    position: int  # in the order of the audience, from 1
    email: str
    name: str
    fields: Mapping[str, Any] = {}  # further values for templates


class _AudienceQuery(NamedTuple):
    source: FromClause
    position: ColumnElement[int]
    email: ColumnElement[str]
    name: ColumnElement[str]
    condition: ColumnElement[bool]
    fields: tuple[ColumnElement[Any], ...] = ()


def page(connection: Connection, to: Audience, after: int, limit: int) -> list[Recipient]:
    found = _query(to)
    columns = (found.position.label("position_"), found.email.label("email_"), found.name.label("name_"))
    query = select(*columns, *found.fields).select_from(found.source).where(found.condition, found.position > after)
    rows = connection.execute(query.order_by(found.position).limit(limit)).mappings()
    return [Recipient(row["position_"], row["email_"], row["name_"], _fields(to, row)) for row in rows]


def count(connection: Connection, to: Audience) -> int:
    query = _query(to)
    counted = select(func.count()).select_from(query.source).where(query.condition)
    return int(connection.execute(counted).scalar_one())


def sample(connection: Connection, to: Audience) -> Recipient:
    """A recipient with the fields of this audience, to check templates: of a list, its first recipient."""
    fields: Mapping[str, Any] = {}
    if isinstance(to, ProspectAudience):
        fields = dict.fromkeys(PROSPECT_FIELDS, "text")
    elif isinstance(to, ListAudience):
        fields = next((each.fields for each in page(connection, to, 0, 1)), {})
    return Recipient(1, "ann@example.com", "Ann", fields)


def _query(to: Audience) -> _AudienceQuery:
    p, m, r, q = people.c, members.c, recipients.c, prospects.c
    match to:
        case BoardAudience():
            joined = members.join(people, p.id == m.person_id)
            return _AudienceQuery(joined, m.person_id, p.email, p.name, m.board_id == to.board)
        case ListAudience():
            return _AudienceQuery(recipients, r.id, r.email, r.name, r.list_key == to.list, (r.fields,))
        case ProspectAudience():
            name = func.coalesce(q.name, "")
            columns = tuple(q[each] for each in PROSPECT_FIELDS)
            return _AudienceQuery(prospects, q.id, q.email, name, _fits(to.prospects), columns)
    return _AudienceQuery(people, p.id, p.email, p.name, true())


def _fits(wanted: ProspectFilter) -> ColumnElement[bool]:
    """Without duplicates that were merged."""
    c = prospects.c
    has_not_opted_out = or_(c.email_status.is_(None), c.email_status != OPTED_OUT)
    condition = c.merged_into.is_(None) & c.email.is_not(None) & has_not_opted_out
    for name, values in wanted.model_dump(exclude={"import_job"}, exclude_none=True).items():
        condition &= func.lower(c[name]).in_([each.lower() for each in values])
    return condition if wanted.import_job is None else condition & (c.import_id == wanted.import_job)


def _fields(to: Audience, row: RowMapping) -> Mapping[str, Any]:
    """A missing field of a prospect is empty."""
    match to:
        case ListAudience():
            return row["fields"] or {}
        case ProspectAudience():
            return {name: row[name] or "" for name in PROSPECT_FIELDS}
    return {}
