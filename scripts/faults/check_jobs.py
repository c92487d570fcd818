"""Guarantees about jobs. Pure: evidence in, violations out."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from scripts.faults.evidence import Evidence
from scripts.faults.history import Event
from scripts.faults.jobs import IN_LEDGER

FINAL = {"done", "dead", "cancelled"}
LEGAL = {
    (None, "pending"),
    ("pending", "pending"),  # a retry or a release moves run_at only
    ("pending", "processing"),
    ("pending", "cancelled"),
    ("pending", "dead"),
    *(("processing", status) for status in ("pending", "done", "dead", "cancelled")),
}
CLOCK_RESOLUTION = 0.002  # seconds: SQLite's triggers know milliseconds


def no_job_is_lost(evidence: Evidence) -> Iterator[str]:
    """Every acknowledged enqueue has a row."""
    known = {each.key for each in evidence.jobs}
    for event in evidence.events("acknowledged"):
        if event["key"] not in known:
            yield f"job {event['job']} ({event['key']}) was acknowledged, but has no row"


def every_job_was_enqueued(evidence: Evidence) -> Iterator[str]:
    enqueued = {event["key"] for event in evidence.events("enqueue")}
    for job in evidence.jobs:
        if job.schedule is None and job.key not in enqueued:
            yield f"job {job.id} ({job.key}) was never enqueued"


def no_job_exists_twice(evidence: Evidence) -> Iterator[str]:
    counts = Counter(each.key for each in evidence.jobs if each.key is not None)
    yield from (f"{key} exists {number} times" for key, number in counts.items() if number > 1)


def everything_is_terminal(evidence: Evidence) -> Iterator[str]:
    for job in evidence.jobs:
        if job.status not in FINAL:
            yield f"job {job.id} ({job.type}) is {job.status}"


def one_effect_per_job(evidence: Evidence) -> Iterator[str]:
    """The ledger row and `done` commit together."""
    for job in evidence.jobs:
        rows = evidence.ledger.get(job.id, 0)
        expected = 1 if job.type in IN_LEDGER and job.status == "done" else 0
        if rows != expected:
            yield f"job {job.id} ({job.type}, {job.status}) has {rows} rows in the ledger"
    known = {job.id for job in evidence.jobs}
    yield from (f"the ledger has job {job}, which has no row" for job in evidence.ledger if job not in known)


def changes_are_legal(evidence: Evidence) -> Iterator[str]:
    for each in evidence.audit:
        if (each.old_status, each.new_status) not in LEGAL:
            yield f"job {each.job_id} went from {each.old_status} to {each.new_status}"
        if each.new_claims - each.old_claims != int(each.is_claim):
            yield f"job {each.job_id} changed claims from {each.old_claims} to {each.new_claims}"


def one_start_per_claim(evidence: Evidence) -> Iterator[str]:
    """And every start belongs to a claim."""
    claims = {(each.job_id, each.new_claims) for each in evidence.audit if each.is_claim}
    starts = Counter((event["job"], event["token"]) for event in evidence.events("start"))
    for (job, token), number in starts.items():
        if number > 1:
            yield f"job {job} started {number} times with token {token}"
        if (job, token) not in claims:
            yield f"job {job} started with token {token}, which no claim has written"


def attempts_are_within_bounds(evidence: Evidence) -> Iterator[str]:
    for each in evidence.audit:
        if each.attempts > each.max_attempts:
            yield f"job {each.job_id} had {each.attempts} of {each.max_attempts} attempts"


def nothing_starts_before_it_is_due(evidence: Evidence) -> Iterator[str]:
    """By the database's clock."""
    for each in evidence.audit:
        if each.is_claim and each.at < each.run_at - CLOCK_RESOLUTION:
            yield f"job {each.job_id} was claimed {each.run_at - each.at:.3f} s early"


def repeated_runs_are_explained(evidence: Evidence) -> Iterator[str]:
    """By a failure of the previous run, by the guard, or by a fault on its host."""
    failed = {(event["job"], event["token"]) for event in evidence.events("failure")}
    failed |= {(each.job_id, each.new_claims) for each in evidence.audit if each.interrupted > 0}
    starts: dict[int, list[Event]] = defaultdict(list)
    for event in evidence.events("start"):
        starts[event["job"]].append(event)
    for job, runs in starts.items():
        for run, again in pairwise(runs):
            is_explained = (job, run["token"]) in failed or evidence.faults_between(run.at, again.at, run["host"])
            if not is_explained:
                yield f"job {job} ran on {run['host']} and again on {again['host']}: no failure, no fault"
