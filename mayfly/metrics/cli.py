"""`mayfly metrics`: what Prometheus is told, on the terminal."""

import click

from mayfly import exits
from mayfly.settings import load_settings


@click.command()
def metrics() -> int:
    """Print the metrics as Prometheus reads them. METRICS_TEXTFILE writes the same to a file, each cycle."""
    from mayfly.metrics import render  # the database, only where it is needed
    from mayfly.opening import open_database

    settings = load_settings()
    click.echo(render(open_database(settings), settings), nl=False)
    return exits.SUCCESS
