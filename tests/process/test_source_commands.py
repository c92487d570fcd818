"""`mayfly sources` as a process: lists, checks and drafts, on SQLite."""

import json

import pytest

from tests.process.installation import Installation

TOML = """
[sources.post_schedule]
table = "post_schedule"
type = "noop"
run_at = "run_at"
pending = "pending"
processing = "processing"
done = "published"
failed = "failed"
worker_id = "worker_id"
locked_at = "locked_at"
"""
TABLE = (
    "CREATE TABLE post_schedule (id INTEGER PRIMARY KEY, title TEXT, run_at DATETIME, status VARCHAR(20),"
    " worker_id VARCHAR(64), locked_at DATETIME)"
)
DUE = "INSERT INTO post_schedule (id, title, run_at, status) VALUES (1, 'a', '2026-01-01 00:00:00', 'pending')"


@pytest.fixture
def posts(embedded: Installation) -> Installation:
    """An installation whose table has one due row."""
    (embedded.home / "mayfly.toml").write_text(TOML)
    embedded.run("mayfly", "migrate")
    embedded.execute(TABLE)
    embedded.execute(DUE)
    return embedded


def test_sources_are_listed(posts: Installation) -> None:
    """As a table and as JSON."""
    text, facts = posts.run("mayfly", "sources").stdout, posts.run("mayfly", "sources", "--json").stdout

    heading, line = text.splitlines()
    assert heading.split()[:5] == ["source", "table", "lane", "type", "pending"]
    assert line.split()[:5] == ["post_schedule", "post_schedule", "post_schedule", "noop", "1"]
    [view] = json.loads(facts)
    assert (view["pending"], view["running"], view["dead"], view["problem"]) == (1, 0, 0, None)


def test_without_sources_the_list_says_where_to_read(embedded: Installation) -> None:
    """An empty list is no error, and neither is its check."""
    for arguments in (("sources",), ("sources", "check")):
        ran = embedded.run("mayfly", *arguments)

        assert (ran.returncode, ran.stdout) == (
            0,
            "No sources. `mayfly sources suggest TABLE` prints a draft; see docs/how-to/sources.md.\n",
        )


def test_a_check_ends_with_its_verdict(posts: Installation) -> None:
    """0 with plans and an index that would help; 1 with a sentence per problem."""
    fitting = posts.run("mayfly", "sources", "check")
    (posts.home / "mayfly.toml").write_text(TOML.replace('"run_at"', '"run_att"'))
    broken = posts.run("mayfly", "sources", "check", "post_schedule")
    facts = json.loads(posts.run("mayfly", "sources", "check", "--json").stdout)

    assert (fitting.returncode, broken.returncode) == (0, 1)
    assert "Source post_schedule, table post_schedule: ok\n" in fitting.stdout
    assert '    CREATE INDEX post_schedule_due ON "post_schedule" ("status", "run_at", "id");\n' in fitting.stdout
    assert "has no column run_att. Did you mean 'run_at'?" in broken.stdout
    assert facts[0]["problems"] == ["The table post_schedule has no column run_att. Did you mean 'run_at'?"]


def test_an_index_is_never_created(posts: Installation) -> None:
    """It is only printed: a large table may be locked for hours."""
    posts.run("mayfly", "sources", "check")

    assert posts.rows("SELECT name FROM sqlite_master WHERE tbl_name = 'post_schedule' AND type = 'index'") == []


def test_unknown_names_are_wrong_usage(posts: Installation) -> None:
    """With a suggestion."""
    check = posts.run("mayfly", "sources", "check", "post_scedule")
    suggest = posts.run("mayfly", "sources", "suggest", "post_scedule")

    for ran in (check, suggest):
        assert ran.returncode == 64
        assert "Did you mean 'post_schedule'?" in ran.stderr


def test_a_draft_can_be_used_as_it_is(posts: Installation) -> None:
    """It is written to stdout: its check finds no problem."""
    draft = posts.run("mayfly", "sources", "suggest", "post_schedule").stdout
    (posts.home / "mayfly.toml").write_text(draft)

    assert posts.run("mayfly", "sources", "check").returncode == 0


def test_doctor_and_status_report_a_broken_source(posts: Installation) -> None:
    """One line per problem; the checks after it still run."""
    posts.dispatch()
    fitting = json.loads(posts.run("mayfly", "doctor", "--json").stdout)
    (posts.home / "mayfly.toml").write_text(TOML.replace('"run_at"', '"run_att"').replace('"locked_at"', '"locked"'))
    broken = json.loads(posts.run("mayfly", "doctor", "--json").stdout)
    status = posts.run("mayfly", "status")

    assert [each["health"] for each in fitting if each["check"] == "sources"] == ["ok"]
    assert [(each["health"], each["text"].partition(" ")[0]) for each in broken if each["check"] == "sources"] == [
        ("problem", "post_schedule:"),
        ("problem", "post_schedule:"),
    ]
    assert {each["check"] for each in broken} >= {"handlers", "cron"}
    assert (status.returncode, "The source post_schedule cannot be used" in status.stdout) == (1, True)


def test_jobs_are_selected_by_their_row(posts: Installation) -> None:
    """The list has a column for it; the row alone is wrong usage."""
    [job_id] = posts.enqueue("noop", unique_key="source:post_schedule:1", lane="post_schedule")
    posts.enqueue("noop")

    text = posts.run("mayfly", "jobs", "--source", "post_schedule", "--row", "1").stdout
    refused = posts.run("mayfly", "jobs", "--row", "1")
    why = posts.run("mayfly", "why", str(job_id)).stdout

    heading, line = text.splitlines()
    assert heading.split()[4] == "row"
    assert (line.split()[0], "post_schedule 1" in line) == (str(job_id), True)
    assert "which now has the status 'pending': the job will be cancelled" in why
    assert (refused.returncode, "--row needs --source" in refused.stderr) == (64, True)
