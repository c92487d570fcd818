"""Handlers that return the trace they run in, one of each kind."""

import sys

from mayfly import Job, enqueue, handler


def current() -> dict[str, str]:
    """Empty without OpenTelemetry: the handler itself imports nothing."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


@handler("traced")
def traced(_job: Job) -> dict[str, str]:
    return current()


@handler("traced_async")
async def traced_async(_job: Job) -> dict[str, str]:
    return current()


@handler("traced_threads", threads=2)
def traced_threads(_job: Job) -> dict[str, str]:
    return current()


@handler("traced_parent")
def traced_parent(_job: Job) -> dict[str, str]:
    enqueue("traced")
    return current()


@handler("traced_failure", max_attempts=1)
def traced_failure(job: Job) -> None:
    raise RuntimeError(job.payload.get("reason", "no such customer"))
