"""Deliveries of emails, as sending them leaves them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Delete, Table, Update, delete, insert, select, update

from handlers.mailroom.tables import SENT, deliveries
from mayfly.db.database import Database
from mayfly.db.dialects import Unit

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


class SentMail:
    """The tables of the mail room in one database. Ids of deliveries count from 1."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = Database(url)
        self.last_delivery = 0

    def close(self) -> None:
        self.database.close()

    def delivery(self, **columns: Any) -> int:
        """Sent at noon by default; number 7 has the Message-ID 7@shop.example."""
        return self.deliveries(1, **columns)

    def deliveries(self, count: int, **columns: Any) -> int:
        """Return the number of the last one."""
        first, self.last_delivery = self.last_delivery + 1, self.last_delivery + count
        self.insert(deliveries, *({**_delivery(each), **columns} for each in range(first, first + count)))
        return self.last_delivery

    def change(self, delivery: int, **values: Any) -> None:
        self.change_rows(deliveries, deliveries.c.id == delivery, **values)

    def change_rows(self, table: Table, *conditions: Any, **values: Any) -> None:
        self.execute(update(table).where(*conditions).values(**values))

    def clear(self, *tables: Table) -> None:
        for each in tables:
            self.execute(delete(each))

    def insert(self, table: Table, *rows: dict[str, Any]) -> None:
        self.database.run_sqlalchemy(lambda connection: connection.execute(insert(table), list(rows)))

    def execute(self, statement: Update | Delete) -> None:
        self.database.run_sqlalchemy(lambda connection: connection.execute(statement))

    def rows(self, table: Table, *conditions: Any) -> Sequence[Any]:
        query = select(table).where(*conditions).order_by(*table.primary_key)
        return self.database.run_sqlalchemy(lambda connection: connection.execute(query).all(), Unit.READ)


def _delivery(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "tenant_id": "default",
        "effect_key": f"mail:{number}",
        "job_id": number,
        "recipient": f"{number}@example.com",
        "sender": "ann@shop.example",
        "provider": "ann",
        "token": f"token-{number}",
        "message_id": f"{number}@shop.example",
        "status": SENT,
        "created_at": NOON,
        "sent_at": NOON,
        "changed_at": NOON,
    }
