"""Closing a board: members get one mail each, also if the job is repeated."""

from datetime import timedelta
from typing import Any

import pytest

from mayfly import enqueue
from mayfly.testing import Drained, assert_enqueued, drain, run_inline
from tests.handlers.community import LONG_AGO, Community

pytestmark = pytest.mark.usefixtures("_bulk_mail")
SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


def close(board_id: int = 7, **options: Any) -> Drained:
    """Does not send the mails."""
    enqueue("close_board", {"board": board_id})
    return drain(lanes=["close_board"], raises=False, **options)


def mailed(community: Community) -> list[str]:
    return sorted(each.payload["to"] for each in assert_enqueued_mails(community))


def assert_enqueued_mails(community: Community) -> list[Any]:
    count = community.rows("SELECT COUNT(*) FROM mayfly_jobs WHERE type = 'send_email'")[0][0]
    return assert_enqueued("send_email", count=count) if count else []


@pytest.mark.every_database
def test_a_board_is_closed_once_and_its_members_get_a_mail(community: Community) -> None:
    """Repeating it sends nothing again. On every database."""
    community.board(7, members=(1, 2, 3), title="Gär\tten")
    community.board(8, members=(4,))

    first, again = close(), close()

    assert [each.runs[0].result for each in (first, again)] == [{"mailed": 3, "suppressed": 0}] * 2
    assert mailed(community) == ["1@example.com", "2@example.com", "3@example.com"]
    mail = assert_enqueued("send_email", {"to": "1@example.com"}, lane="send_digest")[0]
    assert (mail.payload["subject"], mail.payload["key"]) == ("The board “Gär ten” was closed", mail.unique_key)
    assert (mail.priority, mail.payload["unsubscribe"] in mail.payload["text"]) == (2, True)
    states = community.rows("SELECT id, state, closed_at IS NULL FROM app_boards ORDER BY id")
    assert states == [(7, "closed", 0), (8, "open", 1)]


def test_many_members_are_mailed_in_slices(community: Community, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is missed or mailed twice, wherever a slice ends."""
    monkeypatch.setattr("handlers.boards.closure.PAGE_SIZE", 2)
    community.board(7, members=range(1, 6))

    drained = close(slice_after=1)

    assert drained.outcomes == {"sliced": 3, "done": 1}
    assert mailed(community) == [f"{number}@example.com" for number in range(1, 6)]
    assert drained.runs[-1].result == {"mailed": 5, "suppressed": 0}


@SQLITE
def test_the_mails_have_idempotency_keys(community: Community, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run after the mails were sent enqueues them with the same keys."""
    community.board(7, members=(1,))
    close()
    community.execute("UPDATE mayfly_jobs SET status = 'done' WHERE type = 'send_email'")

    close()

    keys = {each.payload["key"] for each in assert_enqueued("send_email", count=2)}
    assert len(keys) == 1


@SQLITE
def test_closing_a_reopened_board_is_another_event(community: Community) -> None:
    """With another mail."""
    community.board(7, members=(1,))
    close()
    community.execute("UPDATE app_boards SET state = 'open'")

    close()

    assert len({each.payload["key"] for each in assert_enqueued("send_email", count=2)}) == 2


@SQLITE
def test_members_without_a_valid_address_are_skipped(community: Community) -> None:
    """Also members who joined after it was closed."""
    community.person(1, email="nobody at all")
    community.person(3, email="a@b.example\nBcc: all@example.com")
    community.board(7, members=(1, 2, 3), state="closed", closed_at=LONG_AGO + timedelta(days=1))
    community.person(4)
    community.insert("app_members", board_id=7, person_id=4, joined_at=LONG_AGO + timedelta(days=2))

    close()

    assert mailed(community) == ["2@example.com"]


@SQLITE
def test_suppressed_members_get_no_mail(community: Community) -> None:
    """Because they unsubscribed, or because their mailbox does not exist."""
    community.person(2, email="Bob@example.com")
    community.board(7, members=(1, 2, 3))
    community.suppress("bob@example.com")
    community.suppress("3@example.com", "bounced")

    [run] = close().runs

    assert run.result == {"mailed": 1, "suppressed": 2}
    assert mailed(community) == ["1@example.com"]


@SQLITE
def test_without_unsubscribe_links_the_board_is_closed_and_no_mail_is_sent(
    community: Community, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is cancelled with the missing setting; a later job sends the mails."""
    monkeypatch.delenv("UNSUBSCRIBE_SECRET")
    community.board(7, members=(1,))

    [run] = close().runs

    assert (run.kind, run.reason) == ("cancelled", "integration not configured: UNSUBSCRIBE_SECRET")
    assert (community.rows("SELECT state FROM app_boards"), mailed(community)) == ([("closed",)], [])
    monkeypatch.setenv("UNSUBSCRIBE_SECRET", "s3cret")
    close()
    assert mailed(community) == ["1@example.com"]


@SQLITE
def test_archived_and_missing_boards(community: Community) -> None:
    """The first is done, the second an error."""
    community.board(8, members=(1,), state="archived", closed_at=LONG_AGO, archived_at=LONG_AGO)

    archived, missing = run_inline("close_board", {"board": 8}), run_inline("close_board", {"board": 9})

    assert archived.result == {"mailed": 0, "suppressed": 0}
    assert (missing.kind, missing.reason) == ("dead", "there is no board 9")
    assert mailed(community) == []
