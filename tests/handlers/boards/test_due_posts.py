"""Due posts are enqueued, once per publish_at."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from handlers.boards.payloads import BoardPayload, PostPayload
from mayfly import enqueue
from mayfly.testing import drain, run_inline
from tests.handlers.community import LONG_AGO, Community
from tests.handlers.providers import provider
from tests.hypothesis_profiles import in_full

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


def jobs_for_posts(community: Community) -> list[tuple[Any, ...]]:
    return community.rows("SELECT unique_key, status FROM mayfly_jobs WHERE type = 'publish_post' ORDER BY id")


@pytest.mark.every_database
def test_a_due_post_becomes_one_job(community: Community) -> None:
    """However often the scheduled job runs. On every database."""
    community.board()
    community.board(9, state="closed", closed_at=LONG_AGO)
    later = community.now() + timedelta(hours=1)
    kinds: list[dict[str, Any]] = [{}, {"publish_at": later}, {"state": "draft"}, {"board_id": 9}, {}]
    for post_id, columns in enumerate(kinds, 1):
        community.post(post_id, **columns)

    runs = [run_inline("publish_due_posts"), run_inline("publish_due_posts")]

    assert [each.result for each in runs] == [{"queued": 2}, {"queued": 0}]
    assert jobs_for_posts(community) == [("post:1", "pending"), ("post:5", "pending")]


@SQLITE
def test_a_failed_post_is_not_enqueued_again(community: Community, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job is dead; a later publish_at is a new job."""
    monkeypatch.setenv("CHANNEL_TEST", "t0ken")
    monkeypatch.setenv("PRIVATE_HOSTS", "127.0.0.1")
    community.board()
    with provider() as server:
        server.status, server.body = 401, b'{"id": "1142"}'
        community.post(1, channel_id=community.channel("mastodon", server.url))

        for _ in range(3):
            enqueue("publish_due_posts")
            drain(raises=False)
        tries = len(server.requests)
        community.execute("UPDATE app_posts SET publish_at = :at", at=community.now())
        server.status = 200
        enqueue("publish_due_posts")
        drain()

    assert (tries, len(server.requests)) == (1, 2)
    assert community.rows("SELECT state FROM app_posts") == [("published",)]


@SQLITE
def test_many_posts_are_queued_page_by_page(community: Community, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page and its jobs in one transaction."""
    monkeypatch.setattr("handlers.boards.publication.PAGE_SIZE", 2)
    community.board()
    for post_id in range(1, 6):
        community.post(post_id)

    assert run_inline("publish_due_posts").result == {"queued": 5}
    assert len(jobs_for_posts(community)) == 5


# --- payloads ---------------------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@SQLITE
@in_full(50)
@given(st.dictionaries(st.sampled_from(["post", "board", "x"]), ANYTHING | st.integers(-1, 1 << 64), max_size=2))
def test_any_payload_is_refused_or_handled(community: Community, payload: dict[str, Any]) -> None:
    """At enqueue, or with an error message."""
    for model, type_name, empty in (
        (PostPayload, "publish_post", "cancelled"),
        (BoardPayload, "close_board", "dead"),
    ):
        try:
            model.model_validate(payload)
        except ValidationError:
            continue

        assert run_inline(type_name, payload).kind == empty
