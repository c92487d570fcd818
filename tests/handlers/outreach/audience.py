"""People for a blast, and the tables of a blast."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from mayfly import enqueue

SETTINGS = {
    "SMTP_ACCOUNTS": "smtp://127.0.0.1:1?from=ann@shop.example&tls=none",
    "UNSUBSCRIBE_URL": "https://shop.example/unsubscribe?who={token}",
    "UNSUBSCRIBE_SECRET": "s3cret",
}
NOON = "2026-05-04 12:00:00"
LETTER = {"subject": "Hello {{ name }}", "text": "Dear {{ name }}, {{ unsubscribe }}"}


class Tables:
    """Of one database."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url, poolclass=NullPool)

    def insert(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        columns = rows[0].keys()
        values = ", ".join(f":{name}" for name in columns)
        with self._engine.begin() as connection:
            connection.execute(text(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"), rows)

    def people(self, emails: Iterable[str], board: int | None = None) -> None:
        """With ids from 1 on; members of the board, if there is one."""
        known = self.rows("SELECT COUNT(*) FROM app_people")[0][0]
        rows = [
            {"id": number, "email": email, "name": f"Number {number}", "created_at": NOON}
            for number, email in enumerate(emails, known + 1)
        ]
        self.insert("app_people", rows)
        if board is not None:
            members = [{"board_id": board, "person_id": each["id"], "joined_at": NOON} for each in rows]
            self.insert("app_members", members)

    def suppress(self, address: str, reason: str = "by hand") -> None:
        self.insert("app_suppressions", [{"address": address, "reason": reason, "created_at": NOON}])

    def rows(self, query: str) -> list[Any]:
        with self._engine.connect() as connection:
            return list(connection.execute(text(query)).all())

    def execute(self, statement: str) -> None:
        with self._engine.begin() as connection:
            connection.execute(text(statement))


def write(**changes: Any) -> None:
    enqueue("send_outreach", {"blast": "spring", "to": "everybody", **LETTER, **changes})
