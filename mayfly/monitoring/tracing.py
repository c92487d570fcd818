"""OpenTelemetry spans of cycles, claims and jobs."""

import hashlib
import logging
from collections.abc import Mapping
from datetime import datetime

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags, set_span_in_context

from mayfly.errors import Undelivered
from mayfly.settings import Settings

EXPORT_TIMEOUT_SECONDS = 1.0
NANOSECONDS = 1_000_000_000
NOWHERE = Context()


def provider_for(settings: Settings, ids: IdGenerator | None = None) -> TracerProvider:
    resource = Resource.create({"service.name": "mayfly", "host.name": settings.host_name})
    return TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)


def exporter_for(settings: Settings) -> OTLPSpanExporter:
    """Headers, compression and certificates come from OTEL_EXPORTER_OTLP_… variables."""
    endpoint = (settings.otlp_endpoint or "").rstrip("/")
    return OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=EXPORT_TIMEOUT_SECONDS)


def cycle_context(settings: Settings, cycle_id: int) -> SpanContext:
    """Derived from host and cycle, so that runners can refer to the span before it is exported."""
    digest = hashlib.sha256(f"{settings.host_name} {cycle_id}".encode()).digest()
    trace_id, span_id = int.from_bytes(digest[:16]), int.from_bytes(digest[16:24])
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def within(context: SpanContext) -> Context:
    return set_span_in_context(NonRecordingSpan(context), NOWHERE)


def export_cycle(
    settings: Settings, cycle_id: int, ended_at: datetime, seconds: float, facts: Mapping[str, str | int]
) -> None:
    """Called at the end of the cycle. Raises Undelivered if the collector does not accept the span."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # cron would mail its output every minute
    provider = provider_for(settings, _FixedIds(cycle_context(settings, cycle_id)))
    end = int(ended_at.timestamp() * NANOSECONDS)
    attributes = {f"mayfly.{name}": value for name, value in facts.items()}
    tracer = provider.get_tracer("mayfly")
    span = tracer.start_span("cycle", NOWHERE, attributes=attributes, start_time=end - int(seconds * NANOSECONDS))
    if facts.get("exit_code"):
        span.set_status(Status(StatusCode.ERROR, f"exit code {facts['exit_code']}"))
    span.end(end)
    assert isinstance(span, ReadableSpan)  # it is sampled
    if exporter_for(settings).export([span]) is not SpanExportResult.SUCCESS:
        raise Undelivered("the collector at OTLP_ENDPOINT did not accept the cycle's span")


class _FixedIds(IdGenerator):
    """The ids that runners already refer to."""

    def __init__(self, context: SpanContext) -> None:
        self._context = context

    def generate_trace_id(self) -> int:
        return self._context.trace_id

    def generate_span_id(self) -> int:
        return self._context.span_id
