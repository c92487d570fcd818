"""POST /enqueue over real HTTP, on every database: one job, many, twice, and what is refused."""

import threading
from typing import Any

import pytest

from tests.process.console.api import Answer, Api


def test_a_job_is_enqueued_and_can_be_seen(api: Api) -> None:
    """201 with its id; what was said of it is in the row."""
    answer = api.post("/enqueue", {"type": "noop", "payload": {"n": 1}, "lane": "outside", "priority": 0})

    assert (answer.status, len(answer.json["ids"])) == (201, 1)
    job = api.installation.job(answer.json["ids"][0])
    assert (job.type, job.lane, job.priority, job.payload) == ("noop", "outside", 0, '{"n":1}')


def test_a_list_is_enqueued_as_one(api: Api) -> None:
    """A thousand ids in the order in which they were given."""
    answer = api.post("/enqueue", [{"type": "noop", "payload": {"n": number}} for number in range(1000)])

    rows = api.installation.rows("SELECT id, payload FROM mayfly_jobs ORDER BY id")
    assert answer.status == 201
    assert [row.id for row in rows] == answer.json["ids"]
    assert [row.payload for row in rows] == [f'{{"n":{number}}}' for number in range(1000)]


def test_of_a_list_with_a_mistake_nothing_is_enqueued(api: Api) -> None:
    """422, with the number of the job and the field."""
    answer = api.post("/enqueue", [{"type": "noop"}, {"type": "sleep", "payload": {"seconds": "many"}}])

    assert answer.status == 422
    assert [each["field"] for each in answer.json["errors"]] == ["1.payload.seconds"]
    assert api.installation.statuses() == {}


def test_the_same_request_with_its_key_is_done_once(api: Api) -> None:
    """201, then 200 with the same ids, for this token; another token's key is another key."""
    key = {"Idempotency-Key": "order-42"}
    first, second = (api.post("/enqueue", [{"type": "noop"}] * 3, headers=key) for _ in range(2))
    other = api.post("/enqueue", [{"type": "noop"}] * 3, headers=key, token=api.make_token("other", "enqueue"))

    assert (first.status, second.status, other.status) == (201, 200, 201)
    assert first.json == second.json != other.json
    assert api.installation.statuses() == {"pending": 6}


def test_a_key_that_was_used_for_something_else_is_refused(api: Api) -> None:
    """It is a mistake of the sender's, and silently doing the first thing again would hide it."""
    key = {"Idempotency-Key": "order-42"}
    api.post("/enqueue", {"type": "noop"}, headers=key)

    answer = api.post("/enqueue", {"type": "noop", "lane": "outside"}, headers=key)

    assert (answer.status, api.installation.statuses()) == (422, {"pending": 1})


@pytest.mark.every_database
def test_of_many_at_once_with_one_key_one_enqueues(api: Api) -> None:
    """The others wait for it and get its answer."""
    answers: list[Answer] = []

    def ask() -> None:
        answers.append(api.post("/enqueue", [{"type": "noop"}] * 50, headers={"Idempotency-Key": "one"}))

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sorted(each.status for each in answers) == [200] * 11 + [201]
    assert len({str(each.json) for each in answers}) == 1
    assert api.installation.statuses() == {"pending": 50}


def test_who_wants_to_hear_of_a_holder_gets_409(api: Api) -> None:
    """And who does not gets the holder's id."""
    job = {"type": "noop", "unique_key": "page:7"}
    first, second = (api.post("/enqueue", job) for _ in range(2))

    refused = api.post("/enqueue", {**job, "on_conflict": "error"})

    assert first.json == second.json
    assert refused.status == 409


BAD: list[tuple[Any, str]] = [
    ({}, "type"),
    ({"type": ""}, "type"),
    ({"type": "noop", "payload": []}, "payload"),
    ({"type": "noop", "lane": "x" * 65}, "lane"),
    ({"type": "noop", "priority": 7}, "priority"),
    ({"type": "noop", "priority": "1"}, "priority"),
    ({"type": "noop", "delay": 1e300}, "delay"),
    ({"type": "noop", "run_at": "2026-05-04T12:00"}, "run_at"),
    ({"type": "noop", "run_at": 5}, "run_at"),
    ({"type": "noop", "unique": "for 1h"}, "unique"),
    ({"type": "noop", "unique_key": "a", "unique": "for ever"}, "unique"),
    ({"type": "noop", "colour": "red"}, "colour"),
    ({"type": "sleep", "payload": {"seconds": "x"}}, "payload.seconds"),
    ({"type": "noop", "payload": {"n": float("nan")}}, "payload"),
    ([], "body"),
    ([{"type": "noop"}] * 1001, "body"),
    ("text", "body"),
]


def test_what_is_wrong_is_named(served: Api) -> None:
    """422 with the field, for each kind of mistake; and nothing of it is enqueued."""
    found = [served.post("/enqueue", body) for body, _field in BAD]

    assert [each.status for each in found] == [422] * len(BAD), [each.text for each in found if each.status != 422]
    named = [{wrong["field"] for wrong in each.json["errors"]} for each in found]
    assert [field for (_body, field), fields in zip(BAD, named, strict=True) if field not in fields] == []
    assert served.installation.statuses() == {}


def test_bodies_that_cannot_be_read_are_refused(served: Api) -> None:
    """No JSON, half a character, too deep, numbers too long for Python: each a sentence."""
    deep = b'{"type": "noop", "payload": ' + b'{"a":' * 40 + b"1" + b"}" * 41
    bodies = [b"{", b"\xff", b"[" * 100_000, deep, b'{"type": "noop", "payload": {"n": ' + b"1" * 5000 + b"}}", b""]

    found = [served.post("/enqueue", raw=each) for each in bodies]

    assert [each.status for each in found] == [422] * len(bodies)
    assert {each.headers["content-type"] for each in found} == {"application/problem+json"}


def test_what_is_too_large_is_refused(serving: Any) -> None:
    """413: a payload beyond PAYLOAD_LIMIT, and a request beyond CONSOLE_BODY_LIMIT, told or not how long it is."""
    api = serving(CONSOLE_BODY_LIMIT="200K")
    large, larger = ({"type": "noop", "payload": {"text": "x" * size}} for size in (70_000, 300_000))

    answers = [api.post("/enqueue", large), api.post("/enqueue", larger)]

    assert [each.status for each in answers] == [413, 413]
    assert api.installation.statuses() == {}


@pytest.mark.parametrize("status", ["401", "403"])
def test_who_may_not_enqueue_does_not(served: Api, status: str) -> None:
    """No token, and one that is for something else."""
    token = None if status == "401" else served.make_token("reader", "read")

    answer = served.post("/enqueue", {"type": "noop"}, token=token)

    assert (answer.status, served.installation.statuses()) == (int(status), {})
