"""Old mail is deleted in slices; what is still needed stays."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from freezegun import freeze_time

from handlers.mailroom import retention
from mayfly import enqueue
from tests.handlers.mailroom.office import MailOffice
from tests.handlers.mailroom.shapes import attached, message, multipart
from tests.handlers.rows import execute

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
START = datetime(2026, 5, 4, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def prune(office: MailOffice, at: datetime) -> dict[str, int]:
    with freeze_time(at, tick=True):
        enqueue("prune_mail")
        [result] = office.results("prune_mail", office.drain())
    return {name: int(number) for name, number in result.items()}


@pytest.mark.every_database
def test_expired_mail_is_deleted_and_the_rest_stays(office: MailOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several commits. A blob stays as long as one message has it."""
    monkeypatch.setenv("APP_KEEP_MAIL_DAYS", "100")
    monkeypatch.setattr(retention, "ROWS_PER_COMMIT", 2)
    shared = attached("offer.pdf", b"%PDF")
    with freeze_time(START, tick=True):
        for number in range(5):
            office.receive(multipart(shared, message_id=f"<{number}@x>"))
    with freeze_time(START + 50 * DAY, tick=True):
        office.receive(multipart(shared, message_id="<late@x>"))

    result = prune(office, START + 101 * DAY)

    assert result == {"contents": 5, "blobs": 5}
    assert office.rows("SELECT message_id FROM app_mail_messages") == [("late@x",)]
    tables = ("app_mail_contents", "app_mail_attachments", "app_mail_blobs", "app_mail_chunks")
    assert [office.count(each) for each in tables] == [1, 1, 2, 2]


@SQLITE
def test_mail_is_kept_for_seven_years_by_default(office: MailOffice) -> None:
    """2,555 days."""
    with freeze_time(START, tick=True):
        office.receive(message())

    early, late = prune(office, START + 2554 * DAY), prune(office, START + 2556 * DAY)

    assert (early, late) == ({"contents": 0, "blobs": 0}, {"contents": 1, "blobs": 1})


@SQLITE
def test_a_message_that_was_never_processed_is_kept_for_90_days(office: MailOffice) -> None:
    """Its job may be dead: `mayfly retry` can still process it."""
    with freeze_time(START, tick=True):
        office.take_in(message())
    execute(office.url, "DELETE FROM mayfly_jobs")

    early, late = prune(office, START + 89 * DAY), prune(office, START + 91 * DAY)

    assert (early["blobs"], late["blobs"]) == (0, 1)


@SQLITE
def test_files_are_deleted_with_their_rows(
    office: MailOffice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_STORE", str(tmp_path))
    with freeze_time(START, tick=True):
        office.receive(message())

    prune(office, START + 2556 * DAY)

    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


@SQLITE
def test_files_without_a_row_are_deleted_when_they_are_old(
    office: MailOffice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of transactions that were rolled back, and of processes that were killed while they wrote. Others stay."""
    monkeypatch.setenv("MAIL_STORE", str(tmp_path))
    with freeze_time(START, tick=True):
        office.receive(message())
    [kept] = [each for each in tmp_path.rglob("*") if each.is_file()]
    hashes = [f"{kept.parent.name}{digit * 62}" for digit in "abc"]
    names = (hashes[0], f".{hashes[1]}.0123abcd", hashes[2], "README")
    lost, unfinished, recent, foreign = (kept.with_name(name) for name in names)
    for path in (lost, unfinished, recent, foreign):
        path.write_bytes(b"Dear Ann")
    for path in (kept, lost, unfinished, foreign):
        os.utime(path, (START.timestamp(), START.timestamp()))
    os.utime(recent, ((START + 80 * DAY).timestamp(), (START + 80 * DAY).timestamp()))

    result = prune(office, START + 91 * DAY)

    assert result == {"contents": 0, "blobs": 1}
    assert {each for each in tmp_path.rglob("*") if each.is_file()} == {kept, recent, foreign}
    assert office.count("app_mail_blobs") == 1
