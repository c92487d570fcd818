"""Boards and posts in a test's database."""

from datetime import datetime, timedelta
from typing import Any

from mayfly.client import current_app


def rows(statement: str, **values: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in current_app().database.read(lambda own: own.execute(statement, values).all())]


def execute(statement: str, **values: Any) -> None:
    current_app().database.run(lambda own: own.execute(statement, values))


class Boards:
    """Written by plain SQL, as an application would."""

    def add(self, board_id: int, *posts: str, title: str = "Garden", hours_ago: float = 30, **fields: Any) -> int:
        at = self.now - timedelta(days=30)
        execute(
            "INSERT INTO app_boards (id, title, state, created_at) VALUES (:id, :title, :state, :at)",
            id=board_id, title=title, state=fields.get("state", "open"), at=at,
        )  # fmt: skip
        for number, text in enumerate(posts):
            self.post(board_id, text, hours_ago + len(posts) - 1 - number)
        return board_id

    def post(
        self, board_id: int, text: str, hours_ago: float = 30, author: int | None = 7, state: str = "published"
    ) -> None:
        at = self.now - timedelta(hours=hours_ago)
        execute(
            "INSERT INTO app_posts (board_id, author_id, body, state, created_at, published_at)"
            " VALUES (:board_id, :author, :text, :state, :at, :at)",
            board_id=board_id, author=author, text=text, state=state, at=at,
        )  # fmt: skip

    def written(self) -> list[tuple[Any, ...]]:
        """Posts that were not written by a person."""
        return rows("SELECT board_id, state, body FROM app_posts WHERE author_id IS NULL ORDER BY id")

    @property
    def now(self) -> datetime:
        return current_app().now()


def traces() -> list[dict[str, Any]]:
    names = ("purpose", "board_id", "state", "answer", "error", "input_tokens", "output_tokens", "cost_micros")
    found = rows(f"SELECT {', '.join(names)} FROM app_llm_calls ORDER BY asked_at, call_key")
    return [dict(zip(names, row, strict=True)) for row in found]


def run_again() -> None:
    """Make every job pending again, as if its runner had been killed before it settled the job."""
    execute("UPDATE mayfly_jobs SET status = 'pending', worker_id = NULL, finished_at = NULL")
