"""The sums of an invoice, and its payload."""

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from handlers.mail.invoice_sums import add_up, cents
from handlers.mail.payloads import Invoice, Item
from tests.handlers.mail.invoices import ROSES, make_invoice
from tests.hypothesis_profiles import in_full

# --- sums -------------------------------------------------------------------------------------------------


def amounts(digits: int, places: int, least: int) -> st.SearchStrategy[Decimal]:
    most = Decimal(10 ** (digits - places)) - Decimal(1).scaleb(-places)
    return st.decimals(-most if least < 0 else Decimal(least).scaleb(-places), most, places=places)


ITEMS = st.builds(
    lambda quantity, price, vat: Item.model_validate(
        {"text": "x", "quantity": str(quantity), "price": str(price), "vat": str(vat)}
    ),
    amounts(10, 4, 1), amounts(12, 4, -1), st.decimals(0, 100, places=2),
)  # fmt: skip


@in_full(50)
@given(st.lists(ITEMS, min_size=1, max_size=30))
def test_no_cent_is_lost(items: list[Item]) -> None:
    """Lines and VAT add up to the total; each differs from the exact value by at most half a cent."""
    sums = add_up(items)

    assert sum(sums.lines) + sum(each.vat for each in sums.rates) == sums.total == sums.net + sums.vat
    assert sum(each.net for each in sums.rates) == sums.net
    half = Fraction(1, 200)
    for item, line in zip(items, sums.lines, strict=True):
        assert abs(Fraction(line) - Fraction(item.quantity) * Fraction(item.price)) <= half
    for each in sums.rates:
        assert abs(Fraction(each.vat) - Fraction(each.net) * Fraction(each.rate) / 100) <= half
    assert Fraction(cents(sums.total), 100) == Fraction(sums.total)


@pytest.mark.parametrize(
    ("quantity", "price", "net"),
    [
        ("1", "0.005", "0.01"),
        ("1", "-0.005", "-0.01"),
        ("3", "0.335", "1.01"),
        ("1", "-0.001", "0.00"),
        ("0.5", "0.01", "0.01"),
    ],
)
def test_half_a_cent_is_rounded_away_from_zero(quantity: str, price: str, net: str) -> None:
    """For discounts too; zero has no sign."""
    item = Item.model_validate({"text": "x", "quantity": quantity, "price": price, "vat": "0"})

    assert str(add_up([item]).lines[0]) == net


def test_vat_is_computed_per_rate() -> None:
    """On the sum of the lines of a rate: 3 × 0.09 is 0.27, not 3 × 0.1."""
    items = [Item.model_validate({"text": "x", "price": "0.48", "vat": vat}) for vat in ("19", "19.00", "19", "7")]

    sums = add_up(items)

    assert [(str(each.rate), str(each.net), str(each.vat)) for each in sums.rates] == [
        ("19", "1.44", "0.27"), ("7", "0.48", "0.03"),
    ]  # fmt: skip
    assert str(sums.total) == "2.22"


# --- validation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"price": 19.99}, {"price": "NaN"}, {"price": "Infinity"}, {"price": True}, {"price": "1e9"},
        {"price": "0.00001"}, {"quantity": "0"}, {"quantity": "-1"}, {"vat": "101"}, {"vat": "-1"},
        {"text": ""}, {"text": "a\nb"}, {"text": "\ud800"}, {"discount": "1"},
    ],
)  # fmt: skip
def test_invalid_amounts_are_refused(change: dict[str, Any]) -> None:
    """When it is enqueued; floats too."""
    with pytest.raises(ValidationError):
        Item.model_validate({**ROSES, **change})


ANY = (
    st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.lists(st.text()) | st.decimals().map(str)
)


@in_full(50)
@given(st.fixed_dictionaries({"text": ANY, "price": ANY, "vat": ANY, "quantity": ANY}), ANY)
def test_any_payload_is_refused_or_added_up(item: dict[str, Any], note: object) -> None:
    """A valid one survives JSON and has sums."""
    try:
        invoice = Invoice.model_validate(make_invoice(items=[ROSES, {**ROSES, **item}], note=note))
    except ValidationError:
        return

    assert Invoice.model_validate(json.loads(invoice.model_dump_json())) == invoice
    assert add_up(invoice.items).total.is_finite()
