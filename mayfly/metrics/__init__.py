"""What Prometheus is told, whoever asks: `mayfly metrics`, GET /metrics, or node_exporter by a file."""

from mayfly.engine import Database
from mayfly.errors import MetricsMissing
from mayfly.metrics.figures import read_figures
from mayfly.settings import Settings

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(database: Database, settings: Settings) -> bytes:
    """The text format of Prometheus."""
    try:
        from mayfly.metrics.families import text_of  # the only importer of prometheus_client
    except ModuleNotFoundError as error:
        raise MetricsMissing from error
    return text_of(database.read(lambda connection: read_figures(connection, settings, database.clock.now())))
