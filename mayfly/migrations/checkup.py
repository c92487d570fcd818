"""Whether the tables that handlers bring along are there, and as their code knows them: for `mayfly doctor`."""

from collections.abc import Iterator, Sequence

from alembic.script import ScriptDirectory

from mayfly.engine import Database
from mayfly.errors import TableMissing
from mayfly.finding import Finding, Health
from mayfly.migrations.apps import AppTables, app_tables
from mayfly.version import Version

WHAT = "tables"
ADVICE = "run `mayfly migrate --app`."


def examine_app_tables(url: str, modules: Sequence[str]) -> Iterator[Finding]:
    database = Database(url)
    try:
        for tables in app_tables(modules):
            script = ScriptDirectory.from_config(tables.config())
            known = {each.revision for each in script.walk_revisions()}
            yield _finding(tables.package, _stored(database, tables), script.get_current_head(), known)
    finally:
        database.close()


def _finding(package: str, stored: Version, newest: Version, known: set[str]) -> Finding:
    if stored == newest:
        return Finding(WHAT, Health.OK, f"those of {package} have version {newest}")
    if stored is None:  # perhaps nobody needs them
        return Finding(WHAT, Health.WARNING, f"those of {package} are missing, and its jobs may need them: {ADVICE}")
    if stored in known:
        text = f"those of {package} have version {stored}, its code needs {newest}: {ADVICE}"
    else:
        text = f"those of {package} have version {stored}, which its code does not know: update it on this host."
    return Finding(WHAT, Health.PROBLEM, text)


def _stored(database: Database, tables: AppTables) -> Version:
    asking = f"SELECT version_num FROM {tables.version_table}"
    try:
        found: Version = database.read(lambda connection: connection.execute(asking).scalar())
    except TableMissing:
        return None
    return found
