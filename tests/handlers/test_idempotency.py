"""Effects that may have happened: the lane's on_doubt, and what handlers do."""

import pytest

from handlers.idempotency import may_resend
from mayfly import Job, enqueue, handler
from mayfly.client import current_app
from mayfly.schema.migrations import migrate
from mayfly.testing import drain, enqueued_jobs, using_database
from tests.databases import Databases

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


@SQLITE
@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("word", ["hold", "resend", None])
def test_a_job_knows_on_doubt_of_its_lane(platform: str, word: str | None, kind: str) -> None:
    """In plain and async handlers; without it the handler's default holds."""
    app = current_app()
    app.settings = app.settings.replace(lanes={"receipts": app.settings.unset_lane.replace(on_doubt=word)})
    seen: dict[str, tuple[str | None, bool, bool]] = {}

    def record(job: Job) -> None:
        seen[job.lane] = (job.on_doubt, may_resend(job), may_resend(job, usual="resend"))

    if kind == "plain":
        handler("record")(record)
    else:

        @handler("record")
        async def record_async(job: Job) -> None:
            record(job)

    enqueue("record", lane="receipts")
    enqueue("record", lane="others")
    drain()

    silent = (None, False, True)
    assert seen == {"others": silent, "receipts": silent if word is None else (word, *[word == "resend"] * 2)}


@pytest.mark.every_database
def test_a_missing_table_is_an_error_message(
    engine_name: str, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the command to run. On every database."""
    monkeypatch.setenv("SMTP_ACCOUNTS", "smtp://127.0.0.1:1?from=ann@shop.example&tls=none")
    with databases.fresh(engine_name, migrate) as url, using_database(url):
        enqueue("send_email", {"to": "bob@example.com", "subject": "Hello", "text": "Dear Bob"}, max_attempts=1)
        drain(raises=False)
        [job] = enqueued_jobs()

    assert job.status == "dead"
    assert "There is no table app_idempotency. If it belongs to handlers, run `mayfly migrate --app` once." in str(
        job.last_error
    )
