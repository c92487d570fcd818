"""The payloads of emails, digests and invoices. No field can inject a header."""

import re
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    model_validator,
)

from handlers.payloads import DEFAULT_TENANT, EffectName, Id, Line, Payload, Tenant, one_line

LINK = r"^(https?://|mailto:)[!-;=?-~]+$"  # printable ASCII except < and >
ADDRESS = r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$"
Address = Annotated[str, StringConstraints(pattern=ADDRESS, max_length=190)]
Link = Annotated[str, StringConstraints(pattern=LINK, max_length=600)]


def is_address(text: str) -> bool:
    """Whether an address from a table is valid."""
    return re.fullmatch(ADDRESS, text) is not None


class Attachment(Payload):
    """A file below MAIL_ATTACHMENTS: its path, not its content. All files of an email may have 20 MiB together."""

    path: Line
    name: Line | None = None
    type: Annotated[str, StringConstraints(pattern=r"^[a-z0-9.+-]+/[a-z0-9.+-]+$")] = "application/octet-stream"


class Mail(Payload):
    """Either with a subject and texts of its own, or with a stored template."""

    to: Address
    subject: Line | None = None
    template: Annotated[Line, StringConstraints(min_length=1, max_length=190)] | None = None  # of app_templates
    text: str | None = None
    html: str | None = None
    context: dict[str, Any] | None = None  # with it, subject, text and html are Jinja2 templates
    reply_to: Address | None = None
    unsubscribe: Link | None = None  # sent as List-Unsubscribe; no such email is sent to a suppressed address
    attachments: Annotated[list[Attachment], Field(default_factory=list, max_length=20)]
    key: EffectName | None = None  # all jobs with this key send one email
    tenant_id: Tenant = DEFAULT_TENANT

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.subject is None) == (self.template is None):
            raise ValueError("needs either a subject or a template")
        if self.template is not None and (self.text, self.html) != (None, None):
            raise ValueError("with a template, text and html are not allowed")
        return self


class Digest(Payload):
    """For one person, or for all people with news."""

    person: Id | None = None


def exact(value: object) -> object:
    """Amounts are strings: JSON's 0.1 would become a binary float."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError('must be a string such as "19.99", or an integer')  # noqa: TRY004 - pydantic expects a ValueError
    return value


ShortLine = Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(one_line)]
Currency = Literal["CHF", "CZK", "DKK", "EUR", "GBP", "NOK", "PLN", "RON", "SEK", "USD"]  # all with two decimals
Exact = Annotated[Decimal, BeforeValidator(exact)]


class Customer(Payload):
    name: ShortLine
    email: Address
    address: Annotated[list[ShortLine], Field(min_length=1, max_length=6)]
    vat_id: ShortLine | None = None


class Item(Payload):
    """Its net price; a discount has a negative one. `vat` is in percent."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=300), AfterValidator(one_line)]
    quantity: Annotated[Exact, Field(gt=0, max_digits=10, decimal_places=4)] = Decimal(1)
    price: Annotated[Exact, Field(max_digits=12, decimal_places=4)]
    vat: Annotated[Exact, Field(ge=0, le=100, max_digits=5, decimal_places=2)]


class Invoice(Payload):
    """The printed content, except number, date and seller."""

    # The application's own id: one invoice per reference.
    reference: Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(one_line)]
    customer: Customer
    items: Annotated[list[Item], Field(min_length=1, max_length=200)]
    currency: Currency = "EUR"
    due_days: Annotated[int, Field(strict=True, ge=0, le=365)] = 14
    note: Line | None = None
