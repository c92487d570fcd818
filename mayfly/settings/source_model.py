"""The settings of a source, an application's own table whose rows become jobs: `[sources.NAME]` in mayfly.toml."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from mayfly.settings import types as t
from mayfly.settings.types import setting
from mayfly.settings.values import Settings, SourceSettings


class SourceModel(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """An application's own table whose rows become jobs."""

    table: t.TableName = Field(description="the table, in Mayfly's database")
    type: t.Name = Field(description="the job type, whose handler processes the rows")
    lane: t.Name | None = setting(None, "lane of the jobs; none: the name of the source")
    id: t.ColumnName = setting("id", "primary key: an integer, a UUID or text of at most 150 characters")
    run_at: t.ColumnName | None = setting(
        None, "when the row is due; a row without a time is never due. none: rows are due at once"
    )
    run_at_format: Annotated[
        Literal["datetime", "text", "epoch", "epoch_ms"], t.one_of("datetime", "text", "epoch", "epoch_ms")
    ] = setting(
        "datetime",
        "how `run_at`, `locked_at` and `finished_at` are stored: as times, as ISO 8601 text, or as seconds or "
        "milliseconds since 1970",
    )
    timezone: t.ZoneName = setting("UTC", "time zone of times without one, as `datetime` and `text` store them")
    priority: t.ColumnName | None = setting(None, "the priority of a row, translated by `priorities`")
    priorities: Annotated[
        dict[str, Annotated[int, Field(ge=0, le=2)]], Field(title="a table of values, each with 0, 1 or 2")
    ] = setting({}, "values of the column `priority` and what they mean: 0 high, 1 normal, 2 low; others are normal")
    status: t.ColumnName = setting("status", "the status of a row; the values that follow are its values")
    pending: t.ColumnValues = Field(description="of rows to process")
    processing: t.ColumnValue = Field(description="while a job of the row is live, also while a retry waits")
    done: t.ColumnValue = Field(description="when the job is done")
    failed: t.ColumnValue = Field(description="when the job is dead")
    cancelled: t.ColumnValue | None = setting(None, "when the job was cancelled; none: the value of `failed`")
    worker_id: t.ColumnName | None = setting(None, "column for the id of the worker, at least 40 characters long")
    locked_at: t.ColumnName | None = setting(None, "column for the time at which a worker claimed the row")
    attempts: t.ColumnName | None = setting(None, "column for the number of attempts")
    error: t.ColumnName | None = setting(None, "column for the last error, cut to its length")
    finished_at: t.ColumnName | None = setting(None, "column for the time of the final status")
    payload: Annotated[t.ColumnNames | None, Field(title="the names of 1 to 50 columns")] = setting(
        None, "columns that the handler gets; none: all"
    )
    where: Annotated[str | None, Field(title="a condition in SQL")] = setting(
        None, "only rows that meet this condition are processed"
    )
    adopt_after: t.Duration | None = setting(
        None, "rows with the value `processing` that no job has, and whose `locked_at` is older than this, are due"
    )


def source_conflicts(source: SourceSettings, settings: Settings) -> Iterator[tuple[str, str]]:
    """The rules that are broken, each with the setting that breaks it."""
    ends = {"done": source.done, "failed": source.failed, "cancelled": source.cancelled_value}
    for field, value in ends.items():
        if value in (*source.pending, source.processing):
            yield "must differ from `pending` and `processing`, or the row would be processed again", field
    if source.processing in source.pending:
        yield "must differ from `pending`, or the row would be claimed twice", "processing"
    if source.adopt_after is not None and source.locked_at is None:
        yield "needs `locked_at`, the column with the age of a lock", "adopt_after"
    if source.priorities and source.priority is None:
        yield "needs `priority`, the column with these values", "priorities"
    if settings.lane(source.lane).external:
        yield f"is in the external lane {source.lane}, which no runner serves; name another lane", "lane"
