"""What the model was asked: a row before each call, completed by its answer, and the purse that calls are paid from.

A row and its share of the purse are one transaction, so that neither a kill nor a lost COMMIT can count money twice.
"""

import re
from typing import Any, NamedTuple

from handlers.ai.budget import KEY, UNIT_MICROS, units_missing
from mayfly import Job, Snooze

OPEN, DONE, FAILED = "open", "done", "failed"
PURSE = {"purse": "llm"}
COLUMNS = ("trace_key", "job_id", "purpose", "board_id", "model", "state", "prompt", "cost_micros", "asked_at")
KNOWN = "SELECT 1 FROM app_llm_traces WHERE trace_key = :trace_key"
BALANCE = "SELECT balance_micros FROM app_llm_purse WHERE purse = :purse"
PAY = (
    "UPDATE app_llm_purse SET balance_micros = balance_micros + :paid - :most"
    " WHERE purse = :purse AND balance_micros + :paid >= :most"
)
GIVE_BACK = "UPDATE app_llm_purse SET balance_micros = balance_micros + :change WHERE purse = :purse"
CLOSE = (
    "UPDATE app_llm_traces SET state = :state, answer = :answer, error = :error, input_tokens = :input_tokens,"
    " output_tokens = :output_tokens, cost_micros = :cost_micros, latency_ms = :latency_ms"
    " WHERE trace_key = :trace_key AND state = 'open'"
)

# What was answered with a refusal, or never reached anybody, is not charged. All else may have been.
_SURELY_FREE = re.compile(r" answered [345]\d\d\b|: (NewConnection|NameResolution|ConnectTimeout)Error$")


class Call(NamedTuple):
    """What is written down before it is made."""

    key: str
    purpose: str
    board_id: int
    model: str
    prompt: str
    most_micros: int | None  # what it may cost; None where the price is not known


class Ended(NamedTuple):
    """What is written down when it has ended."""

    latency_ms: int
    answer: str | None = None
    error: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_micros: int | None = None  # None: nobody knows, so it counts as the most


def open_trace(job: Job, call: Call, has_budget: bool) -> None:
    """With a budget the money is there before the call is made; if it is used up, the job waits for next month."""
    row = {
        "trace_key": call.key, "job_id": job.id, "purpose": call.purpose, "board_id": call.board_id,
        "model": call.model, "state": OPEN, "prompt": call.prompt, "cost_micros": call.most_micros,
        "asked_at": job.now,
    }  # fmt: skip
    most = call.most_micros if has_budget else None
    paid = 0
    while not job.write(lambda connection: _open(connection, row, paid, most)):  # noqa: B023 - called at once
        paid += UNIT_MICROS * _take(job, paid, most or 0)


def _take(job: Job, paid: int, most: int) -> int:
    """Units of the month's limit; others may draw from the same purse meanwhile."""
    balance = job.read(lambda connection: connection.execute(BALANCE, PURSE).scalar())
    units = max(1, units_missing((balance or 0) + paid, most))
    for _ in range(units):
        job.take(KEY, or_snooze=True)
    return units


def _open(connection: Any, row: dict[str, Any], paid: int, most: int | None) -> bool:
    """False if the purse has too little in it. A repetition finds the row."""
    if connection.execute(KNOWN, {"trace_key": row["trace_key"]}).first() is not None:
        return True
    if most is not None and not connection.execute(PAY, {**PURSE, "paid": paid, "most": most}).rowcount:
        # Not before: MySQL's INSERT IGNORE locks what it finds, and two who did that wait for each other's UPDATE.
        missing = connection.dialect.insert_missing("app_llm_purse", ("purse",), ("purse", "balance_micros"))
        connection.execute(missing, {**PURSE, "balance_micros": 0})
        return False
    connection.execute(connection.dialect.insert("app_llm_traces", COLUMNS), row)
    return True


def close_trace(job: Job, call: Call, ended: Ended, has_budget: bool) -> None:
    """What the call did not cost goes back into the purse. A NUL is shown as such: not every database keeps one."""
    cost = call.most_micros if ended.cost_micros is None else ended.cost_micros
    words = {
        name: text and text.replace("\0", "�") for name, text in (("answer", ended.answer), ("error", ended.error))
    }
    state = FAILED if ended.error else DONE
    row = {**ended._asdict(), **words, "cost_micros": cost, "trace_key": call.key, "state": state}
    change = (call.most_micros or 0) - (cost or 0) if has_budget else 0

    def close(connection: Any) -> None:
        if connection.execute(CLOSE, row).rowcount and change:
            connection.execute(GIVE_BACK, {**PURSE, "change": change})

    job.write(close)


def is_surely_free(error: Exception) -> bool:
    return isinstance(error, Snooze) or _SURELY_FREE.search(str(error)) is not None
