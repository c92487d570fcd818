"""What a cycle says, where, and what it never says."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.process.installation import Installation

# What operators grep for, in the order in which a cycle says it.
STORY = (
    r"\[DISPATCHER\] Dispatch cycle started at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00",
    r"\[DISPATCHER\] Database connection verified \(SQLite 3[\d.]+\)",
    r"\[DISPATCHER\] Pending jobs: 6",
    r"\[DISPATCHER\] Calculated worker count: 2 \(pending=6, batch=5, max=5\) lane=default running=0",
    r"\[DISPATCHER\] Spawning 2 workers\.\.\.",
    r"\[DISPATCHER\] Spawning worker: worker-\d+-1 lane=default",
    r"\[WORKER worker-\d+-\d\] Starting ephemeral worker",
    r"\[WORKER worker-\d+-\d\] Processing \d jobs\.\.\.",
    r"\[WORKER worker-\d+-\d\] Completed \d jobs(, 1 retry)?",
    r"\[DISPATCHER\] Worker worker-\d+-\d completed successfully \(\d+ms\)",
    r"\[DISPATCHER\] Dispatch Summary:",
    r"\[DISPATCHER\] Pending jobs: 6",
    r"\[DISPATCHER\] Workers spawned: 2",
    r"\[DISPATCHER\] Successful workers: 2",
    r"\[DISPATCHER\] Failed workers: 0",
    r"\[DISPATCHER\] Total duration: \d+ms",
    r"\[DISPATCHER\] Avg worker duration: \d+ms",
    r"\[DISPATCHER\] cycle=\d+ lane=default runners=2 runners_ok=2 done=5 failed=1 timed_out=0 dead=0 crashed=0"
    r" duration_p95_ms=\d+ wait_p95_ms=\d+",
)
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "


def test_a_cycle_tells_its_story(embedded: Installation) -> None:
    """Every phrase that operators know is there, in order, one event a line, each with a time in UTC."""
    embedded.enqueue("sleep", '{"seconds": 0.1}', count=5)
    embedded.enqueue("come_back")

    embedded.dispatch()

    lines = embedded.log.splitlines()
    assert not [line for line in lines if not re.match(rf"{STAMP}\[(DISPATCHER|WORKER worker-\d+-\d)\] ", line)]
    told = iter(lines)
    missing = [each for each in STORY if not any(re.fullmatch(STAMP + each, line) for line in told)]
    assert missing == [], embedded.log


def test_a_cycle_with_trouble_mails_a_short_paragraph(embedded: Installation) -> None:
    """Under cron stderr is a mail: what ended how, and where to read on. A failed job alone is none of it."""
    embedded.enqueue("crash", '{"how": "kill"}')
    embedded.enqueue("come_back", lane="mail")

    cycle = embedded.dispatch(HOST_NAME="green")

    assert (cycle.returncode, cycle.stdout) == (1, "")
    assert re.fullmatch(
        r"Mayfly's cycle \d+ on green ended with code 1\.\n"
        r"Runners: 2 started, of which 1 crash\.\n"
        rf"See {embedded.home}/logs/dispatcher\.log\.\n",
        cycle.stderr,
    )
    assert re.search(r"ERROR: Worker worker-\d+-\d crashed: the runner was killed by signal 9", embedded.log)


def test_every_line_of_a_json_log_is_an_object(embedded: Installation) -> None:
    """LOG_FORMAT=json: time, level, source, event and text in every line, and the figures as fields."""
    embedded.enqueue("noop", count=3)
    embedded.enqueue("come_back")
    embedded.enqueue("printer")

    embedded.dispatch(LOG_FORMAT="json", BATCH_SIZE="10")

    said = [json.loads(line) for line in embedded.log.splitlines()]
    assert all({"at", "level", "source", "event", "text"} <= each.keys() for each in said)
    events = [each["event"] for each in said]
    assert (events[0], events[-1]) == ("cycle_started", "lane_summary")
    assert said[-1]["done"] == 4
    failed = next(each for each in said if each["event"] == "job_failed")
    assert (failed["level"], failed["type"], failed["attempt"]) == ("warning", "come_back", 1)
    printed = next(each for each in said if each["event"] == "output")
    assert printed["line"] == "printed by a handler"


@pytest.mark.parametrize("spawn", ["fork", "exec"])
def test_the_log_can_go_to_stdout(embedded: Installation, spawn: str) -> None:
    """LOG_TO=stdout: the runners' lines too, what handlers print only as an event, and no file."""
    embedded.enqueue("printer")

    cycle = embedded.dispatch(LOG_TO="stdout", SPAWN=spawn)

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert re.search(r"\[WORKER worker-\d+-1\] Completed 1 job\n", cycle.stdout)
    assert "[DISPATCHER] Dispatch Summary:" in cycle.stdout
    assert "\nprinted by a handler" not in cycle.stdout
    assert cycle.stdout.count("printed by a handler") == 1
    assert not (embedded.home / "logs").exists()


def test_every_cycle_opens_the_log_anew(embedded: Installation) -> None:
    """logrotate renames the file and need not tell anybody: the next minute writes a new one."""
    log = embedded.home / "logs" / "dispatcher.log"
    embedded.dispatch()
    rotated = log.rename(log.with_suffix(".log.1"))
    before = rotated.read_text()

    embedded.dispatch()

    assert rotated.read_text() == before
    assert log.read_text().count("Dispatch cycle started") == 1


def test_neither_payloads_nor_passwords_reach_the_log(installation: Installation) -> None:
    """Not when a job is done, fails, fails in its own SQL, or does not fit its model."""
    card = "4111-1111-1111-1111"
    for type_name in ("noop", "fail", "come_back", "leak", "sleep"):
        installation.enqueue(type_name, json.dumps({"card": card, "seconds": card}))

    cycle = installation.dispatch(LOG_FORMAT="json")

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert installation.statuses() == {"done": 1, "pending": 3, "dead": 1}
    assert card not in installation.log
    assert not [secret for secret in installation.secrets if secret in installation.log]


def test_what_handlers_print_cannot_forge_a_line(embedded: Installation) -> None:
    """Line ends and control characters of a failing handler stay within their own line."""
    embedded.enqueue("forge")

    embedded.dispatch()

    line = next(line for line in embedded.log.splitlines() if "Job 1 (forge)" in line)
    assert line.endswith(r"RuntimeError: first \x1b[31m 2026-01-01T00:00:00.000Z [DISPATCHER] Dispatch Summary:")


def test_on_a_terminal_a_cycle_shows_what_it_does(embedded: Installation) -> None:
    """The log's words without their times; a second paragraph of trouble is not needed there."""
    embedded.enqueue("noop", count=2)
    embedded.enqueue("crash", '{"how": "kill"}', lane="mail")

    shown = on_a_terminal(embedded)

    assert "[DISPATCHER] Spawning 2 workers..." in shown
    assert "[DISPATCHER] Dispatch Summary:" in shown
    assert "Mayfly's cycle" not in shown
    assert embedded.log.count("Spawning 2 workers...") == 1


def test_on_a_terminal_a_log_that_goes_to_stdout_is_shown_once(embedded: Installation) -> None:
    """`mayfly dev` does that."""
    embedded.enqueue("noop", count=2)

    shown = on_a_terminal(embedded, LOG_TO="stdout")

    assert shown.count("Spawning 1 worker...") == 1
    assert shown.count("Dispatch Summary:") == 1


def on_a_terminal(installation: Installation, **settings: str) -> str:
    """What a person sees who starts a dispatcher by hand."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "dispatcher"],
        env=installation.environment(**settings),
        cwd="/",
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        shown = bytearray()
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # how Linux says that nobody holds the other end any more
            pass
    os.close(ours)
    return shown.decode()
