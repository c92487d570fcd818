"""examples/post_scheduler: an application's own table, processed in place of its cron script."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from sqlalchemy import make_url

from mayfly.clock import monotonic
from tests.docs.consoles import blocks, run_shell
from tests.process.installation import CHECKOUT, Installation

EXAMPLE = CHECKOUT / "examples" / "post_scheduler"
README = (EXAMPLE / "README.md").read_text("utf-8")
POSTS = 50
PHRASES = (
    "Database connection verified",
    f"Pending jobs: {POSTS}",
    f"Calculated worker count: 5 (pending={POSTS}, batch=5, max=5) lane=publish_post",
    "Spawning 5 workers...",
    "Spawning worker: ",
    "Starting ephemeral worker",
    "Processing 5 jobs...",
    "completed successfully (",
    "Dispatch Summary:",
)


@pytest.fixture
def example(database_url: str, tmp_path: Path) -> Iterator[Installation]:
    """The example in a directory of its own, with an empty database."""
    home = tmp_path / "scheduler"
    shutil.copytree(EXAMPLE, home, ignore=shutil.ignore_patterns("__pycache__"))
    paths = {"PYTHONPATH": f"{home}:{CHECKOUT}", "HANDLERS": "posts", "STATE_DIR": str(tmp_path / "state")}
    made = Installation(home, database_url, settings=paths, new_interpreters=True)
    yield made
    made.end()


@pytest.fixture
def scheduler(example: Installation) -> Installation:
    """With the tables of the application and those of Mayfly."""
    run_script(example, "schema.sql")
    assert example.run("mayfly", "migrate").returncode == 0
    return example


def mariadb_client(url: str) -> str:
    """A function of the shell that connects to the database of the test, by any name."""
    at = make_url(url)
    options = f"--no-defaults --host={at.host} --port={at.port} --user={at.username}"
    return f"mariadb() {{ MYSQL_PWD={quote(str(at.password))} command mariadb {options} {at.database}; }}\n"


def run_script(installation: Installation, name: str) -> list[Sequence[Any]]:
    """The rows of each of its queries."""
    script = re.sub(r"--[^\n]*", "", (EXAMPLE / name).read_text())
    found = []
    for statement in filter(None, map(str.strip, script.split(";"))):
        if statement.startswith("SELECT"):
            found.append(installation.rows(statement))
        else:
            installation.execute(statement)
    return found


def check_published_once(scheduler: Installation) -> None:
    posts = scheduler.rows("SELECT * FROM post_schedule")
    assert Counter((post.status, post.retry_count, post.last_error) for post in posts) == {
        ("published", 1, None): POSTS
    }
    assert all(post.published_at is not None and post.locked_at is not None for post in posts)
    published = scheduler.rows("SELECT post_schedule_id FROM published_posts")
    assert sorted(row.post_schedule_id for row in published) == sorted(post.id for post in posts)


@pytest.mark.parametrize("engine_name", ["mariadb"], indirect=True)
def test_the_commands_of_the_readme_publish_fifty_posts(example: Installation) -> None:
    """All of them, in order, in the directory of the example."""
    [commands] = blocks(README, "sh")
    script = mariadb_client(example.url) + commands.replace("mysql://app:secret@localhost/app", example.url)

    ran = run_shell(example, script, POST_SECONDS="0.1")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "publish_post  50       0        5       5" in ran.stdout
    check_published_once(example)


@pytest.mark.parametrize("engine_name", ["mariadb"], indirect=True)
def test_fifty_posts_are_published_by_five_workers(scheduler: Installation) -> None:
    """Each once, with the log lines and the answers of the runbook that operators know."""
    run_script(scheduler, "posts.sql")

    planned = scheduler.dispatch("--dry-run")
    cycle = scheduler.dispatch(POST_SECONDS="0.1")

    assert "publish_post  50       0        5       5" in planned.stdout
    assert (cycle.returncode, cycle.stderr) == (0, "")
    check_published_once(scheduler)
    assert [phrase for phrase in PHRASES if phrase not in scheduler.log] == []
    by_status, due, stuck, by_worker, failed = run_script(scheduler, "runbook.sql")
    assert [tuple(row) for row in by_status] == [("published", POSTS)]
    assert (due, stuck, failed) == ([], [], [])
    assert len(by_worker) == 5
    assert sum(row.posts for row in by_worker) == POSTS


@pytest.mark.parametrize("engine_name", ["mariadb"], indirect=True)
def test_a_post_that_cannot_be_published_is_in_the_runbook(scheduler: Installation) -> None:
    run_script(scheduler, "posts.sql")
    [post] = scheduler.rows("SELECT id FROM post_details WHERE title = 'Post 7'")
    [row] = scheduler.rows(f"SELECT id FROM post_schedule WHERE post_detail_id = {post.id}")
    scheduler.execute(f"DELETE FROM post_details WHERE id = {post.id}")

    scheduler.dispatch(POST_SECONDS="0")

    *_, failed = run_script(scheduler, "runbook.sql")
    assert [tuple(each) for each in failed] == [(row.id, 1, f"there is no post {post.id}")]


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", ["mariadb"], indirect=True)
def test_two_seconds_per_post_take_about_twenty_seconds(scheduler: Installation) -> None:
    """One worker would take 100 s."""
    run_script(scheduler, "posts.sql")
    started = monotonic()

    scheduler.dispatch()

    seconds = monotonic() - started
    print(f"{POSTS} posts of 2 s in {seconds:.1f} s")
    check_published_once(scheduler)
    assert seconds < 50
