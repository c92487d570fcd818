"""Posts to real HTTP servers: requests, and outcomes of job and post."""

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook

from handlers.boards import channel
from handlers.boards.tables import mark_published
from mayfly import enqueue
from mayfly.testing import Drained, drain
from tests.handlers.community import LONG_AGO, Community
from tests.handlers.providers import Provider, provider

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
FOREIGN_SETTING = "the credential of a channel must be the name of a setting that begins with CHANNEL_"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def server() -> Iterator[Provider]:
    with provider() as given:
        given.body = b'{"id": "1142"}'
        yield given


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANNEL_TEST", "t0ken")
    monkeypatch.setenv("PRIVATE_HOSTS", "127.0.0.1")


def on_mastodon(community: Community, server: Provider, post_id: int = 1, **columns: Any) -> int:
    community.board()
    return community.post(post_id, channel_id=community.channel("mastodon", server.url), **columns)


def publish(post_id: int = 1) -> Drained:
    enqueue("publish_post", {"post": post_id}, max_attempts=3)
    return drain(advance=True, raises=False)


def state_of(community: Community, post_id: int = 1) -> tuple[Any, ...]:
    return community.rows("SELECT state, remote_id FROM app_posts WHERE id = :id", id=post_id)[0]


def reason(drained: Drained) -> str:
    return str(drained.runs[-1].reason)


@pytest.mark.every_database
def test_a_post_becomes_a_status_once(community: Community, server: Provider) -> None:
    """A repeated job returns the same id without a call. On every database."""
    on_mastodon(community, server)

    first, again = publish(), publish()

    [request] = server.requests
    assert (request.method, request.path, json.loads(request.body)) == (
        "POST",
        "/api/v1/statuses",
        {"status": "Post 1"},
    )
    assert (request.headers["Authorization"], len(request.headers["Idempotency-Key"])) == ("Bearer t0ken", 45)
    assert [each.runs[0].result for each in (first, again)] == [{"remote_id": "1142"}] * 2
    assert state_of(community) == ("published", "1142")
    assert community.rows("SELECT published_at IS NULL FROM app_posts") == [(0,)]


def test_a_webhook_is_signed(community: Community, server: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the receiver's library verifies it, at the exact URL."""
    monkeypatch.setenv("CHANNEL_TEST", SECRET)
    community.board()
    community.post(1, body="Grüße", channel_id=community.channel("webhook", f"{server.url}/hook/?a=b"))

    drained = publish()

    [request] = server.requests
    verified = Webhook(SECRET).verify(request.body, dict(request.headers.items()))
    assert (request.path, verified["type"], verified["data"]["body"]) == ("/hook/?a=b", "post.published", "Grüße")
    assert drained.runs[0].result == {"remote_id": request.headers["webhook-id"]}
    assert state_of(community) == ("published", request.headers["webhook-id"])


@SQLITE
def test_a_repeated_webhook_can_be_detected(
    community: Community, server: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same id and body; a new signature."""
    monkeypatch.setenv("CHANNEL_TEST", SECRET)
    community.board()
    community.post(1, channel_id=community.channel("webhook", server.url))
    server.status = 503
    enqueue("publish_post", {"post": 1})

    outcomes = [drain(raises=False).outcomes]
    server.status = 204
    outcomes.append(drain(advance=True).outcomes)

    first, second = server.requests
    assert outcomes == [{"failed": 1}, {"done": 1}]
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
    assert first.headers["webhook-timestamp"] < second.headers["webhook-timestamp"]
    assert state_of(community) == ("published", first.headers["webhook-id"])


@SQLITE
def test_a_missing_library_is_an_error_message(
    community: Community, server: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the package to install; other channels work without it."""
    monkeypatch.setenv("CHANNEL_TEST", SECRET)
    monkeypatch.setitem(sys.modules, "standardwebhooks", None)
    community.board()
    community.post(1, channel_id=community.channel("webhook", server.url))

    drained = publish()

    assert reason(drained) == "webhooks need standardwebhooks: pip install 'mayfly-jobs[webhooks]'"
    assert (drained.outcomes, server.requests) == ({"dead": 1}, [])


@SQLITE
def test_a_post_without_a_channel_is_published_on_its_board(community: Community) -> None:
    """Without a call."""
    community.board()
    community.post(1)

    drained = publish()

    assert (drained.outcomes, state_of(community)) == ({"done": 1}, ("published", None))


@SQLITE
@pytest.mark.parametrize(
    ("columns", "became", "why"),
    [
        ({"state": "withdrawn"}, "cancelled", "post 1 is withdrawn, not scheduled"),
        ({"state": "draft"}, "cancelled", "post 1 is draft, not scheduled"),
        ({"board_id": 8}, "cancelled", "the board of post 1 is missing"),
        ({"board_id": 9}, "cancelled", "the board of post 1 is closed"),
        ({"channel_id": 99}, "dead", "there is no channel 99"),
        ({"channel_id": 4}, "cancelled", "integration not configured: CHANNEL_NONE"),
        ({"channel_id": 5}, "dead", FOREIGN_SETTING),
        ({"channel_id": 6}, "dead", "the URL of channel 6 must begin with http:// or https:// and name a host"),
        ({"id": 2}, "cancelled", "there is no post 1"),
    ],
)
def test_posts_that_must_not_be_published_are_not(
    community: Community, server: Provider, columns: dict[str, Any], became: str, why: str
) -> None:
    """State or board may have changed; and only settings of channels are ever sent."""
    community.board(9, state="closed", closed_at=LONG_AGO)
    community.channel("mastodon", server.url, "CHANNEL_NONE", 4)
    community.channel("mastodon", server.url, "DATABASE_URL", 5)
    community.channel("mastodon", "http://[", "CHANNEL_TEST", 6)
    on_mastodon(community, server)
    sets = ", ".join(f"{name} = :{name}" for name in columns)
    community.execute(f"UPDATE app_posts SET {sets}", **columns)

    drained = publish()

    assert (drained.outcomes, reason(drained), server.requests) == ({became: 1}, why, [])


@SQLITE
def test_a_post_with_a_later_time_is_snoozed(community: Community, server: Provider) -> None:
    """Without using an attempt."""
    on_mastodon(community, server, publish_at=community.now() + timedelta(hours=2))

    drained = publish()

    assert drained.outcomes == {"snoozed": 1, "done": 1}
    assert state_of(community) == ("published", "1142")


@SQLITE
@pytest.mark.parametrize(
    ("status", "headers", "outcomes"),
    [
        (401, {}, {"dead": 1}),
        (404, {}, {"dead": 1}),
        (429, {"Retry-After": "30"}, {"snoozed": 3}),
        (500, {}, {"failed": 2}),
    ],
)
def test_a_refused_post_stays_scheduled(
    community: Community, server: Provider, status: int, headers: dict[str, str], outcomes: dict[str, int]
) -> None:
    """The same job publishes it when the server works again."""
    on_mastodon(community, server)
    server.status, server.headers, server.body = status, headers, b"no: t0ken"
    enqueue("publish_post", {"post": 1}, max_attempts=3)

    refused = drain(advance=timedelta(seconds=75), raises=False)
    known = community.rows("SELECT state FROM app_idempotency")
    server.status, server.body = 200, b'{"id": "1142"}'
    publish()

    assert refused.outcomes == outcomes
    assert known == [("open",)]
    assert state_of(community) == ("published", "1142")
    assert len({each.headers["Idempotency-Key"] for each in server.requests}) == 1


@SQLITE
@pytest.mark.parametrize("mode", ["half", "garbage", "silent", "odd"])
def test_invalid_answers_are_retried(
    community: Community, server: Provider, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """With the same idempotency key."""
    on_mastodon(community, server)
    server.mode, server.body = ("answers", b'["1142"]') if mode == "odd" else (mode, b'{"id": "1142"}')
    enqueue("publish_post", {"post": 1}, max_attempts=3)

    with monkeypatch.context() as patched:
        if mode == "silent":
            patched.setattr(channel, "RESPONSE_SECONDS", 0.3)
        failed = drain(raises=False)
    server.mode, server.body = "answers", b'{"id": "1142"}'
    retried = drain(advance=True, raises=False)

    assert (failed.outcomes, retried.outcomes) == ({"failed": 1}, {"done": 1})
    assert state_of(community) == ("published", "1142")
    assert [len(server.requests), len({each.headers["Idempotency-Key"] for each in server.requests})] == [2, 1]


@SQLITE
def test_a_huge_answer_is_final_and_held(community: Community, server: Provider) -> None:
    """The post may have been published."""
    on_mastodon(community, server)
    server.mode = "huge"

    drained = publish()

    assert drained.outcomes == {"dead": 1}
    assert community.rows("SELECT state FROM app_idempotency") == [("handed over",)]


@SQLITE
@pytest.mark.parametrize(
    ("kind", "secret"),
    [("webhook", "whsec_§§"), ("webhook", "YWJj!YWJj"), ("webhook", "YQ="), ("mastodon", "t0\nken")],
)
def test_an_invalid_secret_is_not_shown(
    community: Community, server: Provider, monkeypatch: pytest.MonkeyPatch, kind: str, secret: str
) -> None:
    """Neither sent nor in an error."""
    monkeypatch.setenv("CHANNEL_TEST", secret)
    community.board()
    community.post(1, channel_id=community.channel(kind, server.url))

    drained = publish()

    assert (drained.outcomes, server.requests) == ({"dead": 1}, [])
    assert secret not in reason(drained)


def leave_in_doubt(community: Community, server: Provider, age: timedelta) -> None:
    """As a runner leaves it that was killed while it waited for the answer."""
    on_mastodon(community, server)
    at = community.now() - age
    row = {"effect_key": "post:1", "kind": "post", "state": "handed over", "job_id": 99, "claims": 1,
           "provider": "127.0.0.1", "changed_at": at}  # fmt: skip
    community.insert("app_idempotency", **row)


@pytest.mark.every_database
def test_doubt_is_resolved_by_the_key(community: Community, server: Provider) -> None:
    """For the same key the server returns the status that it has created. On every database."""
    leave_in_doubt(community, server, timedelta(minutes=3))

    drained = publish()

    assert (drained.outcomes, state_of(community)) == ({"done": 1}, ("published", "1142"))


@SQLITE
def test_doubt_that_has_outlived_the_key_is_held(community: Community, server: Provider) -> None:
    """Mastodon keeps a key for an hour: a later try could publish twice."""
    leave_in_doubt(community, server, timedelta(hours=2))

    drained = publish()

    assert (drained.outcomes, server.requests) == ({"dead": 1}, [])
    assert "outcome unknown: held, because it may have been published" in reason(drained)


@SQLITE
@pytest.mark.parametrize("status", [401, 429])
def test_a_refusal_does_not_resolve_an_earlier_doubt(community: Community, server: Provider, status: int) -> None:
    """The first try stays in doubt, with its time."""
    leave_in_doubt(community, server, timedelta(minutes=40))
    server.status, server.headers = status, {"Retry-After": "1200"}

    drained = publish()

    assert drained.outcomes == ({"dead": 1} if status == 401 else {"snoozed": 1, "dead": 1})
    assert (len(server.requests), community.rows("SELECT state FROM app_idempotency")) == (1, [("handed over",)])


@SQLITE
def test_a_published_post_is_stored_without_another_call(community: Community, server: Provider) -> None:
    """Its runner was killed before it updated the post."""
    on_mastodon(community, server)
    publish()
    community.execute("UPDATE app_posts SET state = 'scheduled', remote_id = NULL")

    publish()

    assert (len(server.requests), state_of(community)) == (1, ("published", "1142"))


def test_a_post_that_was_withdrawn_meanwhile_stays_withdrawn(community: Community) -> None:
    """With the id of its published copy."""
    community.board()
    community.post(1)
    community.post(2, state="withdrawn")

    for post_id in (1, 2):
        published = mark_published(post_id, community.now(), "1142")
        community.database.run_sqlalchemy(lambda connection: connection.execute(published))  # noqa: B023 - called at once

    assert [state_of(community, each) for each in (1, 2)] == [("published", "1142"), ("withdrawn", "1142")]


@SQLITE
def test_a_channel_with_a_private_address_is_not_called(
    community: Community, server: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except the hosts in PRIVATE_HOSTS."""
    monkeypatch.delenv("PRIVATE_HOSTS")
    on_mastodon(community, server)

    drained = publish()

    assert (drained.outcomes, server.requests) == ({"dead": 1}, [])
    assert "127.0.0.1 is not a public address" in str(drained.runs[-1].reason)
