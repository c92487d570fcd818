"""Sample people, boards and posts, and other rows and files that jobs need: sessions, metrics, logs, a CSV file."""

import csv
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from scripts.demonstration.home import Home

FIRST = (
    "Ada",
    "Ben",
    "Cleo",
    "Dana",
    "Elif",
    "Finn",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Kim",
    "Lena",
    "Milo",
    "Nora",
)
LAST = (
    "Arndt",
    "Brandt",
    "Costa",
    "Diaz",
    "Ekström",
    "Fuchs",
    "Garcia",
    "Holm",
    "Ivanova",
    "Jansen",
    "Keller",
    "Lopez",
)
TOPICS = (
    "Tomatoes",
    "Compost",
    "Bees",
    "Tools to share",
    "The old apple tree",
    "Rain water",
    "Seeds",
    "Summer feast",
)
SENTENCES = (
    "Has anybody tried this on clay?", "We meet on Saturday at ten.", "I can bring two spades.",
    "Ours have been in since April.", "The slugs were faster than we were.", "Photos are on the wall in the shed.",
)  # fmt: skip
COMPANIES = ("Greenhouse Ltd", "Root & Branch", "Seedling GmbH", "Wheelbarrow Inc")
QUIET_BOARD = 1  # without posts for days: it is nudged
PROSPECTS_EACH = 100  # a member: an import that takes long enough to be watched


class Sample(NamedTuple):
    people: int
    boards: int


def fill(home: Home, people: int, outside_url: str) -> Sample:
    """The same each time, but for the times."""
    chance, now = random.Random(7), datetime.now(UTC)  # noqa: S311 - no secret
    boards = max(4, people // 20)
    tables: dict[str, Iterator[Mapping[str, Any]]] = {
        "app_people": _people(chance, people, now),
        "app_boards": _boards(boards, now),
        "app_members": _members(chance, people, boards, now),
        "app_channels": _channels(outside_url),
        "app_posts": _posts(chance, people, boards, now),
        "app_subscriptions": _subscriptions(people, outside_url, now),
        "app_sessions": _sessions(people, now),
        "app_log_rows": _log_rows(now),
        "app_metric_points": _points(chance, now),
    }
    database = home.open()
    for table, rows in tables.items():
        _insert(database, table, list(rows))
    database.close()
    _write_prospects(home, chance, people * PROSPECTS_EACH)
    return Sample(people, boards)


def _insert(database: Any, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = list(rows[0])
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(f':{each}' for each in columns)})"
    database.run(lambda connection: connection.execute_many(statement, rows))


def _people(chance: random.Random, count: int, now: datetime) -> Iterator[Mapping[str, Any]]:
    for number in range(1, count + 1):
        first, last = chance.choice(FIRST), chance.choice(LAST)
        yield {
            "id": number,
            "email": f"{first.lower()}{number}@example.com",
            "name": f"{first} {last}",
            "created_at": now,
        }


def _boards(count: int, now: datetime) -> Iterator[Mapping[str, Any]]:
    for number in range(1, count + 1):
        title = f"{TOPICS[number % len(TOPICS)]} {number}"
        yield {"id": number, "title": title, "state": "open", "created_at": now - timedelta(days=90)}


def _members(chance: random.Random, people: int, boards: int, now: datetime) -> Iterator[Mapping[str, Any]]:
    for board in range(1, boards + 1):
        for person in sorted(chance.sample(range(1, people + 1), min(people, 25))):
            yield {"board_id": board, "person_id": person, "joined_at": now - timedelta(days=60)}


def _channels(url: str) -> Iterator[Mapping[str, Any]]:
    yield {"id": 1, "kind": "mastodon", "url": f"{url}/mastodon", "credential": "CHANNEL_MASTODON_TOKEN"}
    yield {"id": 2, "kind": "webhook", "url": f"{url}/hook", "credential": "CHANNEL_HOOK_SECRET"}


def _posts(chance: random.Random, people: int, boards: int, now: datetime) -> Iterator[Mapping[str, Any]]:
    """Most are published; every nineteenth is due by now or soon, on a channel."""
    for number in range(boards * 40):
        board = number % boards + 1
        age = timedelta(days=8) if board == QUIET_BOARD else timedelta(hours=chance.random() * 40)
        is_due = number % 19 == 7 and board != boards  # not on the board that is closed and archived
        yield {
            "board_id": board,
            "author_id": chance.randint(1, people),
            "body": " ".join(chance.sample(SENTENCES, 2)),
            "state": "scheduled" if is_due else "published",
            "created_at": now - age,
            "channel_id": 1 + number % 2 if is_due else None,
            "publish_at": now + timedelta(seconds=number % 90 - 30) if is_due else None,
            "published_at": None if is_due else now - age,
        }


def _subscriptions(people: int, url: str, now: datetime) -> Iterator[Mapping[str, Any]]:
    for person in range(1, people + 1, 5):
        for kind, place in (("ntfy", f"{url}/phones/person-{person}"), ("webhook", f"{url}/chat/{person}")):
            yield {"person_id": person, "kind": kind, "url": place, "created_at": now}


def _sessions(people: int, now: datetime) -> Iterator[Mapping[str, Any]]:
    for number in range(people * 10):
        at = now - timedelta(days=number % 60)
        yield {"person_id": number % people + 1, "token_hash": f"{number:064x}", "created_at": at, "seen_at": at}


def _log_rows(now: datetime) -> Iterator[Mapping[str, Any]]:
    for number in range(3000):
        yield {
            "logged_at": now - timedelta(hours=number),
            "level": "INFO",
            "message": f"Request {number} was served.",
        }


def _points(chance: random.Random, now: datetime) -> Iterator[Mapping[str, Any]]:
    for number in range(3000):
        at = now - timedelta(minutes=number)
        yield {"name": ("posts", "logins")[number % 2], "measured_at": at, "value": float(chance.randint(1, 9))}


def _write_prospects(home: Home, chance: random.Random, count: int) -> None:
    """With a few lines that are wrong, and some people who are in it twice."""
    with (home.imports / "prospects.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["E-Mail", "Name", "Company", "Website"])
        for number in range(count):
            name, company = (
                f"{chance.choice(FIRST)} {chance.choice(LAST)}{number % (count // 5)}",
                chance.choice(COMPANIES),
            )
            mail = "" if number % 3 == 0 else f"p{number % (count - 100)}@example.net"
            writer.writerow([mail if number % 97 else "no address", name, company, "https://example.net"])
