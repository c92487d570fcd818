"""The names of `from mayfly import …`, and that every way to enqueue has the same options."""

import pytest

import mayfly
from console.api.schemas import NewJobRequest
from mayfly import Job, Limit, concurrency, current_job, handler, rate
from mayfly.cli.enqueue import enqueue as enqueue_command
from mayfly.errors import EnqueueError, UnknownOption
from mayfly.job import CURRENT_JOB
from mayfly.queue.options import JobOptions
from mayfly.testing import run_inline


@pytest.mark.parametrize("name", mayfly.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(mayfly, name) is not None


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'enqeue'"):
        mayfly.enqeue  # noqa: B018


def test_limits_are_values_of_a_public_type() -> None:
    assert isinstance(concurrency("smtp", 2), Limit)
    assert isinstance(rate("sender", 3, per="day"), Limit)


def test_code_below_a_handler_finds_its_job() -> None:
    """At any call depth, and only while the handler runs."""
    seen: list[Job | None] = []

    def deep() -> None:
        seen.append(current_job())

    @handler("curious")
    def curious(job: Job) -> None:
        deep()
        assert current_job() is job

    run = run_inline(curious)

    assert (run.kind, seen) == ("done", [run.job])
    assert current_job() is CURRENT_JOB.get() is None


def test_http_and_the_command_line_have_every_option_of_a_job() -> None:
    """A new option of enqueue() must be added to both."""
    assert set(NewJobRequest.model_fields) == {"type", "payload", *JobOptions.__annotations__}
    assert {each.name for each in enqueue_command.params} == {
        "type_name", "payload", "dry_run", *JobOptions.__annotations__,
    }  # fmt: skip


def test_an_unknown_argument_is_a_type_error_with_a_hint() -> None:
    """It is also an EnqueueError, like any other invalid job."""
    with pytest.raises(
        UnknownOption, match=r"^enqueue\(\) has no argument 'prioritty'\. Did you mean 'priority'\?$"
    ) as caught:
        mayfly.enqueue("noop", prioritty=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^step\(\) has no argument 'unique_key'"):
        mayfly.step("noop", unique_key="x")  # type: ignore[call-arg]

    assert isinstance(caught.value, EnqueueError)
    assert isinstance(caught.value, TypeError)
