"""Queries of the console: statuses, dead jobs, related jobs, payload fields, and estimates for actions."""

import json
from datetime import datetime, timedelta

import pytest

from mayfly.admin import jobs
from mayfly.admin.actions import CANCEL, RETRY, act, count_matching
from mayfly.admin.charts import TypeFigures, list_type_failures, list_types, read_type
from mayfly.admin.filters import JobFilter, read_payloads
from mayfly.admin.fleet import runners_named
from mayfly.admin.job import Family, read_family
from mayfly.admin.jobs import CappedCount, count_statuses, list_dead
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.errors import BadField
from mayfly.schema import metadata as tables
from mayfly.schema.tables import STATUSES
from tests.database.factories import change_job, claim_jobs, insert_runner, insert_table_row
from tests.database.test_admin_views import ANN, HOUR, insert_attempt, listed, page_of
from tests.factories import insert_row, insert_rows

DAY = timedelta(days=1)


def counted(database: Database, job_filter: JobFilter) -> dict[str, str]:
    found = database.read(lambda connection: count_statuses(connection, job_filter))
    return {status: str(number) for status, number in found.items() if number.number}


def test_statuses_are_counted_over_all_lanes_or_one(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many statements that takes."""
    monkeypatch.setattr(jobs, "LANES_PER_STATEMENT", 1)
    for lane in ("mail", "web"):
        for number, status in enumerate(STATUSES):
            insert_rows(database, number + 1, lane=lane, status=status)

    assert counted(database, JobFilter()) == {
        "pending": "2", "processing": "4", "done": "6", "dead": "8", "cancelled": "10"
    }  # fmt: skip
    assert counted(database, JobFilter(lane="web", status="dead"))["done"] == "3"
    assert counted(database, JobFilter(lane="none")) == {}


def test_counts_of_statuses_are_capped(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """They show that there are more; also those of a group."""
    monkeypatch.setattr(jobs, "MAX_STATUS_COUNTED", 3)
    insert_rows(database, 3, status="done", group_key="g")
    insert_rows(database, 4, status="pending", lane="mail", group_key="g")

    assert counted(database, JobFilter()) == {"done": "3", "pending": "3+"}
    assert counted(database, JobFilter(group_key="g")) == {"pending": "4+"}
    assert counted(database, JobFilter(type="noop")) == {}  # without an index


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("to", "ann@example.com", [0]),
        ("TO", "Ann@Example.com", [0]),
        ("customer", "42", [1]),
        ("customer", "4", []),
        ("name", 'Zoë "Z" O\'Hara', [2]),
        ("urgent", "true", [1]),
        ("text", "100%_!", [3]),
        ("other", "ann@example.com", []),
        ("mail.to", "ann@example.com", [0]),
        ("who.name", 'Zoë "Z" O\'Hara', [2]),
        ("order.id", "7", [4, 5]),
        ("Order.Items.Sku", "a-1", [4]),
        ("order.sku", "a-1", []),
        ("id.order", "7", []),
    ],
)
def test_jobs_are_found_by_a_field_of_their_payload(
    database: Database, field: str, value: str, found: list[int]
) -> None:
    """At any depth, by its full value, in any case; by a path, through lists, and by a name that has dots."""
    payloads = [
        {"mail": [{"to": "ann@example.com"}], "note": "other"},
        {"customer": 42, "urgent": True},
        {"who": {"name": 'Zoë "Z" O\'Hara'}},
        {"text": "100%_!"},
        {"shop": {"order": {"id": 7, "items": [{"sku": "b-2"}, {"sku": "A-1"}]}}},
        {"order.id": "7"},
        {"order": {"number": 7}, "id": 8},
    ]
    ids = [insert_row(database, payload=json.dumps(each)) for each in payloads]

    expected = [ids[number] for number in reversed(found)]
    assert listed(database, JobFilter(payload=((field, value),))) == expected


def test_a_field_name_must_be_storable_text(database: Database) -> None:
    """The error is a sentence, not a database error."""
    with pytest.raises(BadField):
        page_of(database, JobFilter(payload=(("", "x"),)))
    with pytest.raises(BadField):
        page_of(database, JobFilter(payload=(("x", "\x00"),)))


def test_payloads_are_read_by_id(database: Database) -> None:
    """As JSON text, however the database stores it; pruned jobs have none."""
    job_id = insert_row(database, payload='{"a": [1, "é"]}')

    found = database.read(lambda connection: read_payloads(connection, [job_id, job_id + 1]))

    assert {each: json.loads(text) for each, text in found.items()} == {job_id: {"a": [1, "é"]}}


def test_dead_jobs_are_grouped_with_their_recent_number(database: Database) -> None:
    """By type and error of the last attempt, the latest first."""
    now = database.clock.now()
    ages = {"x": [HOUR / 2, 3 * HOUR, 3 * DAY], "y": [8 * DAY], "z": [DAY / 2]}
    newest = {}
    for error, times in ages.items():
        for age in times:
            job_id = insert_row(database, type="mail", status="dead", finished_at=now - age)
            change_job(database, job_id, last_error=f"no {error}\n  trace")
            insert_attempt(database, job_id, "earlier", now - age)
            insert_attempt(database, job_id, error, now - age, attempt=2)
            newest[error] = job_id
    insert_row(database, type="mail", status="dead")  # its attempts are pruned, so the time of its end is unknown

    found = database.read(lambda connection: list_dead(connection, None, now, jobs.newest))

    assert [(each.error, each.jobs, tuple(each.lately.values()), each.message) for each in found.groups] == [
        ("x", 3, (1, 2, 3), "no x"),
        ("z", 1, (0, 1, 1), "no z"),
        ("y", 1, (0, 0, 0), "no y"),
        ("", 1, (0, 0, 0), None),
    ]
    assert [each.newest_id for each in found.groups][:1] == [newest["x"]]
    assert (found.looked_at, found.is_cut) == (6, False)


def test_jobs_that_died_recently_can_be_listed_and_retried(database: Database) -> None:
    """The filter behind each number matches the same jobs, and no older ones."""
    now = database.clock.now()
    old, new = (insert_row(database, status="dead", finished_at=now - age) for age in (2 * DAY, HOUR / 2))
    for job_id in (old, new):
        insert_attempt(database, job_id, "x", now)
    job_filter = JobFilter(status="dead", error="x", finished_after=now - HOUR)

    assert listed(database, job_filter) == [new]
    assert count_matching(database, RETRY, job_filter) == CappedCount(1)
    assert act(database, RETRY, job_filter, ANN).changed == 1
    assert listed(database, JobFilter(status="dead")) == [old]


def test_related_jobs_are_the_neighbours_in_the_group(database: Database) -> None:
    """In order of id; none without a group."""
    ids = [insert_row(database, group_key="chain:1", type=f"step{number}") for number in range(9)]
    insert_row(database, group_key="chain:2")

    family = database.read(lambda connection: read_family(connection, ids[6], None, "chain:1"))
    alone = database.read(lambda connection: read_family(connection, ids[6], None, None))

    assert [each.id for each in family.before] == ids[1:6]
    assert [(each.id, each.status) for each in family.after] == [(ids[7], "pending"), (ids[8], "pending")]
    assert alone == Family()


def test_a_related_job_is_claimed_or_running(database: Database) -> None:
    """Like in a list of jobs: by the figures of its runner, here of an external worker, which has none."""
    parent = insert_row(database)
    claim_jobs(database)
    child = insert_row(database, parent_id=parent)

    family = database.read(lambda connection: read_family(connection, child, parent, None))

    assert family.parent is not None
    assert family.parent.status == "claimed"


def test_a_job_is_shown_with_its_parent_and_children(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first children, and whether there are more; a pruned parent is missing."""
    monkeypatch.setattr("mayfly.admin.job.MAX_CHILDREN", 2)
    parent = insert_row(database, status="done")
    job = insert_row(database, parent_id=parent)
    children = [insert_row(database, parent_id=job) for _ in range(3)]

    def family(job_id: int, parent_id: int | None) -> Family:
        return database.read(lambda connection: read_family(connection, job_id, parent_id, None))

    found = family(job, parent)

    assert found.parent is not None
    assert (found.parent.id, found.parent.status) == (parent, "done")
    assert ([each.id for each in found.children], found.has_more) == (children[:2], True)
    assert family(children[0], job).children == ()
    assert family(children[0], 999).parent is None


def test_runners_are_found_by_worker_id(database: Database) -> None:
    """Pruned ones are missing."""
    insert_runner(database, "worker-1")

    found = database.read(lambda connection: runners_named(connection, ["worker-1", "gone", "worker-1"]))

    assert {name: each.host for name, each in found.items()} == {"worker-1": "here"}
    assert database.read(lambda connection: runners_named(connection, [])) == {}


def test_an_estimate_is_exact_if_that_is_inexpensive(database: Database) -> None:
    """By ids, lane, group and error."""
    ids = insert_rows(database, 3, lane="mail", group_key="g")
    insert_rows(database, 2, lane="mail", status="done", group_key="g")
    insert_rows(database, 2, type="other")

    for job_filter in (
        JobFilter(ids=tuple(ids)),
        JobFilter(lane="mail"),
        JobFilter(group_key="g"),
        JobFilter(lane="mail", type="noop"),
    ):
        assert count_matching(database, CANCEL, job_filter) == CappedCount(3)
    assert count_matching(database, CANCEL, JobFilter(type="other")) == CappedCount(2)


def test_an_estimate_reads_a_limited_number_of_rows(database: Database) -> None:
    """For a type that is rare in a long lane the result is "at least"."""
    insert_rows(database, 30, type="other")
    insert_rows(database, 1)

    assert count_matching(database, CANCEL, JobFilter(type="noop"), max_rows=10) == CappedCount(1, is_more=True)
    assert count_matching(database, CANCEL, JobFilter(lane="default"), max_rows=10) == CappedCount(31)


def count_type(database: Database, at: datetime, outcome: str, jobs: int, durations: str, waits: str = "{}") -> None:
    row = {"cycle_id": milliseconds(at), "lane": "mail", "type": "mail", "outcome": outcome, "worker_id": "w"}
    insert_table_row(database, tables.totals, **row, jobs=jobs, durations=durations, waits=waits)


def test_a_type_has_the_figures_of_the_last_hour(database: Database) -> None:
    """Rate, and percentiles of durations and waits over all its lanes and outcomes; older ones do not count."""
    now = database.clock.now()
    count_type(database, now - HOUR / 2, "done", 90, '{"100": 90}', '{"1000": 90}')
    count_type(database, now - HOUR / 3, "failed", 8, '{"5000": 8}', '{"20000": 8}')
    count_type(database, now - HOUR / 3, "timed out", 2, '{"5000": 2}')
    count_type(database, now - HOUR / 4, "dead", 1, "{}")
    count_type(database, now - 2 * HOUR, "done", 1000, '{"1": 1000}')

    found = database.read(lambda connection: read_type(connection, "mail", now))

    assert found == TypeFigures("mail", 90, 10, 1, 100, 5000, 1000, 20_000)
    assert found.done_per_minute == 1.5
    assert database.read(lambda connection: list_types(connection, now)) == [TypeFigures("mail", 90, 10, 1)]
    assert database.read(lambda connection: read_type(connection, "other", now)) == TypeFigures("other")


def test_failures_of_a_type_are_grouped_by_error(database: Database) -> None:
    """Those of the last day, the most frequent first, with the message and the job of the newest."""
    now = database.clock.now()
    first, second = insert_rows(database, 2, type="mail")
    failures = [(first, "y", HOUR), (first, "x", 3 * HOUR), (second, "x", HOUR), (second, "x", 2 * DAY)]
    for job_id, error, age in failures:
        insert_attempt(database, job_id, error, now - age)
    insert_attempt(database, insert_row(database, type="other"), "x", now)

    found = database.read(lambda connection: list_type_failures(connection, "mail", now))

    assert [(each.error, each.attempts, each.newest_id) for each in found] == [("x", 2, second), ("y", 1, first)]
