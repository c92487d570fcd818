"""A source works with the types of keys, times, status and payload columns that applications use."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import (
    CHAR,
    JSON,
    BigInteger,
    Boolean,
    Date,
    DateTime,
    Enum,
    Float,
    LargeBinary,
    Numeric,
    String,
    Text,
    Uuid,
)

from mayfly.db.database import Database
from mayfly.queue.outcome import DONE
from tests.database.factories import run_sql
from tests.database.source_factories import Posts, make_posts, make_source, posts_table

postgres_only = pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
IDS = [UUID(int=number) for number in (1, 2)]
KEYS: dict[str, tuple[Any, list[Any]]] = {
    "integers": (BigInteger(), [1, (1 << 63) - 1]),
    "negative integers": (BigInteger(), [-5, -1]),
    "texts": (String(60), ["a b", "it's %s :key"]),
    "texts of digits": (String(60), ["0017", "17"]),
    "texts with other letters": (String(60), ["Grüße", "Köln"]),
    "texts of fixed length": (CHAR(20), ["ab", "abc"]),
    "UUIDs": (Uuid(native_uuid=True), IDS),
    "decimals": (Numeric(12, 0), [Decimal(3), Decimal(4)]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_any_kind(database: Database, kind: str) -> None:
    """Each row is claimed, retried and written back by its key."""
    column, keys = KEYS[kind]
    posts = make_posts(database, {"id": column})
    posts.insert(*keys)

    first, second = posts.claim()
    posts.fail(first)
    posts.settle(second)
    posts.settle(posts.claim_retry(), DONE, "worker-2")

    assert set(posts.statuses().values()) == {"published"}


TIMES: dict[str, tuple[Any, Any, dict[str, str]]] = {
    "datetime": (DateTime(), lambda now: now.replace(tzinfo=None), {}),
    "date": (Date(), lambda now: now.date(), {}),
    "text with a space": (String(40), lambda now: now.strftime("%Y-%m-%d %H:%M:%S"), {"run_at_format": "text"}),
    "text with a T": (String(40), lambda now: now.strftime("%Y-%m-%dT%H:%M:%S"), {"run_at_format": "text"}),
    "text with a zone": (String(40), lambda now: now.strftime("%Y-%m-%dT%H:%M:%SZ"), {"run_at_format": "text"}),
    "seconds": (BigInteger(), lambda now: int(now.timestamp()), {"run_at_format": "epoch"}),
    "milliseconds": (BigInteger(), lambda now: int(now.timestamp() * 1000), {"run_at_format": "epoch_ms"}),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_of_any_kind(database: Database, kind: str) -> None:
    """A row is due when its time has passed; times that Mayfly writes have the same format."""
    column, stored, settings = TIMES[kind]
    own = {"locked_at": column, "published_at": column}
    posts = make_posts(database, {"run_at": column, **({} if kind == "date" else own)}, **settings)
    now = database.clock.now()
    posts.insert(1, run_at=stored(now - timedelta(days=1)))
    posts.insert(2, run_at=stored(now + timedelta(days=1)))

    counted = posts.count()
    job = posts.claim_one()
    posts.settle(job)

    assert (counted, job.row["id"]) == (1, 1)
    assert job.run_at is not None
    assert timedelta(hours=23) < now - job.run_at < timedelta(hours=49)
    written = posts.statements.times.utc(posts.row(1).published_at)
    assert written is not None
    assert timedelta(seconds=-2) < written - now < timedelta(minutes=1)


def test_local_times_are_due_in_their_zone(database: Database) -> None:
    """Kiritimati is 14 hours ahead of UTC, Niue 11 hours behind; neither has summer time."""
    ahead, behind = make_source(timezone="Pacific/Kiritimati"), make_source(timezone="Pacific/Niue")
    posts = Posts(database, posts_table(), ahead)
    for key, hours in enumerate([13, 15], start=1):
        posts.insert(key, run_at=(database.clock.now() + timedelta(hours=hours)).replace(tzinfo=None))
    in_kiritimati = posts.claimed_keys()
    posts = Posts(database, posts_table(), behind)
    for key, hours in enumerate([-12, -10], start=3):
        posts.insert(key, run_at=(database.clock.now() + timedelta(hours=hours)).replace(tzinfo=None))

    assert (in_kiritimati, posts.claimed_keys()) == (["1"], ["3"])


# Berlin: 02:00 to 03:00 does not exist on March 29, 2026, and is repeated on October 25.
CHANGES = {
    "before the skipped hour": ("2026-03-29 01:59:00", "2026-03-29 00:59:00"),
    "in the skipped hour": ("2026-03-29 02:30:00", "2026-03-29 01:00:00"),
    "after the skipped hour": ("2026-03-29 03:00:00", "2026-03-29 01:00:00"),
    "in the repeated hour": ("2026-10-25 02:30:00", "2026-10-25 00:30:00"),
    "at its end": ("2026-10-25 03:00:00", "2026-10-25 02:00:00"),
}


@pytest.mark.parametrize("kind", ["datetime", "text"])
@pytest.mark.parametrize("change", CHANGES)
def test_local_times_are_due_once_when_clocks_change(database: Database, kind: str, change: str) -> None:
    """Those of the skipped hour when it is skipped; those of the repeated hour the first time, and from then on."""
    local, first_due = map(datetime.fromisoformat, CHANGES[change])
    column = DateTime() if kind == "datetime" else String(40)
    posts = make_posts(database, {"run_at": column}, run_at_format=kind, timezone="Europe/Berlin")
    posts.insert(1, run_at=local if kind == "datetime" else local.isoformat())
    first = first_due.replace(tzinfo=UTC)

    counted = [posts.count(now=first + timedelta(minutes=minutes)) for minutes in (-1, 0, 1, 29, 30, 31, 59, 60, 61)]

    assert counted == [0, *[1] * 8]


def test_columns_of_any_type_are_passed_to_the_handler(database: Database) -> None:
    """As values in job.row; as JSON in the payload."""
    at = datetime(2026, 5, 4, 12, 30)  # noqa: DTZ001 - as the column stores it
    columns: dict[str, tuple[Any, Any]] = {
        "text": (Text(), 'quotes " \\ and\nlines, Köln'),
        "json": (JSON(), {"tags": ["a", 1]}),
        "price": (Numeric(10, 2), Decimal("12.50")),
        "ratio": (Float(), 0.25),
        "flag": (Boolean(), True),
        "at": (DateTime(), at),
        "day": (Date(), date(2026, 5, 4)),
        "picture": (LargeBinary(), b"\x00\xff"),
        "missing": (String(10), None),
    }
    posts = make_posts(database, {name: kind for name, (kind, _) in columns.items()}, payload=list(columns))
    posts.insert(1, **{name: value for name, (_, value) in columns.items()})

    job = posts.claim_one()

    payload = job.payload
    assert (payload["text"], payload["ratio"], payload["missing"]) == ('quotes " \\ and\nlines, Köln', 0.25, None)
    assert float(payload["price"]) == 12.5
    assert payload["flag"] in (True, 1)
    assert payload["at"].replace("T", " ")[:19] == "2026-05-04 12:30:00"
    assert payload["day"] == "2026-05-04"
    assert payload["picture"].upper().removeprefix("\\X") == "00FF"
    assert payload["json"] in ({"tags": ["a", 1]}, '{"tags": ["a", 1]}')
    assert job.row["text"] == 'quotes " \\ and\nlines, Köln'
    assert bytes(job.row["picture"]) == b"\x00\xff"


def test_the_status_can_be_an_enum(database: Database) -> None:
    """Every value is written; on SQLite it is a text."""
    values = Enum("pending", "processing", "published", "failed", "withdrawn", name="post_status")
    posts = make_posts(database, {"status": values})
    posts.insert(1, 2)

    first, second = posts.claim()
    posts.fail(first)
    posts.settle(second)

    assert posts.statuses() == {1: "processing", 2: "published"}


def test_reserved_words_can_be_names(database: Database) -> None:
    """Names are quoted in every statement."""
    quoted = database.dialect.quoted
    columns = ("from", "group", "order", "select", "where")
    key, status, *texts = map(quoted, columns)
    declared = ", ".join(f"{name} VARCHAR(60)" for name in (status, *texts))
    run_sql(database, f"CREATE TABLE {quoted('user')} ({key} BIGINT PRIMARY KEY, {declared})")
    run_sql(database, f"INSERT INTO {quoted('user')} ({key}, {status}) VALUES (1, 'pending')")
    optional = dict.fromkeys(["run_at", "locked_at", "attempts", "finished_at"])
    named = {"table": "user", "id": "from", "status": "group", "worker_id": "order", "error": "select"}
    posts = Posts(database, posts_table(), make_source(**optional, **named, payload=["where"]))

    posts.fail(posts.claim_one())
    posts.settle(posts.claim_retry(), DONE, "worker-2")

    found = database.read(lambda c: c.execute(f"SELECT {status}, {texts[0]} FROM {quoted('user')}").all())
    assert found == [("published", "worker-2")]
    run_sql(database, f"DROP TABLE {quoted('user')}")


@pytest.fixture
def schema(database: Database) -> Iterator[str]:
    run_sql(database, "CREATE SCHEMA shop")
    yield "shop"
    run_sql(database, "DROP SCHEMA shop CASCADE")


@postgres_only
def test_a_table_can_be_in_another_schema(database: Database, schema: str) -> None:
    """Its name is qualified in every statement."""
    table = posts_table()
    table.schema = schema
    posts = Posts(database, table, make_source(table="shop.posts"))
    posts.insert(1)

    posts.fail(posts.claim_one())
    posts.settle(posts.claim_retry(), DONE, "worker-2")

    assert (posts.count(), posts.statuses()) == (0, {1: "published"})


@postgres_only
def test_times_with_a_zone_are_compared_as_instants(database: Database) -> None:
    """A column of type timestamptz."""
    column = DateTime(timezone=True)
    posts = make_posts(database, {"run_at": column, "locked_at": column, "published_at": column})
    now = database.clock.now()
    posts.insert(1, run_at=now - timedelta(minutes=1))
    posts.insert(2, run_at=now + timedelta(minutes=1))

    job = posts.claim_one()
    posts.settle(job)

    assert (job.row["id"], posts.count()) == (1, 0)
    assert posts.row(1).published_at.astimezone(UTC) - now < timedelta(minutes=1)
