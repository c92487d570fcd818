"""Mail that providers post to a real console: accepted with their signature only, and stored before the response."""

import hmac
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
from tests.handlers.mailroom.shapes import message
from tests.handlers.process.installation import HandlersInstallation
from tests.process.console.api import Answer, Api

KEY = generate_private_key(SECP256R1())
PUBLIC_KEY = b64encode(KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()
SIGNING_KEY = "key-123"
MAILGUN, SENDGRID = "/hooks/mail/mailgun/mime", "/hooks/mail/sendgrid"


@pytest.fixture(scope="module")
def console(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with databases.fresh("sqlite", migrate_all) as url:
        installation = HandlersInstallation(tmp_path_factory.mktemp("console"), url)
        settings = {"MAILGUN_SIGNING_KEY": SIGNING_KEY, "SENDGRID_PUBLIC_KEY": PUBLIC_KEY}
        yield Api(installation, settings)
        installation.end()


def mailgun_form(text: str, age_seconds: int = 0, key: str = SIGNING_KEY) -> dict[str, str]:
    """As Mailgun posts it to a route whose address ends with `mime`."""
    timestamp, token = str(int(time.time()) - age_seconds), "token-1"
    signature = hmac.new(key.encode(), f"{timestamp}{token}".encode(), sha256).hexdigest()
    signed = {"timestamp": timestamp, "token": token, "signature": signature}
    return {
        **signed,
        "recipient": "ann@shop.example",
        "sender": "bob@example.com",
        "body-mime": message(text).decode(),
    }


def post(console: Api, path: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Answer:
    body, content_type = encode_multipart_formdata(form)
    return console.ask("POST", path, raw=body, token=None, headers={"Content-Type": content_type, **(headers or {})})


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
    """Its signature covers the whole body."""
    raw = message(f"from SendGrid {status}")
    envelope = '{"to": ["ann@shop.example"], "from": "bob@example.com"}'
    body, content_type = encode_multipart_formdata({"email": raw.decode(), "envelope": envelope})
    timestamp = str(int(time.time()))
    signature = b64encode(KEY.sign(timestamp.encode() + (signed_body or body), ECDSA(SHA256()))).decode()
    headers = {
        "Content-Type": content_type,
        "X-Twilio-Email-Event-Webhook-Signature": signature,
        "X-Twilio-Email-Event-Webhook-Timestamp": timestamp,
    }

    answer = console.ask("POST", SENDGRID, raw=body, token=None, headers=headers)

    assert (answer.status, sha256(raw).hexdigest() in stored(console)) == (status, status == 200)


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
