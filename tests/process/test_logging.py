"""What a cycle logs, where, and what it never logs."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.process.installation import Installation

# The phrases that operators grep, in the order of a cycle.
PHRASES = (
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


def test_a_cycle_logs_every_known_phrase_in_order(embedded: Installation) -> None:
    """One event per line, each with a time in UTC."""
    embedded.enqueue("sleep", '{"seconds": 0.1}', count=5)
    embedded.enqueue("retry_later")

    embedded.dispatch()

    lines = embedded.log.splitlines()
    assert not [line for line in lines if not re.match(rf"{STAMP}\[(DISPATCHER|WORKER worker-\d+-\d)\] ", line)]
    remaining = iter(lines)
    missing = [each for each in PHRASES if not any(re.fullmatch(STAMP + each, line) for line in remaining)]
    assert missing == [], embedded.log


def test_a_cycle_with_problems_mails_a_short_paragraph(embedded: Installation) -> None:
    """Under cron stderr becomes a mail: exit code, endings and the log to read. A failed job alone is not mailed."""
    embedded.enqueue("crash", '{"how": "kill"}')
    embedded.enqueue("retry_later", lane="mail")

    cycle = embedded.dispatch(HOST_NAME="green")

    assert (cycle.returncode, cycle.stdout) == (1, "")
    assert re.fullmatch(
        r"Mayfly's cycle \d+ on green ended with code 1\.\n"
        r"Runners: 2 started, of which 1 crash\.\n"
        rf"See {embedded.home}/logs/dispatcher\.log\.\n",
        cycle.stderr,
    )
    assert re.search(r"ERROR: Worker worker-\d+-\d crashed: the runner was killed by signal 9", embedded.log)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_errors_of_jobs_are_logged_without_the_fields_of_redact(embedded: Installation, log_format: str) -> None:
    """Values of the payload, and what follows such a name; the row has the whole error."""
    reason = "login of ann with hunter22 refused, pin=9876"
    payload = json.dumps({"user": "ann", "password": "hunter22", "reason": reason})
    [dead] = embedded.enqueue("give_up", payload)
    embedded.enqueue("noop", '{"password": "hunter33"}', lane="hooks")

    hook = "tests.process.sample_handlers.hooks:quote_before"
    embedded.dispatch(LOG_FORMAT=log_format, REDACT="password,pin", HOOKS_BEFORE=hook)

    assert "login of ann with ••• refused, pin=•••" in embedded.log
    assert "RuntimeError: no span for {'password': •••}" in embedded.log
    assert not [each for each in ("hunter22", "hunter33", "9876") if each in embedded.log]
    assert reason in embedded.job(dead).last_error


def test_every_line_of_a_json_log_is_an_object(embedded: Installation) -> None:
    """LOG_FORMAT=json: time, level, source, event and text in every line, and figures as fields."""
    embedded.enqueue("noop", count=3)
    embedded.enqueue("retry_later")
    embedded.enqueue("printer")

    embedded.dispatch(LOG_FORMAT="json", BATCH_SIZE="10")

    lines = [json.loads(line) for line in embedded.log.splitlines()]
    assert all({"at", "level", "source", "event", "text"} <= each.keys() for each in lines)
    events = [each["event"] for each in lines]
    assert (events[0], events[-1]) == ("cycle_started", "lane_summary")
    assert lines[-1]["done"] == 4
    failed = next(each for each in lines if each["event"] == "job_failed")
    assert (failed["level"], failed["type"], failed["attempt"]) == ("warning", "retry_later", 1)
    printed = next(each for each in lines if each["event"] == "output")
    assert printed["line"] == "printed by a handler"


@pytest.mark.parametrize("spawn", ["fork", "exec"])
def test_the_log_can_go_to_stdout(embedded: Installation, spawn: str) -> None:
    """LOG_TO=stdout: the lines of runners too, output of handlers only as an event, and no file."""
    embedded.enqueue("printer")

    cycle = embedded.dispatch(LOG_TO="stdout", SPAWN=spawn)

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert re.search(r"\[WORKER worker-\d+-1\] Completed 1 job\n", cycle.stdout)
    assert "[DISPATCHER] Dispatch Summary:" in cycle.stdout
    assert "\nprinted by a handler" not in cycle.stdout
    assert cycle.stdout.count("printed by a handler") == 1
    assert not (embedded.home / "logs").exists()


def test_every_cycle_reopens_the_log(embedded: Installation) -> None:
    """logrotate renames the file and needs no postrotate script: the next cycle writes a new one."""
    log = embedded.home / "logs" / "dispatcher.log"
    embedded.dispatch()
    rotated = log.rename(log.with_suffix(".log.1"))
    before = rotated.read_text()

    embedded.dispatch()

    assert rotated.read_text() == before
    assert log.read_text().count("Dispatch cycle started") == 1


def test_neither_payloads_nor_passwords_reach_the_log(installation: Installation) -> None:
    """Not if a job is done, fails, fails in its own SQL, or does not fit its model."""
    card = "4111-1111-1111-1111"
    for type_name in ("noop", "fail", "retry_later", "leak", "sleep"):
        installation.enqueue(type_name, json.dumps({"card": card, "seconds": card}))

    cycle = installation.dispatch(LOG_FORMAT="json")

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert installation.statuses() == {"done": 1, "pending": 3, "dead": 1}
    assert card not in installation.log
    assert not [secret for secret in installation.secrets if secret in installation.log]


def test_output_of_handlers_cannot_forge_a_line(embedded: Installation) -> None:
    """Line ends and control characters of an error are escaped."""
    embedded.enqueue("forge")

    embedded.dispatch()

    line = next(line for line in embedded.log.splitlines() if "Job 1 (forge)" in line)
    assert line.endswith(r"RuntimeError: first \x1b[31m 2026-01-01T00:00:00.000Z [DISPATCHER] Dispatch Summary:")


def test_a_cycle_on_a_terminal_shows_its_log(embedded: Installation) -> None:
    """Without times, and without the paragraph for the mail."""
    embedded.enqueue("noop", count=2)
    embedded.enqueue("crash", '{"how": "kill"}', lane="mail")

    shown = output_on_a_terminal(embedded)

    assert "[DISPATCHER] Spawning 2 workers..." in shown
    assert "[DISPATCHER] Dispatch Summary:" in shown
    assert "Mayfly's cycle" not in shown
    assert embedded.log.count("Spawning 2 workers...") == 1


def test_a_log_to_stdout_is_shown_once_on_a_terminal(embedded: Installation) -> None:
    """As with `mayfly dev`."""
    embedded.enqueue("noop", count=2)

    shown = output_on_a_terminal(embedded, LOG_TO="stdout")

    assert shown.count("Spawning 1 worker...") == 1
    assert shown.count("Dispatch Summary:") == 1


def output_on_a_terminal(installation: Installation, **settings: str) -> str:
    """Of a dispatcher started by hand."""
    master, slave = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "dispatcher"],
        env=installation.environment(**settings),
        cwd="/",
        stdin=slave,
        stdout=slave,
        stderr=slave,
    ):
        os.close(slave)
        shown = bytearray()
        try:
            while chunk := os.read(master, 4096):
                shown += chunk
        except OSError:  # how Linux reports that the other end is closed
            pass
    os.close(master)
    return shown.decode()
