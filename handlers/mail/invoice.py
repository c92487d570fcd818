"""Issue an invoice: a number for its reference, once and without gaps; its PDF; and the mail that carries it."""

import json
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from handlers.mail import tables
from handlers.mail.invoice_pdf import require_printable, write_pdf
from handlers.mail.invoice_sums import add_up, cents
from handlers.mail.payloads import Invoice
from mayfly import Dead, Job, enqueue, setting


class Issued(NamedTuple):
    """What was written down when it got its number; all that is printed is in the content."""

    year: int
    number: int
    content: str

    @property
    def name(self) -> str:
        return f"{self.year}-{self.number:04d}"


def send(job: Job, invoice: Invoice) -> dict[str, str]:
    folder = Path(setting("MAIL_ATTACHMENTS"))
    if not folder.is_absolute():  # cron starts anywhere
        raise Dead("MAIL_ATTACHMENTS must be an absolute path")
    seller = setting("INVOICE_SELLER").replace("\\n", "\n").splitlines()
    require_printable([*seller, *texts_of(invoice)])  # before it has a number, which nothing can take back
    today = job.now.astimezone(_zone())
    issued = job.write(partial(issue, invoice=invoice, seller=seller, today=today, now=job.now))
    content = json.loads(issued.content)
    if Invoice.model_validate(content["invoice"]) != invoice:  # by value: 1.0 and 1.00 are the same price
        raise Dead(f"{invoice.reference} was issued as {issued.name}, and says something else: issue another one")
    path = f"invoices/{issued.year}/{issued.name}.pdf"
    write_pdf(folder / path, issued.name, content)
    key = f"invoice:{issued.name}"
    enqueue("send_email", {**_mail(invoice, issued, path), "key": key}, unique_key=key)
    return {"number": issued.name, "path": path, "total": str(add_up(invoice.items).total)}


def issue(connection: Any, invoice: Invoice, seller: list[str], today: datetime, now: datetime) -> Issued:
    """The invoice of this reference, now or earlier.

    Whoever numbers holds the row of the year until the commit: no number is taken twice, and none is left out, since
    one that was counted and not used is rolled back with all else. A rival with the same reference fails at its
    unique index, is repeated, and finds it.
    """
    found = connection.execute(tables.INVOICE, {"reference": invoice.reference}).first()
    if found is not None:
        return Issued(*found)
    year = {"year": today.year, "last_number": 0}
    connection.execute(connection.dialect.insert_missing("app_invoice_years", ("year",), tables.YEAR_COLUMNS), year)
    connection.execute(tables.NEXT_NUMBER, year)
    number = connection.execute(tables.LAST_NUMBER, year).scalar()
    sums = add_up(invoice.items)
    content = {"date": today.date().isoformat(), "seller": seller, "invoice": invoice.model_dump(mode="json")}
    issued = Issued(today.year, number, json.dumps(content, ensure_ascii=False))
    row = {
        "reference": invoice.reference, **issued._asdict(), "currency": invoice.currency, "net": cents(sums.net),
        "vat": cents(sums.vat), "total": cents(sums.total), "issued_at": now,
    }  # fmt: skip
    connection.execute(connection.dialect.insert("app_invoices", tables.INVOICE_COLUMNS), row)
    return issued


def texts_of(invoice: Invoice) -> list[str]:
    customer = invoice.customer
    own = [customer.name, *customer.address, customer.vat_id or "", invoice.note or "", invoice.reference]
    return [*own, *(each.text for each in invoice.items)]


def _zone() -> ZoneInfo:
    """Whose day and year it is."""
    name = setting("INVOICE_TIMEZONE", "UTC")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Dead("INVOICE_TIMEZONE must be the name of a time zone, such as Europe/Berlin") from None


def _mail(invoice: Invoice, issued: Issued, path: str) -> dict[str, Any]:
    attached = {"path": path, "name": f"invoice-{issued.name}.pdf", "type": "application/pdf"}
    return {
        "to": invoice.customer.email,
        "subject": f"Invoice {issued.name}",
        "text": f"Dear {invoice.customer.name},\n\nplease find attached invoice {issued.name}.\n",
        "attachments": [attached],
    }
