"""Views for operators: complete pages without duplicates, capped counts, and one job with all its data."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mayfly import json_text
from mayfly.admin import health
from mayfly.admin.actions import CANCEL, act
from mayfly.admin.auth import Actor, list_audit
from mayfly.admin.filters import JobFilter
from mayfly.admin.fleet import list_cycles, list_runners
from mayfly.admin.health import read_status
from mayfly.admin.job import JobView, read_job
from mayfly.admin.jobs import CappedCount, JobPage, facts_of, list_dead, list_jobs
from mayfly.admin.lanes import list_lanes, set_max_workers, start_pause
from mayfly.cli.text import lanes_text
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.errors import BadField, UnknownJob
from mayfly.fleet.runners import JobStart
from mayfly.registry import Registry
from mayfly.schema import metadata as tables
from mayfly.settings import Settings, load
from tests.database.factories import (
    change_job,
    claim_jobs,
    insert_runner,
    insert_table_row,
    rows_of,
    run_sql,
    sqlite_only,
)
from tests.factories import insert_row, insert_rows

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
ANN = Actor("ann")


def settings_in(home: Path, **others: str) -> Settings:
    return load({"MAYFLY_HOME": str(home), **others}).settings


def page_of(database: Database, job_filter: JobFilter = JobFilter(), **options: Any) -> JobPage:  # noqa: B008 - a value
    return database.read(lambda connection: list_jobs(connection, job_filter, **options))


def pages_of(database: Database, job_filter: JobFilter = JobFilter(), **options: Any) -> Iterator[JobPage]:  # noqa: B008
    page = page_of(database, job_filter, **options)
    yield page
    while page.next is not None:
        page = page_of(database, job_filter, after=page.next, **options)
        yield page


def listed(database: Database, job_filter: JobFilter = JobFilter(), **options: Any) -> list[int]:  # noqa: B008
    """The ids of all pages, in order."""
    return [job.id for page in pages_of(database, job_filter, **options) for job in page.jobs]


def insert_attempt(database: Database, job_id: int, fingerprint: str, at: datetime, attempt: int = 1) -> None:
    insert_table_row(
        database, tables.attempts, job_id=job_id, attempt=attempt, worker_id="worker-1", outcome="failed",
        error=f"no {fingerprint}\n  and where", fingerprint=fingerprint, finished_at=at, duration_ms=5,
    )  # fmt: skip


# --- lists ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "job_filter", [JobFilter(), JobFilter(lane="default"), JobFilter(status="pending"), JobFilter(group_key="g")]
)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pages_are_complete_and_without_duplicates(database: Database, job_filter: JobFilter, size: int) -> None:
    """Even with equal times, over three priorities and two statuses."""
    at = database.clock.now() - HOUR
    ids = [
        insert_row(database, run_at=at, priority=number % 3, group_key="g", status="pending") for number in range(7)
    ]

    assert listed(database, job_filter, size=size) == ids[::-1]


def test_times_inserted_by_sql_are_paged_exactly(database: Database) -> None:
    """With any number of digits: SQLite compares them as texts."""
    times = ["2026-05-04 12:00:00", "2026-05-04 12:00:00", "2026-05-04 12:00:00.5", "2026-05-04 12:00:00.500000"]
    for at in times:
        run_sql(database, f"INSERT INTO mayfly_jobs (type, payload, run_at) VALUES ('noop', '{{}}', '{at}')")

    found = listed(database, JobFilter(lane="default"), size=1)

    assert sorted(found) == [row.id for row in rows_of(database, tables.jobs)]


@sqlite_only
def test_times_inserted_by_sql_are_handled_in_slices(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """No job is skipped because its time has fewer digits than ours."""
    monkeypatch.setattr("mayfly.admin.actions.ROWS_PER_SLICE", 2)
    for _ in range(5):
        insert = "INSERT INTO mayfly_jobs (type, payload, run_at) VALUES ('noop', '{}', '2026-05-04 12:00:00')"
        run_sql(database, insert)

    assert act(database, CANCEL, JobFilter(lane="default")).changed == 5


def test_a_page_has_the_columns_of_a_list(database: Database) -> None:
    """Of the error only the first line."""
    job_id = insert_row(database, status="dead", lane="mail", last_error="ValueError: no\n  File …", attempts=5)

    [job] = page_of(database, JobFilter(lane="mail")).jobs

    assert (job.id, job.lane, job.type, job.status, job.attempts) == (job_id, "mail", "noop", "dead", 5)
    assert job.error == "ValueError: no"
    assert facts_of(job)["created_at"].endswith("+00:00")


@pytest.mark.parametrize(
    ("job_filter", "names"),
    [
        ({"lane": "mail"}, ["mail dead", "mail"]),
        ({"type": "sleep"}, ["sleep"]),
        ({"status": "dead"}, ["mail dead"]),
        ({"status": "done"}, []),
        ({"group_key": "g"}, ["sleep", "old"]),
        ({"group_key": "g", "type": "sleep"}, ["sleep"]),
        ({"error": "aaaa"}, ["mail dead"]),
        ({"error": "bbbb"}, []),
        ({"error": "aaaa", "lane": "default"}, []),
        ({"before": True}, ["old"]),
        ({"after": True}, ["sleep", "mail dead", "mail", "noop"]),
        ({"lane": "nowhere"}, []),
    ],
)
def test_a_filter_matches_all_its_conditions(
    database: Database, job_filter: dict[str, Any], names: list[str]
) -> None:
    now = database.clock.now()
    ids = {
        "noop": insert_row(database),
        "mail": insert_row(database, lane="mail"),
        "mail dead": insert_row(database, lane="mail", status="dead", run_at=now),
        "sleep": insert_row(database, type="sleep", group_key="g"),
    }
    ids["old"] = insert_row(database, created_at=now - 9 * HOUR, group_key="g")
    insert_attempt(database, ids["mail dead"], "bbbb", now - HOUR)
    insert_attempt(database, ids["mail dead"], "aaaa", now)
    meant = JobFilter(**{key: value for key, value in job_filter.items() if key not in ("before", "after")})
    meant = meant._replace(created_before=now - HOUR) if "before" in job_filter else meant
    meant = meant._replace(created_after=now - HOUR) if "after" in job_filter else meant

    found = page_of(database, meant).jobs

    known = {job_id: name for name, job_id in ids.items()}
    assert sorted(known[job.id] for job in found) == sorted(names)


def test_a_filter_without_an_index_reads_a_limited_number_of_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that was cut is marked, and the next one continues there until every row was read."""
    monkeypatch.setattr("mayfly.admin.jobs.MAX_ROWS_SEARCHED", 10)
    old = insert_rows(database, 3, type="sleep")
    insert_rows(database, 20)
    new = insert_rows(database, 2, type="sleep")

    pages = list(pages_of(database, JobFilter(type="sleep"), size=10))

    assert [[job.id for job in page.jobs] for page in pages] == [new[::-1], [], old[::-1]]
    assert [page.is_cut for page in pages] == [True, True, False]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_search_over_several_ranges_is_complete(
    database: Database, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Each lane and priority is searched for its share, and the page ends where the shortest range did."""
    monkeypatch.setattr("mayfly.admin.jobs.MAX_ROWS_SEARCHED", 12)
    now = database.clock.now()
    wanted = []
    for number in range(40):
        lane, priority = ("mail", "images", "mail")[number % 3], number % 2
        columns = {"lane": lane, "priority": priority, "run_at": now - timedelta(seconds=number // 4)}
        insert_rows(database, 1 + number % 4, **columns)
        wanted.append(insert_row(database, type="sleep", **columns))

    found = listed(database, JobFilter(status="pending", type="sleep"), size=size)

    assert sorted(found) == sorted(wanted)
    assert len(found) == len(set(found))


def test_text_is_found_in_payloads_errors_and_keys(database: Database) -> None:
    """In any case; wildcards of LIKE are literal."""
    payload = insert_row(database, payload='{"to": "Ann@example.org"}')
    error = insert_row(database, status="dead", last_error="ValueError: ann_100% sure")
    key = insert_row(database, unique_key="welcome:ann")
    insert_row(database, payload='{"to": "bob"}')

    assert listed(database, JobFilter(text="ANN")) == [key, error, payload]
    assert listed(database, JobFilter(text="ann_100%")) == [error]
    assert listed(database, JobFilter(text="ann%org")) == []


@pytest.mark.parametrize(
    "after", ["", "x", "1~2~3", "2026-05-04T12:00:00~x", "yesterday~5", f"2026-05-04T12:00:00~{2**63}"]
)
def test_an_invalid_position_is_an_error(database: Database, after: str) -> None:
    insert_row(database)

    with pytest.raises(BadField, match="must be the `next` of the previous page"):
        page_of(database, JobFilter(lane="default"), after=after)


@pytest.mark.parametrize("after", [f"{2**63}", f"-{2**70}", "9" * 5000])
def test_a_position_that_is_too_large_is_an_error(database: Database, after: str) -> None:
    """In the list of all jobs, whose positions are ids."""
    insert_row(database)

    with pytest.raises(BadField, match="must be the `next` of the previous page"):
        page_of(database, after=after)


@pytest.mark.parametrize("size", [0, -1, 1001])
def test_the_size_of_a_page_is_bounded(database: Database, size: int) -> None:
    with pytest.raises(BadField, match="from 1 to 1000"):
        page_of(database, size=size)


def test_a_job_inserted_between_two_pages_changes_neither(database: Database) -> None:
    """A page begins after the last row of the previous one, not at an offset."""
    ids = insert_rows(database, 4)
    first = page_of(database, size=2)
    insert_row(database)

    second = page_of(database, size=2, after=first.next)

    assert [job.id for job in (*first.jobs, *second.jobs)] == ids[::-1]


# --- lanes and cycles -------------------------------------------------------------------------------------


def test_a_lane_has_all_its_figures(database: Database, tmp_path: Path) -> None:
    """Due jobs and the oldest, running ones, the last hour, dead ones, and the next due time."""
    now = database.clock.now()
    insert_row(database, lane="mail", run_at=now - HOUR)
    claim_jobs(database, 1, lane="mail")
    insert_row(database, lane="mail", run_at=now - 10 * MINUTE, priority=2)
    insert_row(database, lane="mail", run_at=now - 5 * MINUTE, priority=0)
    insert_row(database, lane="mail", run_at=now + HOUR)
    insert_rows(database, 2, lane="mail", status="dead")
    insert_runner(database, lane="mail")
    insert_total(database, now - MINUTE, "done", 7)
    insert_total(database, now - MINUTE, "failed", 2)
    insert_total(database, now - MINUTE, "dead", 1)
    insert_total(database, now - 2 * HOUR, "done", 100)
    set_max_workers(database, "mail", 3, ANN)

    [lane] = database.read(lambda connection: list_lanes(connection, settings_in(tmp_path), now))

    assert (lane.lane, lane.pending, lane.claimed, lane.running, lane.dead) == (
        "mail",
        CappedCount(2),
        CappedCount(1),
        0,
        CappedCount(2),
    )
    assert (lane.oldest_due_at, lane.wait_seconds, lane.next_run_at) == (now - 10 * MINUTE, 600.0, now + HOUR)
    assert (lane.done_last_hour, lane.failed_last_hour, lane.runners) == (7, 3, 1)
    assert (lane.max_workers, lane.cap, lane.set_by, lane.paused) == (3, 3, "ann", None)


def set_running(database: Database, worker_id: str, **starts: datetime) -> None:
    """As the figures of the runner have it: j7=… for job 7."""
    encoded = json_text.encode({name[1:]: at.isoformat() for name, at in starts.items()})
    run_sql(database, "UPDATE mayfly_runners SET running = :jobs WHERE worker_id = :id", jobs=encoded, id=worker_id)


def test_claimed_jobs_are_not_running_jobs(database: Database, tmp_path: Path) -> None:
    """By the figures of their runner. A start before the claim belongs to an earlier run."""
    now = database.clock.now()
    running, again, waiting = insert_rows(database, 3, started_at=now - HOUR)
    insert_runner(database)
    claim_jobs(database)
    set_running(database, "worker-1", **{f"j{running}": now, f"j{again}": now - HOUR})

    lines = {line.id: (line.state, line.started_at) for line in page_of(database).jobs}
    [lane] = database.read(lambda connection: list_lanes(connection, settings_in(tmp_path), now))
    [runner] = database.read(list_runners)

    assert lines == {running: ("running", now), again: ("claimed", None), waiting: ("claimed", None)}
    assert (lane.claimed, lane.running) == (CappedCount(1), 2)
    assert runner.running == (JobStart(again, now - HOUR), JobStart(running, now))


def test_a_lane_shows_what_its_pool_allows(database: Database, tmp_path: Path) -> None:
    """The lower of the two caps."""
    lanes = {"LANES__MAIL__POOL": "vendor", "LANES__SMS__POOL": "vendor", "LANES__SMS__MAX_WORKERS": "1"}
    settings = settings_in(tmp_path, POOLS__VENDOR="2", **lanes)

    found = database.read(lambda connection: list_lanes(connection, settings, database.clock.now()))

    assert [(lane.lane, lane.max_workers, lane.cap, lane.pool) for lane in found] == [
        ("mail", 5, 2, "vendor"),
        ("sms", 1, 1, "vendor"),
    ]
    assert "0/2" in lanes_text(found, database.clock.now())
    assert "pool vendor allows 2 of 5" in lanes_text(found, database.clock.now())


@pytest.mark.parametrize("outcome", ["sliced", "released"])
def test_a_slice_or_release_does_not_hide_an_error(database: Database, outcome: str) -> None:
    """A job is found by its last failed attempt; a slice that ended later is none."""
    now = database.clock.now()
    job_id = insert_row(database, slices=1)
    insert_attempt(database, job_id, "aaaa", now - HOUR)
    insert_table_row(
        database, tables.attempts, job_id=job_id, attempt=2, worker_id="worker-1", outcome=outcome, error="",
        fingerprint="", finished_at=now, duration_ms=5,
    )  # fmt: skip

    assert listed(database, JobFilter(error="aaaa")) == [job_id]


def test_the_count_of_a_backlog_is_capped(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.admin.lanes.MAX_COUNTED", 3)
    monkeypatch.setattr("mayfly.admin.lanes.MIN_CAP", 3)
    insert_rows(database, 5)
    insert_rows(database, 3, lane="mail")

    found = database.read(lambda connection: list_lanes(connection, settings_in(tmp_path), database.clock.now()))

    assert [str(lane.pending) for lane in found] == ["3+", "3"]
    assert (facts_of(found[0])["pending"], facts_of(found[0])["pending_is_capped"]) == (3, True)


def test_lanes_without_jobs_are_shown_if_they_are_known(database: Database, tmp_path: Path) -> None:
    """By the settings, by a pause, or by an override."""
    start_pause(database, "lane", "held", ANN, reason="the vendor is down")
    set_max_workers(database, "mail", 2, ANN)
    settings = settings_in(tmp_path, LANES__IMAGES__MAX_WORKERS="9")

    found = database.read(lambda connection: list_lanes(connection, settings, database.clock.now()))

    assert [(lane.lane, lane.max_workers, lane.paused) for lane in found] == [
        ("held", 5, "paused: the vendor is down"),
        ("images", 9, None),
        ("mail", 2, None),
    ]


def insert_total(database: Database, at: datetime, outcome: str, jobs: int, lane: str = "mail") -> None:
    insert_table_row(
        database, tables.totals, cycle_id=milliseconds(at), lane=lane, type="noop", outcome=outcome, worker_id="",
        jobs=jobs, durations="{}", waits="{}",
    )  # fmt: skip


def insert_cycle(database: Database, at: datetime, host: str, exit_code: int = 0) -> None:
    insert_table_row(
        database, tables.cycles, id=milliseconds(at), host=host, started_at=at, exit_code=exit_code, duration_ms=80
    )


@pytest.mark.parametrize(
    ("minutes", "exit_code", "paused", "expected", "problem"),
    [
        (1, 0, False, 0, None),
        (1, 1, False, 0, "The last cycle of host b ended with code 1: see its log."),
        (1, 0, True, 0, "Lane mail is paused."),
        (5, 0, False, 1, "The last cycle of host b began 5 min ago: is cron running there?"),
    ],
)
def test_a_status_has_an_exit_code(
    database: Database, tmp_path: Path, minutes: int, exit_code: int, paused: bool, expected: int, problem: str
) -> None:
    """0 without problems, also with warnings, and 1 with problems, each with its sentence."""
    now = database.clock.now()
    insert_cycle(database, now - MINUTE, "a")
    insert_cycle(database, now - 30 * MINUTE, "b")
    insert_cycle(database, now - minutes * MINUTE - timedelta(seconds=1), "b", exit_code)
    if paused:
        start_pause(database, "lane", "mail", ANN)

    found = database.read(lambda connection: read_status(connection, settings_in(tmp_path), now))

    assert (found.exit_code, [each.text for each in found.problems]) == (expected, [problem] if problem else [])
    assert [(host.host, host.last.duration_ms) for host in found.snapshot.hosts] == [("a", 80), ("b", 80)]


@pytest.mark.parametrize("hours", [None, 1, 30])
def test_a_status_without_recent_cycles_is_2(database: Database, tmp_path: Path, hours: int | None) -> None:
    """Even with other problems: without cron none of them can be solved."""
    now = database.clock.now()
    if hours is not None:
        insert_cycle(database, now - hours * HOUR, "a")

    found = database.read(lambda connection: read_status(connection, settings_in(tmp_path), now))

    assert found.exit_code == 2
    assert len(found.problems) == 1


@pytest.mark.parametrize("max_read", [5000, 3])
def test_only_jobs_that_are_still_dead_count(
    database: Database, tmp_path: Path, max_read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those that were retried or discarded. With too many dead jobs to read, the totals are reported."""
    monkeypatch.setattr(health, "MAX_DEAD_READ", max_read)
    now = database.clock.now()
    insert_cycle(database, now - MINUTE, "a")
    insert_total(database, now - MINUTE, "dead", 5)
    insert_total(database, now - MINUTE, "dead", 1, lane="retried")
    insert_total(database, now - 2 * HOUR, "dead", 9, lane="old")
    for status, priority in (("dead", 0), ("dead", 2), ("done", 1), ("pending", 1), ("cancelled", 1)):
        insert_row(database, lane="mail", status=status, priority=priority, finished_at=now - MINUTE)
    for _ in range(2):
        insert_row(database, lane="mail", status="dead", finished_at=now - 2 * HOUR)
    insert_row(database, lane="retried", status="done", finished_at=now)

    found = database.read(lambda connection: read_status(connection, settings_in(tmp_path), now))

    assert found.snapshot.dead == ({"mail": 2} if max_read == 5000 else {"mail": 5})
    assert (found.exit_code, [each.kind for each in found.problems]) == (0, ["dead"])


def test_cycles_and_audit_entries_are_paged_by_id(database: Database) -> None:
    """The newest first."""
    now = database.clock.now()
    for number in range(5):
        insert_cycle(database, now - number * MINUTE, "a")
        set_max_workers(database, f"lane-{number}", 2, ANN)

    first = database.read(lambda connection: list_cycles(connection, 2))
    second = database.read(lambda connection: list_cycles(connection, 2, before=first[-1].id))
    newest = database.read(lambda connection: list_audit(connection, 2))
    older = database.read(lambda connection: list_audit(connection, 2, before=newest[-1].id))

    ages = [round((now - cycle.started_at) / MINUTE) for cycle in (*first, *second)]
    assert ages == [0, 1, 2, 3]
    assert [entry.subject.split()[0] for entry in (*newest, *older)] == ["lane-4", "lane-3", "lane-2", "lane-1"]


def test_live_runners_come_first(database: Database) -> None:
    """Then the ended ones, the latest first."""
    now = database.clock.now()
    for number in range(4):
        insert_runner(database, f"worker-{number}")
    for number, minutes in ((0, 2), (2, 1)):
        ended = (now - minutes * MINUTE).strftime("%Y-%m-%d %H:%M:%S.%f")
        run_sql(database, f"UPDATE mayfly_runners SET finished_at = '{ended}' WHERE worker_id = 'worker-{number}'")

    found = database.read(list_runners)
    live = database.read(lambda connection: list_runners(connection, live_only=True))

    assert [runner.worker_id[-1] for runner in found] == ["1", "3", "2", "0"]
    assert [runner.worker_id[-1] for runner in live] == ["1", "3"]


# --- dead jobs --------------------------------------------------------------------------------------------


def test_dead_jobs_are_grouped_by_type_and_error(database: Database) -> None:
    """By the error of the last attempt, the most frequent first, with the newest message."""
    mails = [insert_dead(database, "mail", "aaaa", lane=lane) for lane in ("a", "b", "b")]
    other = insert_dead(database, "mail", "cccc")
    image = insert_dead(database, "image", "aaaa")
    unknown = insert_row(database, type="image", status="dead", last_error="by hand")
    insert_row(database, type="mail", status="done")

    found = database.read(lambda connection: list_dead(connection, None, database.clock.now()))

    shown = [(group.type, group.error, group.jobs, group.newest_id) for group in found.groups]
    assert shown[0] == ("mail", "aaaa", 3, mails[-1])
    assert sorted(shown[1:]) == [("image", "", 1, unknown), ("image", "aaaa", 1, image), ("mail", "cccc", 1, other)]
    assert (found.looked_at, found.is_cut, found.groups[0].message) == (6, False, "no aaaa")


def test_dead_jobs_of_one_lane_are_grouped(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest ones if there are very many."""
    monkeypatch.setattr("mayfly.admin.jobs.MAX_DEAD_READ", 3)
    for _ in range(5):
        insert_dead(database, "mail", "aaaa", lane="a")
        insert_dead(database, "mail", "bbbb", lane="b")

    found = database.read(lambda connection: list_dead(connection, "a", database.clock.now()))

    assert [(group.error, group.jobs) for group in found.groups] == [("aaaa", 3)]
    assert found.is_cut


def insert_dead(database: Database, type_name: str, fingerprint: str, **columns: Any) -> int:
    now = database.clock.now()
    dead = {"status": "dead", "finished_at": now, "last_error": f"no {fingerprint}\n  and where"}
    job_id = insert_row(database, type=type_name, **dead, **columns)
    insert_attempt(database, job_id, "other", now - MINUTE, attempt=4)
    insert_attempt(database, job_id, fingerprint, now, attempt=5)
    return job_id


# --- one job ----------------------------------------------------------------------------------------------


def test_one_job_is_shown_with_everything(database: Database, tmp_path: Path) -> None:
    """Its row with JSON as values, attempts, timeline, batch, following steps, and why it waits."""
    now = database.clock.now()
    job_id = insert_row(database, type="noop", payload='{"to": "ann"}', group_key="campaign", run_at=now + HOUR)
    change_job(database, job_id, attempts=2, progress='{"done": 1, "total": 2, "text": null}')
    insert_attempt(database, job_id, "aaaa", now - HOUR, attempt=1)
    insert_attempt(database, job_id, "bbbb", now - MINUTE, attempt=2)
    insert_row(database, group_key="campaign", status="done")
    insert_table_row(database, tables.batches, batch_key="campaign", created_at=now, sealed_at=now)
    insert_table_row(database, tables.chains, job_id=job_id, rest='[{"type": "add_up"}, {"type": "publish"}]')

    found = view(database, tmp_path, job_id)

    assert (found.row.payload, found.row.progress["done"]) == ({"to": "ann"}, 1)
    assert [each.fingerprint for each in found.attempts] == ["aaaa", "bbbb"]
    assert found.batch is not None
    assert (found.batch.jobs, found.batch.by_status) == (CappedCount(2), {"pending": 1, "done": 1})
    assert (found.steps, found.reasons[0].name) == (("add_up", "publish"), "retry")
    assert [event.text.split()[0] for event in found.timeline] == ["attempt", "attempt", "enqueued", "due"]
    assert found.facts()["run_at"] == (now + HOUR).isoformat()


def test_a_payload_that_is_not_json_is_shown_unchanged(database: Database, tmp_path: Path) -> None:
    """SQL can insert any text."""
    job_id = insert_row(database, status="done")
    deep = '{"a": ' + "[" * 20 + "]" * 20 + "}"
    change_job(database, job_id, payload=deep)

    assert view(database, tmp_path, job_id).row.payload["a"] is not None


def test_an_unknown_job_is_an_error(database: Database, tmp_path: Path) -> None:
    with pytest.raises(UnknownJob, match="12345"):
        view(database, tmp_path, 12345)


def view(database: Database, home: Path, job_id: int) -> JobView:
    now, registry = database.clock.now(), Registry({}, {})
    return database.read(lambda connection: read_job(connection, job_id, settings_in(home), registry, now))
