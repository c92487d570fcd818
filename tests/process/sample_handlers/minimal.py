"""Handlers that import nothing but Mayfly."""

from mayfly import Job, handler


@handler("noop")
def noop(job: Job) -> None:
    """Nothing."""
