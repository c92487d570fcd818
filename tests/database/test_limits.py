"""Limits in the database: never exceeded by however many ask at once, and free again when their holder is gone."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from threading import Lock

import pytest
from sqlalchemy import update

from mayfly.clock import pause_between
from mayfly.db.database import Database
from mayfly.fleet.runners import EndedRunner, close_runner
from mayfly.limits.client import SlotLedger
from mayfly.limits.limit import Limit, LimitKey
from mayfly.limits.store import LimitHolder
from mayfly.schema.metadata import limits, runners, slots
from tests.database.factories import in_threads, insert_runner, rows_of
from tests.sqlalchemy_engines import run

RIVALS = 8
TWO_AT_ONCE = LimitKey("smtp", Limit("smtp", 2))
NINE_A_DAY = LimitKey("sender", Limit("sender", 9, "day"))


def holdings(database: Database, worker_id: str = "worker-1") -> SlotLedger:
    return SlotLedger(LimitHolder(worker_id, database.clock.now() + timedelta(minutes=1)))


@pytest.fixture
def rivals(migrated_url: str) -> Iterator[list[Database]]:
    """The same database as so many processes have it."""
    opened = [Database(migrated_url) for _ in range(RIVALS)]
    yield opened
    for each in opened:
        each.close()


def test_rivals_never_take_more_than_a_window_has(rivals: list[Database]) -> None:
    """Eight at once, each with its own connection, ten times: nine are granted in all, on the very first day too."""

    def work(number: int) -> int:
        ours = holdings(rivals[number], f"worker-{number}")
        return sum(ours.acquire(rivals[number], [(NINE_A_DAY,)]) == [None] for _ in range(10))

    granted = in_threads([lambda number=number: work(number) for number in range(RIVALS)])  # type: ignore[misc]

    assert sum(granted) == NINE_A_DAY.limit.most
    assert [(row.used, row.most) for row in rows_of(rivals[0], limits)] == [(9, 9)]


def test_rivals_never_hold_more_slots_than_there_are(rivals: list[Database]) -> None:
    """Taken, used and put down over and over: at no time are three of them inside."""
    inside, most_seen, entered = 0, 0, Counter[int]()
    counting = Lock()

    def work(number: int) -> None:
        nonlocal inside, most_seen
        ours = holdings(rivals[number], f"worker-{number}")
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


def test_rivals_that_want_the_same_keys_crosswise_all_get_an_answer(rivals: list[Database]) -> None:
    """Each asks for several keys in an order of its own: no deadlock reaches anyone, and nothing is exceeded."""
    needs = [LimitKey(f"key-{number}", Limit("key", 15, "day")) for number in range(5)]
    needs += [LimitKey(f"key-{number}", Limit("key", 3)) for number in range(5)]

    def work(number: int) -> Counter[str]:
        dice, ours, granted = random.Random(number), holdings(rivals[number], f"worker-{number}"), Counter[str]()
        for _ in range(10):
            wishes = [tuple(dice.sample(needs, 4)) for _ in range(3)]
            denials = ours.acquire(rivals[number], wishes)
            taken = [wish for wish, denial in zip(wishes, denials, strict=True) if denial is None]
            granted += Counter(need.key for wish in taken for need in wish if need.limit.span == "day")
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


def test_what_one_limit_refuses_is_not_taken_from_another(database: Database, rival: Database) -> None:
    """All or nothing, in the table too."""
    assert holdings(rival, "rival").acquire(rival, [(TWO_AT_ONCE,)] * 2) == [None, None]

    [denial] = holdings(database).acquire(database, [(NINE_A_DAY, TWO_AT_ONCE)])

    assert (denial and denial.limit_key) == TWO_AT_ONCE
    assert [row.used for row in rows_of(database, limits) if row.span == "day"] == [0]


def test_a_slot_is_free_when_its_runner_is_closed(database: Database, rival: Database) -> None:
    """Whoever closes the row of a dead runner need not know what it held."""
    insert_runner(rival, "rival")
    holdings(rival, "rival").acquire(rival, [(TWO_AT_ONCE,)] * 2)
    ours = holdings(database)
    assert ours.acquire(database, [(TWO_AT_ONCE,)]) != [None]

    now = database.clock.now()
    database.run(lambda connection: close_runner(connection, "rival", EndedRunner("crash", signal=9), now))

    assert ours.acquire(database, [(TWO_AT_ONCE,)]) == [None]
    assert [(row.worker_id, row.held) for row in rows_of(database, slots)] == [("worker-1", 1)]


def test_a_slot_is_free_when_the_lease_of_its_runner_runs_out(database: Database, rival: Database) -> None:
    """The runner's row decides, which may have been renewed; the slot's own lease where there is no row."""
    insert_runner(rival, "rival")
    over = rival.clock.now() - timedelta(seconds=1)
    SlotLedger(LimitHolder("rival", over)).acquire(rival, [(TWO_AT_ONCE,)])
    SlotLedger(LimitHolder("nobody", over)).acquire(rival, [(TWO_AT_ONCE,)])
    ours = holdings(database)
    assert [each is None for each in ours.acquire(database, [(TWO_AT_ONCE,)] * 2)] == [True, False]

    run(database, lambda connection: connection.execute(update(runners).values(lease_until=over)))

    assert ours.acquire(database, [(TWO_AT_ONCE,)]) == [None]


def test_a_window_that_has_ended_opens_again(database: Database) -> None:
    """By the database's clock; used up is used up until then."""
    ours = holdings(database)
    assert ours.acquire(database, [(NINE_A_DAY,)] * 10)[8:] != [None, None]
    assert ours.acquire(database, [(NINE_A_DAY,)]) != [None]

    over = update(limits).values(opens_at=database.clock.now())
    run(database, lambda connection: connection.execute(over))

    assert ours.acquire(database, [(NINE_A_DAY,)]) == [None]


def test_what_is_declared_anew_is_what_the_row_says(database: Database) -> None:
    """For those who look at it; whoever asks goes by his own declaration."""
    raised = LimitKey("smtp", Limit("smtp", 3))
    ours = holdings(database)
    assert [each is None for each in ours.acquire(database, [(TWO_AT_ONCE,)] * 3)] == [True, True, False]

    assert ours.acquire(database, [(raised,)]) == [None]

    assert [row.most for row in rows_of(database, limits)] == [3]
