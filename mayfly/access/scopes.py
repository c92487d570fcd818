"""What a token may be for. Pure."""

from collections.abc import Iterable

ENQUEUE, READ, OPERATE, WORK, METRICS = "enqueue", "read", "operate", "work", "metrics"
SCOPES = {
    ENQUEUE: "enqueue jobs",
    READ: "see jobs, lanes, cycles and runners",
    OPERATE: "retry, cancel, discard and delay jobs; pause and set lanes",
    WORK: "pull jobs of external lanes and settle them",
    METRICS: "scrape the metrics",
}


def as_text(scopes: Iterable[str]) -> str:
    """As the table has them, and people read them: always in the same order."""
    given = set(scopes)
    return " ".join(each for each in SCOPES if each in given)
