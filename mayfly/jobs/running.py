"""The job whose handler runs here: a plain function, a thread, a task, or what these start with their own context."""

from contextvars import ContextVar

from mayfly.job import Job

RUNNING: ContextVar[Job | None] = ContextVar("mayfly_running", default=None)


def parent_id() -> int | None:
    """Of what is enqueued here."""
    job = RUNNING.get()
    return None if job is None else job.id
