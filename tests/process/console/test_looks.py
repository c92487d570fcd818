"""What is seen and done over real HTTP, on every database, through browse and operate."""

from datetime import timedelta
from typing import Any

from tests.process.console.api import Api


def died(api: Api, count: int = 1) -> list[int]:
    ids = api.installation.enqueue("fail", '{"times": 9}', count=count, max_attempts=1)
    api.installation.dispatch()
    return ids


def test_a_job_is_seen_with_all_that_is_known_of_it(api: Api) -> None:
    """Its columns, its history and why it is as it is; 404 for one that is not there."""
    [job_id] = died(api)

    answer = api.get(f"/jobs/{job_id}")

    assert answer.status == 200
    assert (answer.json["id"], answer.json["status"], answer.json["payload"]) == (job_id, "dead", {"times": 9})
    assert [each["outcome"] for each in answer.json["history"]] == ["failed"]
    assert answer.json["reasons"][0]["why"] == "dead"
    assert [api.get(f"/jobs/{each}").status for each in (10**6, 2**63 - 1)] == [404, 404]
    assert [api.get(f"/jobs/{each}").status for each in (0, 2**63, "x")] == [422, 422, 422]


def test_jobs_are_listed_page_by_page(api: Api) -> None:
    """The newest first, each once, filtered; a limit out of bounds is brought into them."""
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
    assert api.get("/jobs?group_key=nobody").json["jobs"] == []


def test_every_list_can_be_asked_for(api: Api) -> None:
    """With something in it, as the document describes it."""
    died(api)
    api.post("/lanes/mail/pause", {"reason": "the vendor is down"})
    paths = ["/status", "/lanes", "/cycles", "/runners", "/dead", "/audit"]

    answers = [api.get(path) for path in paths]

    assert [each.status for each in answers] == [200] * len(paths)
    assert [path for path, each in zip(paths, answers, strict=True) if not any(each.json.values())] == []


def test_a_dead_job_is_retried_in_the_name_of_the_token(api: Api) -> None:
    """The same row; and the audit says who, by which way, and why."""
    [job_id] = died(api)

    answer = api.post(f"/jobs/{job_id}/retry", {"reason": "mended"})

    assert (answer.status, answer.json["changed"], api.installation.job(job_id).status) == (200, 1, "pending")
    [deed] = [each for each in api.get("/audit").json["deeds"] if each["verb"] == "retry"]
    assert (deed["done_by"], deed["via"], deed["jobs"], deed["reason"]) == ("everything", "http", 1, "mended")


def test_the_verbs_say_when_there_is_nothing_to_do(api: Api) -> None:
    """404 for a job that is not there, 409 for one that is not as it would have to be; nothing is changed."""
    [job_id] = api.installation.enqueue("noop")
    verbs: dict[str, Any] = {"retry": None, "discard": None}

    assert [api.post(f"/jobs/{job_id}/{verb}", body).status for verb, body in verbs.items()] == [409, 409]
    assert [api.post(f"/jobs/{job_id + 1}/{verb}").status for verb in ("retry", "cancel", "discard")] == [404] * 3
    assert api.installation.statuses() == {"pending": 1}


def test_a_job_is_delayed_and_cancelled(api: Api) -> None:
    """Without a body, too."""
    [job_id] = api.installation.enqueue("noop")
    until = api.installation.now() + timedelta(days=1)

    delayed = api.post(f"/jobs/{job_id}/delay", {"until": until.isoformat()})
    again = api.post(f"/jobs/{job_id}/delay", {"until": until.isoformat()})
    cancelled = api.post(f"/jobs/{job_id}/cancel")

    assert [delayed.status, again.status, cancelled.status] == [200, 409, 200]
    assert api.installation.statuses() == {"cancelled": 1}
    assert api.post("/jobs/1/delay", {"until": "2001-01-01T00:00:00Z"}).status == 422


def test_many_are_counted_before_and_changed_after(api: Api) -> None:
    """By a filter; everything is never meant."""
    died(api, count=3)
    which = {"type": "fail"}

    counted = api.post("/discard", {**which, "dry_run": True})
    done = api.post("/discard", which)

    assert (counted.json, done.json["changed"]) == ({"would_change": 3}, 3)
    assert api.installation.statuses() == {"cancelled": 3}
    assert api.post("/cancel", {}).status == 422


def test_lanes_and_types_are_held_up_and_let_go(api: Api) -> None:
    """On all hosts, at once."""
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


def test_prometheus_is_served(api: Api) -> None:
    """The same text as `mayfly metrics` prints, in its own content type."""
    died(api)

    answer = api.ask("GET", "/metrics")

    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'mayfly_jobs_total{lane="default",outcome="dead",type="fail"} 1.0' in answer.text.splitlines()
