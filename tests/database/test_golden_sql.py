"""The statements as they are really sent, kept in tests/golden, one file a database, and reviewed like code.

UPDATE_GOLDEN=1 pytest tests/database/test_golden_sql.py writes them anew.
"""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from difflib import unified_diff
from itertools import groupby
from pathlib import Path

import pytest
from sqlalchemy import update

from console.api import idempotency
from mayfly import json_text
from mayfly.admin import auth
from mayfly.admin.actions import CANCEL, DELAY, DISCARD, RETRY, act, count_matching, estimate_matching
from mayfly.admin.audit import Actor, list_audit
from mayfly.admin.charts import PERIODS, list_newly_dead, read_history, read_sparks
from mayfly.admin.filters import JobFilter, read_payloads
from mayfly.admin.fleet import list_cycles, list_hosts, list_minutes, list_runners, read_regularity, runners_named
from mayfly.admin.job import read_family
from mayfly.admin.jobs import count_statuses, list_dead, list_jobs
from mayfly.admin.lanes import list_limits, set_max_workers, start_pause
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.fleet.cycles import KnownLane, close_cycle, known_lanes, open_cycle, record_passed_over
from mayfly.fleet.plan_lock import finish_planning, planning
from mayfly.fleet.runners import EndedRunner, close_runner, live_by_lane, live_on_host, live_runners, renew_heartbeat
from mayfly.job import cancel_request
from mayfly.limits.client import SlotLedger
from mayfly.limits.limit import Limit, LimitKey
from mayfly.limits.store import LimitHolder
from mayfly.monitoring.alerts import (
    AlertKind,
    Incident,
    dead_jobs,
    killed_runners,
    record_changes,
    record_sent,
    take_due,
)
from mayfly.queue import external, pauses
from mayfly.queue.batches import NewBatch, complete_all, open_batch, seal
from mayfly.queue.claim import ClaimCursor
from mayfly.queue.count import count_due, has_due, interrupted_jobs
from mayfly.queue.external import ClaimRef, ExternalTotals, PullOptions
from mayfly.queue.followups import NewChain, insert_chain, mark_awaited
from mayfly.queue.insert import FutureJob, NewJob, insert_job, insert_jobs
from mayfly.queue.options import JobValidator
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement
from mayfly.queue.pauses import Pause, load_pauses, resume_jobs
from mayfly.queue.prune import Keep, prune
from mayfly.queue.rescue import expired_jobs, held_jobs
from mayfly.queue.settle import settle
from mayfly.schedules.fire import fire_due, pause, resume
from mayfly.schedules.parse import parse_line
from mayfly.schema.metadata import schedules, totals
from mayfly.schema.tables import NORMAL, require_version
from mayfly.settings import load
from mayfly.stats.counters import read_counters
from mayfly.stats.histograms import Count
from mayfly.stats.history import count_cycles, read_cycles
from mayfly.stats.totals import add_up_strays, add_up_totals, write_totals
from tests.database.factories import (
    change_job,
    claim_jobs,
    insert_runner,
    make_claim,
    make_claimant,
    make_settler,
    rows_of,
    run_sql,
)
from tests.factories import insert_row, insert_rows
from tests.sqlalchemy_engines import run
from tests.statement_recorder import recorded

GOLDEN = Path(__file__).parents[1] / "golden"
KEYED = NewJob("noop", "{}", "default", 5, 1, unique_key="key")
REPLACING = KEYED._replace(on_conflict="replace")
PLAIN = NewJob("noop", "{}", "mail", 5, 1)
DEAD_ONES: list[dict[str, str]] = [{"unique_key": "operated"}, {}]
FAILED = Outcome(OutcomeKind.FAILED, error="no", fingerprint="f", attempt_ending=OutcomeKind.FAILED)


@pytest.mark.parametrize("engine_name", ["sqlite", "mariadb", "postgres"], indirect=True)
def test_the_statements_are_those_that_were_reviewed(database: Database, engine_name: str) -> None:
    """Whoever changes one sees here how it reads on each database."""
    path = GOLDEN / f"{engine_name}.sql"

    sent = "\n".join(chapters(database))

    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(sent)
    known = path.read_text() if path.exists() else ""
    difference = unified_diff(known.splitlines(), sent.splitlines(), str(path), "as sent now", lineterm="")
    assert sent == known, "\n".join(["UPDATE_GOLDEN=1 writes it anew", *difference])


def chapters(database: Database) -> Iterator[str]:
    """One a deed, each of them in the state that those before it have left."""
    now = database.clock.now()
    yield chapter("version", lambda: database.read(require_version))
    yield chapter("enqueue", lambda: database.once(lambda c: insert_job(c, PLAIN)))
    yield chapter("enqueue with a key", lambda: database.once(lambda c: insert_job(c, KEYED)))
    yield chapter("enqueue with a key that is held", lambda: database.once(lambda c: insert_job(c, KEYED)))
    yield chapter("enqueue in its place", lambda: database.once(lambda c: insert_job(c, REPLACING)))
    yield chapter("enqueue two", lambda: database.once(lambda c: insert_jobs(c, [PLAIN, PLAIN])))
    yield chapter("enqueue two with keys", lambda: database.once(lambda c: insert_jobs(c, [KEYED, KEYED])))
    yield chapter("count two lanes", lambda: database.read(lambda c: count_due(c, database.clock.now())))
    insert_rows(database, 2)
    yield chapter("claim", lambda: claim_jobs(database, 2))
    insert_rows(database, 1)
    front = ClaimCursor(NORMAL, now - timedelta(days=1))
    yield chapter("claim from a front", lambda: make_claim(database, make_claimant(database), 1, front))
    [first] = insert_rows(database, 1)
    yield chapter("begin with a job", lambda: claim_jobs(database, 2, begins_with=first))
    yield chapter(
        "find interrupted jobs",
        lambda: database.read(lambda c: interrupted_jobs(c, "default", now, 2)),
    )
    yield chapter("look for more", lambda: database.read(lambda c: has_due(c, "default", now)))
    yield chapter("jobs of a runner", lambda: database.run(lambda c: held_jobs(c, "default", "worker-1")))
    yield chapter("expired jobs", lambda: database.run(lambda c: expired_jobs(c, ["default"], now)))
    yield from settling(database)
    yield from flowing(database)
    yield from fleet(database)
    yield from scheduling(database)
    yield from pausing(database)
    yield from cancelling(database)
    yield from operating(database)
    yield from browsing(database)
    yield from limiting(database)
    yield from watching(database)
    yield from cleaning(database)
    yield from outsiders(database)


def settling(database: Database) -> Iterator[str]:
    settler = make_settler(cycle_id=milliseconds(database.clock.now()))
    outcomes = [DONE, DONE, FAILED, RELEASED]
    insert_rows(database, len(outcomes), lane="settled")
    batch = claim_jobs(database, len(outcomes), lane="settled")
    settlements = [Settlement(job, outcome, 1) for job, outcome in zip(batch, outcomes, strict=True)]
    yield chapter("settle", lambda: settle(database, settler, settlements, {}))


def flowing(database: Database) -> Iterator[str]:
    """A batch of one chain, from its opening to its callback."""
    now, kept = database.clock.now(), json_text.encode(FutureJob(PLAIN).to_dict())
    opened = NewBatch("campaign", kept, now)
    first = NewChain(PLAIN._replace(lane="flow", group_key="campaign"), f"[{kept}]")

    def step() -> None:
        settle(database, make_settler("flow"), [Settlement(job, DONE, 1) for job in claimed], {})

    yield chapter("open a batch", lambda: database.run(lambda c: open_batch(c, opened)))
    yield chapter("begin a chain", lambda: database.run(lambda c: insert_chain(c, first)))
    yield chapter("seal a batch", lambda: database.run(lambda c: seal(c, "campaign", now)))
    run_sql(database, "UPDATE mayfly_jobs SET run_at = '2026-01-01 00:00:00' WHERE lane = 'flow'")
    claimed = claim_jobs(database, 1, "flow", lane="flow")
    yield chapter("what waits for its end", lambda: mark_awaited(database, claimed))
    yield chapter("settle a step", step)
    run_sql(database, "UPDATE mayfly_jobs SET lane = 'flow' WHERE group_key = 'campaign'")
    claimed = claim_jobs(database, 1, "flow", lane="flow")
    yield chapter("settle the last job of a batch", step)
    yield chapter("batches that are over", lambda: complete_all(database))


def fleet(database: Database) -> Iterator[str]:
    now = database.clock.now()
    [total, *_] = rows_of(database, totals)

    def plan() -> None:
        with planning(database, "host") as number:
            database.run(lambda c: finish_planning(c, number))

    def end() -> None:
        database.run(lambda c: close_runner(c, "worker-1", EndedRunner("ok", exit_code=0), now))

    def close() -> None:
        database.run(lambda c: close_cycle(c, total.cycle_id, {"exit_code": 0}, now))

    yield chapter("plan", plan)
    yield chapter("open a cycle", lambda: database.run(lambda c: open_cycle(c, total.cycle_id, "host", now)))
    yield chapter("plan a runner", lambda: insert_runner(database))
    yield chapter(
        "note lanes", lambda: database.run(lambda c: record_passed_over(c, {"served": KnownLane(1)}, ["waiting"]))
    )
    yield chapter("lanes", lambda: database.read(known_lanes))
    yield chapter("live runners", lambda: database.read(live_runners))
    yield chapter("live by lane", lambda: database.read(live_by_lane))
    yield chapter("live on host", lambda: database.read(lambda c: live_on_host(c, "here")))
    yield chapter("beat", lambda: database.once(lambda c: renew_heartbeat(c, "worker-1", now)))
    yield chapter("end of a runner", end)
    yield chapter("add up", lambda: database.run(lambda c: add_up_totals(c, total.cycle_id)))
    yield chapter("close a cycle", close)


def scheduling(database: Database) -> Iterator[str]:
    validator, now = JobValidator(1 << 16, 5, database.clock.now), database.clock.now()
    entries = [parse_line(f"@yearly {line}") for line in ("a", "b", "c overlap=skip")]
    past = update(schedules).values(dealt_until=now - timedelta(days=400))
    yield chapter("see schedules", lambda: fire_due(database, entries, validator))
    run(database, lambda c: c.execute(past))
    yield chapter("fire schedules", lambda: fire_due(database, entries, validator))
    yield chapter("no schedule due", lambda: fire_due(database, entries, validator))
    yield chapter("pause", lambda: database.run(lambda c: pause(c, entries[0], now, None, "ann", None)))
    yield chapter("resume", lambda: database.run(lambda c: resume(c, "a", now)))


def pausing(database: Database) -> Iterator[str]:
    now = database.clock.now()
    new = Pause("type", "noop", now)
    insert_row(database, run_at=now + timedelta(hours=1), waiting_for=new.waiting_for)
    yield chapter("pause a type", lambda: database.run(lambda c: pauses.pause(c, new)))
    yield chapter("what is paused", lambda: database.read(lambda c: load_pauses(c, now)))
    yield chapter("resume a type", lambda: database.run(lambda c: pauses.resume(c, "type", "noop", now)))
    yield chapter("bring back what was put off", lambda: resume_jobs(database, "noop", ["default"]))


def cancelling(database: Database) -> Iterator[str]:
    insert_rows(database, 1, lane="cancelled")
    [job] = claim_jobs(database, lane="cancelled")
    ids = (job.id, insert_row(database, lane="cancelled"))
    filters = [
        JobFilter(group_key="g"),
        JobFilter(lane="cancelled", type="noop", status="pending", created_before=database.clock.now()),
    ]
    yield chapter("cancel two by id", lambda: act(database, CANCEL, JobFilter(ids=ids)))
    yield chapter("cancel a group", lambda: act(database, CANCEL, filters[0]))
    yield chapter("count by a filter", lambda: count_matching(database, CANCEL, filters[1]))
    looking = (job.id, "worker-1", job.claims)
    yield chapter("look for a wish to cancel", lambda: database.read(lambda c: cancel_request(c, *looking)))


def operating(database: Database) -> Iterator[str]:
    """Each verb on one job, with its deed."""
    ann, until = Actor("ann"), database.clock.now() + timedelta(hours=1)
    dead, other = (
        JobFilter(ids=(insert_row(database, status="dead", lane="operated", **each),)) for each in DEAD_ONES
    )
    pending = JobFilter(ids=(insert_row(database, lane="operated"),))
    yield chapter("retry", lambda: act(database, RETRY, dead, ann))
    yield chapter("discard", lambda: act(database, DISCARD, other, ann))
    yield chapter("delay", lambda: act(database, DELAY, pending, ann, until=until))
    yield chapter("retry what waits", lambda: act(database, RETRY, pending, ann))
    yield chapter("find by error", lambda: act(database, RETRY, JobFilter(error="f" * 16, lane="mail"), ann))
    yield chapter("set a lane", lambda: set_max_workers(database, "operated", 2, ann))
    yield chapter("pause a lane", lambda: start_pause(database, "lane", "operated", ann))


def browsing(database: Database) -> Iterator[str]:
    now = database.clock.now()

    def jobs(
        which: JobFilter, words: str | None = None, field: tuple[str, str] | None = None
    ) -> Callable[[], object]:
        return lambda: database.read(lambda c: list_jobs(c, which, words, size=1, field=field))

    yield chapter("list all jobs", jobs(JobFilter()))
    yield chapter("list jobs by status and lane", jobs(JobFilter(lane="operated", status="pending")))
    yield chapter("search jobs", jobs(JobFilter(group_key="g", type="noop"), "ann"))
    yield chapter("list jobs by error", jobs(JobFilter(error="f" * 16)))
    yield chapter("list the dead", lambda: database.read(lambda c: list_dead(c, "settled")))
    yield chapter("list hosts", lambda: database.read(lambda c: list_hosts(c, now)))
    yield chapter("list cycles", lambda: database.read(list_cycles))
    yield chapter("list minutes", lambda: database.read(lambda c: list_minutes(c, now, before=milliseconds(now))))
    yield chapter("how regular cycles were", lambda: database.read(lambda c: read_regularity(c, now)))
    yield chapter("figures over time", lambda: database.read(lambda c: read_history(c, PERIODS["1h"], now)))
    yield chapter("sparklines", lambda: database.read(lambda c: read_sparks(c, now)))
    died = {("mail", "noop", "dead"): Count(1)}
    database.run(lambda c: write_totals(c, milliseconds(now), "", died))
    yield chapter("what has newly died", lambda: database.read(lambda c: list_newly_dead(c, now)))
    yield chapter("list runners", lambda: database.read(list_runners))
    yield chapter("find runners", lambda: database.read(lambda c: runners_named(c, ["worker-1", "worker-2"])))
    yield chapter("count statuses", lambda: database.read(lambda c: count_statuses(c, JobFilter(lane="mail"))))
    yield chapter("count a group", lambda: database.read(lambda c: count_statuses(c, JobFilter(group_key="g"))))
    insert_row(database, lane="dying", status="dead", finished_at=now)
    yield chapter("list deaths", lambda: database.read(lambda c: list_dead(c, "dying", now)))
    yield chapter("relatives", lambda: database.read(lambda c: read_family(c, 2, 1, "g")))
    yield chapter("payloads", lambda: database.read(lambda c: read_payloads(c, [1, 2])))
    yield chapter("search by a field", jobs(JobFilter(lane="mail", status="dead"), field=("to", "ann")))
    ended = JobFilter(lane="operated", type="noop", finished_after=now)
    yield chapter("estimate", lambda: estimate_matching(database, RETRY, ended))
    yield chapter("list deeds", lambda: database.read(list_audit))


def outsiders(database: Database) -> Iterator[str]:
    books, wish = ExternalTotals(database, "http-1"), PullOptions("shop", ["outside"], 2, timedelta(minutes=1))
    request = idempotency.idempotent_request("shop", "key", b"{}", database.clock.now())
    now = database.clock.now()
    insert_rows(database, 2, lane="outside")
    found: list[ClaimRef] = []

    def pull() -> None:
        pulled = external.pull(database, books, wish)
        found.extend(pulled.claim_of(job) for job in pulled.jobs)

    def finish() -> None:
        external.finish(database, books, found[0], lambda _job: DONE)

    yield chapter("look for outside work", lambda: database.read(lambda c: external.due(c, {"outside": 3}, now)))
    yield chapter("pull", pull)
    yield chapter("extend", lambda: external.extend(database, found[0], wish.lease))
    yield chapter("finish outside work", finish)
    yield chapter("finish it again", finish)
    for what in ("a request with a key", "the same again"):
        yield chapter(what, lambda: database.run(lambda c: idempotency.run_once(c, request, lambda _: [])))
    yield chapter("find a token", lambda: database.read(lambda c: auth.find_token(c, "text", now)))


def limiting(database: Database) -> Iterator[str]:
    holder = LimitHolder("worker-1", database.clock.now() + timedelta(minutes=1))
    ours, wish = (
        SlotLedger(holder),
        (LimitKey("smtp:7", Limit("smtp", 2)), LimitKey("sender:7", Limit("sender", 9, "day"))),
    )
    yield chapter("take for the first time", lambda: ours.acquire(database, [wish]))
    yield chapter("take", lambda: ours.acquire(database, [wish]))
    ours.release([wish, wish])
    yield chapter("release", lambda: ours.flush(database))
    now = database.clock.now()
    yield chapter("list limits", lambda: database.read(lambda c: list(list_limits(c, now))))


def watching(database: Database) -> Iterator[str]:
    now = database.clock.now()
    late = Incident(AlertKind.LATE, "late", "it waits", now)

    def carry_over() -> None:
        database.run(lambda c: add_up_strays(c, now + timedelta(hours=1)))
        database.run(lambda c: count_cycles(c, now + timedelta(hours=1), 90))

    def tell() -> None:
        [alert] = database.run(lambda c: record_changes(c, [late], now))
        database.run(lambda c: take_due(c, alert, now))
        database.run(lambda c: record_sent(c, alert, now))

    settings = load({"MAYFLY_HOME": str(GOLDEN)}).settings
    yield chapter("figures of all times", lambda: database.read(lambda c: (read_counters(c), read_cycles(c))))
    yield chapter("carry over", carry_over)
    yield chapter("dead jobs", lambda: database.read(lambda c: list(dead_jobs(c, settings, now))))
    yield chapter("killed runners", lambda: database.read(lambda c: list(killed_runners(c, settings, now))))
    yield chapter("tell an alert", tell)
    yield chapter("an alert is over", lambda: database.run(lambda c: record_changes(c, [], now)))


def cleaning(database: Database) -> Iterator[str]:
    """With one old job in one lane, so that the searches of the others are the same statements."""
    old = database.clock.now() - timedelta(days=400)
    for _ in range(2):
        change_job(database, insert_row(database, run_at=old), status="done", finished_at=old)
    yield chapter("prune", lambda: prune(database, Keep(dead=30)))


def chapter(deed: str, act: Callable[[], object]) -> str:
    """What the database is sent for it."""
    with recorded() as sent:
        act()
    lines = [f"-- {deed}"]
    for statement, equal in groupby(sent):
        times = len(list(equal))
        lines += [f"-- {times} times:"] if times > 1 else []
        lines.append(f"{statement};")
    return "\n".join([*lines, ""])
