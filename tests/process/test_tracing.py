"""Traces of real processes, received by a real collector: from enqueue to the handler, cycles and claims."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.process.installation import CHECKOUT, Installation, handler_modules
from tests.receivers import Receiver, free_port, http_receiver

# An application with its own tracing: Mayfly only needs a current span.
PRODUCER = """
import sys
from opentelemetry.sdk.trace import TracerProvider
import mayfly

tracer = TracerProvider().get_tracer("shop")
with tracer.start_as_current_span("order") as span:
    for type_name in sys.argv[1:]:
        mayfly.enqueue(type_name)
    print(f"{span.get_span_context().trace_id:032x} {span.get_span_context().span_id:016x}")
"""
ERROR, CONSUMER = 2, 5  # numbers of the protocol


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with http_receiver() as made:
        yield made


def traced_settings(collector: Receiver) -> dict[str, str]:
    return {"OTLP_ENDPOINT": collector.url, "HANDLERS": handler_modules("tracing")}


def spans_in(collector: Receiver) -> list[Any]:
    assert {each.path for each in collector.requests} <= {"/v1/traces"}
    requests = [ExportTraceServiceRequest.FromString(each.body) for each in collector.requests]
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def named(collector: Receiver, name: str) -> list[Any]:
    return [each for each in spans_in(collector) if each.name == name]


def enqueue_in_a_trace(installation: Installation, *type_names: str, **settings: str) -> tuple[str, str]:
    """Returns the ids of the trace and of the span in which they were enqueued."""
    ran = subprocess.run(
        [sys.executable, "-c", PRODUCER, *type_names],
        env=installation.environment(**settings),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    trace_id, span_id = ran.stdout.split()
    return trace_id, span_id


def results(installation: Installation) -> list[dict[str, str]]:
    return [json.loads(row.result) for row in installation.rows("SELECT result FROM mayfly_jobs ORDER BY id")]


def test_a_job_continues_the_trace_of_its_producer(embedded: Installation, collector: Receiver) -> None:
    """Its handler runs inside its span, for every kind of handler."""
    settings = traced_settings(collector)
    type_names = ("traced", "traced_async", "traced_threads")
    trace_id, span_id = enqueue_in_a_trace(embedded, *type_names, **settings)

    assert embedded.dispatch(**settings).returncode == 0

    jobs = [job for type_name in type_names for job in named(collector, f"job {type_name}")]
    assert len(jobs) == 3
    assert {(job.trace_id.hex(), job.parent_span_id.hex(), job.kind) for job in jobs} == {
        (trace_id, span_id, CONSUMER)
    }
    assert results(embedded) == [{"trace_id": trace_id, "span_id": job.span_id.hex()} for job in jobs]


def test_jobs_enqueued_by_a_handler_belong_to_its_trace(embedded: Installation, collector: Receiver) -> None:
    """The span of the handler's job is the parent."""
    settings = traced_settings(collector)
    trace_id, _ = enqueue_in_a_trace(embedded, "traced_parent", **settings)

    for _ in range(2):
        embedded.dispatch(**settings)

    [parent], [child] = named(collector, "job traced_parent"), named(collector, "job traced")
    assert child.parent_span_id == parent.span_id
    assert (parent.trace_id.hex(), child.trace_id.hex()) == (trace_id, trace_id)


def test_cycles_claims_and_jobs_have_spans(installation: Installation, collector: Receiver) -> None:
    """A job without a trace belongs to that of the cycle, as the claims do."""
    installation.enqueue("traced")

    installation.dispatch(**traced_settings(collector))

    [cycle], [job], claims = named(collector, "cycle"), named(collector, "job traced"), named(collector, "claim")
    assert {each.trace_id for each in (cycle, job, *claims)} == {cycle.trace_id}
    assert {each.parent_span_id for each in (job, *claims)} == {cycle.span_id}
    assert cycle.start_time_unix_nano < claims[0].start_time_unix_nano < job.start_time_unix_nano
    assert job.end_time_unix_nano < cycle.end_time_unix_nano
    taken = [each.value.int_value for claim in claims for each in claim.attributes if each.key == "mayfly.jobs"]
    assert sum(taken) == 1
    assert [each.value.int_value for each in cycle.attributes if each.key == "mayfly.pending"] == [1]


def test_a_failed_job_has_a_failed_span(embedded: Installation, collector: Receiver) -> None:
    """With the first line of the error, and never the payload."""
    embedded.enqueue("traced_failure", '{"card": "xyzzy"}')

    embedded.dispatch(**traced_settings(collector))

    [job] = named(collector, "job traced_failure")
    assert (job.status.code, job.status.message) == (ERROR, "RuntimeError: no such customer")
    assert b"xyzzy" not in b"".join(each.body for each in collector.requests)


def test_a_failed_span_has_no_value_of_a_redacted_field(embedded: Installation, collector: Receiver) -> None:
    """As in logs and alerts."""
    embedded.enqueue("traced_failure", '{"token": "xyzzy", "reason": "xyzzy is not valid"}')

    embedded.dispatch(**traced_settings(collector))

    [job] = named(collector, "job traced_failure")
    assert (job.status.code, job.status.message) == (ERROR, "RuntimeError: ••• is not valid")


def test_an_invalid_trace_context_is_ignored(embedded: Installation, collector: Receiver) -> None:
    """It may have been inserted by SQL; the job runs."""
    embedded.enqueue("traced", trace_context="nonsense")

    assert embedded.dispatch(**traced_settings(collector)).returncode == 0

    assert embedded.statuses() == {"done": 1}
    assert len(named(collector, "job traced")) == 1


def test_an_unreachable_collector_harms_nothing(embedded: Installation) -> None:
    """Jobs are done, the exit code is not affected, and cron has nothing to mail."""
    embedded.enqueue("traced", count=3)

    cycle = embedded.dispatch(OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}", HANDLERS=handler_modules("tracing"))

    assert (cycle.returncode, cycle.stderr, embedded.statuses()) == (0, "", {"done": 3})
    assert "ERROR: Sending traces failed: the collector at OTLP_ENDPOINT did not accept" in embedded.log


def test_without_tracing_nothing_is_stored_or_imported(embedded: Installation) -> None:
    """Neither by the producer nor by the runner."""
    embedded.new_interpreters = True
    embedded.dispatch()
    enqueued = embedded.run("mayfly", "enqueue", "traced", HANDLERS="tests.process.sample_handlers.tracing")
    embedded.dispatch(HANDLERS="tests.process.sample_handlers.tracing")

    assert enqueued.returncode == 0
    assert [row.trace_context for row in embedded.rows("SELECT trace_context FROM mayfly_jobs")] == [None]
    assert results(embedded) == [{}]


def test_a_missing_package_is_an_error_message(embedded: Installation) -> None:
    """It names the extra to install; jobs run without traces."""
    embedded.new_interpreters = True
    embedded.enqueue("noop")
    hidden = embedded.home / "hidden" / "opentelemetry"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('opentelemetry')")
    path = f"{hidden.parent}:{embedded.environment()['PYTHONPATH']}"

    cycle = embedded.dispatch(PYTHONPATH=path, OTLP_ENDPOINT="http://127.0.0.1:4318")

    assert (cycle.returncode, cycle.stderr, embedded.statuses()) == (0, "", {"done": 1})
    sentence = "OTLP_ENDPOINT needs OpenTelemetry, which is not installed. Run `pip install 'mayfly-jobs[otel]'`."
    assert f"ERROR: Tracing disabled: {sentence}" in embedded.log
    assert f"ERROR: Sending traces failed: {sentence}" in embedded.log
