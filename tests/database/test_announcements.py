"""Wake-ups of new jobs: which are sent, and when."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import mayfly
from mayfly.client import App, use_app
from mayfly.db.database import Database
from mayfly.job import CURRENT_JOB
from mayfly.log import silent_log
from mayfly.process.state_dir import open_state_dir
from mayfly.process.wakeups import DISPATCHER, Wakeup, WakeupSocket
from mayfly.queue.outcome import DONE, Settlement
from mayfly.settings import load
from runner.settle_buffer import SettleBuffer
from tests.database.factories import claim_jobs, make_page, make_runtime, make_settler
from tests.factories import insert_rows


@pytest.fixture
def producer(app: App, database: Database, tmp_path: Path) -> Iterator[App]:
    """The app behind `mayfly.enqueue`, in an installation that lingers."""
    settings = load({"MAYFLY_HOME": str(tmp_path), "STATE_DIR": "state", "LINGER": "55"}).settings
    open_state_dir(settings)
    made = App(settings, database, app.registry)
    use_app(made)
    yield made
    if made._wakeups is not None:
        made._wakeups.close()


@pytest.fixture
def dispatcher(producer: App) -> Iterator[WakeupSocket]:
    with closing(WakeupSocket(producer.settings, DISPATCHER)) as made:
        yield made


def test_a_wakeup_has_the_id_of_a_single_job(dispatcher: WakeupSocket) -> None:
    """Not if it has a unique key: a claim by its id could wait for an application that is replacing it."""
    job_id = mayfly.enqueue("noop")
    mayfly.enqueue("noop", unique_key="key")
    mayfly.enqueue_many([{"type": "noop"}] * 2)

    assert dispatcher.receive() == [Wakeup("default", job_id), Wakeup("default"), Wakeup("default")]


def test_jobs_of_a_transaction_are_announced_after_its_commit(
    producer: App, database: Database, dispatcher: WakeupSocket
) -> None:
    """Before it, a claim by their ids would wait for it. Also those that were buffered when it began."""
    insert_rows(database, 1)
    [job] = claim_jobs(database, 1)
    runtime = job.runtime = make_runtime(database)
    buffer = SettleBuffer(database, make_settler(), make_page(), silent_log(), producer.wake_up_all)
    token = CURRENT_JOB.set(job)
    try:
        mayfly.enqueue("noop", lane="buffered")
        with job.transaction():
            mayfly.enqueue("noop", lane="single")
            mayfly.enqueue_many([{"type": "noop", "lane": "many"}] * 2)
    finally:
        CURRENT_JOB.reset(token)

    early = dispatcher.receive()
    buffer.settle_in_transaction(runtime.job_transaction, Settlement(job, DONE, 1))
    late = dispatcher.receive()

    assert (early, sorted(late)) == ([], [Wakeup("buffered"), Wakeup("many"), Wakeup("single")])
