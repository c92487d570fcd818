"""A job behind a key of which there is one a month."""

from mayfly import Job, handler, rate


@handler("limited", lane="limited", limits=rate("sender:{account}", 1, per="month"))
def limited(_job: Job) -> None:
    """Nothing: what counts is that it is not let in."""
