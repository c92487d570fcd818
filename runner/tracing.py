"""Spans of a runner: one per claim, and one per job in the trace in which it was enqueued."""

from collections.abc import Callable, Sequence
from threading import Thread
from typing import TYPE_CHECKING

from opentelemetry import context
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mayfly.db.database import Database
from mayfly.fleet.runners import Assignment
from mayfly.job import Job
from mayfly.monitoring.redact import first_line
from mayfly.monitoring.tracing import NOWHERE, cycle_context, exporter_for, provider_for, within
from mayfly.queue.outcome import Outcome
from mayfly.settings import Settings
from runner.claims import Claim

if TYPE_CHECKING:
    from runner.main import Runner

CONTEXTS = "SELECT id, trace_context FROM mayfly_jobs WHERE {ids of id} AND trace_context IS NOT NULL"
EXPORT_SECONDS = 1.0  # for the last spans when a runner ends
_PROPAGATOR = TraceContextTextMapPropagator()


def install(runner: "Runner") -> None:
    tracing = Tracing(runner.settings, runner.assignment, runner.database, lambda: runner.pauses.lane)
    runner.observers.insert(0, tracing)  # around the hooks
    runner.claim_middleware.append(tracing.trace_claims)
    runner.on_close.append(tracing.close)


class Tracing:
    """A job observer and a claim middleware."""

    def __init__(
        self, settings: Settings, assignment: Assignment, database: Database, lane: Callable[[], str]
    ) -> None:
        self._database = database
        self._lane = lane  # the current one
        self._provider = provider_for(settings)
        self._provider.add_span_processor(BatchSpanProcessor(exporter_for(settings)))
        self._tracer = self._provider.get_tracer("mayfly")
        self._cycle = cycle_context(settings, assignment.cycle_id)
        self._worker_id = assignment.worker_id
        self._redact = settings.redact
        self._parents: dict[int, str] = {}  # trace contexts of claimed jobs, by id
        self._spans: dict[int, Span] = {}

    def trace_claims(self, claim: Claim) -> Claim:
        def traced(size: int) -> list[Job]:
            attributes = {"mayfly.lane": self._lane(), "mayfly.worker_id": self._worker_id}
            with self._tracer.start_as_current_span("claim", within(self._cycle), attributes=attributes) as span:
                batch = claim(size)
                span.set_attribute("mayfly.jobs", len(batch))
            self._read_parents(batch)
            return batch

        return traced

    def _read_parents(self, batch: Sequence[Job]) -> None:
        """A separate query, so that claims without tracing do not read the column."""
        if batch:
            ids = [job.id for job in batch]
            found = self._database.read(lambda connection: connection.execute(CONTEXTS, ids=ids).all())
            self._parents.update(found)

    def before(self, job: Job) -> None:
        traceparent = self._parents.pop(job.id, None)
        parent = within(self._cycle)
        links = []
        if traceparent is not None:
            extracted = _PROPAGATOR.extract({"traceparent": traceparent}, NOWHERE)
            if get_current_span(extracted).get_span_context().is_valid:  # the column may contain any text
                parent, links = extracted, [Link(self._cycle)]
        span = self._tracer.start_span(
            f"job {job.type}",
            parent,
            SpanKind.CONSUMER,
            {
                "mayfly.job.id": job.id,
                "mayfly.job.type": job.type,
                "mayfly.job.attempt": job.attempt,
                "mayfly.lane": job.lane,
                "mayfly.worker_id": self._worker_id,
            },
            links,
        )
        self._spans[job.id] = span
        context.attach(set_span_in_context(span, NOWHERE))

    def after(self, job: Job, outcome: Outcome) -> None:
        context.attach(NOWHERE)  # a token of another thread or task cannot be reset here
        span = self._spans.pop(job.id, None)
        if span is None:  # interrupted before `before`
            return
        span.set_attribute("mayfly.outcome", outcome.kind.value)
        if outcome.attempt_ending is not None:
            error = first_line(self._redact, job.payload_text, outcome.error)
            span.set_status(Status(StatusCode.ERROR, error))
        span.end()

    def close(self) -> None:
        """Does not wait for a collector that hangs: the process exits without joining threads."""
        last = Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(EXPORT_SECONDS)
