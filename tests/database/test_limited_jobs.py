"""Jobs whose handlers declare limits: a job over a limit is snoozed with the reason."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from freezegun import freeze_time
from sqlalchemy import update

from mayfly import Job, Retry, concurrency, enqueue, handler, rate
from mayfly.admin.lanes import list_limits
from mayfly.db.database import Database
from mayfly.errors import BadDeclaration, RefusedInTransaction, UnknownLimit
from mayfly.limits.client import Grant, SlotLedger
from mayfly.limits.limit import AT_ONCE, Limit, LimitKey
from mayfly.limits.store import LimitHolder
from mayfly.queue.prune import prune
from mayfly.schema.metadata import limits, slots
from mayfly.testing import FreshDatabase, drain, run_inline, using_database
from runner.invoke import PayloadError
from tests.database.factories import retention, rows_of, run_sql
from tests.factories import NOON, get_row, insert_row
from tests.sqlalchemy_engines import run

SMTP = LimitKey("smtp:7", Limit("smtp:{account}", 2))


@pytest.fixture(autouse=True)
def fresh(migrated_url: str) -> Iterator[FreshDatabase]:
    with using_database(migrated_url) as opened:
        yield opened


@pytest.fixture(autouse=True)
def sent() -> list[int]:
    """The accounts for which the handler `send` was called."""
    noted: list[int] = []

    @handler("send", limits=(concurrency("smtp:{account}", 2), rate("sender:{account}", 2, per="day")))
    def send(job: Job) -> None:
        noted.append(job.payload["account"])

    return noted


def hold(database: Database, limit_key: LimitKey, times: int) -> SlotLedger:
    """As another runner that is alive for another minute."""
    holdings = SlotLedger(LimitHolder("rival", database.clock.now() + timedelta(minutes=1)))
    assert holdings.acquire(database, [(limit_key,)] * times) == [None] * times
    return holdings


@freeze_time(NOON)
def test_a_job_over_a_rate_waits_for_the_next_window(database: Database, sent: list[int]) -> None:
    """Without using an attempt, with the reason; jobs of other keys run, and the next day all are done."""
    ids = [enqueue("send", {"account": account}) for account in (42, 42, 42, 7)]

    assert drain().outcomes == {"done": 3, "snoozed": 1}

    waiting = get_row(database, ids[2])
    assert (waiting.status, waiting.attempts, waiting.last_error) == ("pending", 0, None)
    assert waiting.waiting_for == "limit sender:42 opens at 2026-05-05 00:00 UTC"
    assert waiting.run_at == datetime(2026, 5, 5, tzinfo=UTC)
    assert drain(advance=True).outcomes == {"done": 1}
    assert sent == [42, 42, 7, 42]


def test_a_job_without_a_slot_returns_within_seconds(database: Database, rival: Database, sent: list[int]) -> None:
    """It runs when the others have ended, and the rate was not used in vain."""
    others = hold(rival, SMTP, 2)
    job_id = enqueue("send", {"account": 7})

    before = database.clock.now()
    assert drain().outcomes == {"snoozed": 1}
    after = database.clock.now()

    waiting = get_row(database, job_id)
    assert (waiting.attempts, waiting.waiting_for) == (0, "limit smtp:7: 2 of 2 in use")
    assert before < waiting.run_at < after + timedelta(seconds=3)
    others.release([(SMTP,)])
    others.flush(rival)
    assert drain(advance=True).outcomes == {"done": 1}
    assert [(row.limit_key, row.used) for row in rows_of(database, limits) if row.span == "day"] == [("sender:7", 1)]
    assert [row.worker_id for row in rows_of(database, slots)] == ["rival"]


def test_a_failure_clears_the_reason_of_an_earlier_snooze(database: Database) -> None:
    """The job then waits for its next attempt."""

    @handler("flaky", limits=rate("flaky", 1, per="day"))
    def flaky(_job: Job) -> None:
        raise Retry("not yet", after=timedelta(days=2))

    job_id = [enqueue("flaky"), enqueue("flaky")][1]
    drain()
    assert get_row(database, job_id).waiting_for is not None

    run_sql(database, "DELETE FROM mayfly_limits")
    run_sql(database, "DELETE FROM mayfly_jobs WHERE id < :id", id=job_id)
    drain(advance=timedelta(days=1))

    failed = get_row(database, job_id)
    assert (failed.status, failed.attempts > 0, failed.waiting_for) == ("pending", True, None)


def test_a_job_without_a_valid_key_is_dead(database: Database, sent: list[int]) -> None:
    """It was inserted by SQL; `enqueue` would have refused it."""
    job_id = insert_row(database, type="send", payload='{"acount": 1}')

    with pytest.raises(PayloadError, match="needs the field 'account', which is missing"):
        drain()

    assert (get_row(database, job_id).status, sent) == ("dead", [])


# --- limits acquired by the handler -----------------------------------------------------------------------


def test_a_handler_can_choose_another_key(database: Database) -> None:
    """A refusal has the time when the key opens; a granted rate stays used."""
    chosen: list[str] = []

    @handler("choose", takes=rate("sender:{account}", 1, per="day"))
    def choose(job: Job) -> None:
        key = next(key for key in ("sender:1", "sender:2", "sender:3") if job.take(key))
        chosen.append(key)

    for _ in range(3):
        enqueue("choose")

    assert drain().outcomes == {"done": 3}
    assert chosen == ["sender:1", "sender:2", "sender:3"]


@freeze_time(NOON)
def test_a_handler_can_be_snoozed_until_its_key_opens(database: Database) -> None:
    """Like a job that never started: without using an attempt, with the reason."""

    @handler("insist", takes=rate("sender:{account}", 1, per="hour"))
    def insist(job: Job) -> None:
        job.take("sender:42", or_snooze=True)

    ids = [enqueue("insist"), enqueue("insist")]

    assert drain().outcomes == {"done": 1, "snoozed": 1}
    waiting = get_row(database, ids[1])
    assert (waiting.attempts, waiting.waiting_for) == (0, "limit sender:42 opens at 13:00 UTC")
    assert waiting.run_at == NOON + timedelta(hours=1)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_slot_acquired_by_a_handler_is_released_when_it_ends(database: Database, kind: str) -> None:
    """Whether it succeeded or not."""
    seen: list[tuple[bool, bool]] = []

    def take_twice(job: Job) -> None:
        seen.append((bool(job.take("smtp:7")), bool(job.take("smtp:7"))))
        raise Retry("later")

    if kind == "plain":
        handler("take", takes=concurrency("smtp:{account}", 1))(take_twice)
    else:

        @handler("take", takes=concurrency("smtp:{account}", 1))
        async def take(job: Job) -> None:
            take_twice(job)

    enqueue("take")
    enqueue("take")
    drain()

    assert seen == [(True, False)] * 2
    assert rows_of(database, slots) == []


# --- units that were not used -----------------------------------------------------------------------------


def used(database: Database) -> dict[str, int]:
    return {row.limit_key: row.used for row in rows_of(database, limits) if row.span != AT_ONCE}


@freeze_time(NOON)
def test_an_unused_unit_of_a_rate_is_returned(database: Database) -> None:
    """Another job can acquire it in the same window; a second release, and one of a refused unit, do nothing."""
    taken: list[bool] = []

    @handler("return_unit", takes=rate("sender:{account}", 2, per="day"))
    def return_unit(job: Job) -> None:
        grants = [job.take("sender:7") for _ in range(3)]
        grants[2].release()
        assert used(database) == {"sender:7": 2}
        grants[0].release()
        grants[0].release()
        taken.extend(map(bool, grants))

    enqueue("return_unit")

    assert drain().outcomes == {"done": 1}
    assert taken == [True, True, False]
    assert used(database) == {"sender:7": 1}


def test_a_unit_of_an_earlier_window_is_not_returned(database: Database) -> None:
    """It would be missing from the figures of the new window, which could then be exceeded."""

    @handler("return_unit", takes=rate("sender:{account}", 2, per="hour"))
    def return_unit(job: Job) -> None:
        early = job.take("sender:7")
        next_window = update(limits).values(opens_at=database.clock.now() + timedelta(hours=2), used=1)
        run(database, lambda connection: connection.execute(next_window))
        early.release()

    enqueue("return_unit")

    assert drain().outcomes == {"done": 1}
    assert used(database) == {"sender:7": 1}


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_an_unused_slot_is_free_at_once(database: Database, rival: Database, kind: str) -> None:
    """For other runners too, while the job still runs; its other slots are kept until it ends."""
    free: list[bool] = []

    def take_two(job: Job) -> None:
        first, _second = job.take("smtp:7"), job.take("smtp:7")
        first.release()
        first.release()
        ledger = SlotLedger(LimitHolder("rival", rival.clock.now() + timedelta(minutes=1)))
        free.extend(each is None for each in ledger.acquire(rival, [(SMTP,)] * 2))
        ledger.release([(SMTP,)])
        ledger.flush(rival)

    if kind == "plain":
        handler("take_two", takes=concurrency("smtp:{account}", 2))(take_two)
    else:

        @handler("take_two", takes=concurrency("smtp:{account}", 2))
        async def take_async(job: Job) -> None:
            take_two(job)

    enqueue("take_two")

    assert drain().outcomes == {"done": 1}
    assert free == [True, False]
    assert rows_of(database, slots) == []


def test_a_slot_is_not_released_twice(database: Database, rival: Database) -> None:
    """A release after the end of its job does not free the slot of another job."""
    grants: list[Grant] = []

    @handler("keep_grant", takes=concurrency("smtp:{account}", 2))
    def keep_grant(job: Job) -> None:
        grants.append(job.take("smtp:7"))
        if len(grants) == 2:
            grants[0].release()
            assert [(row.worker_id, row.held) for row in rows_of(rival, slots)] == [(job.runtime.worker_id, 1)]

    enqueue("keep_grant")
    enqueue("keep_grant")

    assert drain().outcomes == {"done": 2}


def test_a_release_inside_a_transaction_is_refused() -> None:
    """As job.take() is: other jobs would wait for the key until the job is done."""

    @handler("within_release", takes=rate("sender:{account}", 1, per="day"))
    def within_release(job: Job) -> None:
        grant = job.take("sender:7")
        with job.transaction():
            grant.release()

    with pytest.raises(RefusedInTransaction, match=r"job.take\(\).release\(\) inside job.transaction\(\) is refused"):
        run_inline("within_release")


# --- a maximum known at run time --------------------------------------------------------------------------


@freeze_time(NOON)
def test_the_maximum_can_be_given_at_run_time(database: Database) -> None:
    """For this call it replaces the declared one, in either direction; 0 refuses every job."""
    taken: list[list[bool]] = []

    @handler("quota", takes=(rate("sender:{account}", 2, per="day"), concurrency("smtp:{account}", 1)))
    def quota(job: Job) -> None:
        for key, limit in (("sender:7", 3), ("sender:8", 1), ("sender:9", 0), ("smtp:7", 2), ("smtp:8", 0)):
            taken.append([bool(job.take(key, limit=limit)) for _ in range(4)])

    enqueue("quota")

    assert drain().outcomes == {"done": 1}
    assert [each.count(True) for each in taken] == [3, 1, 0, 2, 0]
    assert [row.most for row in rows_of(database, limits) if row.limit_key == "sender:7"] == [3]


@freeze_time(NOON)
def test_a_job_is_snoozed_for_a_maximum_known_at_run_time(database: Database) -> None:
    """With the reason, as for a declared one."""

    @handler("insist", takes=rate("sender:{account}", 50, per="hour"))
    def insist(job: Job) -> None:
        job.take("sender:42", limit=0, or_snooze=True)

    job_id = enqueue("insist")

    assert drain().outcomes == {"snoozed": 1}
    assert get_row(database, job_id).waiting_for == "limit sender:42 opens at 13:00 UTC"


@pytest.mark.parametrize(
    ("key", "limit", "reason"),
    [
        ("sender:7", -1, "the limit must be an integer, 0–1000000000"),
        ("sender:7", 2.5, "the limit must be an integer"),
        ("sender:7", True, "the limit must be an integer"),
        ("both:7", 1, "several limits have this key; declare one of them with another key"),
    ],
)
def test_an_invalid_maximum_is_an_error(key: str, limit: Any, reason: str) -> None:
    """The sentence names the call."""

    @handler(
        "invalid",
        takes=(rate("sender:{a}", 1, per="day"), rate("both:{a}", 1, per="day"), concurrency("both:{a}", 1)),
    )
    def invalid(job: Job) -> None:
        job.take(key, limit=limit)

    with pytest.raises(BadDeclaration, match=re.escape(f"job.take('{key}', limit={limit!r}) in invalid: {reason}")):
        run_inline("invalid")


def test_an_undeclared_key_is_an_error() -> None:
    """The sentence lists the declared ones."""

    @handler("stray", takes=rate("sender:{account}", 1, per="day"))
    def stray(job: Job) -> None:
        job.take(job.payload["key"])

    for key in ("sendr:1", "sender:", "sender:" + "x" * 190):
        with pytest.raises(UnknownLimit, match=r"no limit has this key; its handler declares 'sender:\{acc"):
            run_inline("stray", {"key": key})


def test_a_limit_inside_a_transaction_is_refused(database: Database) -> None:
    """It would hold the lock of the key until the job is done."""

    @handler("within", takes=rate("sender", 1, per="day"))
    def within(job: Job) -> None:
        with job.transaction():
            job.take("sender")

    with pytest.raises(RefusedInTransaction, match=r"^job\.take"):
        run_inline("within")
    assert rows_of(database, limits) == []


# --- listing ----------------------------------------------------------------------------------------------


@freeze_time(NOON)
def test_limits_are_listed_with_their_use(database: Database, rival: Database) -> None:
    """An ended window has none; slots are those of live runners."""
    hold(rival, SMTP, 1)
    hold(rival, LimitKey("sender:7", Limit("sender:{account}", 5, "day")), 3)
    now = database.clock.now()

    today = database.read(lambda connection: list(list_limits(connection, now)))
    later = database.read(lambda connection: list(list_limits(connection, now + timedelta(days=2))))

    assert [(each.key, each.used, each.most) for each in today] == [("sender:7", 3, 5), ("smtp:7", 1, 2)]
    assert [(each.used, each.opens_at) for each in later] == [(0, None), (0, None)]


@freeze_time(NOON)
def test_keys_that_are_unused_for_long_are_pruned(database: Database, rival: Database) -> None:
    """A week after their window; held slots stay and count."""
    hold(rival, SMTP, 2)
    hold(rival, LimitKey("sender:7", Limit("sender:{account}", 5, "month")), 3)
    with freeze_time(database.clock.now() + timedelta(days=9)):
        pruned = prune(database, retention())

    assert (pruned, [row.limit_key for row in rows_of(database, limits)]) == (1, ["sender:7"])
    assert SlotLedger(LimitHolder("new", database.clock.now())).acquire(database, [(SMTP,)]) != [None]
