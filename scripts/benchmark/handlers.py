"""The jobs that are measured."""

from mayfly import Job, handler


@handler("nothing")
def nothing(_job: Job) -> None:
    """As much as the yardstick does."""


@handler("nothing_each", ack="each")
def nothing_each(_job: Job) -> None:
    """The same, each with its own commit."""
