"""The command `mayfly`, used as people use it: right, wrong, and through a pipe."""

import json
import signal
import subprocess
import sys

import pytest

from tests.process.installation import Installation, wait_until


def mayfly(
    installation: Installation, *arguments: str, given: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    if not given:
        return installation.run("mayfly", *arguments, **settings)
    return subprocess.run(
        [sys.executable, "-m", "mayfly", *arguments],
        env=installation.environment(**settings),
        cwd="/",
        input=given,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_enqueue_prints_the_id_of_the_job_it_made(installation: Installation) -> None:
    """The id on stdout is the row's, and options reach their columns."""
    ran = mayfly(
        installation, "enqueue", "sleep", '{"seconds": 1}', "--lane", "naps", "--priority", "0",
        "--unique-key", "u", "--group-key", "g", "--max-attempts", "2", "--run-at", "2031-05-04T12:00+02:00",
    )  # fmt: skip

    row = installation.job(int(ran.stdout))
    found = (row.type, row.lane, row.priority, row.unique_key, row.group_key, row.max_attempts)
    assert found == ("sleep", "naps", 0, "u", "g", 2)
    assert str(row.run_at).startswith("2031-05-04 10:00")


def test_enqueue_says_how_long_a_key_is_held_and_a_job_waits(installation: Installation) -> None:
    """The options are the arguments of the library call."""
    ran = mayfly(
        installation, "enqueue", "noop", "--unique-key", "u", "--unique", "for 1h", "--expires-in", "60",
    )  # fmt: skip
    replaced = mayfly(
        installation, "enqueue", "noop", '{"n": 2}', "--unique-key", "u", "--on-conflict", "replace",
        "--expires-at", "2031-05-04T12:00+02:00",
    )  # fmt: skip
    refused = mayfly(
        installation, "enqueue", "noop", "-", "--unique-key", "u", "--on-conflict", "error", given="{}\n"
    )

    row = installation.job(int(ran.stdout))
    assert (replaced.stdout, row.unique_scope) == (ran.stdout, "time")
    assert str(row.expires_at).startswith("2031-05-04 10:00")
    assert (refused.returncode, refused.stdout) == (64, "")
    assert refused.stderr.startswith(f"Line 1: unique_key='u' is held by job {row.id}.")


def test_enqueue_reads_json_lines(installation: Installation) -> None:
    """Each line of standard input that is not blank becomes a job."""
    ran = mayfly(installation, "enqueue", "noop", "-", given='{}\n\n{"a": 1}\n' + "{}\n" * 2500)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "2502 jobs enqueued.\n", "")
    assert installation.statuses() == {"pending": 2502}


@pytest.mark.parametrize(
    ("arguments", "given", "sentence"),
    [
        (("sleep", "[1]"), "", "must be a JSON object, not list"),
        (("sleep", "{bad"), "", "is not JSON"),
        (("sleep", '{"seconds": "long"}'), "", "seconds: Input should be a valid number"),
        (("sleep", "-"), '{}\n{"seconds": -1}\n', "Line 2: The payload of sleep is refused"),
        (("noop", "-"), "{}\nnonsense\n", "Line 2: 'nonsense' is not JSON"),
        (("noop", "--run-at", "tomorrow"), "", "'tomorrow' is not a time"),
        (("noop", "--run-at", "2031-05-04T12:00"), "", "is not a time with a zone; write 2026-05-04T12:00+02:00"),
        (("noop", "--run-at", "2031-05-04T12:00Z", "--delay", "5"), "", "omitted if run_at is passed"),
        (("noop", "--priority", "7"), "", "7 is not in the range"),
        (("noop", "--unique", "for 1h"), "", "unique='for 1h': must be left out without a unique_key"),
        (("noop", "--unique-key", "u", "--unique", "for ever"), "", "unique='for ever': must be 'until done'"),
        (
            ("noop", "--unique-key", "u", "--on-conflict", "merge"),
            "",
            "'merge' is not one of",
        ),
        (("noop", "--expires-at", "2020-05-04T12:00Z"), "", "must be later than now"),
        (("noop", "--expires-at", "soon"), "", "'soon' is not a time"),
        (("noop", "--expires-in", "-1"), "", "must be more than 0 seconds"),
        (("noop", "--max-attempts", "0"), "", "max_attempts=0: must be an integer, 1–1000"),
        (("noop", "--lane", "x" * 65), "", "a text of 1 to 64 characters"),
        (("noop", f'{{"x": "{"y" * 70_000}"}}'), "", "PAYLOAD_LIMIT allows 65,536"),
    ],
)
def test_what_cannot_be_enqueued_is_refused_with_a_sentence(
    embedded: Installation, arguments: tuple[str, ...], given: str, sentence: str
) -> None:
    """Exit 64, what is wrong on stderr, no traceback, nothing on stdout."""
    ran = mayfly(embedded, "enqueue", *arguments, given=given)

    assert (ran.returncode, ran.stdout) == (64, "")
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_unknown_type_is_warned_about_and_enqueued(embedded: Installation) -> None:
    """Another host may know it already; the nearest known name is offered."""
    ran = mayfly(embedded, "enqueue", "slep")

    assert ran.returncode == 0
    assert "Did you mean 'sleep'?" in ran.stderr
    assert embedded.statuses() == {"pending": 1}


def test_a_dry_run_of_enqueue_enqueues_nothing(embedded: Installation) -> None:
    """Everything is checked, nothing is written."""
    assert mayfly(embedded, "enqueue", "noop").returncode == 0

    ran = [
        mayfly(embedded, "enqueue", "noop", "--dry-run"),
        mayfly(embedded, "enqueue", "noop", "-", "--dry-run", given="{}"),
    ]

    assert [each.returncode for each in ran] == [0, 0]
    assert embedded.statuses() == {"pending": 1}


def test_migrate_says_what_it_did_and_can_be_repeated(database_url: str, embedded: Installation) -> None:
    """The first run creates the tables, the second finds them."""
    first, second = (mayfly(embedded, "migrate", DATABASE_URL=database_url) for _ in range(2))

    assert (first.returncode, first.stdout) == (0, "Migrated the schema from nothing to version 0001.\n")
    assert (second.returncode, second.stdout) == (0, "The schema is up to date (version 0001).\n")


def test_migrate_app_without_handlers_says_what_to_do(embedded: Installation) -> None:
    """A sentence, and no traceback."""
    ran = mayfly(embedded, "migrate", "--app", HANDLERS="no_such_module")

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("There is no module no_such_module. Put it into MAYFLY_HOME")
    assert len(ran.stderr.splitlines()) == 1


def test_migrate_prints_sql_without_touching_the_database(database_url: str, embedded: Installation) -> None:
    """--sql is for those who may not let programs change tables."""
    ran = mayfly(embedded, "migrate", "--sql", DATABASE_URL=database_url)

    assert ran.returncode == 0
    assert "CREATE TABLE" in ran.stdout
    assert "mayfly_jobs" in ran.stdout
    assert "Migrated" in mayfly(embedded, "migrate", DATABASE_URL=database_url).stdout


def test_config_shows_where_values_come_from_and_masks_secrets(embedded: Installation) -> None:
    """Each setting with value and source; the password nowhere."""
    (embedded.home / "mayfly.toml").write_text("batch_size = 7\n")

    ran = mayfly(embedded, "config", "--json", DATABASE_URL="mysql://app:hunter2@db/app", MAX_WORKERS="9")

    found = {each["name"]: (each["value"], each["source"]) for each in json.loads(ran.stdout)}
    assert found["BATCH_SIZE"] == ("7", str(embedded.home / "mayfly.toml"))
    assert found["MAX_WORKERS"] == ("9", "environment")
    assert found["MIN_WORKERS"] == ("1", "default")
    assert "hunter2" not in ran.stdout + ran.stderr
    assert "***" in found["DATABASE_URL"][0]


def test_doctor_finds_a_working_installation_well(installation: Installation) -> None:
    """After a cycle everything but cron (and perhaps the bytecode) is ok, and the exit code is 0."""
    installation.dispatch()

    ran = mayfly(installation, "doctor", "--json")

    health = {each["check"]: each["health"] for each in json.loads(ran.stdout)}
    assert ran.returncode == 0, ran.stdout
    for check in ("settings", "log", "state", "database", "locking", "schema", "clock", "cycles", "handlers"):
        assert health[check] == "ok", ran.stdout
    assert health["cron"] == "warning"


@pytest.mark.parametrize(
    ("settings", "check", "sentence"),
    [
        ({"BATCH_SIZE": "0"}, "settings", "BATCH_SIZE=0"),
        ({"DATABASE_URL": "mysql://app:hunter2@127.0.0.1:1/app"}, "database", "can't be reached"),
        ({"HANDLERS": "no_such_module"}, "handlers", "no_such_module cannot be imported"),
        ({"LOG_DIR": "/proc/version/logs"}, "log", "cannot be written"),
    ],
)
def test_doctor_names_each_problem_and_exits_1(
    embedded: Installation, settings: dict[str, str], check: str, sentence: str
) -> None:
    """A problem has its line, with what to do, and the exit code is 1."""
    embedded.dispatch()

    ran = mayfly(embedded, "doctor", **settings)

    assert ran.returncode == 1
    line = next(each for each in ran.stdout.splitlines() if each.startswith("problem"))
    assert check in line
    assert sentence in line
    assert "hunter2" not in ran.stdout


def test_doctor_tells_that_cron_has_stopped(embedded: Installation) -> None:
    """A last cycle of long ago is a problem: cron silently not firing matters most."""
    embedded.dispatch()
    embedded.execute(r"UPDATE mayfly_cycles SET started_at = '2020-01-01 00\:00\:00'")

    ran = mayfly(embedded, "doctor")

    assert ran.returncode == 1
    assert "is cron running there?" in ran.stdout


def test_doctor_tells_of_missing_tables(database_url: str, embedded: Installation) -> None:
    """A server's database without tables is a problem with the command that mends it."""
    ran = mayfly(embedded, "doctor", DATABASE_URL=database_url)

    if database_url.startswith("sqlite"):
        assert "does not exist yet" in ran.stdout
    else:
        assert ran.returncode == 1
        assert "Run `mayfly migrate` once." in ran.stdout


def test_dev_runs_a_cycle_at_once_and_ends_with_ctrl_c(embedded: Installation) -> None:
    """The log is on stdout, the jobs are done, and Ctrl-C ends it with 0 and leaves no process."""
    embedded.dispatch()
    embedded.enqueue("noop", count=3)
    dev = embedded.start("mayfly", "dev")
    wait_until(lambda: embedded.statuses() == {"done": 3}, "the first cycle")

    dev.send_signal(signal.SIGINT)
    output, errors = dev.communicate(timeout=60)

    assert (dev.returncode, errors) == (0, "")
    assert "[DISPATCHER] Pending jobs: 3" in output
    assert "Processing 3 jobs..." in output
    assert embedded.processes() == []


def test_dev_says_a_wrong_setting_once(embedded: Installation) -> None:
    """Not every minute."""
    ran = mayfly(embedded, "dev", BATCH_SIZE="0")

    assert ran.returncode == 64
    assert "BATCH_SIZE=0" in ran.stderr


def test_wrong_usage_is_64(embedded: Installation) -> None:
    """click's own 2 would look like a timeout."""
    ran = [mayfly(embedded, "nonsense"), mayfly(embedded, "enqueue"), mayfly(embedded, "config", "--nonsense")]

    assert [each.returncode for each in ran] == [64, 64, 64]
