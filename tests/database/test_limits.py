"""Limits in the database: never exceeded by concurrent runners, and released when their holder is gone."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from threading import Lock

import pytest
from sqlalchemy import update

from mayfly.clock import host_now, pause_between
from mayfly.db.database import Database
from mayfly.fleet.runners import EndedRunner, close_runner
from mayfly.limits.client import SlotLedger, open_job_limits
from mayfly.limits.limit import Limit, LimitKey
from mayfly.limits.store import LimitHolder
from mayfly.registry import Handler
from mayfly.schema.metadata import limits, runners, slots
from mayfly.testing.database import pinned_offset
from tests.database.factories import in_threads, insert_runner, make_runtime, rows_of, servers_only
from tests.database.lossy_proxy import proxied
from tests.factories import NOON, make_job
from tests.sqlalchemy_engines import run

RIVALS = 8
TWO_AT_ONCE = LimitKey("smtp", Limit("smtp", 2))
NINE_A_DAY = LimitKey("sender", Limit("sender", 9, "day"))


def slot_ledger(database: Database, worker_id: str = "worker-1") -> SlotLedger:
    return SlotLedger(LimitHolder(worker_id, database.clock.now() + timedelta(minutes=1)))


@pytest.fixture(autouse=True)
def _noon() -> Iterator[None]:
    """So no window of a day ends during a test."""
    with pinned_offset(NOON - host_now()):
        yield


@pytest.fixture
def rivals(migrated_url: str) -> Iterator[list[Database]]:
    """The same database, opened by several processes."""
    opened = [Database(migrated_url) for _ in range(RIVALS)]
    yield opened
    for each in opened:
        each.close()


def test_concurrent_runners_never_exceed_a_window(rivals: list[Database]) -> None:
    """Eight with their own connections, ten times each: nine are granted in total, also on the first day."""

    def work(number: int) -> int:
        ours = slot_ledger(rivals[number], f"worker-{number}")
        return sum(ours.acquire(rivals[number], [(NINE_A_DAY,)]) == [None] for _ in range(10))

    granted = in_threads([lambda number=number: work(number) for number in range(RIVALS)])  # type: ignore[misc]

    assert sum(granted) == NINE_A_DAY.limit.most
    assert [(row.used, row.most) for row in rows_of(rivals[0], limits)] == [(9, 9)]


def test_concurrent_runners_never_exceed_the_slots(rivals: list[Database]) -> None:
    """Acquired and released repeatedly: never three at once."""
    inside, most_seen, entered = 0, 0, Counter[int]()
    counting = Lock()

    def work(number: int) -> None:
        nonlocal inside, most_seen
        ours = slot_ledger(rivals[number], f"worker-{number}")
        while entered[number] < 5:
            if ours.acquire(rivals[number], [(TWO_AT_ONCE,)]) != [None]:
                pause_between(0.001, 0.01)
                continue
            with counting:
                inside, entered[number] = inside + 1, entered[number] + 1
                most_seen = max(most_seen, inside)
            pause_between(0.001, 0.005)
            with counting:
                inside -= 1
            ours.release([(TWO_AT_ONCE,)])
            ours.flush(rivals[number])

    in_threads([lambda number=number: work(number) for number in range(RIVALS)])  # type: ignore[misc]

    assert 1 <= most_seen <= TWO_AT_ONCE.limit.most
    assert sum(entered.values()) == 5 * RIVALS
    assert rows_of(rivals[0], slots) == []


def test_concurrent_runners_with_keys_in_different_orders_do_not_deadlock(rivals: list[Database]) -> None:
    """Each requests several keys in its own order; no deadlock reaches a caller, and no limit is exceeded."""
    limit_keys = [LimitKey(f"key-{number}", Limit("key", 15, "day")) for number in range(5)]
    limit_keys += [LimitKey(f"key-{number}", Limit("key", 3)) for number in range(5)]

    def work(number: int) -> Counter[str]:
        chooser, ours, granted = (
            random.Random(number),
            slot_ledger(rivals[number], f"worker-{number}"),
            Counter[str](),
        )
        for _ in range(10):
            requests = [tuple(chooser.sample(limit_keys, 4)) for _ in range(3)]
            refusals = ours.acquire(rivals[number], requests)
            taken = [request for request, refusal in zip(requests, refusals, strict=True) if refusal is None]
            granted += Counter(
                limit_key.key for request in taken for limit_key in request if limit_key.limit.span == "day"
            )
            ours.release(taken)
        ours.flush(rivals[number])
        return granted

    counted: Counter[str] = sum(
        in_threads([lambda number=number: work(number) for number in range(RIVALS)]),  # type: ignore[misc]
        Counter(),
    )

    used = {row.limit_key: row.used for row in rows_of(rivals[0], limits) if row.span == "day"}
    assert {key: number for key, number in used.items() if number} == counted
    assert max(counted.values()) <= 15
    assert rows_of(rivals[0], slots) == []


def test_a_refused_job_takes_nothing_from_its_other_limits(database: Database, rival: Database) -> None:
    """All or nothing, in the table too."""
    assert slot_ledger(rival, "rival").acquire(rival, [(TWO_AT_ONCE,)] * 2) == [None, None]

    [refusal] = slot_ledger(database).acquire(database, [(NINE_A_DAY, TWO_AT_ONCE)])

    assert (refusal and refusal.limit_key) == TWO_AT_ONCE
    assert [row.used for row in rows_of(database, limits) if row.span == "day"] == [0]


def test_a_slot_is_free_when_its_runner_is_closed(database: Database, rival: Database) -> None:
    """Closing the row of a dead runner releases all its slots."""
    insert_runner(rival, "rival")
    slot_ledger(rival, "rival").acquire(rival, [(TWO_AT_ONCE,)] * 2)
    ours = slot_ledger(database)
    assert ours.acquire(database, [(TWO_AT_ONCE,)]) != [None]

    now = database.clock.now()
    database.run(lambda connection: close_runner(connection, "rival", EndedRunner("crash", signal=9), now))

    assert ours.acquire(database, [(TWO_AT_ONCE,)]) == [None]
    assert [(row.worker_id, row.held) for row in rows_of(database, slots)] == [("worker-1", 1)]


def test_a_slot_is_free_when_the_lease_of_its_runner_expires(database: Database, rival: Database) -> None:
    """The runner's row decides, which may have been renewed; without a row the slot's own lease."""
    insert_runner(rival, "rival")
    over = rival.clock.now() - timedelta(seconds=1)
    SlotLedger(LimitHolder("rival", over)).acquire(rival, [(TWO_AT_ONCE,)])
    SlotLedger(LimitHolder("unknown", over)).acquire(rival, [(TWO_AT_ONCE,)])
    ours = slot_ledger(database)
    assert [each is None for each in ours.acquire(database, [(TWO_AT_ONCE,)] * 2)] == [True, False]

    run(database, lambda connection: connection.execute(update(runners).values(lease_until=over)))

    assert ours.acquire(database, [(TWO_AT_ONCE,)]) == [None]


def test_an_ended_window_opens_again(database: Database) -> None:
    """By the database's clock; until then it stays used up."""
    ours = slot_ledger(database)
    assert ours.acquire(database, [(NINE_A_DAY,)] * 10)[8:] != [None, None]
    assert ours.acquire(database, [(NINE_A_DAY,)]) != [None]

    over = update(limits).values(opens_at=database.clock.now())
    run(database, lambda connection: connection.execute(over))

    assert ours.acquire(database, [(NINE_A_DAY,)]) == [None]


@servers_only
def test_a_unit_is_returned_once_if_the_answer_is_lost(migrated_url: str, database: Database) -> None:
    """The release was committed; a second one would exceed the limit."""
    with proxied(migrated_url) as (proxy, url):
        remote = Database(url)
        job = make_job(type="send", runtime=make_runtime(remote))
        handlers = {"send": Handler("send", print, takes=(NINE_A_DAY.limit,))}
        job_limits = open_job_limits(handlers, "worker-1", database.clock.now() + timedelta(minutes=1))
        grants = [job_limits.acquire(remote, job, NINE_A_DAY.key) for _ in range(3)]
        proxy.lose_next_commit()

        grants[0].release()
        grants[0].release()
        remote.close()

    assert (proxy.lost, [row.used for row in rows_of(database, limits)]) == (1, [2])


def test_a_changed_declaration_is_written_to_the_row(database: Database) -> None:
    """For the lists; a runner uses its own declaration."""
    raised = LimitKey("smtp", Limit("smtp", 3))
    ours = slot_ledger(database)
    assert [each is None for each in ours.acquire(database, [(TWO_AT_ONCE,)] * 3)] == [True, True, False]

    assert ours.acquire(database, [(raised,)]) == [None]

    assert [row.most for row in rows_of(database, limits)] == [3]
