"""Mail that providers post to a real console: accepted with their signature only, and stored before the response."""

import hmac
import json
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from urllib3.filepost import encode_multipart_formdata

from tests.databases import Databases
from tests.handlers.conftest import migrate_all
from tests.handlers.mailroom.office import MailOffice
from tests.handlers.mailroom.provider_requests import Happened, mailgun
from tests.handlers.mailroom.shapes import BOB, message
from tests.handlers.process.installation import HandlersInstallation
from tests.process.console.api import Answer, Api

FormValue = str | tuple[str, bytes, str]  # a file has a name and a type
KEY = generate_private_key(SECP256R1())
PUBLIC_KEY = b64encode(KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()
SIGNING_KEY = "key-123"
MAILGUN, MAILGUN_PARSED, SENDGRID = "/hooks/mail/mailgun/mime", "/hooks/mail/mailgun", "/hooks/mail/sendgrid"


@pytest.fixture(scope="module")
def console(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with databases.fresh("sqlite", migrate_all) as url:
        installation = HandlersInstallation(tmp_path_factory.mktemp("console"), url)
        settings = {"MAILGUN_SIGNING_KEY": SIGNING_KEY, "SENDGRID_PUBLIC_KEY": PUBLIC_KEY}
        yield Api(installation, settings)
        installation.end()


def signed_by_mailgun(age_seconds: int = 0, key: str = SIGNING_KEY) -> dict[str, FormValue]:
    timestamp, token = str(int(time.time()) - age_seconds), "token-1"
    signature = hmac.new(key.encode(), f"{timestamp}{token}".encode(), sha256).hexdigest()
    return {"timestamp": timestamp, "token": token, "signature": signature}


def mailgun_form(text: str, age_seconds: int = 0, key: str = SIGNING_KEY) -> dict[str, FormValue]:
    """As Mailgun posts it to a route whose address ends with `mime`."""
    signed, envelope = signed_by_mailgun(age_seconds, key), {"recipient": "ann@shop.example", "sender": BOB}
    return {**signed, **envelope, "body-mime": message(text).decode()}


def parsed_by_mailgun(text: str) -> dict[str, FormValue]:
    """As Mailgun posts it to any other address."""
    headers = json.dumps([["Message-Id", f"<{text}@example.com>"], ["From", BOB], ["Subject", "Hello"]])
    envelope = {"recipient": "ann@shop.example", "sender": BOB, "from": BOB, "subject": "Hello"}
    file: dict[str, FormValue] = {"attachment-count": "1", "attachment-1": ("offer.pdf", b"%PDF", "application/pdf")}
    return {**signed_by_mailgun(), **envelope, "body-plain": text, "message-headers": headers, **file}


def parsed_by_sendgrid(text: str) -> dict[str, FormValue]:
    """As SendGrid posts it if it does not send the raw message."""
    return {
        "headers": f"Message-ID: <{text}@example.com>\nFrom: {BOB}\nSubject: Hello\n",
        "text": text,
        "envelope": '{"to": ["ann@shop.example"], "from": "bob@example.com"}',
        "charsets": '{"to": "UTF-8", "text": "utf-8"}',
        "attachments": "1",
        "attachment-info": '{"attachment1": {"filename": "offer.pdf", "type": "application/pdf"}}',
        "attachment1": ("offer.pdf", b"%PDF", "application/octet-stream"),
    }


def post(console: Api, path: str, form: Mapping[str, FormValue], headers: Mapping[str, str] | None = None) -> Answer:
    body, content_type = encode_multipart_formdata(form)
    return console.ask("POST", path, raw=body, token=None, headers={"Content-Type": content_type, **(headers or {})})


def post_as_sendgrid(console: Api, form: Mapping[str, FormValue], signed_body: bytes | None = None) -> Answer:
    """Its signature covers the whole body."""
    body, content_type = encode_multipart_formdata(form)
    timestamp = str(int(time.time()))
    signature = b64encode(KEY.sign(timestamp.encode() + (signed_body or body), ECDSA(SHA256()))).decode()
    headers = {
        "Content-Type": content_type,
        "X-Twilio-Email-Event-Webhook-Signature": signature,
        "X-Twilio-Email-Event-Webhook-Timestamp": timestamp,
    }
    return console.ask("POST", SENDGRID, raw=body, token=None, headers=headers)


def stored(console: Api) -> list[str]:
    return [row[0] for row in MailOffice(console.installation.url).rows("SELECT blob_hash FROM app_mail_blobs")]


def test_mailgun_posts_a_message(console: Api) -> None:
    """With its envelope. Before the response it is committed."""
    answer = post(console, MAILGUN, mailgun_form("from Mailgun"))

    assert (answer.status, answer.text) == (200, "stored\n")
    assert sha256(message("from Mailgun")).hexdigest() in stored(console)
    payloads = MailOffice(console.installation.url).rows("SELECT payload FROM mayfly_jobs")
    assert any('"bob@example.com"' in row[0] for row in payloads)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"signature": "0" * 64}, 403),
        ({"timestamp": ""}, 403),
        (mailgun_form("old", age_seconds=13 * 3600), 403),
        (mailgun_form("other key", key="key-456"), 403),
        ({"body-mime": ""}, 406),
    ],
)
def test_a_request_that_mailgun_has_not_signed_is_refused(console: Api, changes: dict[str, str], status: int) -> None:
    """Nothing is stored."""
    before = stored(console)

    answer = post(console, MAILGUN, {**mailgun_form("forged"), **changes})

    assert (answer.status, stored(console)) == (status, before)


@pytest.mark.parametrize(("signed_body", "status"), [(None, 200), (b"another body", 403)])
def test_sendgrid_posts_a_message(console: Api, signed_body: bytes | None, status: int) -> None:
    """With a signature of the whole body."""
    raw = message(f"from SendGrid {status}")
    envelope = '{"to": ["ann@shop.example"], "from": "bob@example.com"}'

    answer = post_as_sendgrid(console, {"email": raw.decode(), "envelope": envelope}, signed_body)

    assert (answer.status, sha256(raw).hexdigest() in stored(console)) == (status, status == 200)


@pytest.mark.parametrize("provider", ["mailgun", "sendgrid"])
def test_a_provider_posts_a_parsed_message(console: Api, provider: str) -> None:
    """With an attachment. The raw message is rebuilt, and processed like any other; a repeated request is one."""
    if provider == "mailgun":
        answers = [post(console, MAILGUN_PARSED, parsed_by_mailgun("from-mailgun")) for _ in range(2)]
    else:
        answers = [post_as_sendgrid(console, parsed_by_sendgrid("from-sendgrid")) for _ in range(2)]
    office = MailOffice(console.installation.url)

    assert console.installation.dispatch().returncode == 0

    found = office.rows(
        "SELECT m.from_address, m.subject, c.text_body, a.name, a.content_type, a.size_bytes"
        " FROM app_mail_messages m JOIN app_mail_contents c ON c.id = m.content_id"
        f" JOIN app_mail_attachments a ON a.content_id = c.id WHERE m.message_id = 'from-{provider}@example.com'"
    )
    assert [each.status for each in answers] == [200, 200]
    assert found == [(BOB, "Hello", f"from-{provider}", "offer.pdf", "application/pdf", 4)]


@pytest.mark.parametrize("changes", [{"signature": "0" * 64}, {"timestamp": ""}])
def test_a_parsed_message_without_a_signature_is_refused(console: Api, changes: dict[str, str]) -> None:
    """Of Mailgun or of SendGrid. Nothing is stored."""
    before = stored(console)

    mailgun_status = post(console, MAILGUN_PARSED, {**parsed_by_mailgun("forged"), **changes}).status
    sendgrid_status = post_as_sendgrid(console, parsed_by_sendgrid("forged"), signed_body=b"another body").status

    assert (mailgun_status, sendgrid_status, stored(console)) == (403, 403, before)


def test_a_form_without_a_message_is_refused(console: Api) -> None:
    """The provider does not send it again."""
    envelope = '{"to": ["ann@shop.example"], "from": "bob@example.com"}'

    assert post(console, MAILGUN_PARSED, signed_by_mailgun()).status == 406
    assert post_as_sendgrid(console, {"envelope": envelope}).status == 406


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [
        ("default/mailgun", SIGNING_KEY, 200),
        ("default/mailgun", "key-456", 403),
        ("default/standard", SIGNING_KEY, 404),
        ("default/nowhere", SIGNING_KEY, 404),
        ("no tenant/mailgun", SIGNING_KEY, 404),
    ],
)
def test_a_provider_posts_its_events(console: Api, path: str, key: str, status: int) -> None:
    """They are stored before the response, if there is a key for this provider."""
    happened = Happened("bounced", "1@shop.example", key=f"{path} {key}")
    request = mailgun(datetime.now(UTC), happened, key)
    before = len(mail_events(console))

    answer = console.ask("POST", f"/hooks/mail/events/{quote(path)}", raw=request.body, token=None)

    assert (answer.status, len(mail_events(console)) - before) == (status, int(status == 200))


def mail_events(console: Api) -> Sequence[object]:
    return MailOffice(console.installation.url).rows("SELECT event_key FROM app_mail_events")


def test_routes_of_handlers_have_the_limits_of_the_console(console: Api) -> None:
    """The size of a body; and no other path is opened by them."""
    large = console.ask("POST", MAILGUN, raw=b"", token=None, headers={"Content-Length": str(2 << 20)})
    paths = ("/hooks/mail/nowhere", "/hooks/nowhere", "/hooks/", "/hooks/../api/v1/jobs", "/hooks")

    found = {path: console.ask("GET", path, token=None).status for path in paths}

    assert large.status == 413
    assert set(found.values()) <= {401, 404}
    assert console.ask("GET", MAILGUN, token=None).status == 405
