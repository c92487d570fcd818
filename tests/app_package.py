"""A package of an application with its own tables: two migrations, in a folder whose name is hard to quote."""

from pathlib import Path

NAME = "shop_with_tables"
TABLES = {"app_orders", "app_customers"}
VERSION_TABLE = f"app_{NAME}_version"
NEWEST = "v2"
MIGRATION = """
from alembic import op
from sqlalchemy import Column, Integer

revision, down_revision, branch_labels, depends_on = {revision!r}, {down_revision!r}, None, None


def upgrade():
    op.create_table({table!r}, Column("id", Integer, primary_key=True), if_not_exists=True)
"""


def write_app_package(folder: Path) -> Path:
    """Returns the directory to import it from."""
    home = folder / "my shop: jobs, 100%"
    versions = home / NAME / "tables"
    versions.mkdir(parents=True)
    (home / NAME / "__init__.py").write_text("__migrations__ = 'tables'\n")
    for revision, down_revision, table in (("v1", None, "app_orders"), ("v2", "v1", "app_customers")):
        text = MIGRATION.format(revision=revision, down_revision=down_revision, table=table)
        (versions / f"{revision}.py").write_text(text)
    return home
