"""The page that a runner leaves behind."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.process.status_page import SIZE, SLOTS, RunnerStatus, RunningJob, StatusPage, read_status_page


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "worker-1-1.page"


def test_a_new_page_says_that_nothing_happened(path: Path) -> None:
    """However early a runner dies, there is a page, and it blames nobody."""
    assert StatusPage(path).read() == RunnerStatus()


def test_a_running_job_stands_on_the_page(path: Path) -> None:
    """Its id, since when, and how long it may take."""
    page = StatusPage(path)
    page.start(7, 100.5, 20.0)
    page.start(8, 101.0, None)

    assert page.read().running == (RunningJob(7, 100.5, 20.0), RunningJob(8, 101.0, None))


def test_a_finished_job_is_counted_and_gone(path: Path) -> None:
    """Who is done is no suspect; successes and failures are counted, and the time they took."""
    page = StatusPage(path)
    page.start(7, 100.0, None)
    page.start(8, 100.0, None)
    page.start(9, 100.0, None)
    page.finish(8, 100.25, succeeded=True)
    page.finish(7, 101.0, succeeded=False)

    assert page.read() == RunnerStatus((RunningJob(9, 100.0, None),), done=1, failed=1, busy_ms=1250.0)


def test_the_hard_deadline_stands_on_the_page(path: Path) -> None:
    """By it the dispatcher knows an end from C from a crash."""
    page = StatusPage(path)
    page.start(7, 100.0, None)
    page.expect_end_by(152.0)

    assert page.read() == RunnerStatus((RunningJob(7, 100.0, None),), hard_deadline=152.0)


def test_a_job_is_found_by_its_id(path: Path) -> None:
    """Or not: then it was never started, or had ended."""
    page = StatusPage(path)
    page.start(7, 100.0, None)
    seen = page.read()

    assert (seen.running_job(7), seen.running_job(8)) == (RunningJob(7, 100.0, None), None)


def test_every_slot_can_be_used(path: Path) -> None:
    """As many jobs as the page has slots, the last of them too."""
    page = StatusPage(path)
    for job_id in range(1, SLOTS + 1):
        page.start(job_id, 1.0, 0.5)

    assert [each.job_id for each in page.read().running] == list(range(1, SLOTS + 1))


def test_a_slot_is_free_again_when_its_job_has_ended(path: Path) -> None:
    """However many jobs come and go, one at a time needs one slot, and leaves nothing of itself."""
    page = StatusPage(path)
    for job_id in range(1, 3 * SLOTS):
        page.start(job_id, 1.0, 0.5)
        page.finish(job_id, 2.0, succeeded=True)
    page.start(7, 100.0, None)

    assert page.read().running == (RunningJob(7, 100.0, None),)


jobs = st.dictionaries(
    st.integers(1, 2**63 - 1),
    st.tuples(st.floats(0, 1e9), st.none() | st.floats(0.001, 1e6)),
    max_size=SLOTS,
)


@given(jobs, st.floats(0, 1e9))
def test_what_was_written_is_read_after_death(
    tmp_path_factory: pytest.TempPathFactory, running: dict[int, tuple[float, float | None]], deadline: float
) -> None:
    """The file alone, without the process that wrote it, tells what that was doing."""
    path = tmp_path_factory.getbasetemp() / "any.page"
    page = StatusPage(path)
    page.expect_end_by(deadline)
    for job_id, (started, timeout) in running.items():
        page.start(job_id, started, timeout)
    seen = read_status_page(path)
    page.close()

    assert seen == RunnerStatus(tuple(RunningJob(job_id, *facts) for job_id, facts in running.items()), deadline)


def test_the_hard_deadline_can_be_read_alone(path: Path) -> None:
    """The dispatcher looks at it four times a second."""
    page = StatusPage(path)
    page.expect_end_by(152.0)

    assert page.hard_deadline == page.read().hard_deadline == 152.0


def test_a_page_has_room_for_the_largest_concurrency() -> None:
    """CONCURRENCY ends at 1000."""
    assert SLOTS >= 1000


def test_an_acquitted_page_blames_nobody(path: Path) -> None:
    """Its runner ends for another reason; what it had done before still counts."""
    page = StatusPage(path)
    for job_id in (6, 7, 8):
        page.start(job_id, 100.0, None)
    page.finish(6, 101.0, succeeded=True)
    page.clear_running()

    assert page.read() == RunnerStatus(done=1, busy_ms=1000.0)


def test_two_views_of_a_page_are_one(path: Path) -> None:
    """What the runner writes, the dispatcher sees at once."""
    watching, writing = StatusPage(path), StatusPage(path)
    writing.start(7, 100.0, None)

    assert watching.read().running == (RunningJob(7, 100.0, None),)


def test_a_page_is_private_and_of_one_size(path: Path) -> None:
    """Nobody else may read or write what decides over jobs."""
    StatusPage(path)

    assert (path.stat().st_mode & 0o777, path.stat().st_size) == (0o600, SIZE)


@pytest.mark.parametrize("content", [b"", b"mfly", b"mfly" + bytes(SIZE - 5), b"mfly" + bytes(SIZE), bytes(SIZE)])
def test_a_page_that_is_not_whole_says_nothing(path: Path, content: bytes) -> None:
    """Torn, short, too long or somebody else's: as if it were not there."""
    path.write_bytes(content)

    assert read_status_page(path) is None


def test_no_page_says_nothing(tmp_path: Path) -> None:
    """Neither a missing file nor what is no file at all."""
    assert read_status_page(tmp_path / "gone.page") is None
    assert read_status_page(tmp_path) is None


def test_a_page_is_never_made_through_a_link(path: Path, tmp_path: Path) -> None:
    """A link laid out by somebody else must not lead our writes elsewhere."""
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="symbolic link"):
        StatusPage(path)


def test_a_page_tells_how_often_transactions_were_repeated(path: Path) -> None:
    """For the cycle's figures; beside what else stands there."""
    page = StatusPage(path)
    page.start(7, 1.0, None)
    page.note_repeats(5)

    seen = page.read()
    assert (seen.repeats, [each.job_id for each in seen.running]) == (5, [7])


def test_a_page_tells_how_many_jobs_were_sliced(path: Path) -> None:
    """For the dispatcher, when its runner has ended; nothing else is touched by it."""
    page = StatusPage(path)
    page.note_sliced(3)

    assert page.read() == RunnerStatus(sliced=3)


def test_a_page_knows_the_window_of_what_runs(path: Path) -> None:
    """And none of a job that was settled."""
    page = StatusPage(path)
    page.start(7, 100.0, 20.0)
    page.start(8, 101.0, None)
    page.finish(8, 102.0, succeeded=True)

    assert (page.running_job(7), page.running_job(8)) == (RunningJob(7, 100.0, 20.0), None)
