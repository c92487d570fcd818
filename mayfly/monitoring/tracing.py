"""Spans for OpenTelemetry: of cycles, claims and jobs. With mayfly/queue/insert.py, all that knows of it."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from mayfly.errors import Undelivered
from mayfly.settings import Settings

SECONDS = 1.0  # for an answer of the collector's
NANOSECONDS = 1_000_000_000
NOWHERE = Context()


def provider_for(settings: Settings, ids: IdGenerator | None = None) -> TracerProvider:
    resource = Resource.create({"service.name": "mayfly", "host.name": settings.host_name})
    return TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)


def exporter_for(settings: Settings) -> OTLPSpanExporter:
    """The headers, compression and certificates are the exporter's own affair: OTEL_EXPORTER_OTLP_…."""
    endpoint = (settings.otlp_endpoint or "").rstrip("/")
    return OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=SECONDS)


def cycle_context(settings: Settings, cycle_id: int) -> SpanContext:
    """Known to runners before the span itself is written: made of what they know of the cycle."""
    digest = hashlib.sha256(f"{settings.host_name} {cycle_id}".encode()).digest()
    trace_id, span_id = int.from_bytes(digest[:16]), int.from_bytes(digest[16:24])
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def within(context: SpanContext) -> Context:
    return set_span_in_context(NonRecordingSpan(context), NOWHERE)


def export_cycle(
    settings: Settings, cycle_id: int, ended_at: datetime, seconds: float, facts: Mapping[str, str | int]
) -> None:
    """At its end, whole; raises Undelivered if the collector did not take it."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # what it prints, cron would mail every minute
    provider = provider_for(settings, _Known(cycle_context(settings, cycle_id)))
    exporter = _Heard(exporter_for(settings))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    end = int(ended_at.timestamp() * NANOSECONDS)
    attributes = {f"mayfly.{name}": value for name, value in facts.items()}
    tracer = provider.get_tracer("mayfly")
    span = tracer.start_span("cycle", NOWHERE, attributes=attributes, start_time=end - int(seconds * NANOSECONDS))
    if facts.get("exit_code"):
        span.set_status(Status(StatusCode.ERROR, f"exit code {facts['exit_code']}"))
    span.end(end)
    provider.shutdown()
    if not exporter.was_taken:
        raise Undelivered("the collector at OTLP_ENDPOINT did not take the cycle's span")


class _Heard(SpanExporter):
    """Remembers the answer, which nobody else asks for."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.was_taken = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        self.was_taken = result is SpanExportResult.SUCCESS
        return result


class _Known(IdGenerator):
    """Gives out what others already refer to."""

    def __init__(self, context: SpanContext) -> None:
        self._context = context

    def generate_trace_id(self) -> int:
        return self._context.trace_id

    def generate_span_id(self) -> int:
        return self._context.span_id
