"""The trace that somebody enqueues in, so that the job can go on with it: W3C's traceparent, or nothing."""

import sys


def current_traceparent() -> str | None:
    """Where the application has OpenTelemetry and a span is open. Where it has not, this is one look into a dict."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
