"""`mayfly metrics`: what Prometheus is told, on the terminal."""

import click

from mayfly.process import exits
from mayfly.settings import load_settings


@click.command()
def metrics() -> int:
    """Print the metrics as Prometheus reads them. METRICS_TEXTFILE writes the same to a file, each cycle."""
    from mayfly.bootstrap import open_database
    from mayfly.monitoring.metrics import render_metrics  # the database, only where it is needed

    settings = load_settings()
    click.echo(render_metrics(open_database(settings), settings), nl=False)
    return exits.SUCCESS
