"""Parsing of messages of any quality, and what they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.mailroom.bodies import html_from_text, text_from_html
from handlers.mailroom.parsing import MAX_BODY_BYTES, ParsedMail, parse_mail, short_id
from handlers.mailroom.reports import bounce_of, complaint_of, type_of
from tests.handlers.mailroom.shapes import SHAPES, Shape, message
from tests.hypothesis_profiles import in_full


@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_is_read_as_it_is_meant(name: str) -> None:
    """Type, subject, bodies, attachments, and what is wrong with it."""
    shape = SHAPES[name]

    mail = parse_mail(shape.raw())

    assert type_of(mail, shape.sender) == shape.type
    assert shape.subject in (None, mail.subject)
    assert shape.text is None or (shape.text in mail.text and bool(mail.text) == bool(shape.text))
    assert shape.html is None or shape.html in mail.html
    attached = tuple((each.name, each.content_type) for each in mail.attachments)
    assert attached == shape.attachments or shape.type not in ("plain", "reply") or shape.is_flagged
    assert set(shape.defects) <= set(mail.defects)
    assert shape.is_flagged in (None, bool(mail.defects))
    assert_storable(mail)


@pytest.mark.parametrize("name", [name for name, each in SHAPES.items() if each.type == "bounce"])
def test_each_bounce_names_its_recipients(name: str) -> None:
    """With kind and code, and the email that was not delivered."""
    shape = SHAPES[name]

    report = bounce_of(parse_mail(shape.raw()))

    found = tuple((each.address, each.kind, each.code) for each in report.failures)
    assert found == shape.failures or not is_known(shape)
    assert shape.original is None or shape.original in report.original_ids


def is_known(shape: Shape) -> bool:
    return bool(shape.failures) or "delivery-status" in shape.raw().decode("utf-8", "replace")


def test_a_report_that_it_is_no_spam_is_not_a_complaint() -> None:
    """The other reports are."""
    reports = {name: complaint_of(parse_mail(SHAPES[name].raw())) for name in ("arf", "arf: not spam")}

    assert reports["arf"] is not None
    assert reports["arf: not spam"] is None


def test_copies_that_took_different_ways_have_one_fingerprint() -> None:
    """Servers add lines at the top, and encode the text anew. Another text is another message."""
    first = parse_mail(message("Grüße"))
    copy = parse_mail(
        b"Received: from mx\r\nDelivered-To: x@y\r\n" + message("Gr=C3=BC=C3=9Fe", encoding="quoted-printable")
    )
    other = parse_mail(message("Grüße!"))

    assert first.fingerprint == copy.fingerprint
    assert first.fingerprint != other.fingerprint


@in_full(150)
@given(st.binary(max_size=2000))
def test_no_bytes_stop_the_parser(raw: bytes) -> None:
    """Any bytes are a message."""
    mail = parse_mail(raw)

    type_of(mail), bounce_of(mail), complaint_of(mail)
    assert_storable(mail)


PIECES = st.sampled_from(
    [
        b"Content-Type: ", b"multipart/mixed; boundary=b", b"multipart/report; boundary=b",
        b"text/html; charset=utf-8", b"message/rfc822", b"message/delivery-status", b"\r\n", b"\r\n\r\n", b"--b\r\n",
        b"--b--\r\n", b"=?utf-8?q?=C3=BC?=", b"Subject: ", b"From: ", b"<a@b>", b"Message-ID: ", b"In-Reply-To: ",
        b"Content-Transfer-Encoding: base64", b"Content-Disposition: attachment; filename*=utf-8''%FF",
        b"Action: failed",
        b"Final-Recipient: rfc822; ", b"Status: 5.1.1", b"\x00", b"\xff\xfe", b"=", b";", b'"', b"(", b"<p>", b"\t ",
    ]
)  # fmt: skip


@in_full(250)
@given(st.lists(st.one_of(PIECES, st.binary(max_size=8)), max_size=60))
def test_no_mime_stops_the_parser(pieces: list[bytes]) -> None:
    """Messages that are made of the pieces of real ones."""
    mail = parse_mail(b"".join(pieces))

    type_of(mail), bounce_of(mail), complaint_of(mail)
    assert_storable(mail)


@in_full(100)
@given(st.text(max_size=300))
def test_text_survives_the_way_to_html_and_back(text: str) -> None:
    """All its words are shown, and none becomes markup."""
    words = text.encode("utf-8", "replace").decode().split()
    plain = " ".join(word for word in words if word.isprintable())

    shown = text_from_html(html_from_text(plain))

    assert shown.split() == plain.split()


def assert_storable(mail: ParsedMail) -> None:
    """Every database and JSON can store it."""
    texts = [mail.subject, mail.text, mail.html, mail.from_address, *mail.to_addresses, *sum(mail.headers, ())]
    texts += [each.name for each in mail.attachments] + [each.content_type for each in mail.attachments]
    for each in texts:
        assert "\x00" not in each
        each.encode()
    assert max(len(mail.text.encode()), len(mail.html.encode())) <= MAX_BODY_BYTES
    assert 0 < len(mail.message_id) <= 255
    assert short_id(mail.message_id) == mail.message_id
