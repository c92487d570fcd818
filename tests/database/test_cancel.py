"""Cancelling: pending jobs end at once, running jobs get a request, and no other job is changed."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import mayfly
from mayfly.admin.actions import CANCEL, MAX_MATCHING_COUNTED, BulkResult, act, count_matching
from mayfly.admin.auth import PYTHON, Actor, this_user
from mayfly.admin.filters import JobFilter
from mayfly.admin.jobs import CappedCount
from mayfly.client import App, Cancelled
from mayfly.db.database import Database
from mayfly.errors import BadField, NoJobsSelected
from mayfly.queue.outcome import RELEASED, Settlement
from mayfly.queue.prune import prune
from mayfly.queue.settle import settle
from tests.database.factories import change_job, claim_jobs, in_threads, make_runtime, make_settler, retention
from tests.factories import get_row, insert_row, insert_rows

HOUR = timedelta(hours=1)
ANN = Actor("ann")


def cancelled_ids(database: Database, *ids: int) -> list[int]:
    return [each for each in ids if get_row(database, each).status == "cancelled"]


# --- one job ----------------------------------------------------------------------------------------------


def test_a_pending_job_is_cancelled_at_once(database: Database) -> None:
    """The user and the reason are stored, and its unique key is free again."""
    job_id = insert_row(database, unique_key="welcome:42")

    done = act(database, CANCEL, JobFilter(ids=(job_id,)), ANN, "a mistake")

    row = get_row(database, job_id)
    assert done == BulkResult(changed=1)
    assert (row.status, row.last_error, row.claims) == ("cancelled", "cancelled by ann: a mistake", 0)
    assert row.finished_at is not None
    assert insert_row(database, unique_key="welcome:42")


def test_a_running_job_gets_a_cancellation_request(database: Database) -> None:
    """It continues to run; a second request does not change the reason."""
    job_id = insert_row(database)
    claim_jobs(database)

    done = [act(database, CANCEL, JobFilter(ids=(job_id,)), ANN, reason) for reason in ("first", "second")]

    row = get_row(database, job_id)
    assert done == [BulkResult(requested=1), BulkResult()]
    assert (row.status, row.cancel_reason, row.worker_id) == ("processing", "cancelled by ann: first", "worker-1")


@pytest.mark.parametrize("status", ["done", "dead", "cancelled"])
def test_finished_jobs_are_unchanged(database: Database, status: str) -> None:
    """Unknown ids are ignored."""
    job_id = insert_row(database, status=status, last_error="as it was")

    assert act(database, CANCEL, JobFilter(ids=(job_id, 10**15))) == BulkResult()
    row = get_row(database, job_id)
    assert (row.status, row.last_error, row.cancel_reason) == (status, "as it was", None)


def test_a_released_job_keeps_its_cancellation_request(database: Database) -> None:
    """The next runner settles it instead of running it."""
    insert_row(database)
    [job] = claim_jobs(database)
    act(database, CANCEL, JobFilter(ids=(job.id,)), reason="a mistake")
    settle(database, make_settler(), [Settlement(job, RELEASED)], {})

    [again] = claim_jobs(database)

    assert again.rare_fields is not None
    assert again.rare_fields.cancel_reason == "cancelled: a mistake"


def test_a_job_cancelled_long_before_its_run_at_is_pruned(database: Database) -> None:
    """By the time of its end, not by its run_at."""
    job_id = insert_row(database, run_at=database.clock.now() + 9000 * HOUR)
    act(database, CANCEL, JobFilter(ids=(job_id,)))
    change_job(database, job_id, finished_at=database.clock.now() - 24 * HOUR)
    row = get_row(database, job_id)
    assert row.run_at <= database.clock.now()
    change_job(database, job_id, run_at=row.finished_at)

    assert prune(database, retention(cancelled=0.5)) == 1


# --- many -------------------------------------------------------------------------------------------------


def test_a_group_is_cancelled(database: Database) -> None:
    """Its pending and running jobs, and no others."""
    running = insert_row(database, group_key="campaign-7")
    claim_jobs(database)
    waiting = insert_rows(database, 3, group_key="campaign-7", lane="mail")
    others = insert_rows(database, 2, group_key="campaign-8")

    done = act(database, CANCEL, JobFilter(group_key="campaign-7"))

    assert done == BulkResult(changed=3, requested=1)
    assert cancelled_ids(database, *waiting, running, *others) == waiting


@pytest.mark.parametrize(
    ("job_filter", "expected"),
    [
        ({"lane": "mail"}, ["mail noop", "mail sleep", "mail old"]),
        ({"type": "sleep"}, ["sleep", "mail sleep"]),
        ({"lane": "mail", "type": "sleep"}, ["mail sleep"]),
        ({"lane": "mail", "status": "processing"}, []),
        ({"lane": "mail", "old": True}, ["mail old"]),
        ({"group_key": "g", "type": "sleep"}, ["mail sleep"]),
        ({"lane": "nowhere"}, []),
    ],
)
def test_a_filter_matches_all_its_conditions(
    database: Database, job_filter: dict[str, Any], expected: list[str]
) -> None:
    """In every lane and priority; the count gives the number beforehand."""
    now = database.clock.now()
    ids = {
        "noop": insert_row(database),
        "sleep": insert_row(database, type="sleep", priority=2, run_at=now + HOUR),
        "mail noop": insert_row(database, lane="mail", priority=0),
        "mail sleep": insert_row(database, lane="mail", type="sleep", group_key="g"),
        "mail old": insert_row(database, lane="mail", group_key="g", created_at=now - 9 * HOUR),
    }
    meant = JobFilter(**{key: value for key, value in job_filter.items() if key != "old"})
    meant = meant._replace(created_before=now - HOUR) if "old" in job_filter else meant

    number = count_matching(database, CANCEL, meant)
    done = act(database, CANCEL, meant)

    assert (number.number, done) == (len(expected), BulkResult(changed=len(expected)))
    assert cancelled_ids(database, *ids.values()) == [ids[name] for name in expected]


def test_more_jobs_than_a_slice_are_cancelled(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """By id, by group and by filter, among others with the same run_at."""
    monkeypatch.setattr("mayfly.admin.actions.ROWS_PER_SLICE", 3)
    run_at = database.clock.now()
    by_id = insert_rows(database, 8)
    insert_rows(database, 8, group_key="g", lane="grouped")
    for _ in range(4):
        insert_rows(database, 2, lane="mixed", type="sleep", run_at=run_at)
        insert_rows(database, 2, lane="mixed", run_at=run_at)

    filters = [JobFilter(ids=tuple(by_id)), JobFilter(group_key="g"), JobFilter(type="sleep")]

    assert [act(database, CANCEL, job_filter).changed for job_filter in filters] == [8, 8, 8]


def test_a_claim_and_a_concurrent_cancel_share_the_jobs(database: Database, rival: Database) -> None:
    """Each job is either cancelled, or claimed with a request."""
    insert_rows(database, 60)

    def claim_all() -> list[int]:
        claimed: list[int] = []
        while batch := claim_jobs(rival, 7):
            claimed += [job.id for job in batch]
        return claimed

    works: list[Callable[[], Any]] = [claim_all, lambda: act(database, CANCEL, JobFilter(type="noop"))]
    taken, done = in_threads(works)

    claimed = [get_row(database, each) for each in taken]
    assert all(row.status == "processing" for row in claimed)
    assert done.changed + len(claimed) == 60
    again = act(database, CANCEL, JobFilter(type="noop"))
    assert again.changed == 0
    assert done.requested + again.requested == len(claimed)


def test_a_count_is_capped(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows that there are more."""
    assert MAX_MATCHING_COUNTED > 1
    monkeypatch.setattr("mayfly.admin.actions.MAX_MATCHING_COUNTED", 3)
    insert_rows(database, 5)
    insert_rows(database, 5, lane="mail")

    assert count_matching(database, CANCEL, JobFilter(type="noop")) == CappedCount(3, is_more=True)


# --- invalid input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("job_filter", [JobFilter(), JobFilter(status="pending"), JobFilter(ids=None)])
def test_an_empty_filter_is_refused(database: Database, job_filter: JobFilter) -> None:
    """A forgotten filter must not cancel all jobs."""
    insert_row(database)

    with pytest.raises(NoJobsSelected, match="Select jobs by"):
        act(database, CANCEL, job_filter)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"ids": (0,)}, "id=0: must be a positive integer"),
        ({"ids": (2**63,)}, "must be a positive integer"),
        ({"ids": ("12",)}, "id='12': must be a positive integer"),
        ({"ids": (True,)}, "id=True"),
        ({"lane": "\x00"}, "must be text without NUL or unpaired surrogates"),
        ({"group_key": 7}, "group_key=7"),
        ({"lane": "mail", "status": "done"}, "status='done': must be one of pending, processing"),
    ],
)
def test_an_invalid_filter_is_an_error(database: Database, arguments: dict[str, Any], sentence: str) -> None:
    """Before any query."""
    with pytest.raises(BadField, match=sentence):
        act(database, CANCEL, JobFilter(**arguments))


# --- from Python ------------------------------------------------------------------------------------------


def test_applications_can_cancel(app: App) -> None:
    """With the filters of the command line."""
    ids = insert_rows(app.database, 3, group_key="g")

    one = mayfly.cancel(ids[0], reason="a mistake")
    rest = mayfly.cancel(group_key="g", older_than=0)

    assert (one, rest) == (Cancelled(1), Cancelled(2))
    assert get_row(app.database, ids[0]).last_error == f"cancelled by {this_user(PYTHON).name}: a mistake"


@pytest.mark.parametrize("older_than", [-1, float("nan"), "2h"])
def test_an_invalid_age_is_an_error(app: App, older_than: Any) -> None:
    """As for a delay."""
    assert app.settings
    with pytest.raises(BadField, match="older_than="):
        mayfly.cancel(lane="mail", older_than=older_than)


def test_a_handler_sees_a_cancellation_request(
    database: Database, rival: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It queries the database at most once a second, and no more after the request is found."""
    clock = [100.0]
    monkeypatch.setattr("mayfly.job.monotonic", lambda: clock[0])
    insert_row(database)
    [job] = claim_jobs(database)
    job.runtime = make_runtime(database)

    seen = [job.cancelled]
    act(rival, CANCEL, JobFilter(ids=(job.id,)), reason="a mistake")
    seen.append(job.cancelled)
    clock[0] += 1.0
    seen.append(job.cancelled)
    database.close()
    seen.append(job.cancelled)

    assert seen == [False, False, True, True]


def test_a_request_for_the_next_claim_is_not_shown_to_the_old_one(database: Database) -> None:
    """It is read with the fencing token."""
    insert_row(database)
    [job] = claim_jobs(database)
    change_job(database, job.id, worker_id="worker-2", claims=2, cancel_reason="cancelled")
    job.runtime = make_runtime(database)

    assert not job.cancelled
