"""POST /enqueue: one job, many, repeated requests, and what is refused."""

import threading
from typing import Any

import pytest

from tests.process.console.api import Answer, Api


def test_a_job_is_enqueued(api: Api) -> None:
    """201 with its id; the row has the given values."""
    answer = api.post("/enqueue", {"type": "noop", "payload": {"n": 1}, "lane": "outside", "priority": 0})

    assert (answer.status, len(answer.json["ids"])) == (201, 1)
    job = api.installation.job(answer.json["ids"][0])
    assert (job.type, job.lane, job.priority, job.payload) == ("noop", "outside", 0, '{"n":1}')


def test_a_list_is_enqueued(api: Api) -> None:
    """1,000 ids in the order of the request."""
    answer = api.post("/enqueue", [{"type": "noop", "payload": {"n": number}} for number in range(1000)])

    rows = api.installation.rows("SELECT id, payload FROM mayfly_jobs ORDER BY id")
    assert answer.status == 201
    assert [row.id for row in rows] == answer.json["ids"]
    assert [row.payload for row in rows] == [f'{{"n":{number}}}' for number in range(1000)]


def test_a_list_with_an_error_enqueues_nothing(api: Api) -> None:
    """422, with the position of the job and the field."""
    answer = api.post("/enqueue", [{"type": "noop"}, {"type": "sleep", "payload": {"seconds": "many"}}])

    assert answer.status == 422
    assert [each["field"] for each in answer.json["errors"]] == ["1.payload.seconds"]
    assert api.installation.statuses() == {}


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_that_is_not_declared_as_json_is_refused(served: Api, content_type: str | None) -> None:
    """415 with the header to send; a request without a body needs no content type."""
    [job_id] = served.installation.enqueue("noop")
    headers = {"Content-Type": content_type} if content_type else {}
    answers = [
        served.post(path, raw=body, headers=headers, content_type=False)
        for path, body in (("/enqueue", b'{"type": "noop"}'), (f"/jobs/{job_id}/cancel", b'{"reason": "x"}'))
    ]

    assert [(each.status, each.json["code"]) for each in answers] == [(415, "unsupported_media_type")] * 2
    assert "`Content-Type: application/json`" in answers[0].json["detail"]
    assert served.installation.statuses() == {"pending": 1}
    assert served.post(f"/jobs/{job_id}/cancel", headers=headers).status == 200


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"]
)
def test_every_content_type_of_json_is_accepted(served: Api, content_type: str) -> None:
    assert served.post("/enqueue", {"type": "noop"}, headers={"Content-Type": content_type}).status == 201


def test_a_repeated_idempotency_key_enqueues_once(api: Api) -> None:
    """201, then 200 with the same ids; keys of other tokens are independent."""
    key = {"Idempotency-Key": "order-42"}
    first, second = (api.post("/enqueue", [{"type": "noop"}] * 3, headers=key) for _ in range(2))
    other = api.post("/enqueue", [{"type": "noop"}] * 3, headers=key, token=api.make_token("other", "enqueue"))

    assert (first.status, second.status, other.status) == (201, 200, 201)
    assert first.json == second.json != other.json
    assert api.installation.statuses() == {"pending": 6}


def test_an_idempotency_key_with_another_body_is_refused(api: Api) -> None:
    """The first response would hide the error of the client."""
    key = {"Idempotency-Key": "order-42"}
    api.post("/enqueue", {"type": "noop"}, headers=key)

    answer = api.post("/enqueue", {"type": "noop", "lane": "outside"}, headers=key)

    assert (answer.status, api.installation.statuses()) == (422, {"pending": 1})


@pytest.mark.every_database
def test_concurrent_requests_with_one_key_enqueue_once(api: Api) -> None:
    """The others wait for it and get its response."""
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


def test_a_held_unique_key_is_a_conflict_if_asked_for(api: Api) -> None:
    """409 with on_conflict="error"; otherwise the id of the job that holds the key."""
    job = {"type": "noop", "unique_key": "page:7"}
    first, second = (api.post("/enqueue", job) for _ in range(2))

    refused = api.post("/enqueue", {**job, "on_conflict": "error"})

    assert first.json == second.json
    assert (refused.status, refused.json["title"], refused.json["code"]) == (409, "Conflict", "unique_key_held")


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


def test_invalid_fields_are_named(served: Api) -> None:
    """422 with the field and a code, for each kind of error; nothing is enqueued."""
    found = [served.post("/enqueue", body) for body, _field in BAD]

    assert [each.status for each in found] == [422] * len(BAD), [each.text for each in found if each.status != 422]
    assert {each.json["code"] for each in found} == {"invalid_request"}
    named = [{wrong["field"] for wrong in each.json["errors"]} for each in found]
    assert [field for (_body, field), fields in zip(BAD, named, strict=True) if field not in fields] == []
    assert served.installation.statuses() == {}


def test_unreadable_bodies_are_refused(served: Api) -> None:
    """No JSON, invalid UTF-8, nested too deep, numbers too long."""
    deep = b'{"type": "noop", "payload": ' + b'{"a":' * 40 + b"1" + b"}" * 41
    bodies = [b"{", b"\xff", b"[" * 100_000, deep, b'{"type": "noop", "payload": {"n": ' + b"1" * 5000 + b"}}", b""]

    found = [served.post("/enqueue", raw=each) for each in bodies]

    assert [each.status for each in found] == [422] * len(bodies)
    assert {each.headers["content-type"] for each in found} == {"application/problem+json"}


def test_large_payloads_and_requests_are_refused(serving: Any) -> None:
    """413, with different codes: over PAYLOAD_LIMIT, and over CONSOLE_BODY_LIMIT."""
    api = serving(CONSOLE_BODY_LIMIT="200K")
    large, larger = ({"type": "noop", "payload": {"text": "x" * size}} for size in (70_000, 300_000))

    answers = [api.post("/enqueue", large), api.post("/enqueue", larger)]

    assert [each.status for each in answers] == [413, 413]
    assert [each.json["code"] for each in answers] == ["payload_too_large", "content_too_large"]
    assert api.installation.statuses() == {}


@pytest.mark.parametrize("status", ["401", "403"])
def test_enqueueing_needs_a_token_with_the_scope(served: Api, status: str) -> None:
    """401 without a token, 403 without the scope."""
    token = None if status == "401" else served.make_token("reader", "read")

    answer = served.post("/enqueue", {"type": "noop"}, token=token)

    assert (answer.status, served.installation.statuses()) == (int(status), {})
