"""Jobs whose handler requires a missing setting are cancelled with the reason; the handler is not called."""

from collections.abc import Iterator

import pytest

from mayfly import Job, enqueue, handler
from mayfly.cli.doctor import Installation, check_integrations
from mayfly.db.database import Database
from mayfly.registry import Registry, declared
from mayfly.settings import load
from mayfly.testing import drain, run_inline, using_database
from tests.factories import get_row

REASON = "integration not configured: VENDOR_KEY"


@pytest.fixture
def called(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The ids of the jobs with which the handlers were called."""
    monkeypatch.delenv("VENDOR_KEY", raising=False)
    monkeypatch.setenv("VENDOR_URL", "http://vendor.example")
    ids: list[int] = []

    with using_database(migrated_url):

        @handler("ask_vendor", requires=("VENDOR_KEY", "VENDOR_URL"))
        def ask_vendor(job: Job) -> None:
            ids.append(job.id)

        @handler("ask_vendor_async", requires=("VENDOR_KEY",))
        async def ask_vendor_async(job: Job) -> None:
            ids.append(job.id)

        yield ids


@pytest.mark.parametrize("type_name", ["ask_vendor", "ask_vendor_async"])
def test_without_its_setting_a_job_is_cancelled(database: Database, called: list[int], type_name: str) -> None:
    """Without using an attempt; the reason names the missing settings only."""
    job_id = enqueue(type_name)

    outcomes = drain().outcomes

    row = get_row(database, job_id)
    assert (outcomes, called) == ({"cancelled": 1}, [])
    assert (row.status, row.attempts, row.last_error) == ("cancelled", 0, REASON)


def test_with_its_setting_a_job_is_run(called: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """From the next runner on."""
    monkeypatch.setenv("VENDOR_KEY", "s3cret")
    enqueue("ask_vendor")

    assert drain().outcomes == {"done": 1}
    assert len(called) == 1


def test_run_inline_checks_required_settings(called: list[int]) -> None:
    """A test sees the outcome of a runner."""
    run = run_inline("ask_vendor")

    assert (run.kind, run.outcome.error, called) == ("cancelled", REASON, [])


def test_doctor_lists_missing_settings(called: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """With their handlers, or that none is missing."""
    mine = {name: each for name, each in declared().items() if name.startswith("ask_vendor")}
    installation = Installation(load({}))
    installation.registry = Registry(mine)
    before = [each.text for each in check_integrations(installation)]
    monkeypatch.setenv("VENDOR_KEY", "s3cret")
    after = [each.text for each in check_integrations(installation)]

    assert before == ["disabled: VENDOR_KEY is not set, so jobs of type ask_vendor, ask_vendor_async are cancelled."]
    assert after == ["all configured: VENDOR_KEY, VENDOR_URL"]
