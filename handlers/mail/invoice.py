"""Issue an invoice: one number per reference, without gaps; write its PDF; enqueue an email with it."""

import json
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlalchemy import Connection, insert, select, update

from handlers.mail.invoice_pdf import require_printable, write_pdf
from handlers.mail.invoice_sums import add_up, cents
from handlers.mail.payloads import Invoice
from handlers.mail.tables import invoice_years, invoices
from handlers.upsert import insert_missing
from mayfly import Dead, Job, enqueue, setting


class IssuedInvoice(NamedTuple):
    """As stored; `content` is JSON with everything that is printed."""

    year: int
    number: int
    content: str

    @property
    def name(self) -> str:
        return f"{self.year}-{self.number:04d}"


def send(job: Job, invoice: Invoice) -> dict[str, str]:
    folder = Path(setting("MAIL_ATTACHMENTS"))
    if not folder.is_absolute():  # the working directory under cron is arbitrary
        raise Dead("MAIL_ATTACHMENTS must be an absolute path")
    seller = setting("INVOICE_SELLER").replace("\\n", "\n").splitlines()
    require_printable([*seller, *texts_of(invoice)])  # before it gets its final number
    today = job.now.astimezone(_zone())
    issued = job.write(partial(issue, invoice=invoice, seller=seller, today=today, now=job.now))
    content = json.loads(issued.content)
    if Invoice.model_validate(content["invoice"]) != invoice:  # by value: 1.0 and 1.00 are the same price
        raise Dead(f"{invoice.reference} was issued as {issued.name} with other content: use another reference")
    path = f"invoices/{issued.year}/{issued.name}.pdf"
    write_pdf(folder / path, issued.name, content)
    key = f"invoice:{issued.name}"
    enqueue("send_email", {**_mail(invoice, issued, path), "key": key}, unique_key=key)
    return {"number": issued.name, "path": path, "total": str(add_up(invoice.items).total)}


def issue(
    connection: Connection, invoice: Invoice, seller: list[str], today: datetime, now: datetime
) -> IssuedInvoice:
    """Return the invoice of this reference; issue it if it does not exist.

    The row of the year is locked until the commit: no number is used twice, and a rollback releases the number. A
    concurrent job with the same reference violates the unique index, is repeated, and finds the invoice.
    """
    stored = select(invoices.c.year, invoices.c.number, invoices.c.content)
    found = connection.execute(stored.where(invoices.c.reference == invoice.reference)).first()
    if found is not None:
        return IssuedInvoice._make(found)
    sums = add_up(invoice.items)
    content = {"date": today.date().isoformat(), "seller": seller, "invoice": invoice.model_dump(mode="json")}
    number = _next_number(connection, today.year)
    issued = IssuedInvoice(today.year, number, json.dumps(content, ensure_ascii=False))
    connection.execute(
        insert(invoices).values(
            **issued._asdict(), reference=invoice.reference, currency=invoice.currency, net=cents(sums.net),
            vat=cents(sums.vat), total=cents(sums.total), issued_at=now,
        )
    )  # fmt: skip
    return issued


def _next_number(connection: Connection, year: int) -> int:
    this_year = invoice_years.c.year == year
    count_up = update(invoice_years).where(this_year).values(last_number=invoice_years.c.last_number + 1)
    if not connection.execute(count_up).rowcount:  # the first invoice of the year
        insert_missing(connection, invoice_years, {"year": year, "last_number": 0})
        connection.execute(count_up)
    return int(connection.execute(select(invoice_years.c.last_number).where(this_year)).scalar_one())


def texts_of(invoice: Invoice) -> list[str]:
    customer = invoice.customer
    own = [customer.name, *customer.address, customer.vat_id or "", invoice.note or "", invoice.reference]
    return [*own, *(each.text for each in invoice.items)]


def _zone() -> ZoneInfo:
    """The time zone of the invoice's date and year."""
    name = setting("INVOICE_TIMEZONE", "UTC")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Dead("INVOICE_TIMEZONE must be the name of a time zone, such as Europe/Berlin") from None


def _mail(invoice: Invoice, issued: IssuedInvoice, path: str) -> dict[str, Any]:
    attached = {"path": path, "name": f"invoice-{issued.name}.pdf", "type": "application/pdf"}
    return {
        "to": invoice.customer.email,
        "subject": f"Invoice {issued.name}",
        "text": f"Dear {invoice.customer.name},\n\nplease find attached invoice {issued.name}.\n",
        "attachments": [attached],
    }
