"""Prices of calls, and the monthly budget as a rate limit whose unit is a cent. Pure.

Money is counted in millionths (micros): a price of 0.15 per million tokens is 0.15 micros per token.
"""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import ceil
from typing import Any

from mayfly import MayflyError, rate

KEY = "llm:budget"
UNIT_MICROS = 10_000  # a cent
MAX_UNITS = 1_000_000_000  # the largest rate limit
MAX_PRICE = 1_000_000  # per million tokens; more is a mistake
USUAL_PRICES = "gpt-4o-mini=0.15/0.60"


class BadMoney(MayflyError):
    def __init__(self, name: str, must: str) -> None:
        super().__init__(f"{name}: must be {must}.")


@dataclass(frozen=True)
class Price:
    """In micros per token."""

    input: Decimal
    output: Decimal

    def cost_micros(self, input_tokens: int, output_tokens: int) -> int:
        return ceil(self.input * input_tokens + self.output * output_tokens)


def read_prices(text: str) -> dict[str, Price]:
    """Read prices separated by whitespace: model=0.15/0.60, per million tokens of input and output."""
    prices = {}
    for each in text.split():
        model, _, price = each.rpartition("=")
        try:
            asked, answered = map(Decimal, price.split("/"))
            is_price = bool(model) and 0 <= asked < MAX_PRICE and 0 <= answered < MAX_PRICE
        except (ValueError, InvalidOperation):
            is_price = False
        if not is_price:
            raise BadMoney("OPENAI_PRICES", "a list of model=0.15/0.60")
        prices[model] = Price(asked, answered)
    return prices


def limits_of(text: str) -> tuple[Any, ...]:
    """The monthly budget in units; empty if none is set, because limits have a cost."""
    return (rate(KEY, units_of(text), per="month"),) if text else ()


def units_of(text: str) -> int:
    try:
        units = int(Decimal(text) * 1_000_000 / UNIT_MICROS)
    except (InvalidOperation, ValueError, OverflowError):
        units = 0
    if not 1 <= units <= MAX_UNITS:
        raise BadMoney("OPENAI_BUDGET", "an amount of money per month, such as 25 or 0.50")
    return units


def units_missing(balance_micros: int, cost_micros: int) -> int:
    """The number of units to take before a call with this cost."""
    return max(0, ceil((cost_micros - balance_micros) / UNIT_MICROS))
