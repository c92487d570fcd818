"""Jobs whose handlers declare limits: who may not run yet is put off, unspent and with the reason."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time

from mayfly import Job, Retry, concurrency, enqueue, handler, rate
from mayfly.admin.lanes import list_limits
from mayfly.db.database import Database
from mayfly.errors import RefusedInTransaction, UnknownLimit
from mayfly.limits.client import SlotLedger
from mayfly.limits.limit import Limit, LimitKey
from mayfly.limits.store import LimitHolder
from mayfly.queue.prune import Keep, prune
from mayfly.schema.metadata import limits, slots
from mayfly.testing import FreshDatabase, drain, run_inline, using_database
from runner.invoke import PayloadError
from tests.database.factories import rows_of, run_sql
from tests.factories import NOON, get_row, insert_row

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


def hold(database: Database, need: LimitKey, times: int) -> SlotLedger:
    """As another runner that lives for another minute."""
    holdings = SlotLedger(LimitHolder("rival", database.clock.now() + timedelta(minutes=1)))
    assert holdings.acquire(database, [(need,)] * times) == [None] * times
    return holdings


@freeze_time(NOON)
def test_who_is_over_the_rate_waits_for_the_next_window(database: Database, sent: list[int]) -> None:
    """Unspent, with the reason; jobs of other keys go on, and the next day all is done."""
    ids = [enqueue("send", {"account": account}) for account in (42, 42, 42, 7)]

    assert drain().outcomes == {"done": 3, "snoozed": 1}

    waiting = get_row(database, ids[2])
    assert (waiting.status, waiting.attempts, waiting.last_error) == ("pending", 0, None)
    assert waiting.waiting_for == "limit sender:42 opens at 2026-05-05 00:00 UTC"
    assert waiting.run_at == datetime(2026, 5, 5, tzinfo=UTC)
    assert drain(advance=True).outcomes == {"done": 1}
    assert sent == [42, 42, 7, 42]


def test_who_finds_no_slot_comes_back_within_seconds(database: Database, rival: Database, sent: list[int]) -> None:
    """When the others have ended, it runs; the rate was not touched in vain."""
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


def test_a_job_put_off_forgets_why_when_it_fails_later(database: Database) -> None:
    """What it waits for then is its next try."""

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


def test_a_job_that_names_no_key_is_dead_with_a_sentence(database: Database, sent: list[int]) -> None:
    """It came by plain SQL; `enqueue` would have refused it."""
    job_id = insert_row(database, type="send", payload='{"acount": 1}')

    with pytest.raises(PayloadError, match="needs the field 'account', which is missing"):
        drain()

    assert (get_row(database, job_id).status, sent) == ("dead", [])


# --- taken by the handler itself --------------------------------------------------------------------------


def test_a_handler_may_choose_another_key(database: Database) -> None:
    """What is not granted says when it opens; what is granted of a rate stays used."""
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
def test_a_handler_may_be_snoozed_until_its_key_opens(database: Database) -> None:
    """Like a job that never started: unspent, and with the reason."""

    @handler("insist", takes=rate("sender:{account}", 1, per="hour"))
    def insist(job: Job) -> None:
        job.take("sender:42", or_snooze=True)

    ids = [enqueue("insist"), enqueue("insist")]

    assert drain().outcomes == {"done": 1, "snoozed": 1}
    waiting = get_row(database, ids[1])
    assert (waiting.attempts, waiting.waiting_for) == (0, "limit sender:42 opens at 13:00 UTC")
    assert waiting.run_at == NOON + timedelta(hours=1)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_slot_that_a_handler_took_is_given_back_when_it_ends(database: Database, kind: str) -> None:
    """Whether it was well or not."""
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


def test_a_key_that_nobody_declared_is_a_sentence() -> None:
    """With those that are."""

    @handler("stray", takes=rate("sender:{account}", 1, per="day"))
    def stray(job: Job) -> None:
        job.take(job.payload["key"])

    for key in ("sendr:1", "sender:", "sender:" + "x" * 190):
        with pytest.raises(UnknownLimit, match=r"no limit has this key; its handler declares 'sender:\{acc"):
            run_inline("stray", {"key": key})


def test_nothing_is_taken_inside_of_a_transaction(database: Database) -> None:
    """It would hold the key's lock until the job is done."""

    @handler("within", takes=rate("sender", 1, per="day"))
    def within(job: Job) -> None:
        with job.transaction():
            job.take("sender")

    with pytest.raises(RefusedInTransaction, match=r"^job\.take"):
        run_inline("within")
    assert rows_of(database, limits) == []


# --- looking at them --------------------------------------------------------------------------------------


def test_limits_are_listed_with_what_is_used(database: Database, rival: Database) -> None:
    """Of a window that has ended nothing is; of slots, what the living hold."""
    hold(rival, SMTP, 1)
    hold(rival, LimitKey("sender:7", Limit("sender:{account}", 5, "day")), 3)
    now = database.clock.now()

    today = database.read(lambda connection: list(list_limits(connection, now)))
    later = database.read(lambda connection: list(list_limits(connection, now + timedelta(days=2))))

    assert [(each.key, each.used, each.most) for each in today] == [("sender:7", 3, 5), ("smtp:7", 1, 2)]
    assert [(each.used, each.opens_at) for each in later] == [(0, None), (0, None)]


def test_keys_that_nobody_has_used_for_long_are_pruned(database: Database, rival: Database) -> None:
    """A week after their window; the slots that somebody holds stay, and count on."""
    hold(rival, SMTP, 2)
    hold(rival, LimitKey("sender:7", Limit("sender:{account}", 5, "month")), 3)
    with freeze_time(database.clock.now() + timedelta(days=9)):
        pruned = prune(database, Keep())

    assert (pruned, [row.limit_key for row in rows_of(database, limits)]) == (1, ["sender:7"])
    assert SlotLedger(LimitHolder("new", database.clock.now())).acquire(database, [(SMTP,)]) != [None]
