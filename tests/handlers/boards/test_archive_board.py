"""Archives of boards: complete, for any size and number of slices."""

import fcntl
import json
import tracemalloc
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from mayfly import enqueue
from mayfly.testing import Drained, assert_enqueued, drain, run_inline
from tests.handlers.community import LONG_AGO, Community

pytestmark = pytest.mark.usefixtures("_bulk_mail")
SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOARD_ARCHIVES", str(tmp_path / "archives"))
    return tmp_path / "archives"


def closed_board(community: Community, posts: int = 5, body: str = "Grüße, {number}\n“x”") -> None:
    community.board(7, members=(1, 2, 3), state="closed", closed_at=LONG_AGO)
    columns = ("id", "board_id", "author_id", "body", "state", "created_at")
    rows = [(number, 7, None if number == 1 else 1, body.format(number=number), "draft", LONG_AGO) for number in
            range(1, posts + 1)]  # fmt: skip
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    community.database.run(
        lambda connection: connection.execute_many(connection.dialect.insert("app_posts", columns), named)
    )


def archive(**options: Any) -> Drained:
    enqueue("archive_board", {"board": 7})
    return drain(lanes=["archive_board"], raises=False, **options)


def content_of(archives: Path) -> dict[str, Any]:
    with ZipFile(archives / "board-7.zip") as packed:
        assert (packed.testzip(), packed.namelist()) == (None, ["board-7.json"])
        content: dict[str, Any] = json.loads(packed.read("board-7.json"))
        return content


@pytest.mark.every_database
def test_a_board_is_archived_whole_and_once(community: Community, archives: Path) -> None:
    """With members and posts; members get a mail; repeating it changes nothing. On every database."""
    closed_board(community)
    community.board(8)
    community.post(99, 8)

    first, again = archive(), archive()

    content = content_of(archives)
    assert content["board"] == {"id": 7, "title": "Board 7", "created_at": LONG_AGO.isoformat(),
                                "closed_at": LONG_AGO.isoformat()}  # fmt: skip
    assert [each["email"] for each in content["members"]] == ["1@example.com", "2@example.com", "3@example.com"]
    assert [(each["id"], each["author"], each["body"]) for each in content["posts"]] == [
        (number, None if number == 1 else "Ann", f"Grüße, {number}\n“x”") for number in range(1, 6)
    ]
    assert [each.runs[0].result for each in (first, again)] == [
        {"archive": "board-7.zip", "mailed": 3, "suppressed": 0}
    ] * 2
    assert_enqueued("send_email", count=3)
    assert [each.name for each in archives.iterdir()] == ["board-7.zip"]
    assert community.rows("SELECT state, archive FROM app_boards WHERE id = 7") == [("archived", "board-7.zip")]


@SQLITE
def test_the_same_board_gives_the_same_bytes(
    community: Community, archives: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one slice or in many, and when it is repeated."""
    closed_board(community)
    archive()
    whole = (archives / "board-7.zip").read_bytes()
    community.execute("UPDATE app_boards SET state = 'closed', archived_at = NULL, archive = NULL WHERE id = 7")
    monkeypatch.setattr("handlers.boards.export.PAGE_SIZE", 2)

    drained = archive(slice_after=1)

    assert drained.outcomes["sliced"] >= 6
    assert (archives / "board-7.zip").read_bytes() == whole


@SQLITE
@pytest.mark.parametrize("damage", ["is gone", "is shorter", "is another"])
def test_an_invalid_draft_is_written_again(
    community: Community, archives: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """Lost with its host, truncated, or overwritten between two slices."""
    monkeypatch.setattr("handlers.boards.export.PAGE_SIZE", 2)
    closed_board(community)
    state = run_inline("archive_board", {"board": 7}, slice_after=4).state
    draft = archives / ".board-7.json"
    kept = draft.read_bytes()
    draft.unlink() if damage == "is gone" else draft.write_bytes(kept[:-9] if damage == "is shorter" else kept[::-1])

    run_inline("archive_board", {"board": 7}, state=state)

    assert len(content_of(archives)["posts"]) == 5


@SQLITE
def test_a_draft_in_use_snoozes_the_job(community: Community, archives: Path) -> None:
    """The other runner may only seem to be dead."""
    closed_board(community)
    archives.mkdir()
    with (archives / ".board-7.json").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        run = run_inline("archive_board", {"board": 7})

    assert run.kind == "snoozed"
    assert not (archives / "board-7.zip").exists()
    assert run_inline("archive_board", {"board": 7}).kind == "done"


@SQLITE
def test_memory_does_not_grow_with_the_board(community: Community, archives: Path) -> None:
    """One page is in memory: 30 MB of posts need a few MB."""
    closed_board(community, posts=3000, body="{number} " + "x" * 10_000)
    tracemalloc.start()
    try:
        run_inline("archive_board", {"board": 7})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert sum(len(each["body"]) for each in content_of(archives)["posts"]) > 30e6
    assert peak < 15e6


@SQLITE
def test_only_closed_boards_are_archived(community: Community, archives: Path) -> None:
    """A reopened board is not."""
    community.board(7, members=(1,), archived_at=LONG_AGO, archive="board-7.zip")

    run = run_inline("archive_board", {"board": 7})

    assert (run.kind, run.reason) == ("dead", "board 7 is open: only closed boards are archived")
    assert not archives.exists()


@SQLITE
@pytest.mark.parametrize(
    ("place", "became", "why"),
    [
        ("", "cancelled", "integration not configured: BOARD_ARCHIVES"),
        ("archives", "dead", "BOARD_ARCHIVES must be an absolute path"),
    ],
)
def test_the_directory_must_be_an_absolute_path(
    community: Community, monkeypatch: pytest.MonkeyPatch, place: str, became: str, why: str
) -> None:
    """The working directory under cron is arbitrary."""
    monkeypatch.setenv("BOARD_ARCHIVES", place)
    closed_board(community)

    run = run_inline("archive_board", {"board": 7})

    assert (run.kind, run.reason) == (became, why)
