"""The ledger of model calls: one row per call, written before the call, and the balance that pays for calls.

A row and its payment are one transaction, so that a kill or a lost reply to a COMMIT cannot charge a call twice.
"""

import re
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Column, Connection, Integer, String, Table, insert, select, update

from handlers.ai.budget import KEY, UNIT_MICROS, units_missing
from handlers.schema import Id, LongText, UtcTimestamp, metadata
from handlers.upsert import insert_missing
from mayfly import Job, Snooze

OPEN, DONE, FAILED = "open", "done", "failed"
ACCOUNT = "llm"

calls = Table(
    "app_llm_calls",
    metadata,
    Column("call_key", String(64), primary_key=True),  # job, claim and number of the call
    Column("job_id", Id, nullable=False),
    Column("purpose", String(32), nullable=False),
    Column("board_id", Id, nullable=False),
    Column("model", String(190), nullable=False),
    Column("state", String(16), nullable=False),
    Column("prompt", LongText, nullable=False),  # the messages as JSON
    Column("answer", LongText),
    Column("error", LongText),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("cost_micros", BigInteger),  # while open, the maximum
    Column("latency_ms", Integer),
    Column("asked_at", UtcTimestamp, nullable=False),
)

balances = Table(
    "app_llm_balance",
    metadata,
    Column("account", String(32), primary_key=True),
    Column("balance_micros", BigInteger, nullable=False),  # taken from the budget and not yet used
)

# Calls that were refused or did not reach the provider are not charged. All others may be.
_NOT_CHARGED = re.compile(r" returned [345]\d\d\b|: (NewConnection|NameResolution|ConnectTimeout)Error$")


class ModelCall(NamedTuple):
    """The columns stored before the call."""

    key: str
    purpose: str
    board_id: int
    model: str
    prompt: str
    max_micros: int | None  # None if the price is unknown


class CallResult(NamedTuple):
    """The columns stored after the call."""

    latency_ms: int
    answer: str | None = None
    error: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_micros: int | None = None  # None: unknown, so the maximum is charged


def open_call(job: Job, call: ModelCall, has_budget: bool) -> None:
    """With a budget the call is paid in advance; if it is used up, the job is snoozed until the next month."""
    row = {
        "call_key": call.key, "job_id": job.id, "purpose": call.purpose, "board_id": call.board_id,
        "model": call.model, "state": OPEN, "prompt": call.prompt, "cost_micros": call.max_micros,
        "asked_at": job.now,
    }  # fmt: skip
    cost = call.max_micros if has_budget else None
    paid = 0
    while not job.write(lambda connection: _open(connection, row, paid, cost)):  # noqa: B023 - called at once
        paid += UNIT_MICROS * _take_units(job, paid, cost or 0)


def _take_units(job: Job, paid: int, cost: int) -> int:
    """Take units from the month's limit; other jobs may use the balance in the meantime."""
    query = select(balances.c.balance_micros).where(balances.c.account == ACCOUNT)
    balance = job.read(lambda connection: connection.scalar(query))
    units = max(1, units_missing((balance or 0) + paid, cost))
    for _ in range(units):
        job.take(KEY, or_snooze=True)
    return units


def _open(connection: Connection, row: dict[str, Any], paid: int, cost: int | None) -> bool:
    """Return False if the balance does not suffice. Idempotent: a repeated transaction finds the row."""
    known = select(calls.c.call_key).where(calls.c.call_key == row["call_key"])
    if connection.execute(known).first() is not None:
        return True
    if cost is not None and not _pay(connection, paid, cost):
        insert_missing(connection, balances, {"account": ACCOUNT, "balance_micros": 0})
        return False
    connection.execute(insert(calls).values(**row))
    return True


def _pay(connection: Connection, paid: int, cost: int) -> bool:
    balance = balances.c.balance_micros
    suffices = (balances.c.account == ACCOUNT) & (balance + paid >= cost)
    pay = update(balances).where(suffices).values(balance_micros=balance + paid - cost)
    return connection.execute(pay).rowcount > 0


def close_call(job: Job, call: ModelCall, result: CallResult, has_budget: bool) -> None:
    """Store the result and refund the unused part of the payment. NUL is replaced: PostgreSQL cannot store it."""
    cost = call.max_micros if result.cost_micros is None else result.cost_micros
    texts = {
        name: text and text.replace("\0", "�") for name, text in (("answer", result.answer), ("error", result.error))
    }
    values = {**result._asdict(), **texts, "cost_micros": cost, "state": FAILED if result.error else DONE}
    close = update(calls).where(calls.c.call_key == call.key, calls.c.state == OPEN).values(**values)
    unused = (call.max_micros or 0) - (cost or 0) if has_budget else 0
    balance = balances.c.balance_micros
    give_back = update(balances).where(balances.c.account == ACCOUNT).values(balance_micros=balance + unused)

    def write(connection: Connection) -> None:
        if connection.execute(close).rowcount and unused:
            connection.execute(give_back)

    job.write(write)


def is_not_charged(error: Exception) -> bool:
    return isinstance(error, Snooze) or _NOT_CHARGED.search(str(error)) is not None
