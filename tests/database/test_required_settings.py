"""Jobs whose handler requires a setting that is missing: cancelled with the reason, and never called."""

from collections.abc import Iterator

import pytest

from mayfly import Job, enqueue, handler
from mayfly.cli.doctor import integration_results
from mayfly.db.database import Database
from mayfly.registry import declared
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
    """Unspent, with a reason that names what is missing and nothing else."""
    job_id = enqueue(type_name)

    outcomes = drain().outcomes

    row = get_row(database, job_id)
    assert (outcomes, called) == ({"cancelled": 1}, [])
    assert (row.status, row.attempts, row.last_error) == ("cancelled", 0, REASON)


def test_with_its_setting_it_is_run(called: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """From the next runner on."""
    monkeypatch.setenv("VENDOR_KEY", "s3cret")
    enqueue("ask_vendor")

    assert drain().outcomes == {"done": 1}
    assert len(called) == 1


def test_run_inline_obeys_it_too(called: list[int]) -> None:
    """A test sees what a runner would do."""
    run = run_inline("ask_vendor")

    assert (run.kind, run.outcome.error, called) == ("cancelled", REASON, [])


def test_doctor_tells_what_is_off(called: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Which setting, and whose jobs; when all are there, that."""
    mine = {name: each for name, each in declared().items() if name.startswith("ask_vendor")}
    before = [each.text for each in integration_results(mine)]
    monkeypatch.setenv("VENDOR_KEY", "s3cret")
    after = [each.text for each in integration_results(mine)]

    assert before == ["off: VENDOR_KEY is not set: jobs of ask_vendor, ask_vendor_async are cancelled."]
    assert after == ["all are configured: VENDOR_KEY, VENDOR_URL"]
