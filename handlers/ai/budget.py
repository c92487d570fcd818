"""What calls cost, and how a month's money becomes a limit: a unit of it is a cent, paid into a purse. Pure.

Money is counted in millionths: a price of 0.15 for a million tokens is 0.15 of them a token.
"""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import ceil
from typing import Any

from mayfly import MayflyError, rate

KEY = "llm:budget"
UNIT_MICROS = 10_000  # a cent
MOST_UNITS = 1_000_000_000  # what a limit can count
DEAREST = 1_000_000  # a token for one; what is more is a mistake
USUAL_PRICES = "gpt-4o-mini=0.15/0.60"


class BadMoney(MayflyError):
    def __init__(self, name: str, must: str) -> None:
        super().__init__(f"{name}: must be {must}.")


@dataclass(frozen=True)
class Price:
    """In millionths a token."""

    input: Decimal
    output: Decimal

    def cost_micros(self, input_tokens: int, output_tokens: int) -> int:
        return ceil(self.input * input_tokens + self.output * output_tokens)


def read_prices(text: str) -> dict[str, Price]:
    """Separated by white space: model=0.15/0.60, for a million tokens of the question and of the answer."""
    prices = {}
    for each in text.split():
        model, _, price = each.rpartition("=")
        try:
            asked, answered = map(Decimal, price.split("/"))
            is_price = bool(model) and 0 <= asked < DEAREST and 0 <= answered < DEAREST
        except (ValueError, InvalidOperation):
            is_price = False
        if not is_price:
            raise BadMoney("OPENAI_PRICES", "a list of model=0.15/0.60")
        prices[model] = Price(asked, answered)
    return prices


def limits_of(text: str) -> tuple[Any, ...]:
    """Of a month, in units; none where no budget is set, since a type with limits costs its runners something."""
    return (rate(KEY, units_of(text), per="month"),) if text else ()


def units_of(text: str) -> int:
    try:
        units = int(Decimal(text) * 1_000_000 / UNIT_MICROS)
    except (InvalidOperation, ValueError, OverflowError):
        units = 0
    if not 1 <= units <= MOST_UNITS:
        raise BadMoney("OPENAI_BUDGET", "an amount of money a month, such as 25 or 0.50")
    return units


def units_missing(balance_micros: int, most_micros: int) -> int:
    """How many must be paid in before a call that may cost so much."""
    return max(0, ceil((most_micros - balance_micros) / UNIT_MICROS))
