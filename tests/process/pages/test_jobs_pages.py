"""The pages of jobs, one job, dead jobs, lanes, and the form that enqueues a job."""

import csv
import io
import json
import re
from datetime import timedelta
from typing import Any

from tests.process.console.api import Api
from tests.process.installation import Installation, wait_until
from tests.process.pages.visitor import Visitor, text_of


def make_dead(installation: Installation, error: str, payload: Any = None, **columns: Any) -> int:
    """With its last attempt."""
    now = installation.now()
    fingerprint = f"{hash(error) % 16**16:016x}"
    [job_id] = installation.enqueue(
        columns.pop("type_name", "noop"), json.dumps(payload or {}), status="dead", attempts=5,
        last_error=f"{error}\n  in line 7", finished_at=now, **columns,
    )  # fmt: skip
    installation.execute(
        "INSERT INTO mayfly_attempts"
        " (job_id, attempt, worker_id, outcome, error, fingerprint, finished_at, duration_ms)"
        f" SELECT id, 5, 'worker-1', 'failed', last_error, '{fingerprint}', finished_at, 1234 FROM mayfly_jobs"
        f" WHERE id = {job_id}"
    )
    return job_id


def ids_in(page: str) -> list[int]:
    return [int(each) for each in re.findall(r'class="job" href="[^"]*/jobs/(\d+)"', page)]


def test_jobs_are_filtered_by_the_address(api: Api, visitor: Visitor) -> None:
    """By every field of the filter; the tabs of the statuses keep it."""
    made = api.installation
    done = made.enqueue("noop", '{"customer": 42}', count=2, status="done", finished_at=made.now())
    [waits] = made.enqueue("mail", '{"customer": 7, "city": "Paris"}', lane="slow", group_key="g")
    dead = make_dead(made, "ValueError: no")
    fingerprint = made.rows("SELECT fingerprint FROM mayfly_attempts")[0][0]
    old = made.now() - timedelta(days=3)
    [ancient] = made.enqueue("noop", created_at=old, run_at=old, status="cancelled", finished_at=old)

    shown = {
        query: ids_in(visitor.get(f"/jobs?{query}").text)
        for query in (
            "", "status=done", "status=dead", "type=mail", "lane=slow", "group=g", f"error={fingerprint}",
            "since=1d", "before=1d", "ended=1h", f"id={done[0]},{waits}", "text=paris", "field=customer&value=42",
            "field=customer&value=4", "type=mail&status=done",
        )
    }  # fmt: skip
    page = text_of(visitor.get("/jobs"))

    assert shown == {
        "": [ancient, dead, waits, *reversed(done)],
        "status=done": [*reversed(done)],
        "status=dead": [dead],
        "type=mail": [waits],
        "lane=slow": [waits],
        "group=g": [waits],
        f"error={fingerprint}": [dead],
        "since=1d": [dead, waits, *reversed(done)],
        "before=1d": [ancient],
        "ended=1h": [dead, *reversed(done)],
        f"id={done[0]},{waits}": [waits, done[0]],
        "text=paris": [waits],
        "field=customer&value=42": [*reversed(done)],
        "field=customer&value=4": [],
        "type=mail&status=done": [],
    }
    assert "all pending 1 processing 0 done 2 dead 1 cancelled 1" in page
    assert "No jobs match this filter." in text_of(visitor.get("/jobs?type=unknown"))
    wrong = visitor.get("/jobs?since=yesterday")
    assert (wrong.status, "since='yesterday': must be how long ago" in text_of(wrong)) == (422, True)


def test_empty_fields_of_a_form_are_not_in_the_address(visitor: Visitor) -> None:
    """Without scripts a browser sends all fields: the answer is a redirect."""
    answers = [visitor.get(each) for each in ("/jobs?id=&type=a+b&lane=&text=", "/jobs?status=", "/limits?from=")]

    assert [(each.status, each.headers["location"]) for each in answers] == [
        (303, "/jobs?type=a+b"),
        (303, "/jobs"),
        (303, "/limits"),
    ]


def test_jobs_are_paginated(api: Api, visitor: Visitor) -> None:
    """By key, with the filter kept: each job is shown exactly once."""
    ids = api.installation.enqueue("noop", count=120, lane="mail")
    seen: list[int] = []
    address = "/jobs?lane=mail"
    while address:
        page = visitor.get(address).text
        seen += ids_in(page)
        found = re.search(r'href="([^"]*)" rel="next"', page)
        address = found[1].replace("&amp;", "&") if found else ""

    assert seen == ids[::-1]


def test_the_page_of_a_job_shows_its_history(api: Api, visitor: Visitor) -> None:
    """After a real cycle in which it failed: attempt, runner, host, error, and the commands for it."""
    made = api.installation
    [failed] = made.enqueue("always_fail", '{"to": {"name": "Ann"}, "list": [1, null, true]}', max_attempts=1)
    [done] = made.enqueue("noop")
    made.dispatch()

    page = visitor.get(f"/jobs/{failed}")
    text = text_of(page)
    host = made.rows("SELECT host FROM mayfly_runners")[0][0]

    assert re.search(rf"Attempt 1 \w+ .*worker-\d+-\d+ on {re.escape(host)}, exit code 0", text)
    assert "RuntimeError: failed at attempt 1" in text
    assert f"mayfly show {failed} Copy mayfly retry {failed} Copy mayfly discard {failed}" in text
    assert '<span class="key">name</span>' in page.text
    assert "Attempts 1 of 1" in text
    assert re.search(r"Done .*, after \d+", text_of(visitor.get(f"/jobs/{done}")))
    made.execute("UPDATE mayfly_runners SET cause = 'out of memory'")
    assert ", exit code 0: out of memory" in text_of(visitor.get(f"/jobs/{failed}"))


def test_progress_is_a_bar_with_percent_and_text(api: Api, visitor: Visitor) -> None:
    """On the page of the job and in lists; secrets in its text are masked."""
    made = api.installation
    [job_id] = made.enqueue(
        "noop", '{"token": "geheim"}', progress='{"done": 620, "total": 1000, "text": "rows of geheim"}'
    )

    for page in (visitor.get(f"/jobs/{job_id}"), visitor.get("/jobs")):
        assert '<progress max="100" value="62"' in page.text
        assert "62 % 620 of 1,000 rows of •••" in text_of(page)


def test_progress_without_a_total_has_no_bar(api: Api, visitor: Visitor) -> None:
    """Nor has a value that plain SQL has written; the page shows what is there."""
    made = api.installation
    stored = {"7 of it": '{"done": 7, "text": "of it"}', "done : true": '{"done": true}', '"ab"': '["ab"]'}
    for text, progress in stored.items():
        [job_id] = made.enqueue("noop", progress=progress)
        page = visitor.get(f"/jobs/{job_id}")

        assert (page.status, "<progress" in page.text) == (200, False)
        assert text in text_of(page)
        assert visitor.get("/jobs").status == 200


def test_the_page_of_a_job_shows_kept_successes(api: Api, visitor: Visitor) -> None:
    """An attempt without an error has no link to jobs with the same one."""
    made = api.installation
    [done] = made.enqueue("noop")
    made.dispatch(LANES__DEFAULT__KEEP_SUCCESSES="true")

    page = visitor.get(f"/jobs/{done}")

    assert re.search(r"Attempt 1 done .*worker-\d+-\d+ on ", text_of(page))
    assert '<li class="is-good">' in page.text
    assert "All jobs with this error" not in page.text


def test_neighbours_in_a_chain_are_linked(api: Api, visitor: Visitor) -> None:
    """The step before and the step after."""
    steps = api.installation.enqueue("noop", count=3, group_key="chain:abc")

    page = visitor.get(f"/jobs/{steps[1]}")

    assert ids_in(page.text) == [steps[0], steps[2]]
    assert "Chain chain:abc" in text_of(page)


def test_parent_and_children_are_linked(api: Api, visitor: Visitor) -> None:
    """A pruned parent is named without a link."""
    made = api.installation
    [parent] = made.enqueue("noop")
    [job] = made.enqueue("noop", parent_id=parent)
    children = made.enqueue("noop", count=2, parent_id=job)
    [orphan] = made.enqueue("noop", parent_id=10**6)

    assert ids_in(visitor.get(f"/jobs/{job}").text) == [parent, *children]
    assert "enqueued by job 1000000 (deleted)" in text_of(visitor.get(f"/jobs/{orphan}"))


def test_a_dead_job_is_retried(api: Api, visitor: Visitor) -> None:
    """Confirmation with the name of the environment, action, message, audit entry."""
    made = api.installation
    job_id = make_dead(made, "ValueError: no")
    asked = visitor.get(f"/jobs/confirm?verb=retry&id={job_id}&back=/jobs/{job_id}")

    done = visitor.post("/jobs/act", verb="retry", id=str(job_id), reason="fixed", back=f"/jobs/{job_id}")
    after = visitor.follow(done)

    assert "Retry 1 job in testing?" in text_of(asked)
    assert f"mayfly retry {job_id}" in text_of(asked)
    assert "1 job due again." in text_of(after)
    assert "1 job due again." not in text_of(visitor.get(f"/jobs/{job_id}"))  # shown once
    assert made.statuses() == {"pending": 1}
    [entry] = made.rows("SELECT done_by, via, subject, reason FROM mayfly_audit WHERE verb = 'retry'")
    assert tuple(entry) == ("admin", "page", f"ids={job_id}", "fixed")


def test_all_matching_jobs_are_cancelled_by_a_background_task(api: Api, visitor: Visitor) -> None:
    """With their number before, and the result after."""
    made = api.installation
    made.enqueue("noop", count=150, lane="mail")
    made.enqueue("noop", count=3, lane="other")
    asked = text_of(visitor.get("/jobs/confirm?all=cancel&lane=mail&status=pending"))

    started = visitor.post("/jobs/act", verb="cancel", lane="mail", status="pending", back="/jobs?lane=mail")
    where = started.headers["location"]
    wait_until(lambda: "150 jobs cancelled." in text_of(visitor.get(where)), "all are cancelled")

    assert "Cancel 150 jobs in testing?" in asked
    assert "mayfly cancel --lane mail --status pending" in asked
    assert where.startswith("/errands/")
    assert made.statuses() == {"cancelled": 150, "pending": 3}
    assert "refresh" not in visitor.get(where).headers
    [entry] = made.rows("SELECT jobs, subject FROM mayfly_audit WHERE verb = 'cancel'")
    assert tuple(entry) == (150, "lane=mail status=pending")


def test_all_jobs_that_a_search_finds_are_cancelled(api: Api, visitor: Visitor) -> None:
    """By text or payload field, counted first, in a task that can be stopped."""
    made = api.installation
    made.enqueue("noop", '{"order": {"id": 7}, "to": "ann"}', count=150)
    made.enqueue("noop", '{"order": {"id": 8}, "to": "ann"}', count=3)
    search = "text=payload.order.id%3D7"
    listed = visitor.get(f"/jobs?{search}").text
    asked = text_of(visitor.get(f"/jobs/confirm?all=cancel&{search}"))

    where = visitor.post("/jobs/act", verb="cancel", text="payload.order.id=7").headers["location"]
    wait_until(lambda: "150 jobs cancelled." in text_of(visitor.get(where)), "all are cancelled")
    few = visitor.follow(visitor.post("/jobs/act", verb="cancel", text="ANN"))

    assert 'name="all" value="cancel"' in listed
    assert "Cancel 150 jobs in testing?" in asked
    assert "mayfly cancel --payload order.id=7" in asked
    assert "3 jobs cancelled." in text_of(few)
    assert made.statuses() == {"cancelled": 153}
    subjects = made.rows("SELECT subject, jobs FROM mayfly_audit WHERE verb = 'cancel' ORDER BY id")
    assert [tuple(each) for each in subjects] == [("payload.order.id=7", 150), ("text=ANN", 3)]


def test_a_page_says_why_nothing_can_be_changed(api: Api, visitor: Visitor) -> None:
    """The state that the action needs, or the filter that is missing."""
    [job_id] = api.installation.enqueue("noop", lane="mail")
    reasons = {
        f"/jobs/confirm?verb=discard&id={job_id}": "None of the selected jobs is dead.",
        "/jobs/confirm?all=retry&lane=mail": "is dead; filter by the status cancelled or pending",
        "/jobs/confirm?all=discard&lane=mail": "No job that matches the filter is dead.",
        "/jobs?status=pending": "All jobs of one status cannot be changed at once",
        "/jobs": "All jobs cannot be changed at once",
        "/jobs?field=password&value=x": "must be a field that is not masked by REDACT",
    }

    assert {path for path, reason in reasons.items() if reason not in text_of(visitor.get(path))} == set()


def test_actions_do_not_find_masked_values(api: Api, visitor: Visitor) -> None:
    """A count would reveal them letter by letter."""
    api.installation.enqueue("noop", '{"user": "ann", "password": "hunter22"}')
    asked = text_of(visitor.get("/jobs/confirm?all=cancel&text=hunter"))
    done = visitor.follow(visitor.post("/jobs/act", verb="cancel", text="hunter"))

    assert "Nothing to cancel" in asked
    assert "No matching jobs; nothing was changed." in text_of(done)
    assert visitor.post("/jobs/act", verb="cancel", text="payload.password=hunter22").status == 422
    assert "Cancel 1 job in testing?" in text_of(visitor.get("/jobs/confirm?all=cancel&text=ann"))


def test_actions_on_all_jobs_are_refused(api: Api, visitor: Visitor) -> None:
    """Nothing selected, an empty filter, or only a status."""
    api.installation.enqueue("noop", count=2)
    nothing = visitor.follow(visitor.get("/jobs/confirm?verb=cancel&back=/jobs"))
    answers = [
        visitor.post("/jobs/act", verb="cancel"),
        visitor.post("/jobs/act", verb="cancel", status="pending"),
        visitor.post("/jobs/act", verb="drop", id="1"),
        visitor.post("/jobs/act", verb="cancel", id="1; DROP TABLE mayfly_jobs"),
    ]

    assert "No jobs selected" in text_of(nothing)
    assert [each.status for each in answers] == [422] * len(answers)
    assert api.installation.statuses() == {"pending": 2}


def test_a_job_is_delayed(api: Api, visitor: Visitor) -> None:
    """By a duration; the reason is shown on its page."""
    made = api.installation
    [job_id] = made.enqueue("noop")
    before = made.now()

    done = visitor.follow(visitor.post("/jobs/act", verb="delay", id=str(job_id), until="2h", reason="later"))
    past = visitor.post("/jobs/act", verb="delay", id=str(job_id), until="2001-01-01T00:00")

    assert "1 job delayed." in text_of(done)
    assert past.status == 422
    assert "delayed by admin: later" in text_of(visitor.get(f"/jobs/{job_id}"))
    view = visitor.get(f"/jobs/{job_id}").text
    due = re.search(r'Due <time datetime="([^"]+)"', view)
    assert due
    assert due[1] > f"{before + timedelta(hours=1, minutes=59):%Y-%m-%dT%H:%M}"


def test_dead_jobs_are_grouped_and_each_number_is_a_link(api: Api, visitor: Visitor) -> None:
    """To the jobs it counts; a group is discarded as a whole."""
    made = api.installation
    same = [make_dead(made, "ValueError: no") for _ in range(3)]
    other = make_dead(made, "KeyError: x", type_name="mail")
    page = visitor.get("/dead")
    addresses = [
        each.replace("&amp;", "&") for each in re.findall(r'class="amount"><a href="([^"]*)">3</a>', page.text)
    ]

    listed = [sorted(ids_in(visitor.get(each).text)) for each in addresses]

    assert listed == [same] * 4  # 1h, 24h, 7d, all
    assert "ValueError: no" in text_of(page)
    error = re.search(r"error=(\w+)", addresses[0])
    assert error
    asked = text_of(visitor.get(f"/jobs/confirm?all=discard&status=dead&type=noop&error={error[1]}"))
    assert "Discard 3 jobs in testing?" in asked
    visitor.post("/jobs/act", verb="discard", status="dead", type="noop", error=error[1])
    assert made.statuses() == {"cancelled": 3, "dead": 1}
    assert made.job(other).status == "dead"


def test_a_lane_is_paused_and_resumed(api: Api, visitor: Visitor) -> None:
    """The next cycle obeys; reason and end are shown."""
    made = api.installation
    made.enqueue("noop", lane="mail")
    asked = text_of(visitor.get("/pause?kind=lane&name=mail"))
    paused = visitor.follow(visitor.post("/pause", kind="lane", name="mail", reason="vendor is down", until="2h"))
    plan = made.dispatch("--dry-run").stdout
    resumed = visitor.follow(visitor.post("/resume", kind="lane", name="mail"))
    again = made.dispatch("--dry-run").stdout

    assert "Pause the lane mail in testing?" in asked
    assert re.search(r"paused vendor is down, by admin .*, ends in \d+ \w+", text_of(paused))
    assert "paused: vendor is down" in plan
    assert "Resumed the lane mail." in text_of(resumed)
    assert "paused" not in again
    assert visitor.post("/pause", kind="lane", name="mail", until="2001-01-01").status == 422
    assert visitor.post("/pause", kind="everything", name="mail").status == 422


def test_the_number_of_runners_of_a_lane_is_set_and_unset(api: Api, visitor: Visitor) -> None:
    """On all hosts; invalid numbers are refused."""
    made = api.installation
    made.enqueue("noop", count=50, lane="mail")
    visitor.post("/lanes/workers", name="mail", workers="2")
    page = text_of(visitor.get("/lanes"))
    plan = made.dispatch("--dry-run").stdout
    wrong = [visitor.post("/lanes/workers", name="mail", workers=each).status for each in ("0", "-1", "x", "1001")]
    visitor.post("/lanes/workers", name="mail", workers="")

    assert "0 / 2 set by admin" in page
    assert "max_workers 2 set by admin" in plan
    assert wrong == [422] * 4
    assert "0 / 5" in text_of(visitor.get("/lanes"))


def test_redacted_fields_are_never_shown(api: Api, visitor: Visitor) -> None:
    """Not in payload, error, traceback, list or export; and no search finds them."""
    made = api.installation
    payload = {"user": "ann", "login": {"Password": "hunter22", "pin": [{"token": 9417}]}}
    job_id = make_dead(made, "AuthError: hunter22 with 9417 for ann, api_key=abcdef", payload, unique_key="u1")
    made.execute(f'UPDATE mayfly_jobs SET result = \'{{"said": "hunter22"}}\' WHERE id = {job_id}')
    paths = [
        "/jobs", f"/jobs/{job_id}", "/dead", "/jobs.csv", "/jobs.json", "/jobs?text=ann",
        "/jobs?field=user&value=ann",
        "/jobs?status=dead", f"/jobs/confirm?verb=retry&id={job_id}",
    ]  # fmt: skip
    pages = {path: visitor.get(path) for path in paths}

    assert {path: each.status for path, each in pages.items() if each.status != 200} == {}
    assert {path for path, each in pages.items() if re.search("hunter22|9417|abcdef", each.text)} == set()
    assert ids_in(pages["/jobs?text=ann"].text) == [job_id] == ids_in(pages["/jobs?field=user&value=ann"].text)
    assert "AuthError: ••• with ••• for ann, api_key=•••" in text_of(pages[f"/jobs/{job_id}"])
    assert ids_in(visitor.get("/jobs?text=hunter22").text) == []
    assert visitor.get("/jobs?field=password&value=hunter22").status == 422


def test_jobs_are_exported_as_csv_and_json(api: Api, visitor: Visitor) -> None:
    """With its filter; no cell is a formula."""
    made = api.installation
    job_id = make_dead(made, "=1+1", lane="mail")
    made.enqueue("noop", count=2)

    [row] = csv.DictReader(io.StringIO(visitor.get("/jobs.csv?lane=mail").text))
    [facts] = json.loads(visitor.get("/jobs.json?lane=mail").text)

    assert (row["id"], row["status"], row["error"]) == (str(job_id), "dead", "'=1+1")
    assert (facts["id"], facts["error"]) == (job_id, "=1+1")
    assert visitor.get("/jobs.csv").headers["content-disposition"] == 'attachment; filename="jobs.csv"'
    assert len(json.loads(visitor.get("/jobs.json").text)) == 3


def test_a_job_is_enqueued_by_a_form(api: Api, visitor: Visitor) -> None:
    """Fields of its schema with defaults, options, and an audit entry."""
    made = api.installation
    form = visitor.get("/enqueue?type=sleep").text
    options = {"lane": "mail", "run_at": "2h", "priority": "0", "group_key": "g", "unique_key": "u"}

    page = visitor.follow(visitor.post("/enqueue", type="sleep", **{"payload.seconds": "1.5"}, **options))

    assert 'name="payload.seconds" value="0.2"' in form
    assert re.search(r"Enqueued job \d+\.", text_of(page))
    [job] = made.rows("SELECT id, type, lane, priority, group_key, unique_key FROM mayfly_jobs")
    assert tuple(job)[1:] == ("sleep", "mail", 0, "g", "u")
    assert '<span class="literal">1.5</span>' in visitor.get(f"/jobs/{job.id}").text
    [entry] = made.rows("SELECT done_by, via, subject, jobs FROM mayfly_audit WHERE verb = 'enqueue'")
    assert tuple(entry) == ("admin", "page", "sleep", 1)


def test_an_invalid_form_is_shown_again_with_its_values(api: Api, visitor: Visitor) -> None:
    """Nothing is enqueued. A type without a schema takes JSON."""
    wrong = visitor.post("/enqueue", type="sleep", **{"payload.seconds": "-3", "group_key": "<b>"})
    broken = visitor.post("/enqueue", type="noop", payload='{"a": <')
    unknown = visitor.post("/enqueue", type="")

    assert [each.status for each in (wrong, broken, unknown)] == [422] * 3
    assert "The payload of sleep is refused" in text_of(wrong)
    assert 'value="-3"' in wrong.text
    assert 'value="&lt;b&gt;"' in wrong.text
    assert "{&#34;a&#34;: &lt;" in broken.text
    assert api.installation.statuses() == {}
    visitor.post("/enqueue", type="noop", payload='{"n": 1}')
    assert api.installation.statuses() == {"pending": 1}
