"""Inbound mail with real processes: the pipe of a mail server, and runners that are killed at random."""

import json
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from mayfly.testing import using_database
from tests.handlers.mailroom.office import MailOffice
from tests.handlers.mailroom.shapes import Dsn, message
from tests.handlers.process.installation import HandlersInstallation
from tests.handlers.process.random_kills import drain_under_kills, rows_of
from tests.process.installation import CHECKOUT

EX_OK, EX_DATAERR, EX_TEMPFAIL = 0, 65, 75


def pipe(
    installation: HandlersInstallation, raw: bytes, *arguments: str, **settings: str
) -> "subprocess.CompletedProcess[bytes]":
    command = [str(CHECKOUT / "scripts" / "inbound"), *arguments]
    # Without .venv in the checkout, the script uses the first python3.
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = installation.environment(PATH=path, **settings)
    return subprocess.run(command, input=raw, env=environment, capture_output=True, timeout=60, check=False)


def test_a_message_from_the_pipe_is_stored_before_it_is_accepted(embedded: HandlersInstallation) -> None:
    """With exit code 0 it is committed, with its envelope."""
    raw = message("Dear Ann")

    done = pipe(embedded, raw, "--recipient", "ann@shop.example", "--sender", "")

    office = MailOffice(embedded.url)
    assert (done.returncode, done.stderr) == (EX_OK, b"")
    assert office.rows("SELECT blob_hash FROM app_mail_blobs") == [(sha256(raw).hexdigest(),)]
    [(payload,)] = office.rows("SELECT payload FROM mayfly_jobs")
    envelope = {name: each for name, each in json.loads(payload).items() if name in ("recipient", "sender")}
    assert envelope == {"recipient": "ann@shop.example", "sender": ""}


@pytest.mark.parametrize(
    ("settings", "code", "error"),
    [
        ({"DATABASE_URL": "mysql://127.0.0.1:1/none"}, EX_TEMPFAIL, "not stored, try again later"),
        ({"MAIL_MAX_BYTES": "10"}, EX_DATAERR, "more than 10 bytes"),
    ],
)
def test_the_mail_server_keeps_what_cannot_be_stored(
    embedded: HandlersInstallation, settings: dict[str, str], code: int, error: str
) -> None:
    """Only a message that is too large is returned to its sender."""
    done = pipe(embedded, message("Dear Ann"), **settings)

    assert (done.returncode, error in done.stderr.decode()) == (code, True)
    assert MailOffice(embedded.url).count("app_mail_blobs") == 0


REPLIES, BOUNCES = 8, 8
KILLS = 3


@pytest.mark.parametrize("scale", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_kills_while_mail_is_processed_lose_and_repeat_nothing(
    installation: HandlersInstallation, scale: int
) -> None:
    """Each message has one row and one content; each reply and bounce counts once."""
    office, replies, bounces = MailOffice(installation.url), REPLIES * scale, BOUNCES * scale
    installation.settings = {"BATCH_SIZE": "5", "MAX_WORKERS": "2", "BACKOFF_BASE": "0.05"}
    for number in range(replies + bounces):
        office.send(f"{number}@shop.example", f"{number}@example.com", id=number + 1)
    raws = [reply_to(number) for number in range(replies)]
    raws += [bounce_of(number) for number in range(replies, replies + bounces)]
    with using_database(installation.url):
        for raw in raws:
            office.take_in(raw)

    kills = drain_under_kills(
        installation,
        rows_of(installation, "SELECT COUNT(*) FROM app_mail_messages"),
        rows_of(installation, "SELECT COUNT(*) FROM app_mail_bounces"),
        kills=KILLS * scale,
    )

    assert kills > 0
    assert installation.statuses().keys() == {"done"}
    tables = ("app_mail_messages", "app_mail_contents", "app_mail_bounces")
    assert [office.count(each) for each in tables] == [replies + bounces, replies + bounces, bounces]
    counted = office.rows("SELECT status, COUNT(*), COUNT(replied_at) FROM app_mail_deliveries GROUP BY status")
    assert sorted(counted) == [("bounced", bounces, 0), ("sent", replies, replies)]
    assert sorted(office.events()) == sorted(
        [(f"{number}@example.com", "replied" if number < replies else "bounced") for number in range(len(raws))]
    )


def reply_to(number: int) -> bytes:
    headers = f"In-Reply-To: <{number}@shop.example>"
    author = f"Bob <{number}@example.com>"
    return message("Yes", headers=headers, author=author, message_id=f"<reply-{number}@example.com>")


def bounce_of(number: int) -> bytes:
    returned = f"Content-Type: message/rfc822\n\nMessage-ID: <{number}@shop.example>\n\nDear Bob\n"
    dsn = replace(Dsn(), returned=returned, recipient=f"rfc822; {number}@example.com")
    return dsn.raw().replace(b"<dsn@example.com>", f"<dsn-{number}@example.com>".encode())
