"""Reading and manual actions over HTTP."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from tests.process.console.api import Api


def died(api: Api, count: int = 1) -> list[int]:
    ids = api.installation.enqueue("fail", '{"times": 9}', count=count, max_attempts=1)
    api.installation.dispatch()
    return ids


def test_a_job_is_read(api: Api) -> None:
    """Columns, history and reasons; 404 with a code for an unknown id."""
    [job_id] = died(api)

    answer = api.get(f"/jobs/{job_id}")

    assert answer.status == 200
    assert (answer.json["id"], answer.json["status"], answer.json["payload"]) == (job_id, "dead", {"times": 9})
    assert [each["outcome"] for each in answer.json["history"]] == ["failed"]
    assert answer.json["reasons"][0]["why"] == "dead"
    assert [api.get(f"/jobs/{each}").status for each in (10**6, 2**63 - 1)] == [404, 404]
    assert api.get("/jobs/1000000").json["code"] == "unknown_job"
    assert [api.get(f"/jobs/{each}").status for each in (0, 2**63, "x")] == [422, 422, 422]


def test_jobs_are_listed_page_by_page(api: Api) -> None:
    """Newest first, each once, filtered; a limit out of range is brought into it."""
    ids = api.installation.enqueue("noop", count=5, lane="mail")
    api.installation.enqueue("noop", lane="other")
    seen, after = [], ""
    for _ in range(3):
        page = api.get(f"/jobs?lane=mail&limit=2{after}").json
        seen += [each["id"] for each in page["jobs"]]
        after = f"&after={page['next']}"

    assert seen == ids[::-1]
    assert len(api.get("/jobs?limit=0").json["jobs"]) == 1
    assert len(api.get(f"/jobs?limit={10**40}").json["jobs"]) == 6
    assert api.get("/jobs?status=odd").status == 422
    assert api.get("/jobs?group_key=unknown").json["jobs"] == []


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_times_outside_of_the_years_in_utc_are_refused(api: Api, at: str) -> None:
    """In every parameter and field that is a time: Python and the databases cannot convert them to UTC."""
    [job_id] = api.installation.enqueue("noop")
    lists = [api.get(f"/jobs?{name}={quote(at)}") for name in ("created_before", "created_after")]
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/cancel", {"type": "noop", "created_before": at}),
        ("/cancel", {"type": "noop", "created_after": at}),
        ("/delay", {"type": "noop", "until": at}),
        (f"/jobs/{job_id}/delay", {"until": at}),
        ("/lanes/mail/pause", {"until": at}),
        ("/types/noop/pause", {"until": at}),
        ("/enqueue", {"type": "noop", "run_at": at}),
        ("/enqueue", {"type": "noop", "expires_at": at}),
    ]
    answers = [*lists, *(api.post(path, body) for path, body in bodies)]

    assert [each.status for each in answers] == [422] * len(answers)
    assert {each.json["code"] for each in answers} == {"invalid_request"}
    assert "within the years 1 to 9999 in UTC" in lists[0].json["detail"]
    assert api.installation.statuses() == {"pending": 1}


def test_every_list_is_served(api: Api) -> None:
    """And has entries."""
    died(api)
    api.post("/lanes/mail/pause", {"reason": "the vendor is down"})
    paths = ["/status", "/lanes", "/cycles", "/runners", "/dead", "/audit"]

    answers = [api.get(path) for path in paths]

    assert [each.status for each in answers] == [200] * len(paths)
    assert [path for path, each in zip(paths, answers, strict=True) if not any(each.json.values())] == []


def test_a_dead_job_is_retried(api: Api) -> None:
    """The same row; the audit names token, interface and reason."""
    [job_id] = died(api)

    answer = api.post(f"/jobs/{job_id}/retry", {"reason": "fixed"})

    assert (answer.status, answer.json["changed"], api.installation.job(job_id).status) == (200, 1, "pending")
    [entry] = [each for each in api.get("/audit").json["deeds"] if each["verb"] == "retry"]
    assert (entry["done_by"], entry["via"], entry["jobs"], entry["reason"]) == ("everything", "http", 1, "fixed")


def test_impossible_actions_are_refused(api: Api) -> None:
    """404 for an unknown job, 409 for a status that does not allow it; nothing changes."""
    [job_id] = api.installation.enqueue("noop")
    verbs: dict[str, Any] = {"retry": None, "discard": None}

    assert [api.post(f"/jobs/{job_id}/{verb}", body).status for verb, body in verbs.items()] == [409, 409]
    assert [api.post(f"/jobs/{job_id + 1}/{verb}").status for verb in ("retry", "cancel", "discard")] == [404] * 3
    assert api.installation.statuses() == {"pending": 1}


def test_a_job_is_delayed_and_cancelled(api: Api) -> None:
    """Also without a body."""
    [job_id] = api.installation.enqueue("noop")
    until = api.installation.now() + timedelta(days=1)

    delayed = api.post(f"/jobs/{job_id}/delay", {"until": until.isoformat()})
    again = api.post(f"/jobs/{job_id}/delay", {"until": until.isoformat()})
    cancelled = api.post(f"/jobs/{job_id}/cancel")

    assert [delayed.status, again.status, cancelled.status] == [200, 409, 200]
    assert api.installation.statuses() == {"cancelled": 1}
    assert api.post("/jobs/1/delay", {"until": "2001-01-01T00:00:00Z"}).status == 422


def test_matching_jobs_are_counted_and_discarded(api: Api) -> None:
    """By a filter; an empty one is refused."""
    died(api, count=3)
    which = {"type": "fail"}

    counted = api.post("/discard", {**which, "dry_run": True})
    done = api.post("/discard", which)

    assert (counted.json, done.json["changed"]) == ({"would_change": 3}, 3)
    assert api.installation.statuses() == {"cancelled": 3}
    assert api.post("/cancel", {}).status == 422


def test_jobs_are_found_and_cancelled_by_their_contents(api: Api) -> None:
    """By text and nested payload fields, in lists and actions; masked fields are refused in actions."""
    [meant] = api.installation.enqueue("noop", '{"order": {"id": 7}, "to": "ann"}')
    [other] = api.installation.enqueue("noop", '{"order": {"id": 8}, "to": "ann"}')
    which = {"text": "ann", "payload": ["payload.order.id=7"]}

    listed = api.get("/jobs?payload=order.id%3D7&payload=to%3Dann").json["jobs"]
    counted = api.post("/cancel", {**which, "dry_run": True})
    done = api.post("/cancel", which)

    assert [each["id"] for each in listed] == [meant]
    assert (counted.json, done.json["changed"]) == ({"would_change": 1}, 1)
    assert [api.installation.job(each).status for each in (meant, other)] == ["cancelled", "pending"]
    assert [each["subject"] for each in api.get("/audit").json["deeds"]][:1] == ["text=ann payload.order.id=7"]
    wrong = [
        {"payload": ["order.id"]},
        {"payload": ["=7"]},
        {"payload": ["password=x"]},
        {"payload": []},
        {"text": ""},
    ]
    assert [api.post("/cancel", each).status for each in wrong] == [422] * 5
    assert api.installation.job(other).status == "pending"
    assert api.get("/jobs?payload=x").status == 422


def test_lanes_and_types_are_paused_and_resumed(api: Api) -> None:
    """And the number of runners of a lane is set."""
    paused, again = (api.post("/lanes/mail/pause", {"reason": "down"}) for _ in range(2))
    resumed = api.post("/lanes/mail/resume")
    type_paused = api.post("/types/noop/pause")
    workers = api.ask("PUT", "/api/v1/lanes/mail", {"max_workers": 3})
    wrong = api.ask("PUT", "/api/v1/lanes/mail", {"max_workers": 0})

    assert [paused.json, again.json] == [{"was_paused": False}, {"was_paused": True}]
    assert resumed.json == {"was_paused": True, "due_again": 0}
    assert (type_paused.status, api.post("/types/noop/resume").json["was_paused"]) == (200, True)
    assert (workers.status, wrong.status) == (200, 422)
    [lane] = [each for each in api.get("/lanes").json["lanes"] if each["lane"] == "mail"]
    assert (lane["max_workers"], lane["set_by"], lane["paused"]) == (3, "everything", None)


def test_metrics_are_served(api: Api) -> None:
    """In the content type of Prometheus."""
    died(api)

    answer = api.ask("GET", "/metrics")

    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'mayfly_jobs_total{lane="default",outcome="dead",type="fail"} 1.0' in answer.text.splitlines()
