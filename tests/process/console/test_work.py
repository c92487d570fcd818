"""Outside workers over real HTTP, on every database: pull, done, fail, extend, and what becomes of the late."""

from datetime import timedelta
from typing import Any

from tests.process.console.api import Api


def totals(api: Api) -> dict[str, int]:
    """Of a console of the test's own: it counts in its memory, and tells the sum."""
    rows = api.installation.rows("SELECT outcome, SUM(jobs) AS jobs FROM mayfly_totals GROUP BY outcome")
    return {row.outcome: int(row.jobs) for row in rows}


def say(api: Api, job: dict[str, Any], verb: str, **more: Any) -> int:
    return api.post(f"/jobs/{job['id']}/{verb}", {"claim": job["claim"], **more}).status


def expire(api: Api, *ids: int) -> None:
    """As if the time of the lease had passed."""
    past = api.installation.now() - timedelta(seconds=1)
    for each in ids:
        api.installation.execute(
            f"UPDATE mayfly_jobs SET lease_until = '{past:%Y-%m-%d %H:%M:%S.%f}' WHERE id = {each}"
        )


def test_a_job_is_pulled_done_and_counted(own_api: Api) -> None:
    """The row, its result, its owner and the totals say so."""
    [job_id] = own_api.installation.enqueue("resize", '{"image": 7}', lane="outside")

    [job] = own_api.pull()
    answer = own_api.post(f"/jobs/{job_id}/done", {"claim": job["claim"], "result": {"width": 640}})

    row = own_api.installation.job(job_id)
    assert (job["id"], job["payload"], job["attempt"]) == (job_id, {"image": 7}, 1)
    assert (answer.status, answer.json["outcome"], answer.json["repeated"]) == (200, "done", False)
    assert (row.status, row.result, row.claims, row.attempts) == ("done", '{"width":640}', 1, 1)
    assert row.worker_id.startswith("http-")
    assert totals(own_api) == {"done": 1}


def test_a_repeated_done_is_well_and_does_nothing(own_api: Api) -> None:
    """200, the first result stays, and it is counted once."""
    own_api.installation.enqueue("resize", lane="outside")
    [job] = own_api.pull()

    first, second = (
        own_api.post(f"/jobs/{job['id']}/done", {"claim": job["claim"], "result": each}) for each in (1, 2)
    )

    assert (first.json["repeated"], second.status, second.json["repeated"]) == (False, 200, True)
    assert (own_api.installation.job(job["id"]).result, totals(own_api)) == ("1", {"done": 1})


def test_a_stale_claim_changes_nothing(api: Api) -> None:
    """409 for whatever is said with it: the job is another's by now."""
    [job_id] = api.installation.enqueue("resize", lane="outside")
    [stale] = api.pull()
    expire(api, job_id)
    api.installation.dispatch()  # gives it back, as any job whose owner is gone
    api.installation.execute("UPDATE mayfly_jobs SET run_at = '2020-01-01 00:00:00'")
    [fresh] = api.pull()
    before = api.installation.job(job_id)

    answers = [say(api, stale, "done"), say(api, stale, "fail", error="x"), say(api, stale, "extend")]

    assert answers == [409, 409, 409]
    assert api.installation.job(job_id) == before
    assert say(api, fresh, "done") == 200


def test_claims_that_never_were_are_refused(api: Api) -> None:
    """409, whatever the text is, and for an unknown job."""
    api.installation.enqueue("resize", lane="outside")
    [job] = api.pull()
    wrong = ["", "x", "1.", f"2.{job['claim'].partition('.')[2]}", "9" * 90, "1.worker-1-1", job["claim"][:-1]]

    answers = [say(api, {**job, "claim": each}, "done") for each in wrong]

    assert answers == [409] * len(wrong)
    assert say(api, {**job, "id": job["id"] + 1}, "done") == 409
    assert api.installation.statuses() == {"processing": 1}


def test_a_failed_job_is_tried_again_and_dies_of_the_last(own_api: Api) -> None:
    """Attempts and their errors are kept as a runner keeps them, and counted."""
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
    assert say(own_api, second, "fail", error="again") == 200  # repeated


def test_a_worker_may_give_up_for_good(api: Api) -> None:
    """`retry: false` is the end, whatever attempts are left."""
    api.installation.enqueue("resize", lane="outside")
    [job] = api.pull()

    assert say(api, job, "fail", error="never", retry=False) == 200
    assert api.installation.statuses() == {"dead": 1}


def test_a_lease_that_ran_out_is_rescued_as_a_crash(api: Api) -> None:
    """By the next cycle of any host; the reason says what happened, and the third time is the last."""
    [job_id] = api.installation.enqueue("resize", lane="outside")
    for _ in range(3):
        api.installation.execute("UPDATE mayfly_jobs SET run_at = '2020-01-01 00:00:00'")
        [_job] = api.pull()
        expire(api, job_id)
        assert api.installation.dispatch().returncode == 0

    row = api.installation.job(job_id)
    assert (row.status, row.crashes, row.attempts) == ("dead", 3, 0)
    assert "its lease ran out before the worker that had pulled it said anything" in row.last_error


def test_what_the_same_worker_holds_for_longer_stays_his(api: Api) -> None:
    """One of two that were pulled together ran out: only that one is given back."""
    late, extended = api.installation.enqueue("resize", lane="outside", count=2)
    jobs = api.pull(n=2)
    assert say(api, jobs[1], "extend", lease=600) == 200
    expire(api, late)

    api.installation.dispatch()

    assert [api.installation.job(each).status for each in (late, extended)] == ["pending", "processing"]
    assert say(api, jobs[1], "done") == 200


def test_a_cycle_leaves_pulled_jobs_alone(api: Api) -> None:
    """They have no runner's row, and are no lost runner's; nobody of ours works in their lane."""
    api.installation.enqueue("resize", lane="outside", count=3)
    jobs = api.pull(n=2)

    cycle = api.installation.dispatch()

    assert cycle.returncode == 0
    assert api.installation.statuses() == {"pending": 1, "processing": 2}
    assert [say(api, each, "done") for each in jobs] == [200, 200]


def test_a_lease_is_extended_only_while_it_holds(api: Api) -> None:
    """And whoever extends hears that somebody wants the job to end."""
    [job_id] = api.installation.enqueue("resize", lane="outside")
    [job] = api.pull(lease=5)
    api.installation.execute(f"UPDATE mayfly_jobs SET cancel_reason = 'not needed' WHERE id = {job_id}")

    extended = api.post(f"/jobs/{job_id}/extend", {"claim": job["claim"], "lease": 500})
    expire(api, job_id)

    assert (extended.status, extended.json["cancelled"]) == (200, "not needed")
    assert extended.json["lease_until"] > job["lease_until"]
    assert say(api, job, "extend") == 409
    assert say(api, job, "done") == 200  # late, and nobody was harmed


def test_only_external_lanes_are_pulled(api: Api) -> None:
    """Mayfly's own runners work in the others."""
    api.installation.enqueue("noop", lane="default")

    answer = api.post("/pull", {"lanes": ["outside", "default"]})

    assert answer.status == 422
    assert "'default' is not marked as external" in answer.json["detail"]


def test_numbers_are_brought_into_their_bounds(api: Api) -> None:
    """n to 100, the lease to an hour, the wait to nothing; however odd they are."""
    api.installation.enqueue("resize", lane="outside", count=120)

    jobs = api.pull(n=10**30, lease=1e300, wait=-5)
    [one] = api.pull(n=-3, lease=-1)

    leases = api.installation.rows("SELECT lease_until, locked_at FROM mayfly_jobs WHERE status = 'processing'")
    assert (len(jobs), len(leases)) == (100, 101)
    assert one["lease_until"] < jobs[0]["lease_until"]


def test_what_is_cancelled_paused_or_expired_is_not_handed_out(api: Api) -> None:
    """It is settled as a runner would have; a paused lane gives nothing."""
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


def test_the_last_job_of_a_batch_may_be_done_outside(api: Api) -> None:
    """What follows on a job follows, whoever did it."""
    api.installation.run("tests.process.console.batch")
    [job] = api.pull()

    assert say(api, job, "done") == 200

    assert api.installation.rows("SELECT 1 FROM mayfly_jobs WHERE type = 'report'")
