"""Print an invoice as PDF. The same content yields the same bytes."""

import os
from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any
from xml.sax.saxutils import escape

from handlers.mail.invoice_sums import Sums, add_up
from handlers.mail.payloads import Invoice
from mayfly import Dead, setting

try:
    from reportlab.lib import colors
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.styles import ParagraphStyle
    from reportlab.lib.units import mm
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFError, TTFont
    from reportlab.platypus import Flowable, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle
except ModuleNotFoundError:
    raise Dead("invoices need reportlab: pip install 'mayfly-jobs[invoice]'") from None

PLAIN = "Helvetica"  # built into every PDF reader; Western European characters only
SIZE = 9
GREY = colors.HexColor("#666666")
WIDTHS = [86 * mm, 22 * mm, 26 * mm, 14 * mm, 26 * mm]


def require_printable(texts: Iterable[str]) -> None:
    """Refuse characters that the font lacks: they would be printed as boxes."""
    known = characters_of(_font())
    for each in texts:
        missing = next((character for character in each if character not in known), None)
        if missing is not None:
            raise Dead(f"the font of invoices has no {missing!r}: set INVOICE_FONT to a TrueType font that has it")


def write_pdf(path: Path, number: str, content: dict[str, Any]) -> None:
    """Write the file atomically. An existing file is kept as sent: a newer library may print it differently."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        draft = Path(file.name)
        try:
            _print(file, number, content)
            file.flush()
            os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def _print(file: IO[bytes], number: str, content: dict[str, Any]) -> None:
    font = _font()

    def sign(canvas: Any, document: Any) -> None:
        canvas.setFont(font, SIZE - 1)
        canvas.drawCentredString(A4[0] / 2, 10 * mm, f"Invoice {number}, page {document.page}")

    document = SimpleDocTemplate(
        file, pagesize=A4, leftMargin=18 * mm, rightMargin=18 * mm, topMargin=18 * mm, bottomMargin=20 * mm,
        title=f"Invoice {number}", author=content["seller"][0], invariant=1, pageCompression=0,
    )  # fmt: skip
    document.build(_story(number, content, font), onFirstPage=sign, onLaterPages=sign)


def _story(number: str, content: dict[str, Any], font: str) -> list[Flowable]:
    invoice = Invoice.model_validate(content["invoice"])
    customer, issued_on = invoice.customer, date.fromisoformat(content["date"])
    due_on = issued_on + timedelta(days=invoice.due_days)
    facts = [f"Date: {issued_on}", f"Due: {due_on}", f"Reference: {invoice.reference}"]
    facts += [f"Your VAT id: {customer.vat_id}"] if customer.vat_id else []
    sums = add_up(invoice.items)
    return [
        *_lines(content["seller"], font),
        Spacer(1, 12 * mm),
        *_lines([customer.name, *customer.address], font),
        Spacer(1, 12 * mm),
        Paragraph(f"Invoice {number}", ParagraphStyle("heading", fontName=font, fontSize=16, leading=22)),
        *_lines(facts, font),
        Spacer(1, 6 * mm),
        _items(invoice, sums, font),
        Spacer(1, 4 * mm),
        _totals(invoice, sums, font),
        Spacer(1, 8 * mm),
        *_lines([invoice.note] if invoice.note else [], font),
    ]


def _items(invoice: Invoice, sums: Sums, font: str) -> Table:
    rows: list[list[Any]] = [["Item", "Quantity", f"Price ({invoice.currency})", "VAT", f"Net ({invoice.currency})"]]
    rows += [
        [_paragraph(each.text, font), f"{each.quantity:f}", _price(each.price), f"{each.vat:f} %", f"{line:,.2f}"]
        for each, line in zip(invoice.items, sums.lines, strict=True)
    ]
    return _table(rows, font, WIDTHS, [("LINEBELOW", (0, 0), (-1, 0), 0.5, GREY)], heads=1)


def _totals(invoice: Invoice, sums: Sums, font: str) -> Table:
    rows = [["Net", f"{sums.net:,.2f}"]]
    rows += [[f"VAT {each.rate:f} % on {each.net:,.2f}", f"{each.vat:,.2f}"] for each in sums.rates]
    rows += [[f"Total ({invoice.currency})", f"{sums.total:,.2f}"]]
    return _table(rows, font, [sum(WIDTHS[:-1]), WIDTHS[-1]], [("LINEABOVE", (0, -1), (-1, -1), 0.5, GREY)])


def _table(rows: list[list[Any]], font: str, widths: list[float], style: list[Any], heads: int = 0) -> Table:
    common: list[Any] = [
        ("FONT", (0, 0), (-1, -1), font, SIZE),
        ("ALIGN", (1, 0), (-1, -1), "RIGHT"),
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
    ]
    return Table(rows, widths, style=TableStyle([*common, *style]), repeatRows=heads)


def _lines(texts: Iterable[str], font: str) -> list[Flowable]:
    return [_paragraph(each, font) for each in texts]


def _paragraph(text: str, font: str) -> Paragraph:
    """Escape the text: reportlab interprets tags, and some of them load images or evaluate code."""
    return Paragraph(escape(text), ParagraphStyle("plain", fontName=font, fontSize=SIZE, leading=SIZE + 3))


def _price(price: Decimal) -> str:
    """Format with all decimals, at least two."""
    return f"{price:,.2f}" if price == round(price, 2) else f"{price:,f}"


def _font() -> str:
    """Register the font with reportlab and return its name."""
    path = setting("INVOICE_FONT", "")
    if not path:
        return PLAIN
    try:
        pdfmetrics.registerFont(TTFont(path, path))
    except (TTFError, OSError):
        raise Dead("INVOICE_FONT must be the path of a TrueType font") from None
    return path


def characters_of(font: str) -> set[str]:
    if font == PLAIN:
        known = (bytes([code]).decode("cp1252", "ignore") for code in range(32, 256))
        return {each for each in known if each.isprintable() and each}
    embedded: Any = pdfmetrics.getFont(font)
    return {chr(code) for code in embedded.face.charToGlyph}
