"""Payloads of invoices for tests."""

from typing import Any

CUSTOMER = {"name": "Bob & Söhne <b>", "email": "bob@example.com", "address": ["Street 1", "12345 Berlin"]}
ROSES = {"text": "Roses", "quantity": "3", "price": "19.99", "vat": "19"}


def make_invoice(reference: str = "order:1", **changes: Any) -> dict[str, Any]:
    return {"reference": reference, "customer": CUSTOMER, "items": [ROSES], **changes}
