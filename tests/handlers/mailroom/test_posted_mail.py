"""Messages rebuilt from the forms of providers are parsed to what was sent."""

import json
from email.parser import BytesParser
from email.policy import SMTP

from hypothesis import given
from hypothesis import strategies as st

from handlers.mailroom.parsing import ParsedAttachment, parse_mail
from handlers.mailroom.posted_mail import PostedFile, from_mailgun, from_sendgrid
from handlers.mailroom.reports import bounce_of, type_of
from handlers.mailroom.tables import BOUNCE
from tests.handlers.mailroom.shapes import BOB, Dsn

HEADERS = [
    ["Received", "from mx by y"], ["Content-Type", 'multipart/mixed; boundary="gone"'], ["Mime-Version", "1.0"],
    ["Message-Id", "<one@example.com>"], ["From", "Bob Grün <bob@example.com>"], ["To", "ann@shop.example"],
    ["Subject", "Grüße"], ["In-Reply-To", "<ours@shop.example>"],
]  # fmt: skip
ONE_LINE = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), max_size=40)


def test_a_form_of_mailgun_becomes_the_message() -> None:
    """Its headers, both bodies and the attachments."""
    form = {"message-headers": json.dumps(HEADERS), "body-plain": "Dear Änn\n", "body-html": "<p>Dear Änn</p>"}
    files = [PostedFile("Angebot für Sie.pdf", "application/pdf", b"%PDF"), PostedFile("", "no type", b"\0\xff")]

    mail = parse_mail(from_mailgun(form, files))

    assert (mail.message_id, mail.in_reply_to, mail.subject) == ("one@example.com", "ours@shop.example", "Grüße")
    assert (mail.from_address, mail.to_addresses) == (BOB, ("ann@shop.example",))
    assert (mail.text.strip(), mail.html.strip(), mail.defects) == ("Dear Änn", "<p>Dear Änn</p>", ())
    assert mail.attachments == (
        ParsedAttachment("Angebot für Sie.pdf", "application/pdf", b"%PDF"),
        ParsedAttachment("", "application/octet-stream", b"\0\xff"),
    )


def test_a_form_of_sendgrid_becomes_the_message() -> None:
    """With folded headers, fields in their own character sets, and the types of attachment-info."""
    form = {
        "headers": "Message-ID: <one@example.com>\nReferences: <a@x>\n <b@x>\nMIME-Version: 1.0\n"
        "Content-Type: multipart/mixed;\n boundary=gone\n",
        "from": BOB, "to": "ann@shop.example", "subject": "Hello",
        "text": "Привет".encode("koi8-r").decode("latin-1"), "html": "<p>Привет</p>",
        "charsets": '{"text": "koi8-r", "html": "UTF-8", "subject": "UTF-8"}',
        "attachment-info": '{"attachment1": {"filename": "a.txt", "type": "text/plain"}}',
    }  # fmt: skip

    mail = parse_mail(from_sendgrid(form, {"attachment1": PostedFile("x", "application/octet-stream", b"Hi")}))

    assert (mail.message_id, mail.references, mail.from_address) == ("one@example.com", ("a@x", "b@x"), BOB)
    assert (mail.text.strip(), mail.html.strip(), mail.defects) == ("Привет", "<p>Привет</p>", ())
    assert mail.attachments == (ParsedAttachment("a.txt", "text/plain", b"Hi"),)


def test_a_bounce_that_a_provider_has_parsed_is_a_bounce() -> None:
    """Its report is an attachment then."""
    dsn = BytesParser(policy=SMTP).parsebytes(Dsn(recipient=f"rfc822; {BOB}").raw())
    [report] = [part for part in dsn.walk() if part.get_content_type() == "message/delivery-status"]
    content = report.as_bytes().partition(b"\r\n\r\n")[2]
    files = [PostedFile("", "message/delivery-status", content)]

    mail = parse_mail(from_mailgun({"message-headers": json.dumps(HEADERS), "body-plain": "Undelivered"}, files))

    assert type_of(mail) == BOUNCE
    assert [(each.address, each.kind) for each in bounce_of(mail).failures] == [(BOB, "hard")]


@given(
    st.dictionaries(st.sampled_from(["message-headers", "body-plain", "body-html", "from", "headers"]), st.text()),
    st.lists(st.tuples(st.text(max_size=9), st.text(max_size=20), st.binary(max_size=99)), max_size=3),
    ONE_LINE,
)
def test_any_form_becomes_a_message(form: dict[str, str], files: list[tuple[str, str, bytes]], subject: str) -> None:
    """The same one each time. No value of a field becomes another header or part."""
    posted = [PostedFile(*each) for each in files]
    filled = {**form, "subject": subject}

    raw = from_mailgun(filled, posted)
    from_sendgrid(filled, dict(zip("abc", posted, strict=False)))
    mail = parse_mail(raw)

    assert from_mailgun(filled, posted) == raw
    assert mail.subject == " ".join(subject.split())
    assert len(mail.attachments) == len(files)
    assert mail.header("mime-version") == "1.0"
