"""The operator's commands, as processes: what they print, ask, refuse, draw, and how they end."""

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mayfly.schema.tables import VERSION
from tests.process.installation import Installation
from tests.process.schedules import write_schedule
from tests.process.terminals import terminal

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
LISTS = ("status", "jobs", "dead", "cycles", "runners", "audit", "lanes", "pauses", "schedules", "batches", "limits")


def insert_dead(installation: Installation, count: int = 1, error: str = "ValueError: no") -> list[int]:
    return installation.enqueue("noop", count=count, status="dead", last_error=error, finished_at=installation.now())


# --- looking ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LISTS)
def test_every_list_speaks_json(embedded: Installation, name: str) -> None:
    """On an installation in which nothing has happened yet, and without a colour or a word beside it."""
    ran = embedded.run("mayfly", name, "--json")

    assert ran.stderr == ""
    assert json.loads(ran.stdout) is not None


def test_a_status_tells_how_it_is_by_its_exit_code(installation: Installation) -> None:
    """2 before the first cycle, 0 after it, 1 while something is paused."""
    installation.enqueue("noop", count=3)
    before = installation.run("mayfly", "status")
    installation.dispatch()
    after = installation.run("mayfly", "status")
    installation.run("mayfly", "lanes", "pause", "default", "--reason", "the vendor is down")
    paused = installation.run("mayfly", "status")

    assert [ran.returncode for ran in (before, after, paused)] == [2, 0, 1]
    assert "No cycle has run yet: is cron set up?" in before.stdout
    lane = after.stdout.splitlines()[1].split()
    assert (lane[0], lane[1], lane[5]) == ("default", "0", "3")
    assert "No problems." in after.stdout
    assert "Lane default is paused: the vendor is down." in paused.stdout


def test_a_status_reports_jobs_that_have_just_died(installation: Installation) -> None:
    """As /health does: see tests/process/console/test_health.py."""
    installation.enqueue("fail", count=3, max_attempts=1)
    installation.dispatch()

    ran = installation.run("mayfly", "status")

    assert ran.returncode == 1
    assert ran.stdout.endswith("\n3 jobs died in the last hour: 3 in lane default. See `mayfly dead`.\n")


def test_a_failed_job_is_found_understood_and_tried_again(installation: Installation) -> None:
    """From the list of the dead by its error to the same row, done."""
    job_id = installation.enqueue("fail", '{"times": 1}', max_attempts=1)[0]
    installation.dispatch()

    [group] = json.loads(installation.run("mayfly", "dead", "--json").stdout)["groups"]
    listed = json.loads(installation.run("mayfly", "jobs", "--error", group["error"], "--json").stdout)
    shown = installation.run("mayfly", "show", str(job_id)).stdout
    tried = installation.run("mayfly", "retry", "--error", group["error"])

    assert [job["id"] for job in listed["jobs"]] == [job_id]
    assert "Attempt 1 failed" in shown
    assert "RuntimeError: failing as asked, attempt 1 of 1" in shown
    assert tried.stdout == "1 job due again.\n"
    assert installation.statuses() == {"pending": 1}
    [deed] = json.loads(installation.run("mayfly", "audit", "--json").stdout)
    assert (deed["verb"], deed["via"], deed["jobs"]) == ("retry", "terminal", 1)


def test_pages_follow_on_each_other(embedded: Installation) -> None:
    """What stands behind --after is told where there is more."""
    embedded.enqueue("noop", count=5)

    first = embedded.run("mayfly", "jobs", "--lane", "default", "--limit", "3")
    after = first.stderr.split("--after ")[1].strip()
    second = embedded.run("mayfly", "jobs", "--lane", "default", "--limit", "3", "--after", after)

    ids = [int(line.split()[0]) for ran in (first, second) for line in ran.stdout.splitlines()[1:]]
    assert (ids, second.stderr) == ([5, 4, 3, 2, 1], "")


def test_a_job_cannot_speak_to_the_terminal(embedded: Installation) -> None:
    """What it brought along is shown, not obeyed."""
    payload = json.dumps({"name": "\x1b]0;owned\x07"})
    job_id = embedded.enqueue("noop", payload, status="dead", last_error="\x1b[2Jgone")[0]

    texts = [embedded.run("mayfly", *each).stdout for each in (("show", str(job_id)), ("jobs",), ("dead",))]

    assert all("\x1b" not in text for text in texts)
    assert all("\\x1b[2Jgone" in text for text in texts[1:])


# --- changing ---------------------------------------------------------------------------------------------


def test_many_are_changed_only_by_somebody_who_says_so(embedded: Installation) -> None:
    """At a terminal he is asked; where nobody sits it is refused; --yes is an answer."""
    insert_dead(embedded, 3)

    refused = embedded.run("mayfly", "retry", "--type", "noop")
    with terminal(embedded, "mayfly", "retry", "--type", "noop") as asked:
        asked.wait_for("Retry 3 jobs? [y/N]")
        asked.press("n\n")
        no = asked.wait_for_end()
    before = embedded.statuses()
    with terminal(embedded, "mayfly", "discard", "--type", "noop", "--reason", "old") as asked:
        asked.wait_for("Discard 3 jobs? [y/N]")
        asked.press("y\n")
        yes = asked.wait_for_end()

    assert (refused.returncode, "Retry 3 jobs? No terminal to ask on" in refused.stderr) == (64, True)
    assert (no, before, yes) == (1, {"dead": 3}, 0)
    assert embedded.statuses() == {"cancelled": 3}


def test_progress_is_drawn_where_somebody_watches(embedded: Installation) -> None:
    """A bar for what takes more than a slice, and nothing of it elsewhere."""
    insert_dead(embedded, 2500)

    with terminal(embedded, "mayfly", "retry", "--type", "noop", "--yes") as watched:
        code = watched.wait_for_end()
    again = embedded.run("mayfly", "cancel", "--type", "noop", "--yes")

    assert (code, "Jobs due again" in watched.text) == (0, True)
    assert "2,500 jobs due again." in watched.text
    assert (again.stdout, again.stderr) == ("2,500 jobs cancelled.\n", "")


def test_a_delay_is_a_time_from_now_or_a_time(embedded: Installation) -> None:
    """One of them, and not the past."""
    job_id = str(embedded.enqueue("noop")[0])

    by = embedded.run("mayfly", "delay", job_id, "--by", "2h", "--reason", "later")
    neither = embedded.run("mayfly", "delay", job_id)
    past = embedded.run("mayfly", "delay", job_id, "--until", "2020-01-01T00:00+00:00")

    assert by.stdout == "1 job delayed.\n"
    assert (neither.returncode, past.returncode) == (64, 64)
    assert "Give either --by or --until." in neither.stderr
    assert "is in the past" in past.stderr


def test_what_is_set_for_a_lane_is_planned_with(installation: Installation) -> None:
    """On the next plan, which says by whom; and until it is set back."""
    installation.enqueue("noop", count=20, lane="mail")

    told = installation.run("mayfly", "lanes", "set", "mail", "max_workers=2")
    planned = json.loads(installation.dispatch("--dry-run", "--json").stdout)["lanes"][0]
    shown = installation.dispatch("--dry-run").stdout
    installation.run("mayfly", "lanes", "set", "mail", "max_workers=default")
    back = json.loads(installation.dispatch("--dry-run", "--json").stdout)["lanes"][0]

    assert told.stdout == "Lane mail: max_workers 2.\n"
    assert (planned["planned"], planned["max_workers"]) == (2, 2)
    assert any(cut.startswith("max_workers 2 set by ") for cut in planned["cuts"])
    assert "Lane mail: max_workers 2 set by " in shown
    assert (back["planned"], back["max_workers"], back["set_by"]) == (4, 5, None)


def test_what_is_old_is_counted_and_deleted(embedded: Installation) -> None:
    """As the settings say; the deed is kept."""
    embedded.enqueue("noop", count=3, status="done", run_at=LONG_AGO, finished_at=LONG_AGO)

    counted = embedded.run("mayfly", "prune", "--dry-run")
    asked = embedded.run("mayfly", "prune")
    gone = embedded.run("mayfly", "prune", "--yes")

    assert counted.stdout == "Old rows: 3 of mayfly_jobs.\n"
    assert (asked.returncode, "Delete 3 of mayfly_jobs?" in asked.stderr) == (64, True)
    assert gone.stdout == "3 rows deleted.\n"
    assert [row.verb for row in embedded.rows("SELECT verb FROM mayfly_audit")] == ["prune"]


def test_what_is_done_to_schedules_is_a_deed(embedded: Installation) -> None:
    """Paused, resumed, run now; not what changed nothing."""
    write_schedule(embedded, "@yearly noop")
    for verb in (
        ("pause", "noop", "--reason", "why not"),
        ("resume", "noop"),
        ("resume", "noop"),
        ("run-now", "noop"),
    ):
        embedded.run("mayfly", "schedules", *verb)

    deeds = embedded.rows("SELECT verb, subject, jobs, reason FROM mayfly_audit ORDER BY id")

    assert [tuple(deed) for deed in deeds] == [
        ("pause schedule", "noop", None, "why not"),
        ("resume schedule", "noop", None, None),
        ("run schedule", "noop", 1, None),
    ]


def test_who_ends_dispatchers_is_in_the_audit(embedded: Installation) -> None:
    """Not who only asks, nor where there was none."""
    embedded.run("mayfly", "interrupt")
    embedded.enqueue("latch")
    cycle = embedded.start("dispatcher")
    embedded.wait_for_latch()
    embedded.run("mayfly", "interrupt", "--dry-run")
    embedded.run("mayfly", "interrupt", "--timeout", "0")
    embedded.release_latch()
    cycle.wait(60)

    [deed] = embedded.rows("SELECT verb, subject FROM mayfly_audit")
    assert (deed.verb, deed.subject.startswith("host ")) == ("interrupt", True)


# --- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", "12345"), "There is no job 12345"),
        (("show", "0"), "0 is not in the range"),
        (("jobs", "--after", "nowhere"), "must be the `next` of the previous page"),
        (("jobs", "--status", "lost"), "'lost' is not one of"),
        (("jobs", "--limit", "0"), "0 is not in the range"),
        (("jobs", "--older-than", "long"), "'long' is not a duration; write 90s, 5m, 2h or 1d"),
        (("retry",), "Select jobs by id, group, lane, type, error or age"),
        (("discard", "--status", "done", "--lane", "a"), "'done' is not"),
        (("retry", "0"), "id=0: must be a positive integer"),
        (("lanes", "set", "mail", "max_workers=0"), "max_workers=0: must be an integer from 1 to 1000"),
        (("lanes", "set", "mail", "max_workers=many"), "write max_workers=3, or max_workers=default"),
        (("lanes", "set", "mail", "rank=1"), "write max_workers=3, or max_workers=default"),
        (("top",), "top needs a terminal"),
        (("prune", "--json"), "--json goes with --dry-run"),
        (("status", "--watch", "0"), "is not in the range"),
        (("completion", "tcsh"), "'tcsh' is not one of"),
    ],
)
def test_wrong_usage_is_a_sentence(embedded: Installation, arguments: tuple[str, ...], sentence: str) -> None:
    """And exit 64."""
    ran = embedded.run("mayfly", *arguments)

    assert (ran.returncode, ran.stdout) == (64, "")
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("verb", ["retry", "discard", "cancel"])
def test_a_filter_that_matches_nothing_changes_nothing(embedded: Installation, verb: str) -> None:
    """It is said, and is no error: whoever is second finds the work done."""
    embedded.enqueue("noop", status="done")

    ran = embedded.run("mayfly", verb, "--lane", "nowhere")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith("was found; nothing was changed.\n")


@pytest.mark.parametrize("command", [("status",), ("jobs",), ("retry", "1"), ("dead",), ("prune", "--dry-run")])
def test_a_database_that_is_away_is_a_sentence(embedded: Installation, command: tuple[str, ...]) -> None:
    """With exit 1; what to look at is in it."""
    ran = embedded.run("mayfly", *command, DATABASE_URL="mysql+pymysql://root:secret@127.0.0.1:1/none")

    assert (ran.returncode, ran.stdout) == (1, "")
    assert "can't be reached" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "secret" not in ran.stderr


# --- drawing ----------------------------------------------------------------------------------------------


def test_colours_are_for_terminals_that_want_them(embedded: Installation) -> None:
    """NO_COLOR is honoured."""
    embedded.dispatch()

    with terminal(embedded, "mayfly", "status") as coloured:
        coloured.wait_for_end()
    with terminal(embedded, "mayfly", "status", NO_COLOR="1") as sober:
        sober.wait_for_end()
    piped = embedded.run("mayfly", "status").stdout

    assert "\x1b[32mNo problems." in coloured.drawn
    assert ("\x1b" in sober.drawn, "\x1b" in piped) == (False, False)
    assert "No problems." in sober.drawn


def test_a_status_is_watched_until_somebody_ends_it(embedded: Installation) -> None:
    """It is drawn again with what has come; Ctrl-C is its end, with the exit code of the last look."""
    embedded.dispatch()
    with terminal(embedded, "mayfly", "status", "--watch", "0.2") as watched:
        watched.wait_for("No problems.")
        embedded.enqueue("noop", lane="quite-new")
        watched.wait_for("quite-new")
        watched.press("\x03")
        code = watched.wait_for_end()

    assert (code, "Traceback" in watched.text, "Aborted" in watched.text) == (0, False, False)


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_top_fills_the_screen_until_a_key_ends_it(installation: Installation, key: str) -> None:
    """Lanes, hosts, runners and cycles; what comes is drawn; the terminal is left as it was."""
    installation.enqueue("noop", count=3)
    installation.dispatch()
    with terminal(installation, "mayfly", "top", "--interval", "0.2") as screen:
        screen.wait_for("No problems.")
        installation.enqueue("noop", lane="quite-new")
        screen.wait_for("quite-new")
        screen.press(key)
        code = screen.wait_for_end()

    assert (code, "Traceback" in screen.text) == (0, False)
    for part in ("lanes", "hosts", "runners", "cycles", "q quits"):
        assert part in screen.text
    assert "\x1b[?1049h" in screen.drawn  # a screen of its own
    assert screen.drawn.rstrip().endswith(("\x1b[?25h", "\x1b[?1049l"))  # and back, with the cursor


# --- shells and pages -------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands(embedded: Installation, tmp_path: Path) -> None:
    """By the script that `completion` prints, and by asking the command itself."""
    script = tmp_path / "completion"
    script.write_text(embedded.run("mayfly", "completion", "bash").stdout)
    asking = f"source {script}; COMP_WORDS=(mayfly re); COMP_CWORD=1; complete -p mayfly"

    known = subprocess.run(["bash", "-c", asking], capture_output=True, text=True, check=False)
    offered = embedded.run("mayfly", _MAYFLY_COMPLETE="bash_complete", COMP_WORDS="mayfly re", COMP_CWORD="1")

    assert (known.returncode, known.stderr) == (0, "")
    assert offered.stdout.split() == ["plain,resume", "plain,retry"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_their_scripts(embedded: Installation, shell: str) -> None:
    ran = embedded.run("mayfly", "completion", shell)

    assert ran.returncode == 0
    assert f"_MAYFLY_COMPLETE={shell}_complete" in ran.stdout


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
def test_the_man_page_can_be_read(embedded: Installation, tmp_path: Path) -> None:
    """Every command is in it, and troff has nothing to warn of."""
    page = tmp_path / "mayfly.1"
    page.write_text(embedded.run("mayfly", "man").stdout)

    shown = subprocess.run(
        ["man", "--warnings=all", "-l", str(page)],
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MANPAGER": "cat"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (shown.returncode, shown.stderr) == (0, "")
    for command in ("mayfly status", "mayfly lanes set", "mayfly schedules run-now", "--watch", "EXIT STATUS"):
        assert command in shown.stdout
    assert f"schema {VERSION}" in page.read_text()
