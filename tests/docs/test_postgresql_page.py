"""PostgreSQL in docs/reference/settings.md: table and statements are those of the code, the URL keeps its schema."""

import re
from pathlib import Path

from sqlalchemy import make_url

from mayfly.db.dialects.postgres import APPLICATION_NAME, SESSION_SETTINGS
from tests.databases import Databases
from tests.docs.consoles import blocks, section_named
from tests.process.installation import Installation

PAGE = section_named("reference/settings.md", "PostgreSQL")


def test_the_table_has_the_settings_of_the_code() -> None:
    """In the same order as the statements for PgBouncer."""
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", PAGE, flags=re.MULTILINE)
    statements = re.findall(r"SET (\w+) = '(\w+)';", blocks(PAGE, "sql")[0])

    assert rows == statements == list(SESSION_SETTINGS.items())
    assert f"`application_name` is `{APPLICATION_NAME}`" in PAGE


def test_the_url_keeps_its_schema(databases: Databases, tmp_path: Path) -> None:
    """Tables are created, jobs run and the doctor reads there, and nowhere else."""
    [options] = re.findall(r"\?(options=\S+)$", blocks(PAGE, "sh")[0], flags=re.MULTILINE)
    with databases.fresh("postgres") as url:
        databases.server("postgres").run_in(str(make_url(url).database), ["CREATE SCHEMA jobs"])
        installation = Installation(tmp_path, f"{url}?{options}")

        migrated = installation.run("mayfly", "migrate")
        installation.enqueue("noop", count=3)
        ran = installation.dispatch()
        doctor = installation.run("mayfly", "doctor")
        found = installation.rows("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'mayfly_%'")
        settings = installation.rows("SELECT current_setting('search_path'), current_setting('statement_timeout')")
        statuses = installation.statuses()
        installation.end()

    assert (migrated.returncode, ran.returncode, doctor.returncode) == (0, 0, 0), migrated.stderr + ran.stderr
    assert statuses == {"done": 3}
    assert [each.schemaname for each in found] == ["jobs"]
    assert settings == [("jobs", "10s")]
