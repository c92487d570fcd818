"""Which problems and warnings the settings of a source have, given its table; and the draft for a table."""

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from mayfly.admin.live_table import ColumnKind, LiveColumn, LiveTable
from mayfly.admin.source_check import Findings, StatementPlan, findings, has_index, index_columns
from mayfly.admin.source_draft import draft
from mayfly.settings.source_model import SourceModel
from mayfly.settings.values import SourceSettings

GIVEN = {
    "table": "posts", "type": "publish", "run_at": "run_at", "pending": "pending", "processing": "processing",
    "done": "published", "failed": "failed", "worker_id": "worker_id", "locked_at": "locked_at",
}  # fmt: skip


def make_source(**changes: Any) -> SourceSettings:
    given = {key: value for key, value in {**GIVEN, **changes}.items() if value is not None}
    model = SourceModel.model_validate(given)
    return SourceSettings(**{**dict(model), "name": "posts", "lane": "posts"})


def column(name: str, kind: ColumnKind = ColumnKind.TEXT, max_length: int | None = None, **more: Any) -> LiveColumn:
    return LiveColumn(name, str(more.pop("type", kind.name)), kind, max_length, **more)


COLUMNS = (
    column("id", ColumnKind.INTEGER),
    column("status", max_length=20),
    column("run_at", ColumnKind.DATETIME),
    column("worker_id", max_length=64),
    column("locked_at", ColumnKind.DATETIME),
    column("title"),
)


def make_table(*changed: LiveColumn, **fields: Any) -> LiveTable:
    columns = {each.name: each for each in (*COLUMNS, *changed)}
    return LiveTable("posts", **{"columns": columns, "primary_key": ("id",), **fields})


def problem(source: SourceSettings, table: LiveTable) -> str:
    """The only one."""
    [found] = findings(source, table).problems
    return found


def test_settings_that_fit_have_no_findings() -> None:
    """A complete source on a plain table is ok."""
    assert findings(make_source(), make_table()) == Findings()


def test_a_missing_table_has_a_suggestion() -> None:
    """Other tables of the database are compared with the name."""
    found = problem(make_source(table="post"), LiveTable("post", exists=False, others=("posts", "users")))

    assert found == "The database has no table post. Did you mean 'posts'?"


def test_a_view_is_refused() -> None:
    """Its rows cannot be locked."""
    assert "is a view" in problem(make_source(), LiveTable("posts", is_view=True))


def test_a_missing_column_has_a_suggestion() -> None:
    """Each missing column is a problem of its own."""
    source = make_source(status="statuss", payload=["titel"])

    assert findings(source, make_table()).problems == (
        "The table posts has no column statuss. Did you mean 'status'?",
        "The table posts has no column titel. Did you mean 'title'?",
    )


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ((), "The table posts has no primary key: add one."),
        (("title",), "The column id is not the primary key of posts, which is (title): set `id = 'title'`."),
        (
            ("id", "title"),
            "The column id is not the primary key of posts, which is (id, title): a source needs a key"
            " of one column.",
        ),
    ],
)
def test_the_id_is_the_primary_key(key: tuple[str, ...], expected: str) -> None:
    """A row is found, locked and written by one column."""
    assert problem(make_source(), make_table(primary_key=key)) == expected


@pytest.mark.parametrize("kind", [ColumnKind.BINARY, ColumnKind.DATETIME, ColumnKind.NUMBER, ColumnKind.OTHER])
def test_a_key_is_an_integer_text_or_a_uuid(kind: ColumnKind) -> None:
    """Other values have no unambiguous text."""
    assert "must be an integer, text or a UUID" in problem(make_source(), make_table(column("id", kind)))


def test_a_status_value_fits_its_column() -> None:
    """The database would cut it, or refuse every claim."""
    table = make_table(column("status", max_length=9, type="VARCHAR(9)"))

    assert findings(make_source(), table).problems == (
        "The value 'processing' of `processing` is longer than the column status of posts, which has VARCHAR(9).",
    )


def test_a_status_value_is_in_the_enum() -> None:
    """ENUM of MySQL and enum types of PostgreSQL."""
    table = make_table(column("status", values=("pending", "processing", "done", "failed")))

    assert problem(make_source(), table) == (
        "The value 'published' of `done` is not in the ENUM of the column status of posts,"
        " which has pending, processing, done, failed."
    )


def test_a_status_value_has_the_type_of_its_column() -> None:
    """PostgreSQL compares no integer with a text."""
    numbers = {"pending": 0, "processing": 1, "done": 2, "failed": 3}

    assert len(findings(make_source(**numbers), make_table()).problems) == 4
    assert findings(make_source(**numbers), make_table(column("status", ColumnKind.INTEGER))) == Findings()
    assert len(findings(make_source(), make_table(column("status", ColumnKind.INTEGER))).problems) == 4
    assert findings(make_source(), make_table(column("status", ColumnKind.INTEGER), is_strict=False)) == Findings()


def test_null_as_a_pending_value_needs_no_check() -> None:
    """It fits every column."""
    assert findings(make_source(pending="NULL"), make_table()) == Findings()


def test_worker_ids_need_forty_characters() -> None:
    """A cut id would never match again: every row would count as changed."""
    assert "at least 40 characters" in problem(make_source(), make_table(column("worker_id", max_length=39)))
    assert findings(make_source(), make_table(column("worker_id", max_length=40))) == Findings()


@pytest.mark.parametrize(
    ("stored_as", "kind", "advice"),
    [
        ("datetime", ColumnKind.TEXT, "set `run_at_format` to text"),
        ("datetime", ColumnKind.INTEGER, "set `run_at_format` to epoch or epoch_ms"),
        ("epoch_ms", ColumnKind.SMALL_INTEGER, "set `run_at_format` to epoch"),
        ("epoch", ColumnKind.DATETIME, "set `run_at_format` to datetime"),
        ("text", ColumnKind.BINARY, "name another column"),
    ],
)
def test_the_format_fits_the_column(stored_as: str, kind: ColumnKind, advice: str) -> None:
    """The sentence names a format that would fit."""
    source = make_source(run_at_format=stored_as, locked_at=None)

    assert problem(source, make_table(column("run_at", kind))).endswith(f": {advice}.")


@pytest.mark.parametrize(
    ("stored_as", "kind"),
    [
        ("datetime", ColumnKind.DATETIME),
        ("datetime", ColumnKind.ZONED),
        ("text", ColumnKind.TEXT),
        ("epoch", ColumnKind.SMALL_INTEGER),
        ("epoch_ms", ColumnKind.INTEGER),
    ],
)
def test_every_format_has_a_column(stored_as: str, kind: ColumnKind) -> None:
    """These are stored and compared without a conversion."""
    source = make_source(run_at_format=stored_as, locked_at=None)

    assert findings(source, make_table(column("run_at", kind))).problems == ()


def test_a_zone_of_its_own_excludes_the_setting() -> None:
    """Times would be shifted twice."""
    source = make_source(timezone="Europe/Berlin")

    assert "remove `timezone`" in problem(source, make_table(column("run_at", ColumnKind.ZONED)))
    assert findings(source, make_table()) == Findings()


def test_an_engine_without_transactions_is_refused() -> None:
    """One transaction must cover the row and its job."""
    assert "engine MyISAM" in problem(make_source(), make_table(storage_engine="MyISAM"))
    assert findings(make_source(), make_table(storage_engine="InnoDB")) == Findings()


def test_many_columns_need_a_payload() -> None:
    """The claim refuses such a table."""
    table = make_table(*(column(f"column_{number}") for number in range(50)))

    assert "name at most 50 in `payload`" in problem(make_source(), table)
    assert findings(make_source(payload=["title"]), table) == Findings()


def test_missing_optional_columns_are_warnings() -> None:
    """It works without them, with less protection."""
    found = findings(make_source(worker_id=None, locked_at=None), make_table())

    assert found.problems == ()
    assert [each.partition(" is not set")[0] for each in found.warnings] == ["`worker_id`", "`locked_at`"]


def test_columns_that_change_themselves_are_warnings() -> None:
    """ON UPDATE CURRENT_TIMESTAMP: for the due time, the planned time would be lost."""
    table = make_table(
        column("run_at", ColumnKind.ZONED, changes_itself=True), column("updated", changes_itself=True)
    )

    due, other = findings(make_source(), table).warnings
    assert due == "The column run_at has ON UPDATE: every claim sets it, and its planned time is lost."
    assert other.startswith("The column updated has ON UPDATE: every claim")


@pytest.mark.parametrize(("read", "found", "expected"), [(1000, 0, False), (1001, 0, True), (2000, 200, False)])
def test_a_plan_is_wasteful_by_its_figures(read: int, found: int, expected: bool) -> None:
    """It reads more than 1,000 rows, and more than ten for each due row."""
    assert StatementPlan("count", (), read, found).is_wasteful is expected


def test_the_index_begins_with_status_and_time() -> None:
    """In any other order, due rows are not one range of it."""
    source = make_source(priority="title")

    assert index_columns(source) == ("status", "run_at", "id", "title")
    assert has_index(source, make_table(indexes=(("title",), ("status", "run_at"))))
    assert not has_index(source, make_table(indexes=(("run_at", "status"), ("status",))))
    assert has_index(make_source(run_at=None), make_table(indexes=(("status", "title"),)))


# --- drafts -----------------------------------------------------------------------------------------------


def drafted(table: LiveTable, values: tuple[str | int, ...] = ()) -> dict[str, Any]:
    [section] = tomllib.loads(draft(table, values))["sources"].values()
    return dict(section)


def test_a_draft_is_a_valid_source() -> None:
    """What it cannot know is guessed, and marked as such."""
    text = draft(make_table(), ("pending", "published"))
    source = make_source(**drafted(make_table(), ("pending", "published")))

    assert text.startswith("[sources.posts]\n")
    assert (source.status, source.run_at, source.worker_id, source.payload) == (
        "status", "run_at", "worker_id", ("title",)
    )  # fmt: skip
    assert 'done = "published"\n' in text
    assert 'failed = "failed"  # guessed: check it\n' in text


def test_a_draft_uses_the_values_of_the_table() -> None:
    """In their own spelling."""
    found = drafted(make_table(), ("New", "RUNNING", "done", "error"))

    assert {name: found[name] for name in ("pending", "processing", "done", "failed")} == {
        "pending": "New", "processing": "RUNNING", "done": "done", "failed": "error"
    }  # fmt: skip


def test_a_draft_leaves_out_rows_that_count_as_deleted() -> None:
    """The application keeps such rows, whatever their status is."""
    found = drafted(make_table(column("deleted_at")))

    assert (found["where"], found["payload"]) == ("deleted_at IS NULL", ["title"])
    assert "where" not in drafted(make_table())


def test_a_draft_names_what_is_missing() -> None:
    """A table without the usual columns still gives valid TOML, with comments that ask for them."""
    bare = LiveTable("my.events", columns={"event": column("event"), "odd name": column("odd name")})
    text = draft(bare, ())

    assert drafted(bare)["payload"] == ["event"]
    assert text.startswith('[sources.events]\ntable = "my.events"')
    assert "no primary key of one column" in text
    assert "no column found: name the one with the state of a row" in text
    assert "without it, every pending row is due" in text


@pytest.mark.parametrize(
    ("kind", "expected"), [(ColumnKind.INTEGER, "epoch"), (ColumnKind.TEXT, "text"), (ColumnKind.DATETIME, None)]
)
def test_a_draft_knows_the_format_of_times(kind: ColumnKind, expected: str | None) -> None:
    """By the type of the column."""
    assert drafted(make_table(column("run_at", kind))).get("run_at_format") == expected


def test_a_draft_of_a_wide_table_has_fifty_columns() -> None:
    """The maximum of `payload`."""
    wide = replace(make_table(), columns={f"c{number}": column(f"c{number}") for number in range(60)})

    assert len(drafted(wide)["payload"]) == 50
