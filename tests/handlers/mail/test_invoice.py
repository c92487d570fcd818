"""Invoices: numbered without gaps, exact to the cent, the same number and bytes for the same invoice."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from handlers.mail.invoice import IssuedInvoice, issue
from handlers.mail.invoice_pdf import PLAIN, characters_of, write_pdf
from handlers.mail.payloads import Invoice
from mayfly.db.database import Database
from mayfly.testing import Run, assert_enqueued, run_inline
from tests.factories import NOON
from tests.handlers.community import Community
from tests.handlers.mail.invoices import CUSTOMER, ROSES, make_invoice
from tests.hypothesis_profiles import in_full

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAIL_ATTACHMENTS", str(tmp_path))
    monkeypatch.setenv("INVOICE_SELLER", "Shop Ltd\\nMain Street 2\\nVAT id GB123")
    return tmp_path


def send(reference: str = "order:1", **changes: Any) -> Run:
    return run_inline("send_invoice", make_invoice(reference, **changes))


@pytest.mark.every_database
def test_a_repeated_invoice_is_the_same(community: Community, files: Path) -> None:
    """One number, one file, one mail. On every database."""
    first = send()
    path = files / first.result["path"]
    printed = path.read_bytes()
    path.unlink()

    again = send()

    assert first.result == {"number": f"{community.now().year}-0001", "path": again.result["path"], "total": "71.36"}
    assert (again.result, path.read_bytes() == printed) == (first.result, True)
    [mail] = assert_enqueued("send_email", count=1, unique_key=f"invoice:{first.result['number']}")
    assert mail.payload["attachments"][0]["path"] == first.result["path"]
    assert (mail.payload["to"], mail.payload["key"]) == ("bob@example.com", mail.unique_key)
    assert community.rows("SELECT number, net, vat, total FROM app_invoices") == [(1, 5997, 1139, 7136)]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@SQLITE
def test_all_fields_are_printed(community: Community, files: Path) -> None:
    """Everything, with user input as text and not as tags."""
    page = (files / send(note="Thank you").result["path"]).read_bytes().decode("latin-1")

    for each in ("Shop Ltd", "Main Street 2", "Bob & S\\366hne <b>", "12345 Berlin", "Roses", "19.99", "59.97",
                 "VAT 19 % on 59.97", "11.39", "71.36", "Thank you", "Reference: order:1"):  # fmt: skip
        assert each in "".join(re.findall(r"\((.*?)\) Tj", page)), each


@SQLITE
def test_an_existing_file_is_kept(community: Community, files: Path) -> None:
    """Even if a newer library would print it differently."""
    path = files / send().result["path"]
    path.write_bytes(b"as it was sent")

    send()

    assert path.read_bytes() == b"as it was sent"


@SQLITE
def test_a_long_invoice_has_pages(community: Community, files: Path) -> None:
    """Many items with long texts and long words."""
    items = [{**ROSES, "text": "W" * 300 if number % 9 else "Rose " * 60} for number in range(150)]

    run = send(items=items)

    assert b"page 9" in (files / run.result["path"]).read_bytes()


@SQLITE
def test_an_invoice_is_not_changed(community: Community) -> None:
    """Other content with the same reference is refused; the same price in another notation is no change."""
    send()

    same = send(items=[{**ROSES, "price": "19.9900", "quantity": 3}])
    other = run_inline("send_invoice", make_invoice(items=[{**ROSES, "price": "19.98"}]))

    assert same.kind == "done"
    assert (other.kind, str(other.reason).partition(" was issued as ")[0]) == ("dead", "order:1")
    assert community.rows("SELECT COUNT(*) FROM app_invoices") == [(1,)]


@SQLITE
def test_each_year_counts_from_one(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the time zone of the settings."""
    monkeypatch.setenv("INVOICE_TIMEZONE", "Europe/Berlin")
    names = []
    for number, at in enumerate(["2026-12-31 22:59:59", "2026-12-31 23:00:00", "2027-01-01 12:00:00"]):
        with freeze_time(at):
            names.append(send(f"order:{number}").result["number"])

    assert names == ["2026-0001", "2027-0001", "2027-0002"]


@pytest.mark.every_database
def test_numbers_have_no_gaps_under_concurrency(platform_url: str) -> None:
    """Each reference once, although two threads issue each, and some transactions fail. On every database."""

    def number(work: int) -> int:
        invoice = Invoice.model_validate(make_invoice(f"order:{work % 12}"))
        database = Database(platform_url)

        def number_of(connection: Connection) -> IssuedInvoice:
            return issue(connection, invoice, ["Shop"], NOON, NOON)

        try:
            with suppress(ConnectionError):
                if work % 5 == 0:
                    database.run_sqlalchemy(lambda connection: fail_after(number_of(connection)))
            return database.run_sqlalchemy(number_of).number
        finally:
            database.close()

    def fail_after(issued: IssuedInvoice) -> None:
        raise ConnectionError(issued.name)

    with ThreadPoolExecutor(4) as pool:
        numbers = list(pool.map(number, range(24)))

    assert sorted(set(numbers)) == list(range(1, 13))
    assert all(numbers[work] == numbers[work + 12] for work in range(12))


@SQLITE
@pytest.mark.parametrize(
    ("setting", "value", "changes", "why"),
    [
        ("INVOICE_TIMEZONE", "Berlin", {}, "INVOICE_TIMEZONE must be the name of a time zone"),
        ("INVOICE_FONT", "/nonexistent.ttf", {}, "INVOICE_FONT must be the path of a TrueType font"),
        ("INVOICE_FONT", "", {"note": "Спасибо"}, "the font of invoices has no 'С'"),
        ("MAIL_ATTACHMENTS", "invoices", {}, "MAIL_ATTACHMENTS must be an absolute path"),
    ],
)
def test_an_unprintable_invoice_gets_no_number(
    community: Community, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, changes: dict[str, Any], why: str
) -> None:
    """A number without an invoice would be a gap."""
    monkeypatch.setenv(setting, value)

    run = run_inline("send_invoice", make_invoice(**changes))

    assert (run.kind, why in str(run.reason)) == ("dead", True), run.reason
    assert community.rows("SELECT COUNT(*) FROM app_invoices") == [(0,)]


@SQLITE
def test_a_missing_library_is_an_error_message(community: Community, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the package to install; the invoice gets no number."""
    for name in [each for each in sys.modules if each.startswith(("reportlab", "handlers.mail.invoice"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "reportlab", None)

    run = run_inline("send_invoice", make_invoice())

    assert (run.kind, run.reason) == ("dead", "invoices need reportlab: pip install 'mayfly-jobs[invoice]'")
    assert community.rows("SELECT COUNT(*) FROM app_invoices") == [(0,)]


@SQLITE
def test_other_characters_need_another_font(
    community: Community, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any TrueType font, embedded as a subset; the same bytes each time."""
    import reportlab

    monkeypatch.setenv("INVOICE_FONT", str(Path(reportlab.__file__).parent / "fonts" / "Vera.ttf"))
    path = files / send(note="Ł").result["path"]
    printed = path.read_bytes()
    path.unlink()

    send(note="Ł")

    assert b"FontFile2" in printed
    assert path.read_bytes() == printed


@in_full(50)
@given(st.text(st.sampled_from(sorted(characters_of(PLAIN))), min_size=1, max_size=100))
def test_any_text_is_printed(files: Path, text: str) -> None:
    """Tags, entities, long words."""
    item = {**ROSES, "text": text * 3}
    invoice = Invoice.model_validate(make_invoice(items=[item], note=text, customer={**CUSTOMER, "name": text}))
    path = files / "printed.pdf"
    path.unlink(missing_ok=True)

    write_pdf(path, "2026-0001", {"date": "2026-05-04", "seller": [text], "invoice": invoice.model_dump(mode="json")})

    assert path.read_bytes().endswith(b"%%EOF\n")
