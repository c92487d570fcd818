"""Rows of an application's own table in real cycles: planned, processed and written back like jobs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from mayfly.schema.metadata import jobs, runners
from tests.process.installation import Installation, wait_until
from tests.process.source_tables import HANDLERS, SOURCE, PostTable, toml_of
from tests.process.test_hooks import HERE as HOOKS
from tests.process.test_hooks import hook_calls
from tests.process.test_idle_cycle import MINUTE, RECORD, RUN_MINUTE, Run, write_snapshot
from tests.process.test_linger import start_lingering, stop

WATCHED = {"BEFORE": "before_row", "AFTER": "after_row", "ON_DEAD": "dead"}
FIVE = {"BATCH_SIZE": "5", "MAX_WORKERS": "5"}


@pytest.fixture
def installation(migrated_url: str, tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path, migrated_url, HANDLERS)
    yield made
    made.end()


@pytest.mark.every_database
def test_due_rows_are_processed_once_each(installation: Installation) -> None:
    """23 rows in batches of five need five runners; rows of the future wait."""
    posts = PostTable(installation, "publish")
    posts.insert(*range(23))
    posts.insert(99, due_in=3600)

    planned = installation.dispatch("--dry-run", **FIVE)
    cycle = installation.dispatch(**FIVE)

    assert planned.stdout.splitlines()[1].split() == ["posts", "23", "0", "5", "5", "-"]
    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert posts.statuses() == dict.fromkeys(range(23), "published") | {99: "pending"}
    assert sorted(map(int, posts.handled())) == list(range(23))
    assert len(installation.rows(select(runners))) == 5
    assert installation.lane_lines()[-1]["done"] == "23"


def test_a_dry_run_needs_no_lock_of_a_source(installation: Installation) -> None:
    """It tries no claim: on SQLite it would wait for the process that writes."""
    PostTable(installation, "publish").insert(1)

    with installation.database.transaction():
        planned = installation.dispatch("--dry-run")

    assert (planned.returncode, planned.stderr) == (0, "")
    assert planned.stdout.splitlines()[1].split()[:3] == ["posts", "1", "0"]


def test_rows_and_jobs_of_a_lane_are_planned_together(installation: Installation) -> None:
    """The lane of a source may have jobs of its own; the log counts both."""
    posts = PostTable(installation, "publish", lane="mixed")
    posts.insert(*range(6))
    installation.enqueue("noop", count=5, lane="mixed")

    planned = json.loads(installation.dispatch("--dry-run", "--json", **FIVE).stdout)
    cycle = installation.dispatch(**FIVE)

    assert (planned["pending"], planned["runners"]) == ("11", 3)
    assert (cycle.returncode, installation.statuses()) == (0, {"done": 11})


def test_a_cycle_without_due_rows_is_idle(installation: Installation) -> None:
    """However many future and published rows there are."""
    posts = PostTable(installation, "publish")
    posts.insert(1, due_in=3600)
    posts.insert(2, status="published")
    write_snapshot(installation)

    idle = Run(installation, *MINUTE)
    posts.insert(3)
    busy = Run(installation, *MINUTE)

    assert (idle.returncode, idle.stderr, idle.was_idle) == (0, "", True)
    assert (busy.returncode, busy.was_idle, posts.statuses()[3]) == (0, False, "published")


def test_an_idle_minute_has_one_query_per_source(installation: Installation) -> None:
    """Whether any row is due; nothing else is read from its table."""
    PostTable(installation, "publish").insert(1, due_in=3600)
    write_snapshot(installation)

    idle = Run(installation, "-c", f"{RECORD}{RUN_MINUTE}")

    sent = [json.loads(line)[0] for line in idle.stderr.splitlines() if line.startswith("[")]
    assert (idle.returncode, idle.was_idle) == (0, True)
    assert len([each for each in sent if "posts" in each]) == 1


def test_rows_inserted_while_lingering_are_processed_soon(installation: Installation) -> None:
    """The first by a new runner, the next by one that may still be there."""
    posts = PostTable(installation, "publish")
    dispatcher = start_lingering(installation)

    for key in (1, 2):
        posts.insert(key)
        wait_until(lambda key=key: posts.statuses()[key] == "published", f"row {key} is published")  # type: ignore[misc]

    stop(dispatcher)
    assert posts.handled() == ["1", "2"]


@pytest.mark.parametrize("what", [("lane", "posts"), ("type", "publish")])
def test_rows_of_a_paused_source_are_left_alone(installation: Installation, what: tuple[str, str]) -> None:
    """Neither claimed nor changed, until it is resumed."""
    posts = PostTable(installation, "publish")
    posts.insert(1)
    installation.run("mayfly", "pause", *what)

    paused = installation.dispatch()
    untouched = posts.statuses(), installation.statuses()
    installation.run("mayfly", "resume", *what)
    installation.dispatch()

    assert (paused.returncode, paused.stderr, untouched) == (0, "", ({1: "pending"}, {}))
    assert posts.statuses() == {1: "published"}


def test_a_paused_type_starts_no_plans_while_lingering(installation: Installation) -> None:
    """Its due rows are no work."""
    posts = PostTable(installation, "publish")
    posts.insert(1)
    installation.run("mayfly", "pause", "type", "publish")

    dispatcher = start_lingering(installation, LINGER="3")
    dispatcher.communicate(timeout=60)

    assert posts.statuses() == {1: "pending"}
    assert "further plans: 0" in installation.log


@pytest.mark.every_database
def test_a_broken_source_affects_only_itself(installation: Installation) -> None:
    """A sentence in log and summary; rows of another source of the lane, and jobs of others, are processed."""
    posts = PostTable(installation, "publish")
    broken = toml_of("broken", {**SOURCE, "table": "no_such_table", "type": "publish", "lane": "posts"})
    with (installation.home / "mayfly.toml").open("a") as toml:
        toml.write(broken)
    posts.insert(*range(3))
    installation.enqueue("noop")

    cycle = installation.dispatch()

    assert posts.statuses() == dict.fromkeys(range(3), "published")
    assert installation.statuses() == {"done": 4}
    assert "The source broken cannot be used: " in installation.log
    assert "Traceback" not in installation.log + cycle.stderr


def test_rows_of_a_source_without_a_column_start_no_runners(installation: Installation) -> None:
    """A count does not need the column, but no claim would succeed."""
    posts = PostTable(installation, "publish", payload=["kind", "no_such_column"])
    posts.insert(*range(8))

    installation.dispatch()

    assert posts.statuses() == dict.fromkeys(range(8), "pending")
    assert "the table posts has no column no_such_column" in installation.log
    assert "Workers spawned: 0" in installation.log


REFUSED = {
    "sqlite": "ALTER TABLE posts ADD COLUMN checked INTEGER CHECK (status <> 'processing')",
    "mysql": "ALTER TABLE posts MODIFY status ENUM('pending', 'in progress', 'published', 'failed', 'withdrawn')",
    "postgresql": "ALTER TABLE posts ALTER status TYPE post_status USING status::post_status",
}
ENUM_TYPE = "CREATE TYPE post_status AS ENUM ('pending', 'in progress', 'published', 'failed', 'withdrawn')"


def refuse_processing(installation: Installation) -> None:
    """The column accepts no `processing`; only a claim shows it."""
    dialect = installation.database.dialect.name
    if dialect == "postgresql":
        installation.execute(ENUM_TYPE)
    installation.execute(REFUSED[dialect])


@pytest.mark.every_database
def test_rows_that_cannot_be_claimed_start_no_runners(installation: Installation) -> None:
    """A value that the column refuses: a sentence in log and summary; the jobs of other lanes run."""
    posts = PostTable(installation, "publish")
    posts.insert(*range(8))
    refuse_processing(installation)
    installation.enqueue("noop")

    cycle = installation.dispatch()
    listed = [installation.run("mayfly", verb).stdout for verb in ("status", "sources", "doctor")]

    assert (cycle.returncode, posts.statuses()) == (1, dict.fromkeys(range(8), "pending"))
    assert installation.statuses() == {"done": 1}
    assert {row.lane for row in installation.rows(select(runners))} == {"default"}
    assert installation.log.count("The source posts cannot be used: ") >= 1
    assert "Traceback" not in installation.log + cycle.stderr
    [shown] = json.loads(installation.run("mayfly", "sources", "check", "--json").stdout)
    assert "processing" in shown["problems"][0]
    assert "The source posts cannot be used" in listed[0]
    assert "The source posts cannot be used" in listed[1]
    assert [line for line in listed[2].splitlines() if "posts: " in line and "processing" in line]


def test_rows_that_cannot_be_claimed_start_no_plans_while_lingering(installation: Installation) -> None:
    """The next cycle tries again."""
    posts = PostTable(installation, "publish")
    posts.insert(1)
    refuse_processing(installation)

    dispatcher = start_lingering(installation, LINGER="3")
    dispatcher.communicate(timeout=60)

    assert posts.statuses() == {1: "pending"}
    assert "further plans: 0" in installation.log
    assert installation.rows(select(runners)) == []


def test_a_handler_with_a_limit_processes_all_rows(installation: Installation) -> None:
    """One at a time; snoozed rows keep their attempt."""
    posts = PostTable(installation, "publish_limited")
    posts.insert(*range(8))

    def is_all_published() -> bool:
        installation.dispatch(BATCH_SIZE="2", MAX_WORKERS="4")
        return set(posts.statuses().values()) == {"published"}

    wait_until(is_all_published, "8 rows are published")

    assert sorted(map(int, posts.handled())) == list(range(8))
    assert {row.attempts for row in installation.rows(select(jobs))} == {1}


@pytest.mark.every_database
@pytest.mark.parametrize("type_name", ["publish_in_transaction", "publish_in_thread"])
def test_a_change_in_the_transaction_of_a_job_wins(installation: Installation, type_name: str) -> None:
    """The job is cancelled with the reason and writes nothing; without a change it commits once."""
    posts = PostTable(installation, type_name)
    posts.insert(1, 2)
    cycle = installation.start("dispatcher", BATCH_SIZE="2", MAX_WORKERS="1")
    installation.wait_for_gate()
    posts.change(1, status="archived")

    installation.open_gate()
    _out, errors = cycle.communicate(timeout=60)

    assert (cycle.returncode, errors) == (0, "")
    assert (posts.statuses(), posts.ledger()) == ({1: "archived", 2: "published"}, ["2"])
    ended = {row.unique_key: (row.status, row.last_error) for row in installation.rows(select(jobs))}
    assert ended["source:posts:2"] == ("done", None)
    assert ended["source:posts:1"][0] == "cancelled"
    assert "row changed" in ended["source:posts:1"][1]


def test_a_change_while_a_plain_handler_runs_wins(installation: Installation) -> None:
    """The job is done with the note; the row stays as it is, and the log names it."""
    posts = PostTable(installation, "publish_gated")
    posts.insert(1)
    cycle = installation.start("dispatcher")
    installation.wait_for_gate()
    posts.change(1, status="archived")

    installation.open_gate()
    cycle.communicate(timeout=60)

    [job] = installation.rows(select(jobs))
    assert (posts.statuses(), job.status, job.last_error.partition(":")[0]) == (
        {1: "archived"},
        "done",
        "row changed",
    )
    assert "has changed or deleted row 1 of posts" in installation.log


def test_a_job_whose_row_cannot_be_written_is_logged_as_dead(installation: Installation) -> None:
    """Its handler has returned, but the table has changed meanwhile."""
    posts = PostTable(installation, "publish_gated")
    posts.insert(1)
    cycle = installation.start("dispatcher")
    installation.wait_for_gate()
    installation.execute("ALTER TABLE posts RENAME TO posts_old")

    installation.open_gate()
    cycle.communicate(timeout=60)

    assert installation.statuses() == {"dead": 1}
    assert "Completed 0 jobs, 1 dead" in installation.log


def test_hooks_get_the_rows_of_jobs(installation: Installation) -> None:
    """Around the handler as it gets it; for a dead job, as its payload."""
    posts = PostTable(installation, "publish_refused", payload=["kind"])
    posts.insert(1, kind="mail")
    names = {f"HOOKS_{name}": f"{HOOKS}:{hook}" for name, hook in WATCHED.items()}

    wait_until(
        lambda: installation.dispatch(**names) and hook_calls(installation, "dead"), "the dead job is announced"
    )

    calls = {hook: hook_calls(installation, hook) for hook in ("before", "after", "dead")}
    assert calls["before"] == [{"hook": "before", "row": 1}]
    assert calls["after"] == [{"hook": "after", "row": 1, "kind": "dead"}]
    assert [(each["payload"], each["error"]) for each in calls["dead"]] == [({"kind": "mail"}, "no such channel")]


def test_a_row_that_crashes_its_runners_has_failed(installation: Installation) -> None:
    """Like a job, after three crashes; the other rows of its claims are processed."""
    posts = PostTable(installation, "publish_or_crash")
    posts.insert(1)

    wait_until(
        lambda: installation.dispatch(BACKOFF_BASE="0.01") and posts.statuses() == {1: "failed"}, "the row has failed"
    )

    assert posts.handled() == ["1"] * 3
    [row] = installation.rows(select(posts.table))
    assert (row.retry_count, row.last_error.startswith("crashed 3 times")) == (0, True)


def test_a_wrong_configuration_ends_the_cycle_with_a_sentence(installation: Installation) -> None:
    """Exit code 64, before anything is changed."""
    posts = PostTable(installation, "publish", done="pending")
    posts.insert(1)

    cycle = installation.dispatch()

    assert (cycle.returncode, posts.statuses()) == (64, {1: "pending"})
    assert "sources.posts.done" in cycle.stderr
