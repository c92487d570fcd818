"""docs/how-to/sources.md: its section loads, and its index is the one that `mayfly sources check` prints."""

from pathlib import Path
from typing import Any

import pytest

from mayfly import registry
from mayfly.admin.source_check import index_statement
from mayfly.db.dialects import dialect_named
from mayfly.job import SourceRow
from mayfly.queue.source_table import SourceTable
from mayfly.settings import load
from tests.docs.consoles import blocks, page_named
from tests.factories import make_job

PAGE = page_named("how-to/sources.md")


def test_the_section_is_valid(tmp_path: Path) -> None:
    """Every setting of it exists, and the index is that of its columns."""
    (tmp_path / "mayfly.toml").write_text(blocks(PAGE, "toml")[0])

    source = load({"MAYFLY_HOME": str(tmp_path)}).settings.sources["post_schedule"]

    assert (source.lane, source.payload) == ("publish_post", ("post_detail_id", "channel"))
    statement = index_statement(SourceTable(source, dialect_named("sqlite"))).replace('"', "")
    assert f"{statement};\n" in blocks(PAGE, "sql")[0]


def test_the_handler_gets_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unchanged, for a row of the table that the page configures."""
    monkeypatch.setattr(registry, "_declared", {})
    published: list[tuple[int, str]] = []
    names: dict[str, Any] = {"publish": lambda detail, channel: published.append((detail, channel))}
    job = make_job()
    job.source_row = SourceRow("post_schedule", "4711", values={"post_detail_id": 7, "channel": "news"})

    exec(blocks(PAGE, "python")[0], names)
    names["publish_scheduled_post"](job)

    assert published == [(7, "news")]
