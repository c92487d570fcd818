"""The status page of a runner."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.process.status_page import (
    MAX_DROPPED,
    SIZE,
    SLOTS,
    RunnerStatus,
    RunningJob,
    StatusPage,
    read_status_page,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "worker-1-1.page"


def test_a_new_page_is_empty(path: Path) -> None:
    """However early a runner dies, there is a page, and it names no job."""
    assert StatusPage(path).read() == RunnerStatus()


def test_a_running_job_is_on_the_page(path: Path) -> None:
    """With its id, start and timeout."""
    page = StatusPage(path)
    page.start(7, 100.5, 20.0)
    page.start(8, 101.0, None)

    assert page.read().running == (RunningJob(7, 100.5, 20.0), RunningJob(8, 101.0, None))


def test_a_finished_job_is_counted_and_removed(path: Path) -> None:
    """A finished job is no suspect; successes, failures and their durations are counted."""
    page = StatusPage(path)
    page.start(7, 100.0, None)
    page.start(8, 100.0, None)
    page.start(9, 100.0, None)
    page.finish(8, 100.25, succeeded=True)
    page.finish(7, 101.0, succeeded=False)

    assert page.read() == RunnerStatus((RunningJob(9, 100.0, None),), done=1, failed=1, busy_ms=1250.0)


def test_the_hard_deadline_is_on_the_page(path: Path) -> None:
    """By it the dispatcher distinguishes faulthandler's exit from a crash."""
    page = StatusPage(path)
    page.start(7, 100.0, None)
    page.expect_end_by(152.0)

    assert page.read() == RunnerStatus((RunningJob(7, 100.0, None),), hard_deadline=152.0)


def test_dropped_jobs_are_on_the_page(path: Path) -> None:
    """With their fencing tokens, in the order of the drops; they are no part of the runner's figures."""
    page = StatusPage(path)
    page.note_dropped([(7, 1), (8, 3)])
    page.note_dropped([(9, 1)])

    assert page.dropped_since(0) == [(7, 1), (8, 3), (9, 1)]
    assert (page.dropped_since(2), page.dropped_since(3)) == ([(9, 1)], [])
    assert (page.read(), page.room_for_dropped) == (RunnerStatus(), MAX_DROPPED - 3)


def test_dropped_jobs_and_running_jobs_do_not_overwrite_each_other(path: Path) -> None:
    """With as many of both as fit."""
    page = StatusPage(path)
    for number in range(1, SLOTS + 1):
        page.start(number, 1.0, None)
    page.note_dropped([(number, 2) for number in range(1, MAX_DROPPED + 1)])

    assert page.room_for_dropped == 0
    assert page.dropped_since(0) == [(number, 2) for number in range(1, MAX_DROPPED + 1)]
    assert {each.job_id for each in page.read().running} == set(range(1, SLOTS + 1))


def test_a_job_is_found_by_its_id(path: Path) -> None:
    """A job that is not found was never started or has ended."""
    page = StatusPage(path)
    page.start(7, 100.0, None)
    seen = page.read()

    assert (seen.running_job(7), seen.running_job(8)) == (RunningJob(7, 100.0, None), None)


def test_every_slot_can_be_used(path: Path) -> None:
    """The last slot can be used too."""
    page = StatusPage(path)
    for job_id in range(1, SLOTS + 1):
        page.start(job_id, 1.0, 0.5)

    assert [each.job_id for each in page.read().running] == list(range(1, SLOTS + 1))


def test_a_slot_is_free_when_its_job_has_ended(path: Path) -> None:
    """Sequential jobs use one slot and leave nothing in it."""
    page = StatusPage(path)
    for job_id in range(1, 3 * SLOTS):
        page.start(job_id, 1.0, 0.5)
        page.finish(job_id, 2.0, succeeded=True)
    page.start(7, 100.0, None)

    assert page.read().running == (RunningJob(7, 100.0, None),)


jobs = st.dictionaries(
    st.integers(1, 2**63 - 1),
    st.tuples(st.floats(0.001, 1e9), st.none() | st.floats(0.001, 1e6)),
    max_size=SLOTS,
)


@given(jobs, st.floats(0, 1e9))
def test_a_page_can_be_read_after_the_death_of_its_runner(
    tmp_path_factory: pytest.TempPathFactory, running: dict[int, tuple[float, float | None]], deadline: float
) -> None:
    """The file is enough to know which jobs were running."""
    path = tmp_path_factory.getbasetemp() / "any.page"
    page = StatusPage(path)
    page.expect_end_by(deadline)
    for job_id, (started, timeout) in running.items():
        page.start(job_id, started, timeout)
    seen = read_status_page(path)
    page.close()

    assert seen == RunnerStatus(tuple(RunningJob(job_id, *facts) for job_id, facts in running.items()), deadline)


def test_the_hard_deadline_can_be_read_alone(path: Path) -> None:
    """The dispatcher reads it four times a second."""
    page = StatusPage(path)
    page.expect_end_by(152.0)

    assert page.hard_deadline == page.read().hard_deadline == 152.0


def test_a_page_has_a_slot_for_the_largest_concurrency() -> None:
    """The maximum of CONCURRENCY is 1000."""
    assert SLOTS >= 1000


def test_a_cleared_page_names_no_job(path: Path) -> None:
    """Its runner exits for another reason; finished jobs still count."""
    page = StatusPage(path)
    for job_id in (6, 7, 8):
        page.start(job_id, 100.0, None)
    page.finish(6, 101.0, succeeded=True)
    page.clear_running()

    assert page.read() == RunnerStatus(done=1, busy_ms=1000.0, cleared=(7, 8))


def test_jobs_that_are_not_counted_yet_are_on_the_page(path: Path) -> None:
    """Beside the running ones, until they are in the totals."""
    page = StatusPage(path)
    for job_id in (7, 8):
        page.note_uncounted(job_id, counted=5)
    page.start(9, 100.0, None)
    before = page.read()
    page.clear_uncounted()
    page.start(10, 100.0, None)

    assert (before.uncounted, before.counted, before.running) == ((7, 8), 5, (RunningJob(9, 100.0, None),))
    assert (page.read().uncounted, {each.job_id for each in page.read().running}) == ((), {9, 10})


def test_writes_are_visible_to_every_reader_of_a_page(path: Path) -> None:
    """The dispatcher sees what the runner writes at once."""
    watching, writing = StatusPage(path), StatusPage(path)
    writing.start(7, 100.0, None)

    assert watching.read().running == (RunningJob(7, 100.0, None),)


def test_a_page_is_private_and_has_a_fixed_size(path: Path) -> None:
    """Other users can neither read nor write it."""
    StatusPage(path)

    assert (path.stat().st_mode & 0o777, path.stat().st_size) == (0o600, SIZE)


@pytest.mark.parametrize("content", [b"", b"mfly", b"mfly" + bytes(SIZE - 5), b"mfly" + bytes(SIZE), bytes(SIZE)])
def test_an_invalid_page_is_ignored(path: Path, content: bytes) -> None:
    """A torn, short, long or foreign file counts as missing."""
    path.write_bytes(content)

    assert read_status_page(path) is None


def test_a_missing_page_is_ignored(tmp_path: Path) -> None:
    """So is a path that is not a regular file."""
    assert read_status_page(tmp_path / "gone.page") is None
    assert read_status_page(tmp_path) is None


def test_a_page_is_never_created_through_a_link(path: Path, tmp_path: Path) -> None:
    """A symlink of another user must not redirect the writes."""
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="symbolic link"):
        StatusPage(path)


def test_a_page_counts_repeated_transactions(path: Path) -> None:
    """For the figures of the cycle; the rest of the page is unchanged."""
    page = StatusPage(path)
    page.start(7, 1.0, None)
    page.note_repeats(5)

    seen = page.read()
    assert (seen.repeats, [each.job_id for each in seen.running]) == (5, [7])


def test_a_page_counts_sliced_jobs(path: Path) -> None:
    """The dispatcher reads the number after the runner has exited; the rest of the page is unchanged."""
    page = StatusPage(path)
    page.note_sliced(3)

    assert page.read() == RunnerStatus(sliced=3)


def test_a_page_has_the_window_of_its_running_job(path: Path) -> None:
    """A settled job has none."""
    page = StatusPage(path)
    page.start(7, 100.0, 20.0)
    page.start(8, 101.0, None)
    page.finish(8, 102.0, succeeded=True)

    assert (page.running_job(7), page.running_job(8)) == (RunningJob(7, 100.0, 20.0), None)
