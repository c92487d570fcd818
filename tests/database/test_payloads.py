"""Payloads reach the handler unchanged, and payloads that cannot be stored are refused."""

from collections.abc import Iterator
from typing import Any

import pytest

import mayfly
from mayfly.client import App, use_app
from mayfly.db.database import Database
from mayfly.errors import BadPayload, PayloadTooLarge
from mayfly.json_text import MAX_DEPTH
from mayfly.schema.metadata import jobs
from mayfly.settings import load_settings
from tests.database.factories import claim_jobs, mysql_only, rows_of
from tests.databases import Databases
from tests.servers import PrivateServer

MEGABYTE = 1 << 20

HOSTILE: dict[str, Any] = {
    "NUL": "a\x00b",
    "four bytes": "\U0001f9a5 mayfly \U00010348",
    "controls": "\x01\x1f\x7f\u2028\n\r\t",
    "quotes": "'\"`\\ \\' \\\\ %s %(a)s :b ? {} ${c}",
    "zero, large and small": [0, -1, 2**63, 10**40, 1.5, 1e308, 5e-324],
    "empty": {"": "", "list": [], "object": {}},
    "words": [None, True, False],
    "\x00 \U0001f9a5 as a key": 1,
}


def nested(levels: int) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    for _ in range(levels - 1):
        payload = {"a": payload}
    return payload


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize("payload", [HOSTILE, nested(MAX_DEPTH)], ids=["hostile", "nested"])
def test_a_payload_reaches_its_handler_unchanged(database: Database, payload: dict[str, Any]) -> None:
    """Including NUL, emoji and quotes."""
    mayfly.enqueue("anything", payload)
    mayfly.enqueue_many([{"type": "anything", "payload": payload, "unique_key": "key"}])

    assert [job.payload for job in claim_jobs(database)] == [payload, payload]


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (["a", "list"], "it must be a JSON object, not list"),
        ("text", "it must be a JSON object, not str"),
        ({"number": float("nan")}, "it is not valid JSON"),
        ({"object": object()}, "it is not valid JSON"),
        ({"half a character": "\ud83e"}, "unpaired surrogate"),
        (nested(MAX_DEPTH + 1), "nested deeper than 31 levels"),
        (nested(50_000), "it is not valid JSON"),
    ],
    ids=["list", "text", "nan", "object", "surrogate", "nested", "endless"],
)
def test_a_payload_that_is_not_a_json_object_is_refused(database: Database, payload: Any, reason: str) -> None:
    """With a sentence, and nothing is inserted."""
    with pytest.raises(BadPayload, match=reason):
        mayfly.enqueue("noop", payload)

    assert rows_of(database, jobs) == []


@pytest.mark.usefixtures("app")
def test_the_limit_of_a_payload_counts_bytes(database: Database) -> None:
    """Exactly as many as configured, in any characters."""
    just_fits = "\U0001f9a5" * ((64 * 1024 - len('{"a":""}')) // 4)
    mayfly.enqueue("noop", {"a": just_fits})

    with pytest.raises(PayloadTooLarge, match="65,537 bytes, PAYLOAD_LIMIT allows 65,536"):
        mayfly.enqueue("noop", {"a": just_fits + "x"})

    assert len(rows_of(database, jobs)) == 1


@pytest.fixture
def small_packets(databases: Databases, engine_name: str, app: App, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """A server with a maximum packet of a megabyte, and settings that allow more."""
    server = databases.server(engine_name)
    if not isinstance(server, PrivateServer):
        pytest.skip("the settings of a server named by a variable must not be changed")
    [(before,)] = server.execute("SELECT @@GLOBAL.max_allowed_packet")
    server.execute(f"SET GLOBAL max_allowed_packet = {MEGABYTE}")
    monkeypatch.setenv("PAYLOAD_LIMIT", "8M")
    opened = App(load_settings())
    use_app(opened)
    yield opened
    opened.database.close()
    server.execute(f"SET GLOBAL max_allowed_packet = {before}")


@mysql_only
def test_a_payload_larger_than_the_packet_of_the_server_is_refused(small_packets: App, database: Database) -> None:
    """Otherwise the server would close the connection without a reason."""
    with pytest.raises(PayloadTooLarge, match="max_allowed_packet allows 1,048,576"):
        mayfly.enqueue("noop", {"text": "x" * MEGABYTE})

    assert rows_of(database, jobs) == []


@mysql_only
def test_many_payloads_larger_than_the_packet_are_refused(small_packets: App, database: Database) -> None:
    """One of them is enough; the others of its statement are not inserted either."""
    payloads = [{"text": "x" * size} for size in (10, MEGABYTE, 10)]

    with pytest.raises(PayloadTooLarge, match="max_allowed_packet"):
        mayfly.enqueue_many({"type": "noop", "payload": payload} for payload in payloads)

    assert len(rows_of(database, jobs)) <= 1


@mysql_only
def test_payloads_that_fit_the_packet_one_by_one_are_inserted(small_packets: App, database: Database) -> None:
    """Any number of them: statements are split by size."""
    inserted = mayfly.enqueue_many({"type": "noop", "payload": {"quotes": '"' * 150_000}} for _ in range(12))

    assert inserted == len(rows_of(database, jobs)) == 12


@mysql_only
def test_the_largest_accepted_payload_fits(small_packets: App, database: Database) -> None:
    """The counted size is what the driver sends, including escapes."""
    size = MEGABYTE - 1024
    mayfly.enqueue("noop", {"a": "x" * size})

    mayfly.enqueue("noop", {"a": "'" * (size // 2)})

    assert len(rows_of(database, jobs)) == 2
