"""The search index with killed runners: a search sees a complete index, and no table is left over."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import inspect

from handlers.search.query import find
from handlers.search.tables import INDEX_NAME
from tests.handlers.process.random_kills import drain_under_kills, rows_of
from tests.handlers.rows import reader
from tests.process.installation import Installation
from tests.sqlalchemy_engines import engine_of

RARE = 300  # posts with a word that the others do not have


def add_posts(installation: Installation, count: int) -> None:
    head = "INSERT INTO app_posts (board_id, body, state, created_at, published_at) VALUES "
    at = datetime(2026, 5, 4, tzinfo=UTC)
    columns = ("board_id", "body", "state", "created_at", "published_at")
    posts = [(1, f"{'rare' if number < RARE else 'common'} words", "published", at, at) for number in range(count)]
    for start in range(0, count, 2000):
        part = posts[start : start + 2000]
        installation.database.run(lambda own: own.execute_rows(head, columns, part, ""))  # noqa: B023 - called at once


def found(installation: Installation) -> int | None:
    hits = find(reader(installation.database), "rare", limit=10 * RARE)
    return None if hits is None else len(hits)


def build_under_kills(installation: Installation, posts: int, kills: int) -> None:
    """Search at each kill, until the build has ended."""
    installation.settings = {"BACKOFF_BASE": "0.01"}
    add_posts(installation, RARE)
    installation.enqueue("rebuild_search_index", lane="vacuum_logs")
    installation.dispatch()
    assert found(installation) == RARE
    add_posts(installation, posts)
    job_id = installation.enqueue("rebuild_search_index", lane="vacuum_logs")[0]

    seen: set[int | None] = set()
    killed = drain_under_kills(
        installation,
        rows_of(installation, f"SELECT checkpoint FROM mayfly_jobs WHERE id = {job_id}"),
        kills=kills,
        within=0.03,
        check=lambda: seen.add(found(installation)),
    )

    tables = [
        each for each in inspect(engine_of(installation.database)).get_table_names() if INDEX_NAME.fullmatch(each)
    ]
    assert killed
    assert seen <= {RARE, 2 * RARE}
    assert installation.statuses() == {"done": 2}
    assert (found(installation), tables) == (2 * RARE, [f"app_search_{job_id}"])


def test_random_kills_never_show_an_incomplete_index(embedded: Installation) -> None:
    """On SQLite, with a small index."""
    build_under_kills(embedded, posts=10_000, kills=2)


@pytest.mark.slow
def test_many_kills_never_show_an_incomplete_index(installation: Installation) -> None:
    """On every database."""
    build_under_kills(installation, posts=20_000, kills=8)
