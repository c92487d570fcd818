"""What people look at: pages that lose and repeat nothing, figures that stop counting, one job with all of it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mayfly.admin.actions import CANCEL, act
from mayfly.admin.audit import Actor, list_audit
from mayfly.admin.filters import JobFilter
from mayfly.admin.fleet import list_cycles, list_runners
from mayfly.admin.health import read_status
from mayfly.admin.job import JobView, read_job
from mayfly.admin.jobs import CappedCount, JobPage, list_dead, list_jobs
from mayfly.admin.lanes import list_lanes, set_max_workers, start_pause
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.errors import BadField, UnknownJob
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


def page_of(database: Database, which: JobFilter = JobFilter(), **options: Any) -> JobPage:  # noqa: B008 - a value
    return database.read(lambda connection: list_jobs(connection, which, **options))


def pages_of(database: Database, which: JobFilter = JobFilter(), **options: Any) -> Iterator[JobPage]:  # noqa: B008
    page = page_of(database, which, **options)
    yield page
    while page.next is not None:
        page = page_of(database, which, after=page.next, **options)
        yield page


def listed(database: Database, which: JobFilter = JobFilter(), **options: Any) -> list[int]:  # noqa: B008
    """The ids of all pages, in their order."""
    return [job.id for page in pages_of(database, which, **options) for job in page.jobs]


def insert_attempt(database: Database, job_id: int, fingerprint: str, at: datetime, attempt: int = 1) -> None:
    insert_table_row(
        database, tables.attempts, job_id=job_id, attempt=attempt, worker_id="worker-1", outcome="failed",
        error=f"no {fingerprint}\n  and where", fingerprint=fingerprint, finished_at=at, duration_ms=5,
    )  # fmt: skip


# --- lists ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "which", [JobFilter(), JobFilter(lane="default"), JobFilter(status="pending"), JobFilter(group_key="g")]
)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pages_lose_and_repeat_nothing(database: Database, which: JobFilter, size: int) -> None:
    """Though all times are equal, and three priorities and two statuses lie in ranges of their own."""
    at = database.clock.now() - HOUR
    ids = [
        insert_row(database, run_at=at, priority=number % 3, group_key="g", status="pending") for number in range(7)
    ]

    assert listed(database, which, size=size) == ids[::-1]


def test_times_of_plain_sql_are_paged_exactly(database: Database) -> None:
    """Whatever number of digits they were written with: SQLite compares them as texts."""
    times = ["2026-05-04 12:00:00", "2026-05-04 12:00:00", "2026-05-04 12:00:00.5", "2026-05-04 12:00:00.500000"]
    for at in times:
        run_sql(database, f"INSERT INTO mayfly_jobs (type, payload, run_at) VALUES ('noop', '{{}}', '{at}')")

    found = listed(database, JobFilter(lane="default"), size=1)

    assert sorted(found) == [row.id for row in rows_of(database, tables.jobs)]


@sqlite_only
def test_times_of_plain_sql_are_dealt_with_in_slices(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """No job is left out because its time has fewer digits than ours."""
    monkeypatch.setattr("mayfly.admin.actions.ROWS_PER_SLICE", 2)
    for _ in range(5):
        insert = "INSERT INTO mayfly_jobs (type, payload, run_at) VALUES ('noop', '{}', '2026-05-04 12:00:00')"
        run_sql(database, insert)

    assert act(database, CANCEL, JobFilter(lane="default")).changed == 5


def test_a_page_shows_what_a_list_needs(database: Database) -> None:
    """Of the error its first line."""
    job_id = insert_row(database, status="dead", lane="mail", last_error="ValueError: no\n  File …", attempts=5)

    [job] = page_of(database, JobFilter(lane="mail")).jobs

    assert (job.id, job.lane, job.type, job.status, job.attempts) == (job_id, "mail", "noop", "dead", 5)
    assert job.error == "ValueError: no"
    assert job.facts()["created_at"].endswith("+00:00")


@pytest.mark.parametrize(
    ("which", "names"),
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
def test_a_filter_means_what_has_all_of_it(database: Database, which: dict[str, Any], names: list[str]) -> None:
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
    meant = JobFilter(**{key: value for key, value in which.items() if key not in ("before", "after")})
    meant = meant._replace(created_before=now - HOUR) if "before" in which else meant
    meant = meant._replace(created_after=now - HOUR) if "after" in which else meant

    found = page_of(database, meant).jobs

    known = {job_id: name for name, job_id in ids.items()}
    assert sorted(known[job.id] for job in found) == sorted(names)


def test_what_no_index_knows_is_looked_for_in_so_many_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is cut says so, and the next goes on there: in the end everything was looked at."""
    monkeypatch.setattr("mayfly.admin.jobs.MAX_ROWS_SEARCHED", 10)
    old = insert_rows(database, 3, type="sleep")
    insert_rows(database, 20)
    new = insert_rows(database, 2, type="sleep")

    pages = list(pages_of(database, JobFilter(type="sleep"), size=10))

    assert [[job.id for job in page.jobs] for page in pages] == [new[::-1], [], old[::-1]]
    assert [page.is_cut for page in pages] == [True, True, False]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_search_over_several_ranges_loses_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Each lane and priority is searched as far as its share goes, and the page ends where the shortest did."""
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
    """Whatever its case; what means something to LIKE means itself."""
    payload = insert_row(database, payload='{"to": "Ann@example.org"}')
    error = insert_row(database, status="dead", last_error="ValueError: ann_100% sure")
    key = insert_row(database, unique_key="welcome:ann")
    insert_row(database, payload='{"to": "bob"}')

    assert listed(database, text="ANN") == [key, error, payload]
    assert listed(database, text="ann_100%") == [error]
    assert listed(database, text="ann%org") == []


@pytest.mark.parametrize(
    "after", ["", "x", "1~2~3", "2026-05-04T12:00:00~x", "yesterday~5", f"2026-05-04T12:00:00~{2**63}"]
)
def test_a_position_that_no_page_gave_is_a_sentence(database: Database, after: str) -> None:
    insert_row(database)

    with pytest.raises(BadField, match="must be the `next` of the previous page"):
        page_of(database, JobFilter(lane="default"), after=after)


@pytest.mark.parametrize("after", [f"{2**63}", f"-{2**70}", "9" * 5000])
def test_a_position_beyond_all_numbers_is_one_too(database: Database, after: str) -> None:
    """Of the whole table, whose positions are numbers alone."""
    insert_row(database)

    with pytest.raises(BadField, match="must be the `next` of the previous page"):
        page_of(database, after=after)


@pytest.mark.parametrize("size", [0, -1, 1001])
def test_a_page_has_its_bounds(database: Database, size: int) -> None:
    with pytest.raises(BadField, match="from 1 to 1000"):
        page_of(database, size=size)


def test_a_job_that_comes_between_two_pages_changes_neither(database: Database) -> None:
    """A page begins behind the last one, not at a number of rows."""
    ids = insert_rows(database, 4)
    first = page_of(database, size=2)
    insert_row(database)

    second = page_of(database, size=2, after=first.next)

    assert [job.id for job in (*first.jobs, *second.jobs)] == ids[::-1]


# --- lanes and cycles -------------------------------------------------------------------------------------


def test_a_lane_is_told_with_all_its_figures(database: Database, tmp_path: Path) -> None:
    """What is due and since when, what runs, what came of the last hour, what is dead, what comes next."""
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

    assert (lane.lane, lane.pending, lane.running, lane.dead) == (
        "mail",
        CappedCount(2),
        CappedCount(1),
        CappedCount(2),
    )
    assert (lane.oldest_due_at, lane.wait_seconds, lane.next_run_at) == (now - 10 * MINUTE, 600.0, now + HOUR)
    assert (lane.done_last_hour, lane.failed_last_hour, lane.runners) == (7, 3, 1)
    assert (lane.max_workers, lane.set_by, lane.paused) == (3, "ann", None)


def test_a_backlog_is_counted_no_further_than_is_worth_saying(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.admin.lanes.MAX_COUNTED", 3)
    monkeypatch.setattr("mayfly.admin.lanes.MIN_CAP", 3)
    insert_rows(database, 5)
    insert_rows(database, 3, lane="mail")

    found = database.read(lambda connection: list_lanes(connection, settings_in(tmp_path), database.clock.now()))

    assert [str(lane.pending) for lane in found] == ["3+", "3"]
    assert (found[0].facts()["pending"], found[0].facts()["pending_is_capped"]) == (3, True)


def test_lanes_without_rows_are_shown_where_somebody_named_them(database: Database, tmp_path: Path) -> None:
    """In the settings, by a pause, or by what was set."""
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
    ("minutes", "exit_code", "paused", "expected", "complaint"),
    [
        (1, 0, False, 0, None),
        (1, 1, False, 1, "The last cycle of host b ended with code 1: see its log."),
        (1, 0, True, 1, "Lane mail is paused."),
        (5, 0, False, 1, "The last cycle of host b began 5 min ago: is cron running there?"),
    ],
)
def test_a_status_says_whether_all_is_well(
    database: Database, tmp_path: Path, minutes: int, exit_code: int, paused: bool, expected: int, complaint: str
) -> None:
    """0 where it is, 1 where something is not, each with its sentence."""
    now = database.clock.now()
    insert_cycle(database, now - MINUTE, "a")
    insert_cycle(database, now - 30 * MINUTE, "b")
    insert_cycle(database, now - minutes * MINUTE - timedelta(seconds=1), "b", exit_code)
    if paused:
        start_pause(database, "lane", "mail", ANN)

    found = database.read(lambda connection: read_status(connection, settings_in(tmp_path), now))

    assert (found.exit_code, [each.text for each in found.problems]) == (expected, [complaint] if complaint else [])
    assert [(host.host, host.last.duration_ms) for host in found.snapshot.hosts] == [("a", 80), ("b", 80)]


@pytest.mark.parametrize("hours", [None, 1, 30])
def test_a_status_without_cycles_lately_is_2(database: Database, tmp_path: Path, hours: int | None) -> None:
    """Whatever else may be wrong: until cron runs nothing of it changes."""
    now = database.clock.now()
    if hours is not None:
        insert_cycle(database, now - hours * HOUR, "a")

    found = database.read(lambda connection: read_status(connection, settings_in(tmp_path), now))

    assert found.exit_code == 2
    assert len(found.problems) == 1


def test_cycles_and_deeds_are_paged_by_their_ids(database: Database) -> None:
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
    assert [deed.subject.split()[0] for deed in (*newest, *older)] == ["lane-4", "lane-3", "lane-2", "lane-1"]


def test_runners_that_live_come_first(database: Database) -> None:
    """Then those that ended, the last one first."""
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


# --- the dead ---------------------------------------------------------------------------------------------


def test_the_dead_are_grouped_by_type_and_error(database: Database) -> None:
    """By that of their last attempt, most frequent first, with the newest one's words."""
    mails = [insert_dead(database, "mail", "aaaa", lane=lane) for lane in ("a", "b", "b")]
    other = insert_dead(database, "mail", "cccc")
    image = insert_dead(database, "image", "aaaa")
    unknown = insert_row(database, type="image", status="dead", last_error="by hand")
    insert_row(database, type="mail", status="done")

    found = database.read(lambda connection: list_dead(connection))

    told = [(group.type, group.error, group.jobs, group.newest_id) for group in found.groups]
    assert told[0] == ("mail", "aaaa", 3, mails[-1])
    assert sorted(told[1:]) == [("image", "", 1, unknown), ("image", "aaaa", 1, image), ("mail", "cccc", 1, other)]
    assert (found.looked_at, found.is_cut, found.groups[0].message) == (6, False, "no aaaa")


def test_the_dead_of_one_lane_are_grouped(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of them, where there are very many."""
    monkeypatch.setattr("mayfly.admin.jobs.MAX_DEAD_READ", 3)
    for _ in range(5):
        insert_dead(database, "mail", "aaaa", lane="a")
        insert_dead(database, "mail", "bbbb", lane="b")

    found = database.read(lambda connection: list_dead(connection, lane="a"))

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


def test_one_job_is_told_with_everything(database: Database, tmp_path: Path) -> None:
    """Its row with JSON as values, its attempts, its timeline, its batch, what follows in its chain, and why."""
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


def test_a_payload_that_cannot_be_read_is_shown_as_it_is(database: Database, tmp_path: Path) -> None:
    """It may have come by plain SQL."""
    job_id = insert_row(database, status="done")
    deep = '{"a": ' + "[" * 20 + "]" * 20 + "}"
    change_job(database, job_id, payload=deep)

    assert view(database, tmp_path, job_id).row.payload["a"] is not None


def test_an_unknown_job_is_a_sentence(database: Database, tmp_path: Path) -> None:
    with pytest.raises(UnknownJob, match="12345"):
        view(database, tmp_path, 12345)


def view(database: Database, home: Path, job_id: int) -> JobView:
    now, registry = database.clock.now(), Registry({}, {})
    return database.read(lambda connection: read_job(connection, job_id, settings_in(home), registry, now))
