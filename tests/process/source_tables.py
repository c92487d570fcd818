"""An application's table in the database of an installation, and the source for it in mayfly.toml."""

from datetime import timedelta
from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Float, Integer, MetaData, String, Table, select

from tests.process.installation import Installation, handler_modules
from tests.sqlalchemy_engines import run

HANDLERS = {"HANDLERS": handler_modules("rows")}
SOURCE: dict[str, Any] = {
    "table": "posts", "run_at": "run_at", "pending": "pending", "processing": "processing", "done": "published",
    "failed": "failed", "cancelled": "withdrawn", "worker_id": "worker_id", "locked_at": "locked_at",
    "attempts": "retry_count", "error": "last_error", "finished_at": "published_at",
}  # fmt: skip


def toml_of(name: str, settings: dict[str, Any]) -> str:
    return "\n".join([f"[sources.{name}]", *(f"{key} = {value!r}" for key, value in settings.items()), ""])


class PostTable:
    """`posts` as its application sees it. Its source, of the same name, has the given type."""

    def __init__(self, installation: Installation, type_name: str, key: Any = None, **settings: Any) -> None:
        self.installation = installation
        toml = toml_of("posts", {**SOURCE, "type": type_name, **settings})
        (installation.home / "mayfly.toml").write_text(toml)
        self.table = Table(
            "posts", MetaData(),
            Column("id", key or BigInteger(), primary_key=True, autoincrement=False),
            Column("run_at", DateTime()), Column("status", String(20)), Column("worker_id", String(60)),
            Column("locked_at", DateTime()), Column("retry_count", Integer()), Column("last_error", String(200)),
            Column("published_at", DateTime()), Column("kind", String(20)), Column("seconds", Float()),
        )  # fmt: skip
        run(installation.database, self.table.create)
        installation.execute("CREATE INDEX posts_due ON posts (status, run_at, id)")
        installation.execute("CREATE TABLE ledger (job_id BIGINT, row_key VARCHAR(60))")  # no key: see a second row

    def insert(self, *keys: Any, due_in: float = -60, **columns: Any) -> None:
        run_at = (self.installation.now() + timedelta(seconds=due_in)).replace(tzinfo=None, microsecond=0)
        rows = [{"id": key, "status": "pending", "run_at": run_at, **columns} for key in keys]
        run(self.installation.database, lambda connection: connection.execute(self.table.insert(), rows))

    def change(self, key: Any, **columns: Any) -> None:
        statement = self.table.update().where(self.table.c.id == key).values(**columns)
        run(self.installation.database, lambda connection: connection.execute(statement))

    def delete(self, key: Any) -> None:
        statement = self.table.delete().where(self.table.c.id == key)
        run(self.installation.database, lambda connection: connection.execute(statement))

    def statuses(self) -> dict[Any, str]:
        found = self.installation.rows(select(self.table.c.id, self.table.c.status).order_by(self.table.c.id))
        return {row.id: row.status for row in found}

    def handled(self) -> list[str]:
        """The key of each run that was recorded."""
        path = self.installation.home / "runs"
        return [line.split()[-1] for line in path.read_text().splitlines()] if path.exists() else []

    def ledger(self) -> list[str]:
        return [row.row_key for row in self.installation.rows("SELECT row_key FROM ledger")]
