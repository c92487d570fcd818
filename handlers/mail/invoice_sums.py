"""Compute the sums of an invoice. Pure, in decimal arithmetic.

Each line is rounded to cents, half a cent away from zero. So is the VAT of each rate, on the sum of its lines. All
other figures are sums of rounded values, so the totals add up.
"""

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from handlers.mail.payloads import Item

CENT = Decimal("0.01")


class RateSum(NamedTuple):
    """All lines with one VAT rate."""

    rate: Decimal
    net: Decimal
    vat: Decimal


class Sums(NamedTuple):
    lines: tuple[Decimal, ...]  # net, in the order of the items
    rates: tuple[RateSum, ...]  # by rate, the highest first

    @property
    def net(self) -> Decimal:
        return sum(self.lines, Decimal("0.00"))

    @property
    def vat(self) -> Decimal:
        return sum((each.vat for each in self.rates), Decimal("0.00"))

    @property
    def total(self) -> Decimal:
        return self.net + self.vat


def add_up(items: Iterable[Item]) -> Sums:
    given = list(items)
    lines = tuple(_rounded(each.quantity * each.price) for each in given)
    nets: dict[Decimal, Decimal] = {}
    for item, line in zip(given, lines, strict=True):
        nets[item.vat] = nets.get(item.vat, Decimal("0.00")) + line
    rates = (RateSum(rate, net, _rounded(net * rate / 100)) for rate, net in sorted(nets.items(), reverse=True))
    return Sums(lines, tuple(rates))


def cents(amount: Decimal) -> int:
    """The cents of a rounded amount."""
    return int(amount.scaleb(2))


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(CENT, ROUND_HALF_UP) + 0  # + 0: no minus sign on zero
