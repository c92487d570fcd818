"""Ask the model for an answer of a certain shape: traced, paid for, and asked again once if the shape is broken."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from handlers.ai.budget import USUAL_PRICES, BadMoney, Price, read_prices
from handlers.ai.prompts import AGAIN, DATA
from handlers.ai.provider import Completion, Message, complete, open_provider
from handlers.ai.traces import Call, Ended, close_trace, is_surely_free, open_trace
from mayfly import Dead, Job, Retry, Snooze, setting

USUAL_MODEL = "gpt-4o-mini"
USUAL_CONTEXT = "32000"
LEAST_CONTEXT = 16_000  # two summaries of parts, in any script, with all that is said around them
OVERHEAD = 500  # tokens around messages, and what is said when the model is asked again

Shape = TypeVar("Shape", bound=BaseModel)


@dataclass(frozen=True)
class Question:
    purpose: str
    board_id: int
    system: str  # ours; the only instructions
    data: dict[str, Any]  # others': never instructions
    answer_tokens: int

    @property
    def messages(self) -> list[Message]:
        return [
            {"role": "system", "content": f"{self.system}\n{DATA}"},
            {"role": "user", "content": as_json(self.data)},
        ]


class BrokenShape(Exception):
    """What the model answered is not what it was asked for."""


class Model:
    """As the settings name it, for one run of one job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._name = setting("OPENAI_MODEL", USUAL_MODEL)
        self._key = setting("OPENAI_API_KEY")
        self._provider = open_provider(self._key)
        self._price = _prices().get(self._name)
        self._has_budget = bool(setting("OPENAI_BUDGET", ""))
        self._calls = 0
        if self._has_budget and self._price is None:
            raise Dead(f"OPENAI_BUDGET needs to know what {self._name} costs: add it to OPENAI_PRICES")

    def ask(self, question: Question, shape: type[Shape]) -> Shape:
        messages = question.messages
        try:
            return self._ask_once(question, messages, shape)
        except BrokenShape as broken:
            reminded = [*messages, {"role": "system", "content": AGAIN.format(reason=broken)}]
        try:
            return self._ask_once(question, reminded, shape)
        except BrokenShape as broken:
            raise Dead(f"the model's answer broke the asked shape twice: {broken}") from None

    def _ask_once(self, question: Question, messages: Sequence[Message], shape: type[Shape]) -> Shape:
        self._calls += 1
        call = Call(
            f"{self._job.id}-{self._job.claims}-{self._calls}", question.purpose, question.board_id, self._name,
            as_json(messages), most_micros(self._price, messages, question.answer_tokens),
        )  # fmt: skip
        open_trace(self._job, call, self._has_budget)
        completion = self._complete(call, messages, question.answer_tokens)
        try:
            return shape.model_validate_json(completion.text)
        except ValidationError as error:
            raise BrokenShape(reason_of(error)) from None

    def _complete(self, call: Call, messages: Sequence[Message], answer_tokens: int) -> Completion:
        """However it ends, its row says so."""
        began = time.monotonic()
        try:
            completion = complete(self._provider, self._name, messages, answer_tokens)
        except (Retry, Dead, Snooze) as error:
            said = str(error).replace(self._key, "…")  # some quote the key that they refuse
            free = 0 if is_surely_free(error) else None
            self._close(call, Ended(_since(began), error=said, cost_micros=free))
            error.args = (said,)
            raise
        text, asked, answered = completion
        self._close(call, Ended(_since(began), text, None, asked, answered, cost_of(self._price, asked, answered)))
        return completion

    def _close(self, call: Call, ended: Ended) -> None:
        close_trace(self._job, call, ended, self._has_budget)


def _prices() -> dict[str, Price]:
    try:
        return read_prices(setting("OPENAI_PRICES", USUAL_PRICES))
    except BadMoney as error:
        raise Dead(str(error)) from None


def room_for(question: Question) -> int:
    """Bytes of data that fit into the context. A token is a byte at least, in every alphabet."""
    context = setting("OPENAI_CONTEXT", USUAL_CONTEXT)
    if not context.isascii() or not context.isdigit() or not LEAST_CONTEXT <= int(context) <= 10_000_000:
        raise Dead(f"OPENAI_CONTEXT must be a number of tokens, {LEAST_CONTEXT:,} or more")
    said = sum(size_of(each["content"]) for each in question.messages)
    return int(context) - question.answer_tokens - OVERHEAD - said


def most_micros(price: Price | None, messages: Sequence[Message], answer_tokens: int) -> int | None:
    if price is None:
        return None
    return price.cost_micros(OVERHEAD + sum(size_of(each["content"]) for each in messages), answer_tokens)


def cost_of(price: Price | None, asked: int | None, answered: int | None) -> int | None:
    """None where nobody knows."""
    return None if price is None or asked is None or answered is None else price.cost_micros(asked, answered)


def reason_of(error: ValidationError) -> str:
    """Where and what, in our words alone: what the model wrote is not repeated to it as an instruction."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    where = ".".join(str(each) for each in first["loc"] if each in KNOWN_FIELDS)
    return f"{where}: {first['type']}" if where else str(first["type"])


KNOWN_FIELDS = ("summary", "text", "nudge")


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def size_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
