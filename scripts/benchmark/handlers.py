"""The jobs that are measured."""

from mayfly import Job, handler


@handler("nothing")
def nothing(_job: Job) -> None:
    """As much as the yardstick does."""
