"""The commands for operators, as processes: output, questions, errors, screens and exit codes."""

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mayfly.clock import milliseconds
from mayfly.schema.metadata import cycles
from mayfly.schema.tables import VERSION
from tests.database.factories import insert_table_row
from tests.process.installation import Installation
from tests.process.schedules import write_schedule
from tests.process.terminals import terminal

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
LISTS = (
    "status", "jobs", "dead", "hosts", "cycles", "runners", "audit", "lanes", "pauses", "schedules", "batches",
    "limits", "sources",
)  # fmt: skip


def insert_dead(installation: Installation, count: int = 1, error: str = "ValueError: no") -> list[int]:
    return installation.enqueue("noop", count=count, status="dead", last_error=error, finished_at=installation.now())


def test_jobs_are_selected_by_their_contents(embedded: Installation) -> None:
    """Listed and retried by text and nested payload fields; a masked field is refused, the audit would show it."""
    meant, other = (
        embedded.enqueue("noop", payload, status="dead", finished_at=embedded.now())[0]
        for payload in ('{"order": {"id": 7}}', '{"order": {"id": 8}}')
    )
    by_field = ("--payload", "order.id=7", "--text", "ORDER")

    listed = json.loads(embedded.run("mayfly", "jobs", *by_field, "--json").stdout)["jobs"]
    counted = embedded.run("mayfly", "retry", *by_field, "--dry-run").stdout
    done = embedded.run("mayfly", "retry", *by_field).stdout

    assert [each["id"] for each in listed] == [meant]
    assert (counted, done) == ("1 job would be due again; nothing was changed.\n", "1 job due again.\n")
    assert [embedded.job(each).status for each in (meant, other)] == ["pending", "dead"]
    for wrong, sentence in (("password=x", "not masked by REDACT"), ("order", "such as order.id=7")):
        refused = embedded.run("mayfly", "retry", "--payload", wrong)
        assert (refused.returncode, sentence in refused.stderr) == (64, True), refused.stderr


# --- reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LISTS)
def test_every_list_prints_json(embedded: Installation, name: str) -> None:
    """On a new installation, without colours or other text."""
    ran = embedded.run("mayfly", name, "--json")

    assert ran.stderr == ""
    assert json.loads(ran.stdout) is not None


def test_the_exit_code_of_status_is_the_state(installation: Installation) -> None:
    """2 before the first cycle, 0 after it, also while a lane is paused, 1 while one is late."""
    installation.enqueue("noop", count=3)
    before = installation.run("mayfly", "status")
    installation.dispatch()
    after = installation.run("mayfly", "status")
    installation.run("mayfly", "lanes", "pause", "default", "--reason", "the vendor is down")
    paused = installation.run("mayfly", "status")
    installation.enqueue("noop", lane="mail", run_at=installation.now() - timedelta(minutes=2))
    late = installation.run("mayfly", "status", LANES__MAIL__LATENCY_TARGET="1m")

    assert [ran.returncode for ran in (before, after, paused, late)] == [2, 0, 0, 1]
    assert "No cycle has run yet: is cron set up?" in before.stdout
    lane = after.stdout.splitlines()[1].split()
    assert (lane[0], lane[1], lane[6]) == ("default", "0", "3")
    assert "No problems." in after.stdout
    assert "Lane default is paused: the vendor is down." in paused.stdout


def test_a_removed_host_is_forgotten(installation: Installation) -> None:
    """It is listed as silent, then no more; a misspelled name is an error."""
    installation.enqueue("noop")
    installation.dispatch(HOST_NAME="web-1")
    started_at = installation.now() - timedelta(hours=1)
    row = {"id": milliseconds(started_at), "host": "web-2", "started_at": started_at, "exit_code": 0}
    insert_table_row(installation.database, cycles, **row)
    before = installation.run("mayfly", "hosts")
    misspelled = installation.run("mayfly", "hosts", "forget", "web2")

    forgotten = installation.run("mayfly", "hosts", "forget", "web-2")

    listed = [line.split() for line in before.stdout.splitlines()]
    assert [(line[0], line[-1]) for line in listed] == [("host", "exit"), ("web-1", "0"), ("web-2", "silent")]
    assert (misspelled.returncode, "Did you mean 'web-2'?" in misspelled.stderr) == (64, True)
    assert forgotten.stdout == "Host web-2 is forgotten until it starts a cycle again.\n"
    left = json.loads(installation.run("mayfly", "hosts", "--json").stdout)
    assert [each["host"] for each in left] == ["web-1"]
    assert installation.run("mayfly", "status").returncode == 0


def test_status_warns_of_dead_jobs_until_they_are_retried(installation: Installation) -> None:
    """With exit code 0, as /health does: see tests/process/console/test_health.py."""
    first, second, _ = installation.enqueue("fail", '{"times": 1}', count=3, max_attempts=1)
    installation.dispatch()
    ran, facts = installation.run("mayfly", "status"), installation.run("mayfly", "status", "--json")
    installation.run("mayfly", "retry", str(first))
    installation.run("mayfly", "discard", str(second))
    installation.execute(f"UPDATE mayfly_jobs SET payload = '{{}}', type = 'noop' WHERE id = {first}")
    installation.dispatch()
    later = installation.run("mayfly", "status")

    sentence = "3 jobs died in the last hour: 3 in lane default. See `mayfly dead`."
    assert (ran.returncode, later.returncode) == (0, 0)
    assert ran.stdout.endswith(f"\n{sentence}\n")
    assert (json.loads(facts.stdout)["status"], json.loads(facts.stdout)["warnings"]) == ("ok", [sentence])
    assert installation.job(first).status == "done"
    assert later.stdout.endswith("\n1 job died in the last hour: 1 in lane default. See `mayfly dead`.\n")


def test_a_failed_job_is_found_and_retried(installation: Installation) -> None:
    """From the group of dead jobs by its error to the same row, pending again."""
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
    [entry] = json.loads(installation.run("mayfly", "audit", "--json").stdout)
    assert (entry["verb"], entry["via"], entry["jobs"]) == ("retry", "terminal", 1)


def test_successful_attempts_are_shown_where_they_are_kept(installation: Installation) -> None:
    """Beside the failed ones, by which the job is still found."""
    job_id = installation.enqueue("fail", '{"times": 1}', lane="kept")[0]
    plain = installation.enqueue("noop", lane="plain")[0]
    for _ in range(2):
        installation.dispatch(LANES__KEPT__KEEP_SUCCESSES="true", BACKOFF_BASE="0.001")

    shown = installation.run("mayfly", "show", str(job_id)).stdout
    history = json.loads(installation.run("mayfly", "show", str(job_id), "--json").stdout)["history"]
    found = installation.run("mayfly", "jobs", "--error", history[0]["fingerprint"], "--json").stdout

    assert [(each["attempt"], each["outcome"], each["error"] == "") for each in history] == [
        (1, "failed", False),
        (2, "done", True),
    ]
    assert re.search(r"^Attempt 2 done after [\d.]+ m?s$", shown, re.MULTILINE), shown
    assert [each["id"] for each in json.loads(found)["jobs"]] == [job_id]
    assert installation.rows("SELECT * FROM mayfly_attempts WHERE job_id = :id", id=plain) == []


def test_lists_are_paginated(embedded: Installation) -> None:
    """If there is more, the value for --after is printed."""
    embedded.enqueue("noop", count=5)

    first = embedded.run("mayfly", "jobs", "--lane", "default", "--limit", "3")
    after = first.stderr.split("--after ")[1].strip()
    second = embedded.run("mayfly", "jobs", "--lane", "default", "--limit", "3", "--after", after)

    ids = [int(line.split()[0]) for ran in (first, second) for line in ran.stdout.splitlines()[1:]]
    assert (ids, second.stderr) == ([5, 4, 3, 2, 1], "")


def test_a_job_cannot_control_the_terminal(embedded: Installation) -> None:
    """Escape sequences in its data are shown, not interpreted."""
    payload = json.dumps({"name": "\x1b]0;owned\x07"})
    job_id = embedded.enqueue("noop", payload, status="dead", last_error="\x1b[2Jgone")[0]

    texts = [embedded.run("mayfly", *each).stdout for each in (("show", str(job_id)), ("jobs",), ("dead",))]

    assert all("\x1b" not in text for text in texts)
    assert all("\\x1b[2Jgone" in text for text in texts[1:])


# --- changing ---------------------------------------------------------------------------------------------


def test_a_retry_names_the_cancelled_jobs_that_it_skips(embedded: Installation) -> None:
    """In a dry run, too."""
    insert_dead(embedded, 1)
    embedded.enqueue("noop", count=2, status="cancelled")

    counted = embedded.run("mayfly", "retry", "--type", "noop", "--dry-run").stdout
    retried = embedded.run("mayfly", "retry", "--type", "noop").stdout

    skipped = "2 cancelled jobs skipped: filter by the status cancelled to retry cancelled jobs."
    assert counted == f"1 job would be due again; nothing was changed. {skipped}\n"
    assert retried == f"1 job due again. {skipped}\n"


def test_bulk_actions_need_a_confirmation(embedded: Installation) -> None:
    """A terminal asks; without one the command is refused; --yes confirms."""
    insert_dead(embedded, 3)

    refused = embedded.run("mayfly", "retry", "--type", "noop")
    with terminal(embedded, "mayfly", "retry", "--type", "noop") as asked:
        asked.wait_for("3 jobs will be due again. Continue? [y/N]")
        asked.press("n\n")
        no = asked.wait_for_end()
    before = embedded.statuses()
    with terminal(embedded, "mayfly", "discard", "--type", "noop", "--reason", "old") as asked:
        asked.wait_for("3 jobs will be discarded (status cancelled). Continue? [y/N]")
        asked.press("y\n")
        yes = asked.wait_for_end()

    assert refused.returncode == 64
    assert "3 jobs will be due again. Continue? No terminal to ask on" in refused.stderr
    assert (no, before, yes) == (1, {"dead": 3}, 0)
    assert embedded.statuses() == {"cancelled": 3}


def test_progress_is_shown_only_on_a_terminal(embedded: Installation) -> None:
    """A bar for actions that take more than one slice."""
    insert_dead(embedded, 2500)

    with terminal(embedded, "mayfly", "retry", "--type", "noop", "--yes") as watched:
        code = watched.wait_for_end()
    again = embedded.run("mayfly", "cancel", "--type", "noop", "--yes")

    assert (code, "Jobs due again" in watched.text) == (0, True)
    assert "2,500 jobs due again." in watched.text
    assert (again.stdout, again.stderr) == ("2,500 jobs cancelled.\n", "")


def test_a_delay_is_a_duration_or_a_time(embedded: Installation) -> None:
    """Exactly one of them, and not in the past."""
    job_id = str(embedded.enqueue("noop")[0])

    by = embedded.run("mayfly", "delay", job_id, "--by", "2h", "--reason", "later")
    neither = embedded.run("mayfly", "delay", job_id)
    past = embedded.run("mayfly", "delay", job_id, "--until", "2020-01-01T00:00+00:00")

    assert by.stdout == "1 job delayed.\n"
    assert (neither.returncode, past.returncode) == (64, 64)
    assert "Give either --by or --until." in neither.stderr
    assert "must be a time in the future" in past.stderr


def test_a_setting_of_a_lane_changes_the_next_plan(installation: Installation) -> None:
    """The plan names the user; `default` removes it."""
    installation.enqueue("noop", count=20, lane="mail")

    set_up = installation.run("mayfly", "lanes", "set", "mail", "max_workers=2")
    planned = json.loads(installation.dispatch("--dry-run", "--json").stdout)["lanes"][0]
    shown = installation.dispatch("--dry-run").stdout
    installation.run("mayfly", "lanes", "set", "mail", "max_workers=default")
    back = json.loads(installation.dispatch("--dry-run", "--json").stdout)["lanes"][0]

    assert set_up.stdout == "Lane mail: max_workers 2.\n"
    assert (planned["planned"], planned["max_workers"]) == (2, 2)
    assert any(cut.startswith("max_workers 2 set by ") for cut in planned["cuts"])
    assert "Lane mail: max_workers 2 set by " in shown
    assert (back["planned"], back["max_workers"], back["set_by"]) == (4, 5, None)


def test_old_rows_are_counted_and_pruned(embedded: Installation) -> None:
    """By the settings; the action is in the audit."""
    embedded.enqueue("noop", count=3, status="done", run_at=LONG_AGO, finished_at=LONG_AGO)

    counted = embedded.run("mayfly", "prune", "--dry-run")
    asked = embedded.run("mayfly", "prune")
    gone = embedded.run("mayfly", "prune", "--yes")

    assert counted.stdout == "Old rows: 3 in mayfly_jobs.\n"
    assert (asked.returncode, "Old rows will be deleted: 3 in mayfly_jobs. Continue?" in asked.stderr) == (64, True)
    assert gone.stdout == "3 rows deleted.\n"
    assert [row.verb for row in embedded.rows("SELECT verb FROM mayfly_audit")] == ["prune"]


def test_actions_on_schedules_are_in_the_audit(embedded: Installation) -> None:
    """Pause, resume and run now; not those that changed nothing."""
    write_schedule(embedded, "@yearly noop")
    for verb in (
        ("pause", "noop", "--reason", "why not"),
        ("resume", "noop"),
        ("resume", "noop"),
        ("run-now", "noop"),
    ):
        embedded.run("mayfly", "schedules", *verb)

    entries = embedded.rows("SELECT verb, subject, jobs, reason FROM mayfly_audit ORDER BY id")

    assert [tuple(entry) for entry in entries] == [
        ("pause schedule", "noop", None, "why not"),
        ("resume schedule", "noop", None, None),
        ("run schedule", "noop", 1, None),
    ]


def test_interrupting_dispatchers_is_in_the_audit(embedded: Installation) -> None:
    """Not a dry run, nor where there was none."""
    embedded.run("mayfly", "interrupt")
    embedded.enqueue("gated")
    cycle = embedded.start("dispatcher")
    embedded.wait_for_gate()
    embedded.run("mayfly", "interrupt", "--dry-run")
    embedded.run("mayfly", "interrupt", "--timeout", "0")
    embedded.open_gate()
    cycle.wait(60)

    [entry] = embedded.rows("SELECT verb, subject FROM mayfly_audit")
    assert (entry.verb, entry.subject.startswith("host ")) == ("interrupt", True)


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
        (("retry",), "Select jobs by id, group, lane, type, error, age, text or"),
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
def test_wrong_usage_is_an_error_message(embedded: Installation, arguments: tuple[str, ...], sentence: str) -> None:
    """With exit code 64."""
    ran = embedded.run("mayfly", *arguments)

    assert (ran.returncode, ran.stdout) == (64, "")
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("verb", ["retry", "discard", "cancel"])
def test_a_filter_that_matches_nothing_changes_nothing(embedded: Installation, verb: str) -> None:
    """It is reported, and is no error: another user may have done it already."""
    embedded.enqueue("noop", status="done")

    ran = embedded.run("mayfly", verb, "--lane", "nowhere")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith("No matching jobs; nothing was changed.\n")


@pytest.mark.parametrize("command", [("status",), ("jobs",), ("retry", "1"), ("dead",), ("prune", "--dry-run")])
def test_an_unreachable_database_is_an_error_message(embedded: Installation, command: tuple[str, ...]) -> None:
    """With exit code 1; it explains what to check."""
    ran = embedded.run("mayfly", *command, DATABASE_URL="mysql+pymysql://root:secret@127.0.0.1:1/none")

    assert (ran.returncode, ran.stdout) == (1, "")
    assert "can't be reached" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "secret" not in ran.stderr


@pytest.mark.parametrize("command", [("status",), ("enqueue", "noop"), ("jobs",), ("retry", "1")])
@pytest.mark.parametrize(("version", "advice"), [("0000", "Run `mayfly migrate`"), ("9999", "Upgrade Mayfly")])
def test_tables_of_another_version_are_an_error_message(
    embedded: Installation, command: tuple[str, ...], version: str, advice: str
) -> None:
    """With exit code 1, before anything is read or written."""
    embedded.run("mayfly", "migrate")
    embedded.execute(f"UPDATE mayfly_version SET version_num = '{version}'")

    ran = embedded.run("mayfly", *command)

    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"schema version {version}" in ran.stderr
    assert advice in ran.stderr
    assert embedded.statuses() == {}


# --- screens ----------------------------------------------------------------------------------------------


def test_colours_are_only_for_terminals(embedded: Installation) -> None:
    """NO_COLOR is honoured."""
    embedded.dispatch()

    with terminal(embedded, "mayfly", "status") as coloured:
        coloured.wait_for_end()
    with terminal(embedded, "mayfly", "status", NO_COLOR="1") as plain:
        plain.wait_for_end()
    piped = embedded.run("mayfly", "status").stdout

    assert "\x1b[32mNo problems." in coloured.drawn
    assert ("\x1b" in plain.drawn, "\x1b" in piped) == (False, False)
    assert "No problems." in plain.drawn


def test_a_watched_status_is_refreshed_until_ctrl_c(embedded: Installation) -> None:
    """New jobs appear; the exit code is that of the last state."""
    embedded.dispatch()
    with terminal(embedded, "mayfly", "status", "--watch", "0.2") as watched:
        watched.wait_for("No problems.")
        embedded.enqueue("noop", lane="quite-new")
        watched.wait_for("quite-new")
        watched.press("\x03")
        code = watched.wait_for_end()

    assert (code, "Traceback" in watched.text, "Aborted" in watched.text) == (0, False, False)


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_top_fills_the_screen_until_a_key_is_pressed(installation: Installation, key: str) -> None:
    """Lanes, hosts, runners and cycles are refreshed; the terminal is restored."""
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
    assert "\x1b[?1049h" in screen.drawn  # the alternate screen
    assert screen.drawn.rstrip().endswith(("\x1b[?25h", "\x1b[?1049l"))  # and back, with the cursor


# --- shells and pages -------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands(embedded: Installation, tmp_path: Path) -> None:
    """With the script that `completion` prints, which calls the command itself."""
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
def test_the_man_page_is_valid(embedded: Installation, tmp_path: Path) -> None:
    """It has every command, and troff prints no warning."""
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
