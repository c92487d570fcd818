"""Inbound messages: stored as a whole, once, whatever they look like, and what follows from them."""

import json
import os
from base64 import b64encode
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from handlers.mailroom.blobs import read_blob
from handlers.mailroom.intake import Envelope, MessageTooLarge, main, take_in
from mayfly import database, enqueue
from mayfly.testing import drain
from tests.handlers.mailroom.office import NOON, MailOffice
from tests.handlers.mailroom.shapes import BOB, OURS, SHAPES, attached, large_attachment, message, multipart
from tests.handlers.rows import insert
from tests.hypothesis_profiles import in_full

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
MESSAGE = "SELECT direction, type, status, message_id, from_address, subject, thread_key FROM app_mail_messages"


def blob(blob_hash: str, tenant_id: str = "default") -> bytes:
    return database().read(lambda connection: read_blob(connection, tenant_id, blob_hash))


@pytest.mark.every_database
def test_a_message_is_stored_with_its_parts(office: MailOffice) -> None:
    """The raw message, its content, its attachment, its row; the payload of the job has none of them."""
    raw = multipart("Content-Type: text/plain\n\nDear Ann\n", attached("offer.pdf", b"%PDF"), subject="Grüße")

    result = office.receive(raw)

    [(raw_hash, key, size)] = office.rows("SELECT raw_hash, storage_key, size_bytes FROM app_mail_contents")
    assert (blob(raw_hash), size) == (raw, len(raw))
    assert key.startswith("email_one@example.com_")
    assert key.rpartition("_")[2].isdigit()
    assert (result["storage_key"], result["type"]) == (key, "plain")
    assert office.rows("SELECT id, content_id FROM app_mail_messages") == [
        (result["message_id"], result["content_id"])
    ]
    assert office.rows(MESSAGE) == [
        ("inbound", "plain", "processed", "one@example.com", BOB, "Grüße", "one@example.com")
    ]
    assert office.rows("SELECT name, content_type, size_bytes, blob_hash FROM app_mail_attachments") == [
        ("offer.pdf", "application/pdf", 4, sha256(b"%PDF").hexdigest())
    ]
    [(payload,)] = office.rows("SELECT payload FROM mayfly_jobs WHERE type = 'process_inbound_email'")
    assert "Dear Ann" not in payload
    assert len(payload) < 300


@pytest.mark.every_database
@pytest.mark.parametrize("size_bytes", [3 << 20, pytest.param(25 << 20, marks=pytest.mark.slow)])
def test_a_large_message_is_stored(office: MailOffice, size_bytes: int) -> None:
    """In parts that fit into one packet of the database."""
    raw = large_attachment(size_bytes)

    office.receive(raw)

    [(raw_hash,)] = office.rows("SELECT raw_hash FROM app_mail_contents")
    [(size, name, blob_hash)] = office.rows("SELECT size_bytes, name, blob_hash FROM app_mail_attachments")
    assert sha256(blob(raw_hash)).digest() == sha256(raw).digest()
    assert (size, name, len(blob(blob_hash))) == (size_bytes, "film.mp4", size_bytes)


@SQLITE
def test_every_shape_is_stored(office: MailOffice) -> None:
    """Each becomes a message; none is lost, and none stops the others."""
    raws = {name: shape.raw() for name, shape in SHAPES.items()}
    for raw in raws.values():
        office.take_in(raw)

    drained = drain(raises=True)

    assert set(drained.outcomes) == {"done"}
    stored = {row[0] for row in office.rows("SELECT blob_hash FROM app_mail_blobs")}
    assert {sha256(raw).hexdigest() for raw in raws.values()} <= stored
    results = office.results("process_inbound_email", drained)
    assert len(results) == len(raws)
    assert len({each["message_id"] for each in results}) == office.count("app_mail_messages")


@SQLITE
@in_full(30)
@given(
    st.lists(
        st.one_of(st.sampled_from([b"\r\n", b"Subject: x", b"\r\n\r\n", b"--b", b"\xff\x00"]), st.binary(max_size=30))
    )
)
def test_any_bytes_are_stored_and_processed(office: MailOffice, pieces: list[bytes]) -> None:
    """No crash, no lost message."""
    raw = b"".join(pieces)

    result = office.receive(raw)

    [(raw_hash,)] = office.rows(f"SELECT raw_hash FROM app_mail_contents WHERE id = {result['content_id']}")
    assert raw_hash == sha256(raw).hexdigest() or result.get("duplicate")
    assert blob(sha256(raw).hexdigest()) == raw


@pytest.mark.every_database
def test_a_message_that_comes_twice_is_one(office: MailOffice) -> None:
    """From the same server, or over another way. Both jobs return the same ids."""
    first = office.receive(message("Dear Ann"))
    second = office.receive(b"Received: from mx by y\r\n" + message("Dear Ann"))

    assert {**first, "duplicate": True} == second
    assert office.count("app_mail_messages") == office.count("app_mail_contents") == 1


@pytest.mark.every_database
def test_messages_of_the_same_millisecond_have_different_keys(office: MailOffice) -> None:
    """Two texts under the same Message-ID, and a copy at another tenant. On every database."""
    with freeze_time(NOON, real_asyncio=True):
        results = [
            office.receive(message("Dear Ann")),
            office.receive(message("Buy now")),
            office.receive(message("Dear Ann"), tenant_id="acme"),
        ]

    keys = [row[0] for row in office.rows("SELECT storage_key FROM app_mail_contents ORDER BY id")]
    numbers = [int(key.rpartition("_")[2]) for key in keys]
    assert [each["storage_key"] for each in results] == keys
    assert [number - numbers[0] for number in numbers] == [0, 1, 2]


@SQLITE
def test_a_message_that_was_cut_is_flagged(office: MailOffice) -> None:
    """Even if the beginning of it is a valid message."""
    result = office.receive(message("Dear"), is_cut=True)

    [(defects,)] = office.rows(f"SELECT defects FROM app_mail_contents WHERE id = {result['content_id']}")
    assert json.loads(defects) == ["message was cut"]


@SQLITE
def test_another_text_under_the_same_message_id_is_another_message(office: MailOffice) -> None:
    """Otherwise a forged message could suppress a real one."""
    office.receive(message("Dear Ann"))
    office.receive(message("Buy now"))

    assert office.rows("SELECT message_id FROM app_mail_messages") == [("one@example.com",)] * 2


@pytest.mark.every_database
def test_the_recipient_decides_to_whom_a_message_belongs(office: MailOffice) -> None:
    """Their account, or else the email that is answered. Tenants share neither rows nor blobs."""
    account = {"id": 1, "tenant_id": "acme", "address": "ann@acme.example", "is_active": 1, "created_at": NOON}
    insert(office.url, "app_mail_accounts", account)
    office.send(tenant_id="zeta")

    office.receive(message())
    office.receive(message(), recipient="Ann+sales@acme.example")
    office.receive(message(), recipient=f"reply+{OURS.partition('@')[0]}@shop.example")

    assert office.rows("SELECT tenant_id, email_account_id FROM app_mail_messages ORDER BY id") == [
        ("default", None), ("acme", 1), ("zeta", None),
    ]  # fmt: skip
    assert office.rows("SELECT tenant_id FROM app_mail_blobs ORDER BY tenant_id") == [
        ("acme",), ("default",), ("zeta",),
    ]  # fmt: skip


@SQLITE
def test_blobs_are_files_if_a_directory_is_set(
    office: MailOffice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readable by their owner only. Those that were stored in the database before can still be read."""
    before, after = message("before"), message("after", message_id="<two@example.com>")
    office.receive(before)
    monkeypatch.setenv("MAIL_STORE", str(tmp_path))

    office.receive(after)

    [file] = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert (file.name, file.stat().st_mode & 0o777) == (sha256(after).hexdigest(), 0o600)
    assert file.parent.relative_to(tmp_path) == Path("default") / file.name[:2]
    assert (blob(sha256(before).hexdigest()), blob(sha256(after).hexdigest())) == (before, after)


@SQLITE
@pytest.mark.parametrize(
    ("name", "content_type", "refusal"),
    [
        ("a.pdf", "application/pdf", "too large: 5 bytes"),
        ("a.EXE", "image/png", "type not allowed: .exe"),
        ("a.doc", "application/msword", "type not allowed: application/msword"),
        ("a.png", "image/png", None),
    ],
)
def test_attachments_are_refused_by_size_and_type(
    office: MailOffice, monkeypatch: pytest.MonkeyPatch, name: str, content_type: str, refusal: str | None
) -> None:
    """The row says why; the raw message still has them."""
    monkeypatch.setenv("MAIL_ATTACHMENT_BYTES", "4")
    monkeypatch.setenv("MAIL_ATTACHMENT_TYPES", "image/* application/pdf")
    content = b"12345" if name == "a.pdf" else b"1234"

    office.receive(multipart(attached(name, content, content_type)))

    [(blob_hash, found)] = office.rows("SELECT blob_hash, refusal FROM app_mail_attachments")
    assert (found, blob_hash is None) == (refusal, refusal is not None)


@SQLITE
def test_a_message_that_is_too_large_is_refused(office: MailOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is written."""
    monkeypatch.setenv("MAIL_MAX_BYTES", "10")

    with pytest.raises(MessageTooLarge):
        take_in(database(), b"x" * 11, Envelope())

    assert office.count("app_mail_blobs") == 0


@SQLITE
@pytest.mark.parametrize(
    ("arguments", "settings", "code"),
    [
        (["--recipient", "ann@shop.example"], {}, os.EX_OK),
        (["--tenant", "a/b"], {}, os.EX_TEMPFAIL),
        (["--wrong"], {}, os.EX_TEMPFAIL),
        ([], {"MAIL_STORE": "/nonexistent"}, os.EX_TEMPFAIL),
        ([], {"MAIL_MAX_BYTES": "many"}, os.EX_TEMPFAIL),
        ([], {"MAIL_MAX_BYTES": "10"}, os.EX_DATAERR),
    ],
)
def test_a_mail_server_tries_again_unless_the_message_is_too_large(
    office: MailOffice, monkeypatch: pytest.MonkeyPatch, arguments: list[str], settings: dict[str, str], code: int
) -> None:
    """Also after a typo in its configuration or in a setting."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    assert main(arguments, BytesIO(message())) == code
    assert office.count("app_mail_blobs") == (1 if code == os.EX_OK else 0)


FIELDS: dict[str, Any] = {
    "tenant_id": "acme", "email_account_id": 7, "direction": "inbound", "from": f"Bob <{BOB}>",
    "to": "Ann <ann@shop.example>, eve@shop.example", "subject": "Re: Hi", "html": "<p>Yes, please</p>",
    "headers": {"In-Reply-To": f"<{OURS}>"}, "messageId": "<two@example.com>",
    "attachments": [{"name": "a.txt", "type": "text/plain", "content": b64encode(b"note").decode()}],
}  # fmt: skip


def test_parsed_fields_are_a_message_too(office: MailOffice) -> None:
    """With the same rows as a raw one, and the same effects."""
    office.send(tenant_id="acme")
    enqueue("process_inbound_email", FIELDS)

    drain(raises=True)

    assert office.rows(MESSAGE) == [("inbound", "reply", "processed", "two@example.com", BOB, "Re: Hi", OURS)]
    assert office.rows("SELECT text_body, generated, raw_hash FROM app_mail_contents") == [
        ("Yes, please", "text", None)
    ]
    assert office.rows("SELECT name, size_bytes FROM app_mail_attachments") == [("a.txt", 4)]
    assert office.events() == [(BOB, "replied")]


@SQLITE
def test_an_outbound_message_has_no_effects(office: MailOffice) -> None:
    """It is only stored."""
    office.send(tenant_id="acme")
    enqueue("process_inbound_email", {**FIELDS, "direction": "outbound"})

    drain(raises=True)

    assert office.rows("SELECT direction FROM app_mail_messages") == [("outbound",)]
    assert office.events() == []


REPLIED = "SELECT COUNT(*) FROM app_mail_deliveries WHERE replied_at IS NOT NULL"


@pytest.mark.every_database
@pytest.mark.parametrize(
    ("shape", "replies"), [("reply", 1), ("reply with references only", 1), ("auto-reply of RFC 3834", 0)]
)
def test_a_reply_stops_the_sequence_and_an_automatic_one_does_not(
    office: MailOffice, shape: str, replies: int
) -> None:
    """Once, if it is received twice. Both are linked with the email that they answer."""
    office.send(campaign_id=3, contact_id=4)

    office.receive(SHAPES[shape].raw())
    office.receive(SHAPES[shape].raw())

    assert office.rows(REPLIED) == [(replies,)]
    assert office.events() == [(BOB, "replied")] * replies
    assert office.rows("SELECT delivery_id, campaign_id, contact_id, thread_key FROM app_mail_messages") == [
        (1, 3, 4, office.rows("SELECT thread_key FROM app_mail_messages")[0][0])
    ]


@SQLITE
def test_a_reply_is_found_by_its_plus_address(office: MailOffice) -> None:
    """Some mail programs drop In-Reply-To."""
    office.send()

    result = office.receive(message("Yes"), recipient=f"reply+{OURS.partition('@')[0]}@shop.example")

    assert (result["type"], office.events()) == ("reply", [(BOB, "replied")])


@SQLITE
@pytest.mark.parametrize(("secret", "replies"), [("", 0), ("s3cret", 1)])
def test_a_reply_from_another_address_counts_only_if_message_ids_are_secret(
    office: MailOffice, monkeypatch: pytest.MonkeyPatch, secret: str, replies: int
) -> None:
    """Without MAIL_TOKEN_SECRET, a Message-ID could be computed, and In-Reply-To forged."""
    monkeypatch.setenv("MAIL_TOKEN_SECRET", secret)
    office.send()

    office.receive(SHAPES["forged in-reply-to"].raw())

    assert office.events() == [(BOB, "replied")] * replies


@SQLITE
def test_a_reply_does_not_reach_another_tenant(office: MailOffice) -> None:
    """The Message-ID of a tenant's email is unknown to others."""
    office.send(tenant_id="acme")

    office.receive(SHAPES["reply"].raw(), tenant_id="default")

    assert (office.rows(REPLIED), office.events()) == ([(0,)], [])


@pytest.mark.every_database
@pytest.mark.parametrize(("shape", "complaints"), [("arf", 1), ("arf: not spam", 0), ("arf without a message id", 0)])
def test_a_complaint_suppresses_the_recipient_of_the_email(office: MailOffice, shape: str, complaints: int) -> None:
    """Not an address that the report names: reports can be forged."""
    office.send(tenant_id="acme")

    office.receive(SHAPES[shape].raw(), tenant_id="acme")

    suppressed = office.rows("SELECT tenant_id, address, reason FROM app_suppressions")
    assert suppressed == [("acme", BOB, "complained")] * complaints
    assert office.rows("SELECT status FROM app_mail_deliveries") == [("complained" if complaints else "sent",)]


@SQLITE
def test_messages_of_a_thread_have_one_key_in_any_order(office: MailOffice) -> None:
    """The Message-ID of the first one."""
    third = message("3", message_id="<3@x>", headers="References: <1@x> <2@x>\nIn-Reply-To: <2@x>")
    second = message("2", message_id="<2@x>", headers="In-Reply-To: <1@x>")
    fourth = message("4", message_id="<4@x>", headers="In-Reply-To: <3@x>")
    for raw in (third, second, message("1", message_id="<1@x>"), fourth):
        office.receive(raw)

    assert {row[0] for row in office.rows("SELECT thread_key FROM app_mail_messages")} == {"1@x"}
