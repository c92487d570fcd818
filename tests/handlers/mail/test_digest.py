"""Digests: the posts of others since the last one, each once; no mail without news."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from handlers.mail.digest import MAX_LISTED, NewsItem, compose
from handlers.mail.payloads import Digest, Mail
from mayfly import enqueue
from mayfly.testing import Drained, assert_enqueued, drain
from tests.handlers.community import LONG_AGO, Community
from tests.hypothesis_profiles import in_full

LINK = "https://shop.example/unsubscribe?who=me"
pytestmark = pytest.mark.usefixtures("_bulk_mail")
SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


def digest(person: int | None = 1, **options: Any) -> Drained:
    """The mails are cancelled, because no account is configured."""
    enqueue("send_digest", {} if person is None else {"person": person})
    return drain(lanes=["send_digest"], raises=False, **options)


def mails(count: int) -> list[dict[str, Any]]:
    return [each.payload for each in assert_enqueued("send_email", count=count)]


@pytest.mark.every_database
def test_news_are_sent_once(community: Community) -> None:
    """Later posts are in the next digest, with another key. On every database."""
    community.person(2, "Bob")
    community.board(7, members=(1, 2), title="Garden")
    community.published(1, author_id=2, body="Roses <b>")
    community.published(2, author_id=None, age=timedelta(hours=2))

    results = [digest().runs[0].result, digest().runs[0].result]
    community.published(3, author_id=2, body="Tulips", age=timedelta(seconds=61))
    community.execute("UPDATE app_digests SET until_at = :at", at=community.now() - timedelta(minutes=2))
    results.append(digest().runs[0].result)

    assert results == [{"posts": 2}, {"posts": 0}, {"posts": 1}]
    first, second = mails(2)
    assert first["text"] == (
        "Dear Ann,\n\n2 new posts on your boards:\n\nGarden\n- The co-facilitator: Post 2\n- Bob: Roses <b>\n\n"
        f"Unsubscribe: {first['unsubscribe']}\n"
    )
    assert "<li>Bob: Roses &lt;b&gt;</li>" in first["html"]
    assert (second["subject"], "Tulips" in second["text"]) == ("1 new post on your boards", True)
    assert (first["key"], second["key"]) == ("digest:1:1", "digest:1:2")


@SQLITE
@pytest.mark.parametrize(
    "columns",
    [
        {"author_id": 1},
        {"state": "withdrawn"},
        {"board_id": 8},
        {"age": timedelta(days=4)},  # before the person joined
        {"age": timedelta(days=8), "joined": timedelta(days=9)},  # the first digest goes back a week
        {"age": timedelta(seconds=30)},  # perhaps not all of that minute is committed yet
    ],
)
def test_other_posts_are_no_news(community: Community, columns: dict[str, Any]) -> None:
    """Own posts, withdrawn ones, other boards, too old or too new."""
    community.board(7, members=(1, 2))
    community.board(8, members=(2,))
    news = {"author_id": 2, "joined": timedelta(days=3), "state": "published", **columns}
    joined, state = news.pop("joined"), news.pop("state")
    community.execute("UPDATE app_members SET joined_at = :at", at=community.now() - joined)
    community.published(1, **news)
    community.execute("UPDATE app_posts SET state = :state", state=state)

    drained = [digest(), digest(None)]

    others = 1 if news["author_id"] == 1 else 0  # the person to whom it is news
    assert [each.runs[0].result for each in drained] == [{"posts": 0}, {"people": others, "suppressed": 0}]
    mails(others)


@pytest.mark.every_database
def test_each_person_with_news_gets_a_digest(community: Community, monkeypatch: pytest.MonkeyPatch) -> None:
    """In slices; a second run finds nothing. On every database."""
    monkeypatch.setattr("handlers.mail.digest.PAGE_SIZE", 2)
    community.board(7, members=(1, 2, 5))
    community.board(8, members=(3, 4, 6))
    community.published(1, author_id=2)

    first, again = digest(None, slice_after=1), digest(None)

    assert first.outcomes == {"sliced": 3, "done": 3, "cancelled": 2}
    assert again.runs[0].result == {"people": 0, "suppressed": 0}
    assert sorted(each["to"] for each in mails(2)) == ["1@example.com", "5@example.com"]


@pytest.mark.every_database
def test_a_suppressed_address_gets_no_digest(community: Community) -> None:
    """Neither by the round nor by a job for this person. On every database."""
    community.person(3, email="Eve@example.com")
    community.board(7, members=(1, 2, 3))
    community.published(1, author_id=1)
    community.suppress("eve@example.com")

    [everybody, *_], [eve] = digest(None).runs, digest(3).runs

    assert everybody.result == {"people": 1, "suppressed": 1}
    assert (eve.kind, eve.reason) == ("cancelled", "eve@example.com is suppressed: unsubscribed")
    assert [each["to"] for each in mails(1)] == ["2@example.com"]


@SQLITE
def test_digests_do_not_delay_other_mail(community: Community) -> None:
    """They have a lane of their own, and within it low priority: the next round starts before they are sent."""
    community.board(7, members=(1, 2))
    community.published(1, author_id=2)

    digest()

    [mail] = assert_enqueued("send_email", lane="send_digest")
    assert mail.priority == 2


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", ["sqlite", "mariadb"], indirect=True)
def test_fifty_thousand_people(community: Community) -> None:
    """2,000 of them have news; the others cost a query, not a job."""
    quiet, busy = range(1, 48_001), range(48_001, 50_001)
    community.board(7)
    community.board(8)
    insert_many(community, "app_people", [
        {"id": each, "name": "Ann", "email": f"{each}@example.com", "created_at": LONG_AGO}
        for each in (*quiet, *busy)
    ])  # fmt: skip
    insert_many(community, "app_members", [
        {"board_id": 7 if each in quiet else 8, "person_id": each, "joined_at": LONG_AGO} for each in (*quiet, *busy)
    ])  # fmt: skip
    insert_many(community, "app_posts", [
        {"id": each, "board_id": 7, "body": "old", "state": "published", "created_at": LONG_AGO,
         "published_at": LONG_AGO + timedelta(seconds=each)} for each in range(1, 20_001)
    ])  # fmt: skip
    community.published(99_999, 8)
    enqueue("send_digest")

    drained = drain(lanes=["send_digest"], most=5000)

    times = "SELECT MIN(duration_ms), MAX(duration_ms), SUM(duration_ms) FROM mayfly_jobs WHERE type = 'send_digest'"
    print("ms (a child, the round, all):", *community.rows(times))
    assert drained.runs[0].result == {"people": 2000, "suppressed": 0}
    mails(2000)


def insert_many(community: Community, table: str, rows: list[dict[str, Any]]) -> None:
    insert = community.database.dialect.insert(table, rows[0])
    for start in range(0, len(rows), 5000):
        community.database.run(lambda connection: connection.execute_many(insert, rows[start : start + 5000]))  # noqa: B023


@SQLITE
def test_two_runs_for_one_person_send_one(community: Community, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have read the same news: one of them moves the mark."""
    community.board(7, members=(1, 2))
    community.published(1, author_id=2)
    digest()
    community.execute("UPDATE app_digests SET until_at = :at", at=community.now() - timedelta(hours=3))

    def compose_meanwhile(name: str, count: int, news: list[NewsItem], link: str) -> dict[str, str]:
        """The other run is faster."""
        community.execute("UPDATE app_digests SET number = number + 1")
        return compose(name, count, news, link)

    monkeypatch.setattr("handlers.mail.digest.compose", compose_meanwhile)

    [run] = digest().runs

    assert run.result == {"posts": 0}
    mails(1)


@SQLITE
@pytest.mark.parametrize(
    ("email", "became", "why"),
    [
        ("nobody", "dead", "person 1 has no valid email address"),
        (None, "cancelled", "there is no person 1"),
    ],
)
def test_people_without_a_valid_address(community: Community, email: str | None, became: str, why: str) -> None:
    """Get an error message instead of a refused mail."""
    if email is not None:
        community.person(1, email=email)
    community.board(7, members=() if email is None else (1,))
    community.published(1)

    [run] = digest().runs

    assert (run.kind, run.reason) == (became, why)


def test_a_long_digest_lists_the_newest() -> None:
    """And counts the others."""
    news = [NewsItem("Garden", "Bob", "x" * 500) for _ in range(MAX_LISTED)]

    mail = compose("Ann", 1234, news, LINK)

    assert (mail["subject"], "And 1,214 earlier posts." in mail["text"]) == ("1,234 new posts on your boards", True)
    assert len(mail["text"]) < 5000


@in_full(50)
@given(st.text(), st.lists(st.tuples(st.text(), st.text(), st.text()), min_size=1, max_size=5))
def test_any_user_input_becomes_a_valid_mail(name: str, rows: list[tuple[str, str, str]]) -> None:
    """Without user tags in the html."""
    composed = compose(name, len(rows), [NewsItem(*row) for row in rows], LINK)
    mail = Mail.model_validate({"to": "a@b.example", **composed})

    tags = mail.html or ""
    for ours in (f'<a href="{LINK}">', "</a>", "<p>", "</p>", "<h2>", "</h2>", "<ul>", "</ul>", "<li>", "</li>"):
        tags = tags.replace(ours, "")
    assert "<" not in tags
    assert mail.context is None


@pytest.mark.parametrize(
    "payload", [{"person": 0}, {"person": "1"}, {"person": True}, {"person": 1 << 63}, {"kind": "x"}]
)
def test_a_digest_is_of_a_person_or_of_all(payload: dict[str, Any]) -> None:
    """Other payloads are refused at enqueue."""
    with pytest.raises(ValidationError):
        Digest.model_validate(payload)
