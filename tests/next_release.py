"""A next release of Mayfly: one more migration, and code that knows it."""

import shutil
from pathlib import Path

from mayfly.schema.migrations import OWN, PackageTables
from mayfly.schema.tables import VERSION, VERSION_TABLE

CHECKOUT = Path(__file__).parent.parent
PACKAGES = ("mayfly", "dispatcher", "runner")
MIGRATION = """
from sqlalchemy import Column, Integer, text

from mayfly.schema.migrations.operations import add_column, create_index, drop_column, drop_index

revision, down_revision, branch_labels, depends_on = {revision!r}, {previous!r}, None, None


def upgrade():
    {upgrade}
"""
EXPAND = (
    'add_column("mayfly_jobs", Column("cost", Integer, nullable=False, server_default=text("1")))',
    'create_index("mayfly_jobs_cost", "mayfly_jobs", ["cost", "id"])',
)
CONTRACT = (
    'drop_index("mayfly_jobs_cost", "mayfly_jobs")',
    'drop_column("mayfly_jobs", "cost")',
)


def number_after(releases: int) -> str:
    """The version that is so many releases after this code's."""
    return f"{int(VERSION) + releases:04}"


def write_migrations(folder: Path, *migrations: tuple[str, tuple[str, ...]]) -> PackageTables:
    """The migrations of this code, and further ones: each by its revision and its statements."""
    shutil.copytree(OWN.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    previous = OWN.versions()[0]
    for revision, statements in migrations:
        text = MIGRATION.format(revision=revision, previous=previous, upgrade="\n    ".join(statements))
        (folder / f"v{revision}.py").write_text(text)
        previous = revision
    return PackageTables("mayfly", folder, VERSION_TABLE)


def copy_source(folder: Path) -> Path:
    """The source tree of the next release, which adds a column; returns the directory for PYTHONPATH."""
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / name, folder / name, symlinks=True, ignore=ignored)
    versions = folder / OWN.folder.relative_to(CHECKOUT)
    shutil.rmtree(versions)
    write_migrations(versions, (f"{number_after(1)}_from_{VERSION}", EXPAND))
    constants = folder / "mayfly/schema/tables.py"
    known = f'VERSION = "{VERSION}"'
    text = constants.read_text()
    assert known in text
    constants.write_text(text.replace(known, f'VERSION = "{number_after(1)}"'))
    return folder
