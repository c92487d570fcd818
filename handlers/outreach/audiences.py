"""Who is meant by "everybody", a board or a list: page by page, in an order that stays."""

from typing import Any, NamedTuple

from handlers.outreach.payloads import Audience, Board, Stored

EVERYBODY = "FROM app_people WHERE id > :after"
MEMBERS = (
    "FROM app_members JOIN app_people ON app_people.id = app_members.person_id"
    " WHERE app_members.board_id = :board AND app_members.person_id > :after"
)
LISTED = "FROM app_addressees WHERE list_key = :list AND id > :after"


class Addressee(NamedTuple):
    place: int  # in the order of the audience, from 1
    email: str
    name: str


def page(connection: Any, to: Audience, after: int, most: int) -> list[Addressee]:
    place, source, asked = _source(to)
    statement = f"SELECT {place}, email, name {source} ORDER BY {place} LIMIT :most"
    rows = connection.execute(statement, {**asked, "after": after, "most": most}).all()
    return [Addressee(*row) for row in rows]


def count(connection: Any, to: Audience) -> int:
    _, source, asked = _source(to)
    return int(connection.execute(f"SELECT COUNT(*) {source}", {**asked, "after": 0}).scalar())


def _source(to: Audience) -> tuple[str, str, dict[str, Any]]:
    match to:
        case Board():
            return "app_members.person_id", MEMBERS, {"board": to.board}
        case Stored():
            return "id", LISTED, {"list": to.list}
    return "id", EVERYBODY, {}
