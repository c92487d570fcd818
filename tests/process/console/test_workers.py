"""External workers: pull, done, fail, extend, and expired leases."""

from datetime import timedelta
from typing import Any

from tests.process.console.api import Api


def totals(api: Api) -> dict[str, int]:
    """Of a private console: it counts in memory and writes the sum."""
    rows = api.installation.rows("SELECT outcome, SUM(jobs) AS jobs FROM mayfly_totals GROUP BY outcome")
    return {row.outcome: int(row.jobs) for row in rows}


def report(api: Api, job: dict[str, Any], verb: str, **more: Any) -> int:
    return api.post(f"/jobs/{job['id']}/{verb}", {"claim": job["claim"], **more}).status


def expire(api: Api, *ids: int) -> None:
    """As if the lease had expired."""
    past = api.installation.now() - timedelta(seconds=1)
    for each in ids:
        api.installation.execute(
            f"UPDATE mayfly_jobs SET lease_until = '{past:%Y-%m-%d %H:%M:%S.%f}' WHERE id = {each}"
        )


def test_a_job_is_pulled_and_done(own_api: Api) -> None:
    """The row has result and worker_id, and the totals count it."""
    [job_id] = own_api.installation.enqueue("resize", '{"image": 7}', lane="outside")

    [job] = own_api.pull()
    answer = own_api.post(f"/jobs/{job_id}/done", {"claim": job["claim"], "result": {"width": 640}})

    row = own_api.installation.job(job_id)
    assert (job["id"], job["payload"], job["attempt"]) == (job_id, {"image": 7}, 1)
    assert (answer.status, answer.json["outcome"], answer.json["repeated"]) == (200, "done", False)
    assert (row.status, row.result, row.claims, row.attempts) == ("done", '{"width":640}', 1, 1)
    assert row.worker_id.startswith("http-")
    assert totals(own_api) == {"done": 1}


def test_a_repeated_done_changes_nothing(own_api: Api) -> None:
    """200; the first result stays, and the job is counted once."""
    own_api.installation.enqueue("resize", lane="outside")
    [job] = own_api.pull()

    first, second = (
        own_api.post(f"/jobs/{job['id']}/done", {"claim": job["claim"], "result": each}) for each in (1, 2)
    )

    assert (first.json["repeated"], second.status, second.json["repeated"]) == (False, 200, True)
    assert (own_api.installation.job(job["id"]).result, totals(own_api)) == ("1", {"done": 1})


def test_a_stale_claim_changes_nothing(api: Api) -> None:
    """409 for every request with it: another worker holds the job."""
    [job_id] = api.installation.enqueue("resize", lane="outside")
    [stale] = api.pull()
    expire(api, job_id)
    api.installation.dispatch()  # rescues the job
    [fresh] = api.pull()
    before = api.installation.job(job_id)

    answers = [report(api, stale, "done"), report(api, stale, "fail", error="x"), report(api, stale, "extend")]

    assert answers == [409, 409, 409]
    assert api.installation.job(job_id) == before
    assert report(api, fresh, "done") == 200


def test_invalid_claims_are_refused(api: Api) -> None:
    """409 for any text, and for an unknown job."""
    api.installation.enqueue("resize", lane="outside")
    [job] = api.pull()
    wrong = ["", "x", "1.", f"2.{job['claim'].partition('.')[2]}", "9" * 90, "1.worker-1-1", job["claim"][:-1]]

    answers = [report(api, {**job, "claim": each}, "done") for each in wrong]

    assert answers == [409] * len(wrong)
    assert report(api, {**job, "id": job["id"] + 1}, "done") == 409
    assert api.installation.statuses() == {"processing": 1}


def test_a_failed_job_is_retried_and_dead_after_the_last_attempt(own_api: Api) -> None:
    """Attempts, errors and totals are written as for a runner."""
    [job_id] = own_api.installation.enqueue("resize", lane="outside", max_attempts=2)
    [first] = own_api.pull()

    failed = own_api.post(f"/jobs/{job_id}/fail", {"claim": first["claim"], "error": "no such image 7", "after": 0})
    [second] = own_api.pull(wait=20)
    died = own_api.post(f"/jobs/{job_id}/fail", {"claim": second["claim"], "error": "no such image 8"})

    assert (failed.json["outcome"], second["attempt"], died.json["outcome"]) == ("failed", 2, "dead")
    attempts = own_api.installation.rows("SELECT outcome, error, fingerprint FROM mayfly_attempts ORDER BY id")
    assert [(row.outcome, row.error) for row in attempts] == [
        ("failed", "no such image 7"),
        ("failed", "no such image 8"),
    ]
    assert attempts[0].fingerprint == attempts[1].fingerprint
    assert totals(own_api) == {"failed": 1, "dead": 1}
    assert report(own_api, second, "fail", error="again") == 200  # repeated


def test_errors_of_external_workers_are_logged_without_the_fields_of_redact(own_api: Api) -> None:
    """As those of a runner are."""
    [job_id] = own_api.installation.enqueue("resize", '{"token": "xyzzy"}', lane="outside")
    [job] = own_api.pull()

    own_api.post(f"/jobs/{job_id}/fail", {"claim": job["claim"], "error": "xyzzy is not valid"})

    own_api.process.terminate()
    log = own_api.process.communicate()[1]
    assert "••• is not valid" in log
    assert "xyzzy" not in log


def test_a_failure_without_retry_is_dead(api: Api) -> None:
    """However many attempts are left."""
    api.installation.enqueue("resize", lane="outside")
    [job] = api.pull()

    assert report(api, job, "fail", error="never", retry=False) == 200
    assert api.installation.statuses() == {"dead": 1}


def test_an_expired_lease_is_a_crash(api: Api) -> None:
    """The next cycle makes the job due at once; it is dead after the third time, with the cause."""
    [job_id] = api.installation.enqueue("resize", lane="outside")
    for _ in range(3):
        [_job] = api.pull()
        expire(api, job_id)
        assert api.installation.dispatch().returncode == 0

    row = api.installation.job(job_id)
    assert (row.status, row.crashes, row.attempts) == ("dead", 3, 0)
    assert "its lease expired before the external worker reported a result" in row.last_error


def test_a_pull_redelivers_expired_jobs(own_api: Api) -> None:
    """Without a cycle, at once; the log of the console has it."""
    [job_id] = own_api.installation.enqueue("resize", lane="outside")
    [first] = own_api.pull()
    assert own_api.pull() == []
    expire(own_api, job_id)

    [again] = own_api.pull()

    assert (again["id"], again["attempt"], again["claim"] != first["claim"]) == (job_id, 1, True)
    assert [report(own_api, first, verb) for verb in ("done", "extend")] == [409, 409]
    assert report(own_api, again, "done") == 200
    own_api.process.terminate()
    _out, log = own_api.process.communicate()
    assert "crashed: its lease expired before the external worker reported a result" in log


def test_a_waiting_pull_gets_a_job_whose_lease_expires(api: Api) -> None:
    """Before its wait ends."""
    [job_id] = api.installation.enqueue("resize", lane="outside")
    api.pull(lease=1)

    [again] = api.pull(wait=20)

    assert again["id"] == job_id


def test_an_expired_lease_of_a_dead_job_is_announced(serving: Any) -> None:
    """By a pull as by a cycle."""
    api: Api = serving(HOOKS_ON_DEAD="shop.watching:alarm")
    [job_id] = api.installation.enqueue("resize", lane="outside", crashes=2)
    api.pull()
    expire(api, job_id)

    assert api.pull() == []

    assert api.installation.job(job_id).status == "dead"
    [notice] = api.installation.rows("SELECT payload FROM mayfly_jobs WHERE type = 'mayfly.on_dead'")
    assert f'"job":{job_id}' in notice.payload


def test_many_jobs_are_done_with_one_request(own_api: Api) -> None:
    """Each has its own outcome, in the order of the request."""
    own_api.installation.enqueue("resize", lane="outside", count=4)
    jobs = [*own_api.pull(n=2), *own_api.pull(n=2)]
    report(own_api, jobs[0], "done")
    reported = [{"id": each["id"], "claim": each["claim"], "result": {"of": each["id"]}} for each in jobs]
    reported.insert(1, {"id": jobs[1]["id"], "claim": "1.http-unknown"})

    answer = own_api.post("/done", {"jobs": reported})

    outcomes = [(each["id"], each["outcome"], each["repeated"]) for each in answer.json["jobs"]]
    first, *rest = (each["id"] for each in jobs)
    assert answer.status == 200
    assert outcomes == [
        (first, "done", True), (rest[0], "stale_claim", False), *((each, "done", False) for each in rest)
    ]  # fmt: skip
    assert [own_api.installation.job(each).result for each in rest] == [f'{{"of":{each}}}' for each in rest]
    assert totals(own_api) == {"done": 4}


def test_a_result_that_is_refused_changes_no_job(api: Api) -> None:
    """The error names the job."""
    api.installation.enqueue("resize", lane="outside", count=2)
    good, bad = ({"id": each["id"], "claim": each["claim"]} for each in api.pull(n=2))

    answers = [
        api.post("/done", {"jobs": [good, {**bad, "result": "x" * 70_000}]}),
        api.post("/done", {"jobs": []}),
        api.post("/done", {"jobs": [good] * 1001}),
    ]

    assert [each.status for each in answers] == [413, 422, 422]
    assert f"The result of job {bad['id']} is refused" in answers[0].json["detail"]
    assert api.installation.statuses() == {"processing": 2}


def test_an_extended_lease_is_not_rescued(api: Api) -> None:
    """Of two jobs pulled together, only the one with the expired lease is rescued."""
    late, extended = api.installation.enqueue("resize", lane="outside", count=2)
    jobs = api.pull(n=2)
    assert report(api, jobs[1], "extend", lease=600) == 200
    expire(api, late)

    api.installation.dispatch()

    assert [api.installation.job(each).status for each in (late, extended)] == ["pending", "processing"]
    assert report(api, jobs[1], "done") == 200


def test_a_cycle_leaves_pulled_jobs_alone(api: Api) -> None:
    """They are not taken for jobs of a lost runner, and no runner is started in their lane."""
    api.installation.enqueue("resize", lane="outside", count=3)
    jobs = api.pull(n=2)

    cycle = api.installation.dispatch()

    assert cycle.returncode == 0
    assert api.installation.statuses() == {"pending": 1, "processing": 2}
    assert [report(api, each, "done") for each in jobs] == [200, 200]


def test_a_lease_is_extended_also_after_it_has_expired(api: Api) -> None:
    """As late reports are accepted: the job was not redelivered. The response shows a requested cancellation."""
    [job_id] = api.installation.enqueue("resize", lane="outside")
    [job] = api.pull(lease=5)
    api.installation.execute(f"UPDATE mayfly_jobs SET cancel_reason = 'not needed' WHERE id = {job_id}")

    extended = api.post(f"/jobs/{job_id}/extend", {"claim": job["claim"], "lease": 500})
    expire(api, job_id)

    assert (extended.status, extended.json["cancelled"]) == (200, "not needed")
    assert extended.json["lease_until"] > job["lease_until"]
    assert report(api, job, "extend", lease=500) == 200
    assert api.pull() == []
    expire(api, job_id)
    assert report(api, job, "done") == 200


def test_only_external_lanes_are_pulled(api: Api) -> None:
    """422 for lanes of runners."""
    api.installation.enqueue("noop", lane="default")

    answer = api.post("/pull", {"lanes": ["outside", "default"]})

    assert answer.status == 422
    assert "'default' is not external" in answer.json["detail"]


def test_numbers_are_clamped(api: Api) -> None:
    """n to 100, the lease to an hour, the wait to 0."""
    api.installation.enqueue("resize", lane="outside", count=120)

    jobs = api.pull(n=10**30, lease=1e300, wait=-5)
    [one] = api.pull(n=-3, lease=-1)

    leases = api.installation.rows("SELECT lease_until, locked_at FROM mayfly_jobs WHERE status = 'processing'")
    assert (len(jobs), len(leases)) == (100, 101)
    assert one["lease_until"] < jobs[0]["lease_until"]


def test_cancelled_paused_and_expired_jobs_are_not_pulled(api: Api) -> None:
    """Cancelled and expired ones are settled; a paused lane returns nothing."""
    expired, cancelled, wanted = api.installation.enqueue("resize", lane="outside", count=3)
    api.installation.execute(f"UPDATE mayfly_jobs SET expires_at = '2020-01-01 00:00:00' WHERE id = {expired}")
    api.installation.execute(f"UPDATE mayfly_jobs SET cancel_reason = 'no' WHERE id = {cancelled}")
    api.installation.run("mayfly", "pause", "lane", "outside")
    while_paused = api.pull(n=3, wait=1)
    api.installation.run("mayfly", "resume", "lane", "outside")

    jobs = api.pull(n=3)

    assert while_paused == []
    assert [each["id"] for each in jobs] == [wanted]
    assert api.installation.statuses() == {"cancelled": 2, "processing": 1}


def test_the_last_job_of_a_batch_completes_it(api: Api) -> None:
    """The callback is enqueued, as after a runner."""
    api.installation.run("tests.process.console.sample_batch")
    [job] = api.pull()

    assert report(api, job, "done") == 200

    assert api.installation.rows("SELECT 1 FROM mayfly_jobs WHERE type = 'report'")
