"""`--dry-run` prints the plan and touches nothing; `--lane` and wrong usage of the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mayfly.db.dialects import embedded_file
from mayfly.schema.metadata import metadata
from tests.process.installation import Installation


def test_a_dry_run_prints_the_plan_and_changes_nothing(installation: Installation) -> None:
    """Every lane has its figures and what cut them; no row, file or log is changed."""
    installation.enqueue("noop", count=1)
    installation.enqueue("noop", count=60, lane="mail")
    installation.enqueue("noop", count=7, lane="outside")
    before = contents(installation), sizes(installation)

    shown = installation.dispatch("--dry-run", HOST_MAX_WORKERS="3", LANES__OUTSIDE__EXTERNAL="true")

    assert (shown.returncode, shown.stderr) == (0, "")
    assert [line.split(maxsplit=5) for line in shown.stdout.splitlines()[:4]] == [
        ["lane", "pending", "running", "wanted", "planned", "cut by"],
        ["default", "1", "0", "1", "1", "-"],
        ["mail", "60", "0", "5", "2", "max_workers 5, host slots 3"],
        ["outside", "7", "0", "0", "0", "external"],
    ]
    assert shown.stdout.splitlines()[-1] == "Pending jobs: 68. Runners planned: 3. Nothing was changed."
    assert (contents(installation), sizes(installation)) == before


def test_a_dry_run_shows_long_lanes(embedded: Installation) -> None:
    """Their runners may outlive the dispatcher, and for how long; in JSON it is a field of each lane."""
    embedded.enqueue("noop", lane="import")
    embedded.enqueue("noop")

    shown = embedded.dispatch("--dry-run", LANES__IMPORT__WORKER_TIMEOUT="3h", LANES__MAIL__WORKER_TIMEOUT="40")
    facts = json.loads(embedded.dispatch("--dry-run", "--json", LANES__IMPORT__WORKER_TIMEOUT="3h").stdout)

    assert shown.stdout.splitlines()[-1] == "Runners of long lanes may outlive it: import 10800 s."
    assert {each["lane"]: each["long"] for each in facts["lanes"]} == {"default": False, "import": True}


def test_a_dry_run_counts_running_runners(embedded: Installation) -> None:
    """The plan of a dry run beside a cycle subtracts its runners."""
    embedded.enqueue("gated")
    running = embedded.start("dispatcher")
    embedded.wait_for_gate()
    embedded.enqueue("noop", count=6)

    shown = embedded.dispatch("--dry-run", "--json")

    assert json.loads(shown.stdout) == {
        "pending": "6",
        "runners": 1,
        "shared_lanes": 0,
        "schedules": [],
        "linger_seconds": 0,
        "lanes": [
            {
                "lane": "default",
                "pending": 6,
                "pending_is_capped": False,
                "running": 1,
                "wanted": 2,
                "planned": 1,
                "max_workers": 5,
                "set_by": None,
                "cuts": ["1 already running"],
                "long": False,
                "launcher": None,
            }
        ],
    }
    embedded.open_gate()
    running.communicate()


@pytest.mark.parametrize("is_empty_file", [False, True])
def test_a_dry_run_creates_no_database(new_home: Installation, is_empty_file: bool) -> None:
    """Without a SQLite file, or with an empty one, it reports that, plans nothing and creates nothing."""
    database = new_home.home / "mayfly.db"
    if is_empty_file:
        database.touch()

    shown = new_home.dispatch("--dry-run", "--json")

    assert shown.returncode == 0
    assert shown.stderr.startswith(f"There is no database at {database} yet; nothing is pending.")
    assert json.loads(shown.stdout) == {
        "pending": "0",
        "runners": 0,
        "shared_lanes": 0,
        "schedules": [],
        "linger_seconds": 0,
        "lanes": [],
    }
    assert sizes(new_home) == ({database: 0} if is_empty_file else {})


def test_only_the_named_lanes_are_served(embedded: Installation) -> None:
    """`--lane` may be repeated; the other lanes wait."""
    for lane in ("first", "second", "third"):
        embedded.enqueue("noop", lane=lane)

    cycle = embedded.dispatch("--lane", "first", "--lane", "third")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    done = embedded.rows("SELECT lane FROM mayfly_jobs WHERE status = 'done' ORDER BY lane")
    assert [row.lane for row in done] == ["first", "third"]


def test_a_configured_lane_without_jobs_is_known(embedded: Installation) -> None:
    """It can be named without a warning."""
    embedded.enqueue("noop")

    cycle = embedded.dispatch("--lane", "mail", LANES__MAIL__MAX_WORKERS="2")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert embedded.statuses() == {"pending": 1}


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_an_unknown_lane_is_refused(embedded: Installation, options: tuple[str, ...]) -> None:
    """A misspelled lane is wrong usage, with a suggestion; otherwise it would do nothing every minute."""
    embedded.enqueue("noop", lane="send_email")

    refused = embedded.dispatch("--lane", "send_mail", *options)

    assert (refused.returncode, refused.stdout) == (64, "")
    assert (
        refused.stderr == "There is no lane 'send_mail' among the jobs or the settings. Did you mean 'send_email'?\n"
    )
    assert embedded.statuses() == {"pending": 1}


@pytest.mark.parametrize(
    ("module", "options", "complaint"),
    [
        ("dispatcher", ("--json",), "--json requires --dry-run."),
        ("dispatcher", ("--dryrun",), "No such option"),
        ("runner", ("--lanes", "x"), "No such option"),
    ],
)
def test_wrong_usage_is_no_timeout(
    new_home: Installation, module: str, options: tuple[str, ...], complaint: str
) -> None:
    """The exit code 2 of click would look like a timeout: it is 64, and nothing is done."""
    refused = new_home.run(module, *options)

    assert (refused.returncode, refused.stdout) == (64, "")
    assert complaint in refused.stderr
    assert sizes(new_home) == {}


def contents(installation: Installation) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables."""
    tables = metadata.sorted_tables
    found = {table.name: [tuple(row) for row in installation.rows(select(table))] for table in tables}
    installation.database.close()  # which removes the files that SQLite keeps beside an open database
    return found


def sizes(installation: Installation) -> dict[Path, int]:
    """Of every file of the installation and beside its database."""
    database = embedded_file(installation.url)
    places = [installation.home, database.parent if database else installation.home]
    return {path: path.stat().st_size for place in places for path in place.rglob("*")}
