"""The prospects as they are stored, and the statements that more than one step needs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from handlers.prospects.keys import keys_of

LENGTHS = {
    "email": 190, "name": 190, "company": 190, "title": 190, "phone": 190, "website": 500, "linkedin": 500,
    "city": 190, "country": 190, "notes": 10_000,
}  # fmt: skip
FIELDS = tuple(LENGTHS)
KEYS = ("email_key", "by_name", "by_company")
OF_THE_MAIL = ("email_status", "email_score")  # what is known of the address, and of no other
KNOWN = (*FIELDS, *OF_THE_MAIL)
INSERTED = (*FIELDS, *KEYS, "import_id", "line", "created_at", "updated_at")

LOCKED = f"SELECT id, merged_into, {', '.join(KNOWN)} FROM app_prospects WHERE {{ids of id}} ORDER BY id"
CHANGE = (
    f"UPDATE app_prospects SET {', '.join(f'{name} = :{name}' for name in (*KNOWN, *KEYS))}, updated_at = :now"
    " WHERE id = :id"
)
LONGEST_CHAIN = 1000  # of merges into merges; more is a ring, which nobody but plain SQL can make

Prospect = dict[str, Any]


def insert_new(connection: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """A line that is already there stays as it is: whoever repeats a step adds nobody twice."""
    statement = connection.dialect.insert_missing("app_prospects", ("import_id", "line"), INSERTED)
    connection.execute_many(statement, rows)


def lock(connection: Any, ids: set[int]) -> dict[int, Prospect]:
    """Those that there are, by id, held until the transaction ends."""
    found = connection.execute(LOCKED + connection.dialect.row_lock, ids=ids).all()
    return {row[0]: dict(zip(("id", "merged_into", *KNOWN), row, strict=True)) for row in found}


def lock_living(connection: Any, prospect_id: int) -> Prospect | None:
    """The prospect, or the one that it is part of by now; None if there was never any."""
    asked = prospect_id
    for _ in range(LONGEST_CHAIN):
        found = lock(connection, {asked}).get(asked)
        if found is None or found["merged_into"] is None:
            return found
        asked = found["merged_into"]
    return None


def change(connection: Any, prospects: Sequence[Prospect], now: datetime) -> None:
    rows = [{**{name: each[name] for name in ("id", *KNOWN)}, **keys_of(each), "now": now} for each in prospects]
    if rows:
        connection.execute_many(CHANGE, rows)
