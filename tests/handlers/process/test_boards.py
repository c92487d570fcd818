"""Boards and posts with killed runners: nothing is lost or sent twice."""

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.handlers.community import LONG_AGO, Community
from tests.handlers.process.random_kills import drain_under_kills, rows_of
from tests.handlers.providers import provider
from tests.process.installation import Installation

POSTS = 24_000
BODY = "x" * 1000
KILLS = 3
PART = 5000


def fill(community: Community, posts: int) -> None:
    """A closed board that takes a while to export."""
    community.board(7, members=(1, 2, 3), state="closed", closed_at=LONG_AGO)
    columns = ("id", "board_id", "body", "state", "created_at")
    rows = [dict(zip(columns, (each, 7, BODY, "draft", LONG_AGO), strict=True)) for each in range(1, posts + 1)]
    insert = community.database.dialect.insert("app_posts", columns)
    for start in range(0, posts, PART):
        community.database.run(lambda connection: connection.execute_many(insert, rows[start : start + PART]))  # noqa: B023


def size_of(file: Path) -> int:
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0


def posts_in(archive: Path) -> list[int]:
    with ZipFile(archive) as packed:
        return [each["id"] for each in json.loads(packed.read("board-7.json"))["posts"]]


def prepare(installation: Installation, posts: int) -> Path:
    """The directory of its archives."""
    archives = installation.home / "archives"
    links = {"UNSUBSCRIBE_URL": "https://shop.example/unsubscribe?who={token}", "UNSUBSCRIBE_SECRET": "s3cret"}
    installation.settings = {"BOARD_ARCHIVES": str(archives), "BACKOFF_BASE": "0.01", **links}
    fill(Community(installation.url), posts)
    return archives


def test_a_kill_in_the_middle_of_an_export_loses_nothing(embedded: Installation) -> None:
    """The file is the same as without a kill."""
    archives = prepare(embedded, POSTS)
    [job_id] = embedded.enqueue("archive_board", '{"board": 7}', lane="archive_board")

    killed_at: list[int] = []
    killed = drain_under_kills(
        embedded,
        rows_of(embedded, "SELECT checkpoint FROM mayfly_jobs WHERE type = 'archive_board'"),
        kills=KILLS,
        within=0.1,
        check=lambda: killed_at.append(size_of(archives / ".board-7.json")),
    )

    job = embedded.job(job_id)
    assert (killed, job.status, job.attempts) == (KILLS, "done", 1)
    assert job.claims == KILLS + 1 + job.slices
    assert min(killed_at) > 0
    assert posts_in(archives / "board-7.zip") == list(range(1, POSTS + 1))
    assert [each.name for each in archives.iterdir()] == ["board-7.zip"]
    mails = embedded.rows("SELECT payload FROM mayfly_jobs WHERE type = 'send_email'")
    assert sorted(json.loads(row.payload)["to"] for row in mails) == [f"{each}@example.com" for each in (1, 2, 3)]


def test_random_kills_publish_nothing_twice_and_lose_nothing(embedded: Installation) -> None:
    """The server sees one idempotency key per post, however often it is called."""
    embedded.settings = {
        "PRIVATE_HOSTS": "127.0.0.1",
        "CHANNEL_TEST": "t0ken",
        "BATCH_SIZE": "5",
        "MAX_WORKERS": "2",
        "BACKOFF_BASE": "0.01",
    }
    with provider() as server:
        server.mode, server.body = "slowly", b'{"id": "1142"}'
        community = Community(embedded.url)
        community.board()
        channel_id = community.channel("mastodon", server.url)
        for number in range(1, 21):
            community.post(number, channel_id=channel_id)
        embedded.enqueue("publish_due_posts", lane="publish_post")

        killed = drain_under_kills(embedded, lambda: len(server.requests), kills=KILLS)

        keys = Counter(each.headers["Idempotency-Key"] for each in server.requests)
    assert (killed, embedded.statuses()) == (KILLS, {"done": 21})
    assert (len(keys), max(keys.values()) <= 1 + KILLS) == (20, True)
    states = embedded.rows("SELECT DISTINCT state, remote_id FROM app_posts")
    assert [tuple(row) for row in states] == [("published", "1142")]


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", ["sqlite", "mariadb"], indirect=True)
def test_an_export_of_100_000_posts_needs_little_memory(installation: Installation) -> None:
    """100 MB of posts, in several cycles."""
    archives = prepare(installation, 100_000)
    [job_id] = installation.enqueue("archive_board", '{"board": 7}', lane="archive_board")

    while installation.job(job_id).status in ("pending", "processing"):
        installation.dispatch()

    job = installation.job(job_id)
    [peak] = [row[0] for row in installation.rows("SELECT MAX(peak_memory) FROM mayfly_runners WHERE lane = 'misc'")]
    print(f"{job.duration_ms} ms, {job.slices} slices, {peak:,} bytes at most")
    assert (job.status, posts_in(archives / "board-7.zip")) == ("done", list(range(1, 100_001)))
    assert peak < 100 << 20
