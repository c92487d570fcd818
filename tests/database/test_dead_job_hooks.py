"""The hooks of a dead job are enqueued before its outcome is written, and called only after it is."""

import pytest

from mayfly.db.database import Database
from mayfly.monitoring.hooks import announcer, read_dead
from mayfly.queue.outcome import OutcomeKind, Snooze
from mayfly.schema.metadata import jobs
from mayfly.settings import load_settings
from tests.database.factories import change_job, claim_jobs, rows_of
from tests.factories import insert_row, make_job

SETTINGS = load_settings().replace(hooks_on_dead=("app.alerts:mail", "app.alerts:chat"))


def test_each_hook_has_its_own_job(database: Database) -> None:
    """Due at once, in a lane without jobs of applications; enqueued again, it is still one."""
    announce = announcer(SETTINGS, database)
    announce(make_job(id=7))

    announce(make_job(id=7))

    notices = rows_of(database, jobs)
    assert [(row.type, row.lane, row.payload) for row in notices] == [
        ("mayfly.on_dead", "mayfly", '{"job":7,"hook":"app.alerts:mail"}'),
        ("mayfly.on_dead", "mayfly", '{"job":7,"hook":"app.alerts:chat"}'),
    ]
    assert len(claim_jobs(database, lane="mayfly")) == 2


def test_hooks_with_long_names_have_separate_keys(database: Database) -> None:
    """By the end of the name: a key has at most 190 characters."""
    long = "a" * 200
    announcer(SETTINGS.replace(hooks_on_dead=(f"{long}:mail", f"{long}:chat")), database)(make_job())

    assert len(rows_of(database, jobs)) == 2


def test_a_hook_waits_until_the_outcome_is_written(database: Database) -> None:
    """The runner writes its outcomes together."""
    job_id = insert_row(database)
    claim_jobs(database)

    with pytest.raises(Snooze):
        read_dead(database, job_id)


@pytest.mark.parametrize("status", ["pending", "done", "cancelled"])
def test_a_hook_is_not_called_for_a_job_that_is_not_dead(database: Database, status: str) -> None:
    """Its runner lost its lease, an operator retried it, or it was pruned."""
    job_id = insert_row(database, status=status)

    assert read_dead(database, job_id) is None
    assert read_dead(database, job_id + 1) is None


def test_a_hook_of_a_dead_job_gets_the_reason(database: Database) -> None:
    """And everything that a handler sees of the job."""
    job_id = insert_row(database, type="mail", payload='{"to": "ann"}', group_key="campaign", max_attempts=3)
    change_job(database, job_id, status="dead", attempts=3, last_error="refused\n  in line 7")

    found = read_dead(database, job_id)

    assert found is not None
    job, outcome = found
    assert (job.id, job.type, job.payload, job.group_key) == (job_id, "mail", {"to": "ann"}, "campaign")
    assert (job.attempt, job.max_attempts) == (3, 3)
    assert (outcome.kind, outcome.error) == (OutcomeKind.DEAD, "refused\n  in line 7")
