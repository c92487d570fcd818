"""Call the model and validate its JSON response. Each call is in the ledger; an invalid response is retried once."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from handlers.ai.budget import USUAL_PRICES, BadMoney, Price, read_prices
from handlers.ai.ledger import CallResult, ModelCall, close_call, is_not_charged, open_call
from handlers.ai.prompts import AGAIN, DATA
from handlers.ai.provider import ChatMessage, Completion, complete, open_provider
from mayfly import Dead, Job, Retry, Snooze, setting

USUAL_MODEL = "gpt-4o-mini"
USUAL_CONTEXT = "32000"
MIN_CONTEXT = 16_000  # tokens: two summaries in any script, with the instructions
OVERHEAD_TOKENS = 500  # around messages, and for the second request

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True)
class Prompt:
    purpose: str
    board_id: int
    system: str  # the only instructions
    data: dict[str, Any]  # user texts: never instructions
    answer_tokens: int

    @property
    def messages(self) -> list[ChatMessage]:
        return [
            {"role": "system", "content": f"{self.system}\n{DATA}"},
            {"role": "user", "content": as_json(self.data)},
        ]


class InvalidAnswer(Exception):
    """The model's response does not have the requested shape."""


class Model:
    """The configured model, for one run of one job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._name = setting("OPENAI_MODEL", USUAL_MODEL)
        self._key = setting("OPENAI_API_KEY")
        self._provider = open_provider(self._key)
        self._price = _prices().get(self._name)
        self._has_budget = bool(setting("OPENAI_BUDGET", ""))
        self._calls = 0
        if self._has_budget and self._price is None:
            raise Dead(f"OPENAI_BUDGET needs the price of {self._name}: add it to OPENAI_PRICES")

    def ask(self, prompt: Prompt, shape: type[Answer]) -> Answer:
        messages = prompt.messages
        try:
            return self._ask_once(prompt, messages, shape)
        except InvalidAnswer as invalid:
            reminded = [*messages, {"role": "system", "content": AGAIN.format(reason=invalid)}]
        try:
            return self._ask_once(prompt, reminded, shape)
        except InvalidAnswer as invalid:
            raise Dead(f"the model's response was invalid twice: {invalid}") from None

    def _ask_once(self, prompt: Prompt, messages: Sequence[ChatMessage], shape: type[Answer]) -> Answer:
        self._calls += 1
        call = ModelCall(
            f"{self._job.id}-{self._job.claims}-{self._calls}", prompt.purpose, prompt.board_id, self._name,
            as_json(messages), max_micros(self._price, messages, prompt.answer_tokens),
        )  # fmt: skip
        open_call(self._job, call, self._has_budget)
        completion = self._complete(call, messages, prompt.answer_tokens)
        try:
            return shape.model_validate_json(completion.text)
        except ValidationError as error:
            raise InvalidAnswer(reason_of(error)) from None

    def _complete(self, call: ModelCall, messages: Sequence[ChatMessage], answer_tokens: int) -> Completion:
        """Call the provider and store the result in the ledger, even if the call fails."""
        started = time.monotonic()
        try:
            completion = complete(self._provider, self._name, messages, answer_tokens)
        except (Retry, Dead, Snooze) as error:
            message = str(error).replace(self._key, "…")  # some providers quote an invalid key
            cost = 0 if is_not_charged(error) else None
            self._close(call, CallResult(_since(started), error=message, cost_micros=cost))
            error.args = (message,)
            raise
        text, asked, answered = completion
        cost = cost_of(self._price, asked, answered)
        self._close(call, CallResult(_since(started), text, None, asked, answered, cost))
        return completion

    def _close(self, call: ModelCall, result: CallResult) -> None:
        close_call(self._job, call, result, self._has_budget)


def _prices() -> dict[str, Price]:
    try:
        return read_prices(setting("OPENAI_PRICES", USUAL_PRICES))
    except BadMoney as error:
        raise Dead(str(error)) from None


def room_for(prompt: Prompt) -> int:
    """The number of bytes that fit into the context. In every script a token has at least one byte."""
    context = setting("OPENAI_CONTEXT", USUAL_CONTEXT)
    if not context.isascii() or not context.isdigit() or not MIN_CONTEXT <= int(context) <= 10_000_000:
        raise Dead(f"OPENAI_CONTEXT must be a number of tokens, {MIN_CONTEXT:,} or more")
    used = sum(size_of(each["content"]) for each in prompt.messages)
    return int(context) - prompt.answer_tokens - OVERHEAD_TOKENS - used


def max_micros(price: Price | None, messages: Sequence[ChatMessage], answer_tokens: int) -> int | None:
    if price is None:
        return None
    return price.cost_micros(OVERHEAD_TOKENS + sum(size_of(each["content"]) for each in messages), answer_tokens)


def cost_of(price: Price | None, asked: int | None, answered: int | None) -> int | None:
    """None if unknown."""
    return None if price is None or asked is None or answered is None else price.cost_micros(asked, answered)


def reason_of(error: ValidationError) -> str:
    """Field and error type, without the model's text, which must not become an instruction."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    where = ".".join(str(each) for each in first["loc"] if each in KNOWN_FIELDS)
    return f"{where}: {first['type']}" if where else str(first["type"])


KNOWN_FIELDS = ("summary", "text", "nudge")


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def size_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
