"""Tables that handlers bring along: made on every database, with versions of their own."""

import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.pool import NullPool

from mayfly.errors import AppSchemaUnknown
from mayfly.schema.migrations.apps import AppTables, app_migration_sql, app_tables, migrate_app

NEWEST = "0007"
OURS = {
    "app_effects", "app_rests", "app_people", "app_boards", "app_members", "app_channels", "app_posts",
    "app_suppressions", "app_letters", "app_addressees", "app_blasts", "app_blast_mails", "app_subscriptions",
    "app_sessions", "app_log_rows", "app_metric_points", "app_metric_rollups", "app_health", "app_llm_traces",
    "app_llm_purse", "app_board_summaries", "app_suggestions", "app_nudges", "app_search_tables",
    "app_search_pointer", "app_prospects", "app_merges", "app_answers", "app_digests", "app_invoice_years",
    "app_invoices", "app_handlers_version",
}  # fmt: skip


@pytest.fixture
def platform() -> AppTables:
    [found] = app_tables(["handlers"])
    return found


def tables_of(url: str) -> set[str]:
    return set(inspect(create_engine(url, poolclass=NullPool)).get_table_names())


def test_the_platforms_tables_are_made_once(database_url: str, platform: AppTables) -> None:
    """The versions before and after are told; Mayfly's own tables are another matter."""
    first, second = migrate_app(database_url, platform), migrate_app(database_url, platform)

    assert (first, second) == ((None, NEWEST), (NEWEST, NEWEST))
    assert tables_of(database_url) == OURS | ({"sqlite_sequence"} & tables_of(database_url))


def test_both_kinds_of_tables_live_in_one_database(migrated_url: str, platform: AppTables) -> None:
    """Each with its version."""
    before = tables_of(migrated_url)
    try:
        migrate_app(migrated_url, platform)

        assert tables_of(migrated_url) == before | OURS
    finally:
        drop(migrated_url)  # the next test is given the same database


def drop(url: str) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for name in OURS:
            connection.execute(text(f"DROP TABLE IF EXISTS {name}"))


def test_a_version_that_nobody_knows_is_refused(database_url: str, platform: AppTables) -> None:
    """Newer code has been here; what it has made is not touched."""
    migrate_app(database_url, platform)
    with create_engine(database_url, poolclass=NullPool).begin() as connection:
        connection.execute(text("UPDATE app_handlers_version SET version_num = '0099'"))

    with pytest.raises(AppSchemaUnknown, match="tables of handlers have version 0099"):
        migrate_app(database_url, platform)


def test_the_statements_can_be_printed(
    database_url: str, platform: AppTables, capsys: pytest.CaptureFixture[str]
) -> None:
    """For somebody who may not let programs change tables."""
    app_migration_sql(database_url, platform)

    assert "CREATE TABLE IF NOT EXISTS app_effects" in capsys.readouterr().out
    assert tables_of(database_url) == set()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of somebody else's, in a folder with a name that paths are often split at."""
    home = tmp_path / "my shop: jobs, 100%"
    versions = home / "shop_with_tables" / "tables"
    versions.mkdir(parents=True)
    (home / "shop_with_tables" / "__init__.py").write_text("__migrations__ = 'tables'\n")
    (versions / "v1.py").write_text(
        "from sqlalchemy import Column, Integer\nfrom mayfly.schema.migrations.ddl import create_table\n"
        "revision, down_revision, branch_labels, depends_on = 'v1', None, None, None\n"
        "def upgrade():\n    create_table('app_orders', Column('id', Integer, primary_key=True))\n"
    )
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.delitem(sys.modules, "shop_with_tables", raising=False)  # of an earlier test, whose files are gone
    return "shop_with_tables"


def test_any_package_may_bring_tables(database_url: str, shop: str, platform: AppTables) -> None:
    """Beside the platform's, and with a version of its own; those that bring none are passed over."""
    found = list(app_tables(["tests.factories", shop, "handlers"]))
    versions = [migrate_app(database_url, each) for each in found]

    assert [each.package for each in found] == [shop, "handlers"]
    assert versions == [(None, "v1"), (None, NEWEST)]
    assert tables_of(database_url) >= {*OURS, "app_orders", "app_shop_with_tables_version"}
