"""Write the generated pages: `scripts/docs reference`."""

import click

from scripts.reference import DOCS, outdated

for name, page in outdated().items():
    (DOCS / name).write_text(page, "utf-8")
    click.echo(f"Written: docs/{name}")
