"""Spans of a runner: each claim, and each job as a part of the trace in which it was enqueued."""

from collections.abc import Sequence
from threading import Thread
from typing import Any

from opentelemetry import context
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mayfly.db.database import Database
from mayfly.fleet.runners import Assignment
from mayfly.job import Job
from mayfly.monitoring.tracing import NOWHERE, cycle_context, exporter_for, provider_for, within
from mayfly.queue.outcome import Outcome, OutcomeKind
from mayfly.registry import Hooks
from mayfly.settings import Settings
from runner.claims import Claims

CONTEXTS = "SELECT id, trace_context FROM mayfly_jobs WHERE {ids of id} AND trace_context IS NOT NULL"
FAILURES = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.DEAD)
LAST_SECONDS = 1.0  # for what is left to be exported when a runner ends
_PROPAGATOR = TraceContextTextMapPropagator()


class Tracing:
    """Of one runner. To its handlers it is a hook, around those that the settings name."""

    def __init__(self, settings: Settings, assignment: Assignment) -> None:
        self._provider = provider_for(settings)
        self._provider.add_span_processor(BatchSpanProcessor(exporter_for(settings)))
        self._tracer = self._provider.get_tracer("mayfly")
        self._cycle = cycle_context(settings, assignment.cycle_id)
        self._worker_id = assignment.worker_id
        self._parents: dict[int, str] = {}  # of jobs that are claimed, and were enqueued in a trace
        self._spans: dict[int, Span] = {}
        self.hooks: Hooks | None = None

    def claim_span(self, lane: str) -> Any:
        attributes = {"mayfly.lane": lane, "mayfly.worker_id": self._worker_id}
        return self._tracer.start_as_current_span("claim", within(self._cycle), attributes=attributes)

    def learn(self, database: Database, batch: Sequence[Job]) -> None:
        """Asked for here, where somebody wants to know: other claims do without the column."""
        if batch:
            ids = [job.id for job in batch]
            found = database.read(lambda connection: connection.execute(CONTEXTS, ids=ids).all())
            self._parents.update(found)

    def before(self, job: Job) -> None:
        traceparent = self._parents.pop(job.id, None)
        parent = within(self._cycle)
        links = []
        if traceparent is not None:
            extracted = _PROPAGATOR.extract({"traceparent": traceparent}, NOWHERE)
            if get_current_span(extracted).get_span_context().is_valid:  # a row may say anything
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
        if self.hooks is not None:
            self.hooks.before(job)

    def after(self, job: Job, outcome: Outcome) -> None:
        if self.hooks is not None:
            self.hooks.after(job, outcome)
        context.attach(NOWHERE)  # a token of another thread or task could not be given back here
        span = self._spans.pop(job.id, None)
        if span is None:  # it was interrupted before it began
            return
        span.set_attribute("mayfly.queue.outcome", outcome.kind.value)
        if outcome.kind in FAILURES:
            span.set_status(Status(StatusCode.ERROR, (outcome.error or "").partition("\n")[0]))
        span.end()

    def close(self) -> None:
        """A collector that does not answer is left alone soon: this process ends without waiting for threads."""
        last = Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(LAST_SECONDS)


class TracedClaims(Claims):
    def __init__(self, tracing: Tracing, *given: Any) -> None:
        super().__init__(*given)
        self._tracing = tracing

    def _claim(self, size: int) -> list[Job]:
        with self._tracing.claim_span(self.lane) as span:
            batch = super()._claim(size)
            span.set_attribute("mayfly.queue", len(batch))
        self._tracing.learn(self._database, batch)
        return batch
