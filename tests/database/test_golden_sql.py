"""The statements as they are sent, kept in tests/golden, one file per database, and reviewed like code.

UPDATE_GOLDEN=1 pytest tests/database/test_golden_sql.py rewrites them.
"""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from difflib import unified_diff
from itertools import groupby
from pathlib import Path

import pytest
from sqlalchemy import update

from console.api.enqueue import IdempotentRequest
from mayfly import json_text
from mayfly.admin import auth
from mayfly.admin.actions import CANCEL, DELAY, DISCARD, RETRY, act, count_matching
from mayfly.admin.auth import Actor, list_audit
from mayfly.admin.charts import PERIODS, list_newly_dead, read_history, read_sparks
from mayfly.admin.filters import JobFilter, read_payloads
from mayfly.admin.fleet import list_cycles, list_hosts, list_minutes, list_runners, read_regularity, runners_named
from mayfly.admin.health import recently_dead
from mayfly.admin.job import read_family
from mayfly.admin.jobs import count_statuses, list_dead, list_jobs
from mayfly.admin.lanes import list_limits, set_max_workers, start_pause
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.fleet.cycles import KnownLane, close_cycle, known_lanes, open_cycle, record_passed_over
from mayfly.fleet.plan_lock import finish_planning, planning
from mayfly.fleet.runners import (
    EndedRunner,
    FiguresWriter,
    ObservedRunner,
    activity_by_lane,
    close_runner,
    enter_lane,
    live_by_lane,
    live_by_lane_and_on_host,
    live_runners,
    renew_heartbeat,
    starts_by_runner,
)
from mayfly.job import cancel_request
from mayfly.limits.client import SlotLedger
from mayfly.limits.limit import Limit, LimitKey
from mayfly.limits.store import LimitHolder, return_units
from mayfly.limits.windows import Refusal
from mayfly.log import silent_log
from mayfly.monitoring.alerts import (
    AlertKind,
    Incident,
    dead_jobs,
    killed_runners,
    record_changes,
    record_sent,
    take_due,
)
from mayfly.process.identity import Host
from mayfly.queue import external, pauses
from mayfly.queue.batches import NewBatch, complete_all, open_batch, seal
from mayfly.queue.count import ClaimCursor, count_due, has_due, interrupted_jobs, job_groups
from mayfly.queue.external import ClaimRef, ExternalTotals, PullOptions
from mayfly.queue.followups import NewChain, insert_chain, mark_awaited
from mayfly.queue.insert import FutureJob, NewJob, insert_job, insert_jobs
from mayfly.queue.options import JobValidator
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement
from mayfly.queue.pauses import Pause, load_pauses, resume_jobs
from mayfly.queue.prune import prune
from mayfly.queue.rescue import expired_jobs, held_jobs
from mayfly.queue.settle import settle
from mayfly.queue.single_claim import claim_single
from mayfly.schedules.fire import fire_due, pause, resume
from mayfly.schedules.parse import parse_line
from mayfly.schema.metadata import schedules, totals
from mayfly.schema.tables import NORMAL, require_version
from mayfly.settings import load
from mayfly.stats.histograms import Count
from mayfly.stats.history import count_cycles, forget_cycles, read_counters, read_cycles
from mayfly.stats.totals import add_up_strays, add_up_totals, write_totals
from tests.database.factories import (
    change_job,
    claim_jobs,
    insert_runner,
    make_claim,
    make_claimant,
    make_page,
    make_settler,
    retention,
    rows_of,
    run_sql,
)
from tests.database.source_factories import make_posts
from tests.factories import insert_row, insert_rows
from tests.sqlalchemy_engines import run
from tests.statement_recorder import recorded_statements

GOLDEN = Path(__file__).parents[1] / "golden"
KEYED = NewJob("noop", "{}", "default", 5, 1, unique_key="key")
REPLACING = KEYED._replace(on_conflict="replace")
PLAIN = NewJob("noop", "{}", "mail", 5, 1)
DEAD_ONES: list[dict[str, str]] = [{"unique_key": "operated"}, {}]
FAILED = Outcome(OutcomeKind.FAILED, error="no", fingerprint="f", attempt_ending=OutcomeKind.FAILED)


@pytest.mark.parametrize("engine_name", ["sqlite", "mariadb", "postgres"], indirect=True)
def test_the_statements_are_those_that_were_reviewed(database: Database, engine_name: str) -> None:
    """A changed statement appears in the diff of each database."""
    path = GOLDEN / f"{engine_name}.sql"

    sent = "\n".join(sections(database))

    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(sent)
    known = path.read_text() if path.exists() else ""
    difference = unified_diff(known.splitlines(), sent.splitlines(), str(path), "as sent now", lineterm="")
    assert sent == known, "\n".join(["UPDATE_GOLDEN=1 writes it anew", *difference])


def sections(database: Database) -> Iterator[str]:
    """One per action, each in the state that the previous ones have left."""
    now = database.clock.now()
    yield section("version", lambda: database.read(require_version))
    yield section("enqueue", lambda: database.once(lambda c: insert_job(c, PLAIN)))
    yield section("enqueue with a key", lambda: database.once(lambda c: insert_job(c, KEYED)))
    yield section("enqueue with a key that is held", lambda: database.once(lambda c: insert_job(c, KEYED)))
    yield section("replace a pending job", lambda: database.once(lambda c: insert_job(c, REPLACING)))
    yield section("enqueue two", lambda: database.once(lambda c: insert_jobs(c, [PLAIN, PLAIN])))
    yield section("enqueue two with keys", lambda: database.once(lambda c: insert_jobs(c, [KEYED, KEYED])))
    yield section("count two lanes", lambda: database.read(lambda c: count_due(c, database.clock.now())))
    insert_rows(database, 2)
    yield section("claim", lambda: claim_jobs(database, 2))
    insert_rows(database, 1)
    cursor = ClaimCursor(NORMAL, now - timedelta(days=1))
    yield section("claim from a cursor", lambda: make_claim(database, make_claimant(database), 1, cursor))
    [first] = insert_rows(database, 1)
    yield section("claim an assigned job first", lambda: claim_jobs(database, 2, begins_with=first))
    yield section(
        "find interrupted jobs",
        lambda: database.read(lambda c: interrupted_jobs(c, {"default": 2}, now)),
    )
    yield section("check for due jobs", lambda: database.read(lambda c: has_due(c, "default", now)))
    single, claimant = insert_row(database, lane="waited"), make_claimant(database, lane="waited")
    yield section("claim a single job", lambda: claim_single(database, claimant, single, now))
    yield section("groups of jobs", lambda: database.read(job_groups))
    yield section("enter a lane", lambda: database.run(lambda c: enter_lane(c, "worker-1", "mail", ["default"])))
    yield section("jobs of a runner", lambda: database.run(lambda c: held_jobs(c, "default", "worker-1")))
    yield section("expired jobs", lambda: database.run(lambda c: expired_jobs(c, ["default"], now)))
    yield from settling(database)
    yield from batches(database)
    yield from fleet(database)
    yield from scheduling(database)
    yield from pausing(database)
    yield from cancelling(database)
    yield from operating(database)
    yield from browsing(database)
    yield from limiting(database)
    yield from watching(database)
    yield from cleaning(database)
    yield from external_workers(database)
    yield from rows_of_sources(database)


def rows_of_sources(database: Database) -> Iterator[str]:
    posts = make_posts(database)
    posts.insert(1, 2, 3)
    posts.claim(1)  # reads the columns of the table, once per process
    yield section("count due rows of a source", lambda: posts.count(cap=10))
    yield section("claim rows", lambda: posts.claim(1))
    [job] = posts.claim(1)
    yield section("settle the job of a row", lambda: posts.settle(job))


def settling(database: Database) -> Iterator[str]:
    settler = make_settler(cycle_id=milliseconds(database.clock.now()))
    outcomes = [DONE, DONE, FAILED, RELEASED]
    insert_rows(database, len(outcomes), lane="settled")
    batch = claim_jobs(database, len(outcomes), lane="settled")
    settlements = [Settlement(job, outcome, 1) for job, outcome in zip(batch, outcomes, strict=True)]
    yield section("settle", lambda: settle(database, settler, settlements, {}))


def batches(database: Database) -> Iterator[str]:
    """A batch with one chain, from its opening to its callback."""
    now, kept = database.clock.now(), json_text.encode(FutureJob(PLAIN).to_dict())
    opened = NewBatch("campaign", kept, now)
    first = NewChain(PLAIN._replace(lane="flow", group_key="campaign"), f"[{kept}]")

    def step() -> None:
        settle(database, make_settler("flow"), [Settlement(job, DONE, 1) for job in claimed], {})

    yield section("open a batch", lambda: database.run(lambda c: open_batch(c, opened)))
    yield section("open a chain", lambda: database.run(lambda c: insert_chain(c, first)))
    yield section("seal a batch", lambda: database.run(lambda c: seal(c, "campaign", now)))
    run_sql(database, "UPDATE mayfly_jobs SET run_at = '2026-01-01 00:00:00' WHERE lane = 'flow'")
    claimed = claim_jobs(database, 1, "flow", lane="flow")
    yield section("find awaited jobs", lambda: mark_awaited(database, claimed))
    yield section("settle a step", step)
    run_sql(database, "UPDATE mayfly_jobs SET lane = 'flow' WHERE group_key = 'campaign'")
    claimed = claim_jobs(database, 1, "flow", lane="flow")
    yield section("settle the last job of a batch", step)
    yield section("complete finished batches", lambda: complete_all(database))


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

    yield section("plan", plan)
    yield section("open a cycle", lambda: database.run(lambda c: open_cycle(c, total.cycle_id, "host", now)))
    yield section("plan a runner", lambda: insert_runner(database))
    yield section(
        "record lanes passed over",
        lambda: database.run(lambda c: record_passed_over(c, {"served": KnownLane(1)}, ["waiting"])),
    )
    yield section("lanes", lambda: database.read(known_lanes))
    yield section("live runners", lambda: database.read(live_runners))
    yield section("live runners by lane", lambda: database.read(live_by_lane))
    host = Host("here", "machine")
    yield section("live runners of a host", lambda: database.read(lambda c: live_by_lane_and_on_host(c, host)))
    yield section("jobs that run, by lane", lambda: database.read(activity_by_lane))
    yield section("jobs that run, by runner", lambda: database.read(lambda c: starts_by_runner(c, ["worker-1"])))
    figures, runner = FiguresWriter(database, silent_log()), ObservedRunner("worker-1", os.getpid(), make_page(), 0.0)
    yield section("write figures of live runners", lambda: figures.write([runner]))
    yield section("renew a heartbeat", lambda: database.once(lambda c: renew_heartbeat(c, "worker-1", now)))
    yield section("close a runner", end)
    yield section("add up totals", lambda: database.run(lambda c: add_up_totals(c, total.cycle_id, now)))
    yield section("close a cycle", close)


def scheduling(database: Database) -> Iterator[str]:
    validator, now = JobValidator(1 << 16, 5, database.clock.now), database.clock.now()
    entries = [parse_line(f"@yearly {line}") for line in ("a", "b", "c overlap=skip")]
    past = update(schedules).values(dealt_until=now - timedelta(days=400))
    yield section("record new schedules", lambda: fire_due(database, entries, validator))
    run(database, lambda c: c.execute(past))
    yield section("fire schedules", lambda: fire_due(database, entries, validator))
    yield section("no schedule due", lambda: fire_due(database, entries, validator))
    yield section("pause a schedule", lambda: database.run(lambda c: pause(c, entries[0], now, None, "ann", None)))
    yield section("resume a schedule", lambda: database.run(lambda c: resume(c, "a", now)))


def pausing(database: Database) -> Iterator[str]:
    now = database.clock.now()
    new = Pause("type", "noop", now)
    insert_row(database, run_at=now + timedelta(hours=1), waiting_for=new.waiting_for)
    yield section("pause a type", lambda: database.run(lambda c: pauses.pause(c, new)))
    yield section("load pauses", lambda: database.read(lambda c: load_pauses(c, now)))
    yield section("resume a type", lambda: database.run(lambda c: pauses.resume(c, "type", "noop", now)))
    yield section("resume snoozed jobs", lambda: resume_jobs(database, "noop", ["default"]))


def cancelling(database: Database) -> Iterator[str]:
    insert_rows(database, 1, lane="cancelled")
    [job] = claim_jobs(database, lane="cancelled")
    ids = (job.id, insert_row(database, lane="cancelled"))
    filters = [
        JobFilter(group_key="g"),
        JobFilter(lane="cancelled", type="noop", status="pending", created_before=database.clock.now()),
    ]
    yield section("cancel two by id", lambda: act(database, CANCEL, JobFilter(ids=ids)))
    yield section("cancel a group", lambda: act(database, CANCEL, filters[0]))
    yield section("count by a filter", lambda: count_matching(database, CANCEL, filters[1]))
    fence = job.fence("worker-1")
    yield section("read a cancellation request", lambda: database.read(lambda c: cancel_request(c, fence)))


def operating(database: Database) -> Iterator[str]:
    """Each verb on one job, with its audit entry."""
    ann, until = Actor("ann"), database.clock.now() + timedelta(hours=1)
    dead, other = (
        JobFilter(ids=(insert_row(database, status="dead", lane="operated", **each),)) for each in DEAD_ONES
    )
    pending = JobFilter(ids=(insert_row(database, lane="operated"),))
    yield section("retry", lambda: act(database, RETRY, dead, ann))
    yield section("discard", lambda: act(database, DISCARD, other, ann))
    yield section("delay", lambda: act(database, DELAY, pending, ann, until=until))
    yield section("retry a pending job", lambda: act(database, RETRY, pending, ann))
    yield section("find by error", lambda: act(database, RETRY, JobFilter(error="f" * 16, lane="mail"), ann))
    yield section("override a lane", lambda: set_max_workers(database, "operated", 2, ann))
    yield section("pause a lane", lambda: start_pause(database, "lane", "operated", ann))
    yield section("forget a host", lambda: database.run(lambda c: forget_cycles(c, "gone", until)))


def browsing(database: Database) -> Iterator[str]:
    now = database.clock.now()

    def jobs(job_filter: JobFilter) -> Callable[[], object]:
        return lambda: database.read(lambda c: list_jobs(c, job_filter, size=1))

    yield section("list all jobs", jobs(JobFilter()))
    yield section("list jobs by status and lane", jobs(JobFilter(lane="operated", status="pending")))
    yield section("search jobs", jobs(JobFilter(group_key="g", type="noop", text="ann")))
    yield section("list jobs by error", jobs(JobFilter(error="f" * 16)))
    yield section("list dead jobs", lambda: database.read(lambda c: list_dead(c, "settled", now)))
    yield section("list hosts", lambda: database.read(lambda c: list_hosts(c, now)))
    yield section("list cycles", lambda: database.read(list_cycles))
    yield section("list minutes", lambda: database.read(lambda c: list_minutes(c, now, before=milliseconds(now))))
    yield section("read the regularity of cycles", lambda: database.read(lambda c: read_regularity(c, now)))
    yield section("read the history", lambda: database.read(lambda c: read_history(c, PERIODS["1h"], now)))
    yield section("sparklines", lambda: database.read(lambda c: read_sparks(c, now)))
    died = {("mail", "noop", "dead"): Count(1)}
    database.run(lambda c: write_totals(c, milliseconds(now), "", died))
    yield section("list newly dead jobs", lambda: database.read(lambda c: list_newly_dead(c, now)))
    yield section("list runners", lambda: database.read(list_runners))
    yield section("find runners", lambda: database.read(lambda c: runners_named(c, ["worker-1", "worker-2"])))
    yield section("count statuses", lambda: database.read(lambda c: count_statuses(c, JobFilter(lane="mail"))))
    yield section("count a group", lambda: database.read(lambda c: count_statuses(c, JobFilter(group_key="g"))))
    insert_row(database, lane="dying", status="dead", finished_at=now)
    yield section("list dead jobs of a lane", lambda: database.read(lambda c: list_dead(c, "dying", now)))
    yield section("read related jobs", lambda: database.read(lambda c: read_family(c, 2, 1, "g")))
    yield section("payloads", lambda: database.read(lambda c: read_payloads(c, [1, 2])))
    by_field = JobFilter(lane="mail", status="dead", payload=(("to", "ann"),))
    yield section("search by a field", jobs(by_field))
    content = JobFilter(lane="operated", text="ann", payload=(("order.id", "7"),))
    insert_row(database, lane="operated", status="dead", payload='{"to": "ann", "order": {"id": 7}}')
    yield section("retry by contents", lambda: act(database, RETRY, content, Actor("ann")))
    ended = JobFilter(lane="operated", type="noop", finished_after=now)
    yield section("estimate", lambda: count_matching(database, RETRY, ended, max_rows=20_000))
    yield section("list the audit", lambda: database.read(list_audit))


def external_workers(database: Database) -> Iterator[str]:
    external_totals, options = (
        ExternalTotals(database, "http-1"),
        PullOptions("shop", ["outside"], 2, timedelta(minutes=1)),
    )
    request = IdempotentRequest.of("shop", "key", b"{}", database.clock.now())
    now = database.clock.now()
    insert_rows(database, 2, lane="outside")
    found: list[ClaimRef] = []

    def pull() -> None:
        pulled = external.pull(database, external_totals, options)
        found.extend(pulled.claim_of(job) for job in pulled.jobs)

    def finish() -> None:
        external.finish(database, external_totals, found[0], lambda _job: DONE)

    yield section("check for external jobs", lambda: database.read(lambda c: external.due(c, {"outside": 3}, now)))
    yield section("pull", pull)
    yield section("extend", lambda: external.extend(database, found[0], options.lease))
    yield section("finish an external job", finish)
    yield section("finish an external job again", finish)
    change_job(database, found[1].job_id, lease_until=now - timedelta(minutes=1))
    yield section("redeliver expired jobs", lambda: external.redeliver(database, external_totals, ["outside"]))
    for what in ("run a request with an idempotency key", "repeat a request"):
        yield section(what, lambda: database.run(lambda c: request.run_once(c, lambda _: [])))
    yield section("log out", lambda: database.run(lambda c: auth.end_session(c, "session", now)))
    yield section("check for a logout", lambda: database.read(lambda c: auth.has_ended(c, "session")))
    yield section("find a token", lambda: database.read(lambda c: auth.find_token(c, "text", now)))


def limiting(database: Database) -> Iterator[str]:
    holder = LimitHolder("worker-1", database.clock.now() + timedelta(minutes=1))
    ours, options = (
        SlotLedger(holder),
        (LimitKey("smtp:7", Limit("smtp", 2)), LimitKey("sender:7", Limit("sender", 9, "day"))),
    )
    yield section("acquire limits for the first time", lambda: ours.acquire(database, [options]))
    yield section("acquire limits", lambda: ours.acquire(database, [options]))
    units = ours.acquire_one(database, options[1:])
    assert not isinstance(units, Refusal)
    yield section("return a unit", lambda: database.run(lambda c: return_units(c, units), repeatable=False))
    ours.release([options, options])
    yield section("release limits", lambda: ours.flush(database))
    now = database.clock.now()
    yield section("list limits", lambda: database.read(lambda c: list(list_limits(c, now))))


def watching(database: Database) -> Iterator[str]:
    now = database.clock.now()
    late = Incident(AlertKind.LATE, "late", "it waits", now)

    def carry_over() -> None:
        database.run(lambda c: add_up_strays(c, now + timedelta(hours=1)))
        database.run(lambda c: count_cycles(c, now + timedelta(hours=1)))

    def send() -> None:
        [alert] = database.run(lambda c: record_changes(c, [late], now))
        database.run(lambda c: take_due(c, alert, now))
        database.run(lambda c: record_sent(c, alert, now))

    settings = load({"MAYFLY_HOME": str(GOLDEN)}).settings
    yield section("recently dead jobs", lambda: database.read(lambda c: recently_dead(c, now - timedelta(hours=1))))
    yield section("read counters", lambda: database.read(lambda c: (read_counters(c), read_cycles(c))))
    yield section("count cycles", carry_over)
    yield section("dead jobs", lambda: database.read(lambda c: list(dead_jobs(c, settings, now))))
    yield section("killed runners", lambda: database.read(lambda c: list(killed_runners(c, settings, now))))
    yield section("send an alert", send)
    yield section("recover an alert", lambda: database.run(lambda c: record_changes(c, [], now)))


def cleaning(database: Database) -> Iterator[str]:
    """With one old job in one lane, so that the searches of the other lanes are the same statements."""
    old = database.clock.now() - timedelta(days=400)
    for _ in range(2):
        change_job(database, insert_row(database, run_at=old), status="done", finished_at=old)
    yield section("prune", lambda: prune(database, retention(dead=30)))


def section(title: str, act: Callable[[], object]) -> str:
    """The statements that an action sends."""
    with recorded_statements() as sent:
        act()
    lines = [f"-- {title}"]
    for statement, equal in groupby(sent):
        times = len(list(equal))
        lines += [f"-- {times} times:"] if times > 1 else []
        lines.append(f"{statement};")
    return "\n".join([*lines, ""])
