"""The monthly budget as a limit: it is never exceeded, and a job waits for the next month."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from handlers.ai.budget import BadMoney, Price, limits_of, read_prices, units_missing, units_of
from handlers.ai.suggestion import suggest
from mayfly import Job, enqueue, handler
from mayfly.testing import drain, enqueued_jobs
from tests.handlers.ai.boards import Boards, rows, traces
from tests.handlers.ai.models import PlayedModel
from tests.hypothesis_profiles import in_full

NEXT_MONTH = datetime(2026, 6, 1, tzinfo=UTC)


def within(budget: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Declare a handler like ai_suggest_post with this budget, at a price that makes each call cost 5 cents."""
    monkeypatch.setenv("OPENAI_BUDGET", budget)
    monkeypatch.setenv("OPENAI_PRICES", "gpt-4o-mini=40/100")

    @handler("draft", takes=limits_of(budget), ack="each", max_attempts=2)
    def draft(job: Job) -> None:
        suggest(job, 3, "")


@freeze_time("2026-05-20 12:00:00")
def test_a_used_up_budget_is_available_again_next_month(
    boards: Boards, model: PlayedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 38 cents four calls are made; the fifth, which may cost too much, waits without an attempt or a call."""
    boards.add(3, "Beans?")
    model.reply = lambda _asked: '{"text": "Peas?"}'
    within("0.38", monkeypatch)
    for _ in range(6):
        enqueue("draft")

    drained = drain()

    waiting = [job for job in enqueued_jobs("draft") if job.status == "pending"]
    assert drained.outcomes["done"] == len(model.asked) == sum(each["state"] == "done" for each in traces())
    assert len(model.asked) == 4
    assert drained.outcomes["snoozed"] == len(waiting) == 2
    assert {(job.run_at, job.attempts) for job in waiting} == {(NEXT_MONTH, 0)}
    assert sum(each["cost_micros"] for each in traces()) <= 380_000
    assert rows("SELECT used, most FROM mayfly_limits") == [(38, 38)]


@pytest.mark.every_database
def test_the_unused_part_of_a_payment_is_returned(
    boards: Boards, model: PlayedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units taken equal the cost of all calls plus the balance, however calls have ended. On every database."""
    boards.add(3, "Beans?")
    answers = iter(['{"text": 7}', '{"text": "Peas?"}', '{"text": "Peas?"}'])
    model.reply = lambda _asked: next(answers)
    within("100", monkeypatch)
    enqueue("draft")
    enqueue("draft")
    drain()
    model.streams = model.cut = True
    model.reply = lambda _asked: '{"text": "Peas?"}'
    enqueue("draft")
    drain(raises=False)

    [(used,)] = rows("SELECT used FROM mayfly_limits")
    [(balance,)] = rows("SELECT balance_micros FROM app_llm_balance")
    costs = [each["cost_micros"] for each in traces()]
    assert costs[:3] == [50_000] * 3
    assert costs[3] > 150_000  # the real cost is unknown
    assert used * 10_000 == sum(costs) + balance
    assert balance >= 0


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_a_budget_needs_a_price(boards: Boards, model: PlayedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model without a known price is not called."""
    boards.add(3, "Beans?")
    within("1", monkeypatch)
    monkeypatch.setenv("OPENAI_MODEL", "other")
    enqueue("draft")

    drained = drain()

    assert drained.runs[0].reason == "OPENAI_BUDGET needs the price of other: add it to OPENAI_PRICES"
    assert model.asked == []


def test_prices_are_per_million_tokens() -> None:
    """Rounded up to micros."""
    prices = read_prices("a=0.15/0.60 b=c=2.5/10")

    assert prices == {"a": Price(Decimal("0.15"), Decimal("0.60")), "b=c": Price(Decimal("2.5"), Decimal(10))}
    assert prices["a"].cost_micros(1_000_001, 1_000_000) == 750_001


@pytest.mark.parametrize("text", ["a", "a=1", "a=1/x", "=1/2", "a=-1/2", "a=nan/1", "a=1/2/3", "a=9999999/1"])
def test_an_invalid_price_is_an_error_message(text: str) -> None:
    """When a job runs."""
    with pytest.raises(BadMoney, match="OPENAI_PRICES: must be a list of"):
        read_prices(text)


@pytest.mark.parametrize("text", ["much", "0", "-1", "0.001", "nan", "inf", "1e30"])
def test_an_invalid_budget_is_an_error_message(text: str) -> None:
    """A budget below a cent is invalid."""
    with pytest.raises(BadMoney, match="OPENAI_BUDGET: must be an amount"):
        units_of(text)


@in_full(50)
@given(balance=st.integers(-(10**9), 10**9), most=st.integers(0, 10**9))
def test_no_more_is_taken_than_is_missing(balance: int, most: int) -> None:
    """To the cent."""
    units = units_missing(balance, most)

    assert balance + units * 10_000 >= most or (units == 0 and balance >= most)
    assert units == 0 or balance + (units - 1) * 10_000 < most
