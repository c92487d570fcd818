"""People, boards and posts for tests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mayfly.db.database import Database

LONG_AGO = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Community:
    """Rows as an application writes them, with given ids."""

    url: str
    database: Database = field(init=False)

    def __post_init__(self) -> None:
        self.database = Database(self.url)

    def now(self) -> datetime:
        return self.database.clock.now()

    def person(self, person_id: int, name: str = "Ann", email: str | None = None) -> int:
        email = f"{person_id}@example.com" if email is None else email
        self.insert("app_people", id=person_id, name=name, email=email, created_at=LONG_AGO)
        return person_id

    def board(self, board_id: int = 7, members: Sequence[int] = (), **columns: Any) -> int:
        """With new or existing members."""
        row = {"id": board_id, "title": f"Board {board_id}", "state": "open", "created_at": LONG_AGO, **columns}
        self.insert("app_boards", **row)
        known = {row[0] for row in self.rows("SELECT id FROM app_people")}
        for each in members:
            if each not in known:
                self.person(each)
            self.insert("app_members", board_id=board_id, person_id=each, joined_at=LONG_AGO)
        return board_id

    def channel(self, kind: str, url: str, credential: str = "CHANNEL_TEST", channel_id: int = 3) -> int:
        self.insert("app_channels", id=channel_id, kind=kind, url=url, credential=credential)
        return channel_id

    def post(self, post_id: int, board_id: int = 7, **columns: Any) -> int:
        """Scheduled for a moment ago by default."""
        due_at = self.now() - timedelta(seconds=5)
        row = {"id": post_id, "board_id": board_id, "body": f"Post {post_id}", "state": "scheduled",
               "created_at": LONG_AGO, "publish_at": due_at, **columns}  # fmt: skip
        self.insert("app_posts", **row)
        return post_id

    def published(self, post_id: int, board_id: int = 7, age: timedelta = timedelta(hours=1), **columns: Any) -> int:
        return self.post(post_id, board_id, state="published", published_at=self.now() - age, **columns)

    def suppress(self, address: str, reason: str = "unsubscribed") -> None:
        self.insert("app_suppressions", address=address, reason=reason, created_at=LONG_AGO)

    def insert(self, table: str, **row: Any) -> None:
        self.database.run(lambda connection: connection.execute(connection.dialect.insert(table, row), row))

    def execute(self, statement: str, **values: Any) -> None:
        self.database.run(lambda connection: connection.execute(statement, values))

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        return list(self.database.read(lambda connection: connection.execute(query, values).all()))
