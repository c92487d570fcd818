"""What the pages of the console read: statuses, deaths, relatives, payload fields, and how many a verb would find."""

import json
from datetime import timedelta

import pytest

from mayfly.admin import actions, jobs
from mayfly.admin.actions import CANCEL, RETRY, act
from mayfly.admin.actions import estimate_matching as found_by
from mayfly.admin.filters import JobFilter, read_payloads
from mayfly.admin.fleet import runners_named
from mayfly.admin.job import Family, read_family
from mayfly.admin.jobs import CappedCount, count_statuses, list_dead
from mayfly.db.database import Database
from mayfly.errors import BadField
from mayfly.schema.tables import STATUSES
from tests.database.factories import change_job, insert_runner
from tests.database.test_admin_views import ANN, HOUR, insert_attempt, listed, page_of
from tests.factories import insert_row, insert_rows

DAY = timedelta(days=1)


def counted(database: Database, which: JobFilter) -> dict[str, str]:
    found = database.read(lambda connection: count_statuses(connection, which))
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


def test_statuses_are_counted_to_a_cap(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """And then said to be more; also those of a group."""
    monkeypatch.setattr(jobs, "MAX_STATUS_COUNTED", 3)
    jobs.lanes_statement.cache_clear()
    insert_rows(database, 3, status="done", group_key="g")
    insert_rows(database, 4, status="pending", lane="mail", group_key="g")
    try:
        assert counted(database, JobFilter()) == {"done": "3", "pending": "3+"}
        assert counted(database, JobFilter(group_key="g")) == {"pending": "4+"}
        assert counted(database, JobFilter(type="noop")) == {}  # no index knows of it
    finally:
        jobs.lanes_statement.cache_clear()


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
    ],
)
def test_jobs_are_found_by_a_field_of_their_payload(
    database: Database, field: str, value: str, found: list[int]
) -> None:
    """At any depth, by its whole value, in whatever case."""
    payloads = [
        {"mail": [{"to": "ann@example.com"}], "note": "other"},
        {"customer": 42, "urgent": True},
        {"who": {"name": 'Zoë "Z" O\'Hara'}},
        {"text": "100%_!"},
    ]
    ids = [insert_row(database, payload=json.dumps(each)) for each in payloads]

    assert listed(database, field=(field, value)) == [ids[number] for number in found]


def test_a_field_must_be_a_text_that_can_be_stored(database: Database) -> None:
    """A sentence, not an error of the database."""
    with pytest.raises(BadField):
        page_of(database, field=("", "x"))
    with pytest.raises(BadField):
        page_of(database, field=("x", "\x00"))


def test_payloads_are_read_by_id(database: Database) -> None:
    """As texts of JSON, whatever the database keeps; none for one that is gone."""
    job_id = insert_row(database, payload='{"a": [1, "é"]}')

    found = database.read(lambda connection: read_payloads(connection, [job_id, job_id + 1]))

    assert {each: json.loads(text) for each, text in found.items()} == {job_id: {"a": [1, "é"]}}


def test_deaths_are_grouped_with_how_many_were_lately(database: Database) -> None:
    """By type and the error of the last attempt, those that died last first."""
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
    insert_row(database, type="mail", status="dead")  # whose attempts are pruned, and nobody knows when it died

    found = database.read(lambda connection: list_dead(connection, None, now, jobs.newest))

    assert [(each.error, each.jobs, tuple(each.lately.values()), each.message) for each in found.groups] == [
        ("x", 3, (1, 2, 3), "no x"),
        ("z", 1, (0, 1, 1), "no z"),
        ("y", 1, (0, 0, 0), "no y"),
        ("", 1, (0, 0, 0), None),
    ]
    assert [each.newest_id for each in found.groups][:1] == [newest["x"]]
    assert (found.looked_at, found.is_cut) == (6, False)


def test_what_died_lately_can_be_listed_and_retried(database: Database) -> None:
    """The filter behind each number: the same jobs, and no older ones."""
    now = database.clock.now()
    old, new = (insert_row(database, status="dead", finished_at=now - age) for age in (2 * DAY, HOUR / 2))
    for job_id in (old, new):
        insert_attempt(database, job_id, "x", now)
    which = JobFilter(status="dead", error="x", finished_after=now - HOUR)

    assert listed(database, which) == [new]
    assert found_by(database, RETRY, which) == CappedCount(1)
    assert act(database, RETRY, which, ANN).changed == 1
    assert listed(database, JobFilter(status="dead")) == [old]


def test_relatives_are_those_next_to_a_job_in_its_group(database: Database) -> None:
    """In the order of arrival; none without a group."""
    ids = [insert_row(database, group_key="chain:1", type=f"step{number}") for number in range(9)]
    insert_row(database, group_key="chain:2")

    family = database.read(lambda connection: read_family(connection, ids[6], None, "chain:1"))
    alone = database.read(lambda connection: read_family(connection, ids[6], None, None))

    assert [each.id for each in family.before] == ids[1:6]
    assert [(each.id, each.status) for each in family.after] == [(ids[7], "pending"), (ids[8], "pending")]
    assert alone == Family()


def test_a_job_is_shown_with_whom_it_comes_from_and_whom_it_enqueued(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of them, and whether there are more; a parent that was pruned is none."""
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


def test_runners_are_found_by_their_names(database: Database) -> None:
    """Those that are still known."""
    insert_runner(database, "worker-1")

    found = database.read(lambda connection: runners_named(connection, ["worker-1", "gone", "worker-1"]))

    assert {name: each.host for name, each in found.items()} == {"worker-1": "here"}
    assert database.read(lambda connection: runners_named(connection, [])) == {}


def test_an_estimate_is_exact_where_that_is_cheap(database: Database) -> None:
    """By ids, lane, group and error."""
    ids = insert_rows(database, 3, lane="mail", group_key="g")
    insert_rows(database, 2, lane="mail", status="done", group_key="g")
    insert_rows(database, 2, type="other")

    for which in (
        JobFilter(ids=tuple(ids)),
        JobFilter(lane="mail"),
        JobFilter(group_key="g"),
        JobFilter(lane="mail", type="noop"),
    ):
        assert found_by(database, CANCEL, which) == CappedCount(3)
    assert found_by(database, CANCEL, JobFilter(type="other")) == CappedCount(2)


def test_an_estimate_looks_no_further_than_is_worth_waiting_for(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a type that is rare in a long lane it says "at least"."""
    insert_rows(database, 30, type="other")
    insert_rows(database, 1)
    monkeypatch.setattr(actions, "MAX_ROWS_ESTIMATED", 10)

    assert found_by(database, CANCEL, JobFilter(type="noop")) == CappedCount(1, is_more=True)
    assert found_by(database, CANCEL, JobFilter(lane="default")) == CappedCount(31)
