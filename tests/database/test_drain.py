"""drain(): due jobs run in the process of the test, on a real table."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from freezegun import freeze_time
from sqlalchemy import text
from sqlalchemy.exc import DataError

from mayfly import Dead, Job, Retry, Snooze, enqueue, handler
from mayfly.client import current_app
from mayfly.clock import pin_offset
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import DrainEndless, NeedsTestDatabase, UnknownHandler
from mayfly.queue.outcome import Outcome
from mayfly.schema.metadata import attempts, totals
from mayfly.testing import FreshDatabase, drain, enqueued_jobs, using_database
from runner.claims import Claims
from runner.invoke import PayloadError
from tests.database.factories import change_job, rows_of, run_sql
from tests.factories import NOON, get_row, insert_row, make_clock

AN_HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def fresh(migrated_url: str) -> Iterator[FreshDatabase]:
    with using_database(migrated_url) as opened:
        yield opened


@pytest.fixture
def calls() -> list[str]:
    """The arguments of the handler `note`; `stumble` fails a given number of times."""
    noted: list[str] = []

    @handler("note")
    def note(job: Job) -> str:
        noted.append(job.payload["text"])
        return noted[-1].upper()

    @handler("stumble", lane="failing", backoff_base=1, max_attempts=3)
    def stumble(job: Job) -> None:
        noted.append(f"attempt {job.attempt}")
        if job.attempt <= job.payload["times"]:
            raise ConnectionError("away")

    return noted


def test_due_jobs_are_run_and_settled(calls: list[str], database: Database) -> None:
    """As in a runner: the row, the totals and the returned outcomes agree."""
    ids = [enqueue("note", {"text": each}) for each in ("a", "b")]
    later = enqueue("note", {"text": "later"}, delay=60)

    drained = drain()

    assert (drained.outcomes, calls) == ({"done": 2}, ["a", "b"])
    assert [(run.job.id, run.result) for run in drained.runs] == [(ids[0], "A"), (ids[1], "B")]
    assert [get_row(database, each).status for each in (*ids, later)] == ["done", "done", "pending"]
    assert [(row.type, row.outcome, row.jobs) for row in rows_of(database, totals)] == [("note", "done", 2)]
    assert len(drain()) == 0


def test_the_order_is_deterministic(calls: list[str]) -> None:
    """Lane by lane, then by priority and run_at; a job enqueued meanwhile may come next."""

    @handler("urge", lane="a")
    def urge(_job: Job) -> None:
        enqueue("note", {"text": "urgent"}, lane="a", priority=0)

    enqueue("note", {"text": "b"}, lane="b")
    enqueue("urge")
    for number, priority in enumerate((2, 1, 0, 1)):
        enqueue("note", {"text": f"{priority} {number}"}, lane="a", priority=priority)

    drain()

    assert calls == ["0 2", "urgent", "1 1", "1 3", "2 0", "b"]


def test_jobs_enqueued_by_jobs_are_run_too(calls: list[str]) -> None:
    """In any lane, also before the current one."""

    @handler("breed", lane="z")
    def enqueue_children(_job: Job) -> None:
        enqueue("note", {"text": "child"}, lane="a")

    enqueue("breed")

    assert (drain().outcomes, calls) == ({"done": 2}, ["child"])


def test_lanes_can_be_selected(calls: list[str]) -> None:
    """Other lanes are left alone, and so is their clock."""
    for lane in ("a", "b"):
        enqueue("note", {"text": lane}, lane=lane)
    enqueue("note", {"text": "c"}, lane="c", delay=60)

    drain(lanes=["b"], advance=True)

    assert calls == ["b"]


def test_an_error_ends_the_drain_and_is_raised(calls: list[str], database: Database) -> None:
    """The job is settled: an attempt is used, and it is due after the backoff."""
    job_id = enqueue("stumble", {"times": 1}, lane="a")
    enqueue("note", {"text": "not reached"}, lane="b")

    with pytest.raises(ConnectionError) as caught:
        drain()

    row = get_row(database, job_id)
    assert (row.status, row.attempts, calls) == ("pending", 1, ["attempt 1"])
    assert caught.value.__notes__ == [
        f'job {job_id} (stumble) attempt 1/3: failed: ConnectionError: away\npayload: {{"times":1}}'
    ]
    assert [each.outcome for each in rows_of(database, attempts)] == ["failed"]


def test_errors_can_be_reported_instead(calls: list[str]) -> None:
    """All due jobs are run, and the failures are returned."""
    enqueue("stumble", {"times": 1})
    enqueue("note", {"text": "reached"}, lane="z")

    drained = drain(raises=False)

    [failure] = drained.failures
    assert (drained.outcomes, calls) == ({"failed": 1, "done": 1}, ["attempt 1", "reached"])
    assert (failure.job.type, failure.reason) == ("stumble", "ConnectionError: away")
    assert isinstance(failure.error, ConnectionError)


def test_a_control_exception_is_no_error(database: Database) -> None:
    """It is counted, and the row has the outcome."""

    @handler("steer")
    def control(job: Job) -> None:
        raise {"retry": Retry("busy", after=60), "snooze": Snooze(after=60), "dead": Dead("gone")}[job.payload["how"]]

    ids = [enqueue("steer", {"how": each}) for each in ("retry", "snooze", "dead")]

    drained = drain()

    assert drained.outcomes == {"failed": 1, "snoozed": 1, "dead": 1}
    assert [(get_row(database, each).status, get_row(database, each).attempts) for each in ids] == [
        ("pending", 1),
        ("pending", 0),
        ("dead", 1),
    ]


def test_time_can_be_moved_to_every_due_job(calls: list[str], database: Database) -> None:
    """Retries and delayed jobs run in order of their time; then the clock is restored."""
    job_id = enqueue("stumble", {"times": 2})
    enqueue("note", {"text": "after 3 s"}, delay=3)
    enqueue("note", {"text": "tomorrow"}, delay=86_400)
    before = current_app().database.clock.offset

    drained = drain(advance=True, raises=False)

    assert calls == ["attempt 1", "attempt 2", "after 3 s", "attempt 3", "tomorrow"]
    assert drained.outcomes == {"failed": 2, "done": 3}
    assert get_row(database, job_id).finished_at - get_row(database, job_id).created_at >= timedelta(seconds=6)
    assert current_app().database.clock.offset == before


def test_a_job_that_falls_due_after_the_claim_is_run(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Real time passes between an empty claim and the query for the next job."""
    enqueue("note", {"text": "after 3 s"}, delay=3)
    more = Claims.more

    def slow_claim(claims: Claims, count: int) -> list[Job]:
        batch = more(claims, count)
        pin_offset(claims.database.clock.offset + timedelta(seconds=4))
        return batch

    monkeypatch.setattr(Claims, "more", slow_claim)
    drain(advance=True)

    assert calls == ["after 3 s"]


def test_time_can_be_moved_by_a_limited_amount(calls: list[str]) -> None:
    """By an hour, to the second."""
    for text_, delay in (("59 min", 59 * 60), ("61 min", 61 * 60)):
        enqueue("note", {"text": text_}, delay=delay)

    drain(advance=AN_HOUR)

    assert calls == ["59 min"]


def test_a_job_that_becomes_due_meanwhile_is_run(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the clock is moved to its run_at or gets there by itself after an empty claim."""
    with freeze_time(NOON) as frozen:

        def late_answer(run_at: Any) -> datetime:
            frozen.tick(timedelta(seconds=2))
            return utc_from_driver(run_at)

        monkeypatch.setattr("mayfly.queue.count.utc_from_driver", late_answer)
        enqueue("note", {"text": "after 1 s"}, delay=1)

        drain(advance=AN_HOUR)

    assert calls == ["after 1 s"]


def test_retries_end_with_the_last_attempt(calls: list[str], database: Database) -> None:
    """All attempts of a job that never succeeds run at once."""
    job_id = enqueue("stumble", {"times": 9})

    drained = drain(advance=True, raises=False)

    assert drained.outcomes == {"failed": 2, "dead": 1}
    assert get_row(database, job_id).status == "dead"


@pytest.mark.parametrize("year", [1999, 2035])
def test_freezegun_freezes_the_clock_of_the_queue(year: int, calls: list[str]) -> None:
    """In the past or in the future: jobs are due by the frozen time only."""
    with freeze_time(NOON.replace(year=year)) as frozen:
        enqueue("note", {"text": "now"})
        enqueue("note", {"text": "in an hour"}, delay=AN_HOUR)
        drain()
        before = [*calls]
        frozen.tick(AN_HOUR)
        drain()

    assert (before, calls) == (["now"], ["now", "in an hour"])
    assert [job.run_at for job in enqueued_jobs()] == [
        NOON.replace(year=year),
        NOON.replace(year=year) + AN_HOUR,
    ]


def test_rows_inserted_by_sql_are_run(calls: list[str], database: Database) -> None:
    """With the database's own time; a payload that does not match its model is an error."""
    run_sql(database, """INSERT INTO mayfly_jobs (type, payload) VALUES ('note', '{"text": "plain"}')""")
    run_sql(
        database, "INSERT INTO mayfly_jobs (type, lane, payload) VALUES ('sleep', 'z', :text)", text='{"seconds":"x"}'
    )

    with pytest.raises(PayloadError, match=r"the payload does not match tests\.basic_handlers\.sleep: seconds: "):
        drain()

    assert calls == ["plain"]


@pytest.mark.parametrize("stored", ["[1]", '"text"', "null"])
def test_a_payload_that_sql_has_broken_is_dead_with_the_reason(
    calls: list[str], database: Database, stored: str
) -> None:
    """The table checks a payload until the first claim only; retries would not repair it."""
    job = enqueue("note", {"text": "fine"})
    change_job(database, job, claims=1, payload=stored)

    drained = drain(raises=False)

    assert (drained.outcomes, calls) == ({"dead": 1}, [])
    reason = f"The stored payload of job {job} is no JSON object"
    assert (get_row(database, job).last_error or "").startswith(reason)


def test_a_payload_that_sql_has_cut_is_dead_with_the_reason(
    calls: list[str], database: Database, engine_name: str
) -> None:
    """PostgreSQL refuses to store it, because its column has the type json."""
    job = enqueue("note", {"text": "fine"})
    change_job(database, job, claims=1)
    cut = "UPDATE mayfly_jobs SET payload = '{\"a\"'"

    if engine_name == "postgres":
        with pytest.raises(DataError):
            run_sql(database, cut)
    else:
        run_sql(database, cut)
    drained = drain(raises=False)

    assert (drained.outcomes, calls) == (({"done": 1}, ["fine"]) if engine_name == "postgres" else ({"dead": 1}, []))


def test_a_transaction_of_a_handler_commits_with_its_job(database: Database) -> None:
    """Its rows, the jobs that it enqueued and `done`, or none of these."""
    target = insert_row(database, type="target", status="done")

    @handler("write")
    def write(job: Job) -> None:
        with job.transaction() as connection:
            written = {"key": f"by {job.id}", "id": target}
            connection.execute(text("UPDATE mayfly_jobs SET group_key = :key WHERE id = :id"), written)
            enqueue("noop")
            if job.payload["fails"]:
                raise ConnectionError("away")

    good = enqueue("write", {"fails": False})
    drain()
    enqueue("write", {"fails": True})
    drained = drain(raises=False)

    assert get_row(database, target).group_key == f"by {good}"
    assert drained.outcomes == {"failed": 1}
    assert [job.status for job in enqueued_jobs("noop")] == ["done"]


def test_a_job_that_crashed_runners_before_is_run(calls: list[str], database: Database) -> None:
    """Each job has a fresh runner here."""
    for each in ("a", "b"):
        change_job(database, enqueue("note", {"text": each}), suspect=1, crashes=2)

    drain()

    assert calls == ["a", "b"]


def test_an_unknown_type_is_an_error(database: Database) -> None:
    """Or it is reported, and waits for the grace period as in a runner."""
    job_id = enqueue("noooop")

    with pytest.raises(UnknownHandler, match=r"No handler for type 'noooop'\. Did you mean 'noop'\?"):
        drain()
    drained = drain(advance=AN_HOUR, raises=False)

    assert (drained.outcomes, get_row(database, job_id).status) == ({"snoozed": 19, "dead": 1}, "dead")


def test_a_module_that_cannot_be_imported_is_an_error(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    """At the first job that may need it: a runner would release that job again and again."""
    monkeypatch.setattr("mayfly.client._apps", {})
    monkeypatch.setenv("HANDLERS", "tests.basic_handlers,no_such_module")
    with using_database(migrated_url):
        job_id = enqueue("whose", lane="default", max_attempts=1)

        with pytest.raises(UnknownHandler, match="no_such_module cannot be imported: ModuleNotFoundError"):
            drain(raises=False)

    assert (get_row(database, job_id).status, get_row(database, job_id).attempts) == ("pending", 0)


def test_an_endless_drain_is_stopped(database: Database) -> None:
    """With a sentence; the next job is unchanged."""

    @handler("again")
    def enqueue_itself(_job: Job) -> None:
        enqueue("again")

    enqueue("again")

    with pytest.raises(DrainEndless, match="drain\\(\\) has run 12 jobs and there are still more"):
        drain(most=12)

    rest = [job for job in enqueued_jobs() if job.status != "done"]
    assert [(job.status, job.attempts) for job in rest] == [("pending", 0)]


CALLS: list[str] = []


def alarm(job: Job, outcome: Outcome) -> None:
    CALLS.append(f"{job.type}: {outcome.error}")


def test_dead_jobs_call_their_hooks(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the jobs of HOOKS_ON_DEAD, in the same drain."""
    CALLS.clear()
    monkeypatch.setattr("mayfly.client._apps", {})
    monkeypatch.setenv("HOOKS_ON_DEAD", f"{__name__}:alarm")

    @handler("die")
    def die(_job: Job) -> None:
        raise Dead("gone")

    with using_database(migrated_url):
        enqueue("die")
        drained = drain()

    assert (drained.outcomes, CALLS) == ({"dead": 1, "done": 1}, ["die: gone"])


def test_jobs_of_the_configured_database_are_not_run(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    """Only a database that was passed to the test is drained or queried."""
    monkeypatch.setenv("DATABASE_URL", migrated_url)
    monkeypatch.setattr("mayfly.client._apps", {})
    job_id = insert_row(database)

    for refused in (drain, enqueued_jobs):
        with pytest.raises(NeedsTestDatabase):
            refused()

    assert get_row(database, job_id).status == "pending"


def test_everything_is_restored_after_the_test(migrated_url: str) -> None:
    """The app of the process, its clock, and the declared types."""
    app, clock = current_app(), make_clock(AN_HOUR)
    with using_database(migrated_url):

        @handler("mine")
        def mine(_job: Job) -> None: ...

        inside: list[Any] = [current_app(), current_app().registry.get("mine")]

    assert app is current_app() is not inside[0]
    assert (inside[1].type, current_app().registry.get("mine")) == ("mine", None)
    with using_database(migrated_url):
        assert clock.offset == timedelta(0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_sliced_job_continues(database: Database, is_async: bool) -> None:
    """From its checkpoint, in another run, until it is done."""

    def step(job: Job) -> list[int]:
        for row in range(job.state or 0, 5):
            job.progress(row + 1, 5, "rows")
            job.checkpoint(row + 1)
        return [job.state]

    async def step_async(job: Job) -> list[int]:
        return step(job)

    handler("import")(step_async if is_async else step)
    job_id = enqueue("import")

    drained = drain(slice_after=2)

    row = get_row(database, job_id)
    assert [(run.kind, run.state) for run in drained.runs] == [("sliced", 2), ("sliced", 4), ("done", 5)]
    assert (row.status, row.attempts, row.slices, row.checkpoint) == ("done", 1, 2, "5")
    assert row.progress == '{"done":5,"total":5,"text":"rows"}'
