"""Boards that are closed: their reminders end, their members are told, each once, however often it is done."""

from datetime import timedelta
from typing import Any

import pytest

from mayfly import enqueue
from mayfly.testing import Drained, assert_enqueued, drain, run_inline
from tests.handlers.community import LONG_AGO, Community

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


def close(board_id: int = 7, **options: Any) -> Drained:
    """Mails are left where they are."""
    enqueue("close_board", {"board": board_id})
    return drain(lanes=["misc"], raises=False, **options)


def told(community: Community) -> list[str]:
    return sorted(each.payload["to"] for each in assert_enqueued_mails(community))


def assert_enqueued_mails(community: Community) -> list[Any]:
    count = community.rows("SELECT COUNT(*) FROM mayfly_jobs WHERE type = 'send_email'")[0][0]
    return assert_enqueued("send_email", count=count) if count else []


@pytest.mark.every_database
def test_a_board_is_closed_once_and_its_members_are_told(community: Community) -> None:
    """Doing it again is fine, and tells nobody again. On every database."""
    community.board(7, members=(1, 2, 3), title="Gär\tten")
    community.board(8, members=(4,))
    for board_id in (7, 7, 8):
        enqueue("noop", group_key=f"board:{board_id}:reminders", delay=3600)

    first, again = close(), close()

    assert [each.runs[0].result for each in (first, again)] == [
        {"told": 3, "reminders": 2}, {"told": 3, "reminders": 0},
    ]  # fmt: skip
    assert told(community) == ["1@example.com", "2@example.com", "3@example.com"]
    mail = assert_enqueued("send_email", {"to": "1@example.com"}, lane="send_email")[0]
    assert (mail.payload["subject"], mail.payload["key"]) == ("The board “Gär ten” was closed", mail.unique_key)
    states = community.rows("SELECT id, state, closed_at IS NULL FROM app_boards ORDER BY id")
    assert states == [(7, "closed", 0), (8, "open", 1)]
    reminders = "SELECT group_key, status FROM mayfly_jobs WHERE type = 'noop' ORDER BY id"
    assert [status for _, status in community.rows(reminders)] == ["cancelled", "cancelled", "pending"]


def test_many_members_are_told_in_slices(community: Community, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is left out and nobody is told twice, wherever the window ends."""
    monkeypatch.setattr("handlers.boards.closure.PAGE_SIZE", 2)
    community.board(7, members=range(1, 6))

    drained = close(slice_after=1)

    assert drained.outcomes == {"sliced": 3, "done": 1}
    assert told(community) == [f"{number}@example.com" for number in range(1, 6)]
    assert drained.runs[-1].result == {"told": 5, "reminders": 0}


@SQLITE
def test_the_mails_have_keys_that_outlive_their_jobs(community: Community, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run after the mails were sent enqueues them again, under keys by which the ledger knows them."""
    community.board(7, members=(1,))
    close()
    community.execute("UPDATE mayfly_jobs SET status = 'done' WHERE type = 'send_email'")

    close()

    keys = {each.payload["key"] for each in assert_enqueued("send_email", count=2)}
    assert len(keys) == 1


@SQLITE
def test_a_board_that_was_opened_again_is_closed_anew(community: Community) -> None:
    """That is another event, and worth another mail."""
    community.board(7, members=(1,))
    close()
    community.execute("UPDATE app_boards SET state = 'open'")

    close()

    assert len({each.payload["key"] for each in assert_enqueued("send_email", count=2)}) == 2


@SQLITE
def test_who_cannot_be_told_does_not_keep_others_from_it(community: Community) -> None:
    """Without an address, or not yet there when it was closed."""
    community.person(1, email="nobody at all")
    community.person(3, email="a@b.example\nBcc: all@example.com")
    community.board(7, members=(1, 2, 3), state="closed", closed_at=LONG_AGO + timedelta(days=1))
    community.person(4)
    community.insert("app_members", board_id=7, person_id=4, joined_at=LONG_AGO + timedelta(days=2))

    close()

    assert told(community) == ["2@example.com"]


@SQLITE
def test_boards_that_are_archived_or_not_there(community: Community) -> None:
    """The one is closed already; of the other nobody can know."""
    community.board(8, members=(1,), state="archived", closed_at=LONG_AGO, archived_at=LONG_AGO)

    archived, missing = run_inline("close_board", {"board": 8}), run_inline("close_board", {"board": 9})

    assert archived.result == {"told": 0, "reminders": 0}
    assert (missing.kind, missing.reason) == ("dead", "there is no board 9")
    assert told(community) == []
