"""The command `mayfly`: right usage, wrong usage, and pipes."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import select

from mayfly.schema.metadata import cycles
from mayfly.schema.tables import VERSION
from tests.process.installation import Installation, wait_until
from tests.process.schedules import write_schedule


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
    """Options are written into the columns."""
    ran = mayfly(
        installation, "enqueue", "sleep", '{"seconds": 1}', "--lane", "naps", "--priority", "0",
        "--unique-key", "u", "--group-key", "g", "--max-attempts", "2", "--run-at", "2031-05-04T12:00+02:00",
    )  # fmt: skip

    row = installation.job(int(ran.stdout))
    found = (row.type, row.lane, row.priority, row.unique_key, row.group_key, row.max_attempts)
    assert found == ("sleep", "naps", 0, "u", "g", 2)
    assert str(row.run_at).startswith("2031-05-04 10:00")


def test_enqueue_takes_options_for_unique_keys_and_expiry(installation: Installation) -> None:
    """They are the arguments of the library call."""
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
        (("sleep", "{bad"), "", "is not valid JSON"),
        (("sleep", '{"seconds": "long"}'), "", "seconds: Input should be a valid number"),
        (("sleep", "-"), '{}\n{"seconds": -1}\n', "Line 2: The payload of sleep is refused"),
        (("noop", "-"), "{}\nnonsense\n", "Line 2: 'nonsense' is not valid JSON"),
        (("noop", "--run-at", "tomorrow"), "", "'tomorrow' must be a time"),
        (("noop", "--run-at", "2031-05-04T12:00"), "", "must be a time with a zone, such as 2030-01-31T12:00:00Z"),
        (("noop", "--run-at", "2031-05-04T12:00Z", "--delay", "5"), "", "omitted if run_at is passed"),
        (("noop", "--priority", "7"), "", "7 is not in the range"),
        (("noop", "--unique", "for 1h"), "", "unique='for 1h': must be omitted without a unique_key"),
        (("noop", "--unique-key", "u", "--unique", "for ever"), "", "unique='for ever': must be 'until done'"),
        (
            ("noop", "--unique-key", "u", "--on-conflict", "merge"),
            "",
            "'merge' is not one of",
        ),
        (("noop", "--expires-at", "2020-05-04T12:00Z"), "", "must be later than now"),
        (("noop", "--expires-at", "soon"), "", "'soon' must be a time"),
        (("noop", "--expires-in", "-1"), "", "must be more than 0 seconds"),
        (("noop", "--max-attempts", "0"), "", "max_attempts=0: must be an integer, 1–1000"),
        (("noop", "--lane", "x" * 65), "", "a string of 1–64 characters"),
        (("noop", f'{{"x": "{"y" * 70_000}"}}'), "", "PAYLOAD_LIMIT allows 65,536"),
    ],
)
def test_invalid_jobs_are_refused_with_an_error_message(
    embedded: Installation, arguments: tuple[str, ...], given: str, sentence: str
) -> None:
    """Exit code 64, the error on stderr, no traceback, nothing on stdout."""
    ran = mayfly(embedded, "enqueue", *arguments, given=given)

    assert (ran.returncode, ran.stdout) == (64, "")
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_unknown_type_is_enqueued_with_a_warning(embedded: Installation) -> None:
    """Another host may have its handler; the warning suggests the nearest known name."""
    ran = mayfly(embedded, "enqueue", "slep")

    assert (ran.returncode, ran.stdout) == (0, "1\n")
    warning = "This process has no handler for type 'slep'; payloads are not checked. Did you mean 'sleep'?\n"
    assert ran.stderr == warning
    assert embedded.statuses() == {"pending": 1}


def test_a_type_of_a_broken_module_is_refused(embedded: Installation) -> None:
    """Its lane and its maximum of attempts are not known, unless they are given."""
    (embedded.home / "billing.py").write_text("import no_such_module")
    broken = {"HANDLERS": "tests.basic_handlers,billing"}

    refused = mayfly(embedded, "enqueue", "invoice", **broken)
    accepted = mayfly(embedded, "enqueue", "invoice", "--lane", "billing", "--max-attempts", "3", **broken)

    assert (refused.returncode, refused.stdout) == (64, "")
    assert "billing cannot be imported: ModuleNotFoundError: No module named 'no_such_module'" in refused.stderr
    assert (accepted.returncode, accepted.stdout) == (0, "1\n")


def test_a_dry_run_of_enqueue_enqueues_nothing(embedded: Installation) -> None:
    """Everything is validated, nothing is written."""
    assert mayfly(embedded, "enqueue", "noop").returncode == 0

    ran = [
        mayfly(embedded, "enqueue", "noop", "--dry-run"),
        mayfly(embedded, "enqueue", "noop", "-", "--dry-run", given="{}"),
    ]

    assert [each.returncode for each in ran] == [0, 0]
    assert embedded.statuses() == {"pending": 1}


def test_migrate_reports_its_steps_and_can_be_repeated(database_url: str, embedded: Installation) -> None:
    """The first run creates the tables, the second finds them."""
    first, second = (mayfly(embedded, "migrate", DATABASE_URL=database_url) for _ in range(2))

    assert (first.returncode, first.stdout) == (0, f"Created the schema, version {VERSION}.\n")
    assert (second.returncode, second.stdout) == (0, f"The schema is up to date (version {VERSION}).\n")


def test_migrate_app_without_handlers_is_an_error_message(embedded: Installation) -> None:
    """Without a traceback."""
    ran = mayfly(embedded, "migrate", "--app", HANDLERS="no_such_module")

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("There is no module no_such_module. Put it into MAYFLY_HOME")
    assert len(ran.stderr.splitlines()) == 1


def test_migrate_prints_sql_without_touching_the_database(database_url: str, embedded: Installation) -> None:
    """--sql is for databases on which programs may not change tables."""
    ran = mayfly(embedded, "migrate", "--sql", DATABASE_URL=database_url)

    assert ran.returncode == 0
    assert "CREATE TABLE" in ran.stdout
    assert "mayfly_jobs" in ran.stdout
    assert "Created" in mayfly(embedded, "migrate", DATABASE_URL=database_url).stdout


def test_config_shows_sources_and_masks_secrets(embedded: Installation) -> None:
    """Each setting has value and source; the password is not printed."""
    (embedded.home / "mayfly.toml").write_text("batch_size = 7\n")

    ran = mayfly(embedded, "config", "--json", DATABASE_URL="mysql://app:hunter2@db/app", MAX_WORKERS="9")

    found = {each["name"]: (each["value"], each["source"]) for each in json.loads(ran.stdout)}
    assert found["BATCH_SIZE"] == ("7", str(embedded.home / "mayfly.toml"))
    assert found["MAX_WORKERS"] == ("9", "environment")
    assert found["MIN_WORKERS"] == ("1", "default")
    assert "hunter2" not in ran.stdout + ran.stderr
    assert "***" in found["DATABASE_URL"][0]


def test_config_shows_each_host_of_the_database(embedded: Installation) -> None:
    """Without the password."""
    ran = mayfly(embedded, "config", "--json", DATABASE_URL="mysql://app:hunter2@db1,db2:3307/app")

    found = {each["name"]: each["value"] for each in json.loads(ran.stdout)}
    assert found["DATABASE_URL"] == "mysql+pymysql://app:***@db1,db2:3307/app"


@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_a_dead_first_host_is_skipped_and_shown_by_doctor(installation: Installation) -> None:
    """Cycle and runner use the second one; the dead host is a warning, not a problem of the installation."""
    before, at, rest = installation.url.rpartition("@")
    installation.settings = {"DATABASE_URL": f"{before}{at}127.0.0.1:1,{rest}"}
    [job] = installation.enqueue("noop")

    cycle = installation.dispatch()
    ran = mayfly(installation, "doctor", "--json")

    hosts = [(each["health"], each["text"]) for each in json.loads(ran.stdout) if each["check"] == "hosts"]
    assert (cycle.returncode, cycle.stderr, installation.job(job).status) == (0, "", "done")
    assert hosts[0][0] == "warning"
    assert hosts[0][1].startswith("127.0.0.1:1 cannot be used: ")
    assert hosts[1:] == [("ok", f"{rest.partition('/')[0]} accepts writes")]
    assert ran.returncode == 0
    assert [secret for secret in installation.secrets if secret in ran.stdout] == []


def test_doctor_reports_a_working_installation_as_ok(installation: Installation) -> None:
    """After a cycle everything except cron is ok, and the exit code is 0."""
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
def test_doctor_names_each_problem_and_exits_with_1(
    embedded: Installation, settings: dict[str, str], check: str, sentence: str
) -> None:
    """Each problem has a line that explains what to do."""
    embedded.dispatch()

    ran = mayfly(embedded, "doctor", **settings)

    assert ran.returncode == 1
    line = next(each for each in ran.stdout.splitlines() if each.startswith("problem"))
    assert check in line
    assert sentence in line
    assert "hunter2" not in ran.stdout


@pytest.fixture
def shared_home() -> Iterator[Path]:
    """A directory that every user may enter, unlike pytest's."""
    with TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def test_doctor_reports_files_that_other_users_can_read(shared_home: Path) -> None:
    """`.env`, SQLite database and log, each with a command that fixes it; not if a directory above is private."""
    files = [shared_home / each for each in (".env", "mayfly.db", "logs/dispatcher.log")]
    installation = Installation(shared_home, f"sqlite:///{shared_home}/mayfly.db")
    files[0].touch(0o600)
    installation.dispatch()

    def reported() -> list[tuple[str, str]]:
        found = json.loads(mayfly(installation, "doctor", "--json").stdout)
        return [(each["health"], each["text"]) for each in found if each["check"] == "privacy"]

    new = reported()
    for each in (*files, shared_home / "logs"):
        each.chmod(0o755)
    open_to_all = reported()
    (shared_home / "logs").chmod(0o700)
    without_logs = reported()
    installation.end()

    texts = [f"every user of this host can read {each}: run `chmod o-rwx {each}`." for each in files]
    assert new == [("ok", "other users cannot read .env, database and log")]
    assert open_to_all == [("warning", text) for text in texts]
    assert without_logs == open_to_all[:2]


def test_doctor_reports_missing_cycles(embedded: Installation) -> None:
    """If cron does not start cycles, nothing else matters."""
    embedded.dispatch()
    embedded.execute(r"UPDATE mayfly_cycles SET started_at = '2020-01-01 00\:00\:00'")

    ran = mayfly(embedded, "doctor")

    assert ran.returncode == 1
    assert "is cron running there?" in ran.stdout


def test_doctor_reports_missing_tables(database_url: str, embedded: Installation) -> None:
    """With the command that creates them."""
    ran = mayfly(embedded, "doctor", DATABASE_URL=database_url)

    if database_url.startswith("sqlite"):
        assert "does not exist yet" in ran.stdout
    else:
        assert ran.returncode == 1
        assert "Run `mayfly migrate` once." in ran.stdout


def test_dev_runs_a_cycle_immediately_and_stops_on_ctrl_c(embedded: Installation) -> None:
    """The log is on stdout; the exit code is 0, and no process is left."""
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


def test_dev_can_wait_before_the_first_cycle(embedded: Installation) -> None:
    """--later: a server that reloads its code often does not start a cycle each time."""
    embedded.enqueue("noop")
    started = datetime.now(UTC)
    dev = embedded.start("mayfly", "dev", "--later", "--every", "2s")
    wait_until(lambda: embedded.statuses() == {"done": 1}, "a cycle")

    dev.send_signal(signal.SIGTERM)
    dev.communicate(timeout=60)

    assert dev.returncode == 0
    assert min(each.started_at for each in embedded.rows(select(cycles))) >= started + timedelta(seconds=2)


@pytest.mark.parametrize("every", ["0.5s", "soon", "-1s"])
def test_dev_refuses_a_time_that_is_too_short_or_none(embedded: Installation, every: str) -> None:
    refused = mayfly(embedded, "dev", "--every", every)

    assert refused.returncode == 64
    assert "--every" in refused.stderr


def test_a_crontab_becomes_schedules_that_run(embedded: Installation) -> None:
    """From a file with a user field to done jobs; a line without an equivalent is on stderr, with exit code 1."""
    crontab = embedded.home / "crontab"
    owner, file = embedded.home.owner(), embedded.home / "printed"
    crontab.write_text(
        f'# reports\nWORD=100%\n* * * * * {owner} echo "$WORD" | tr 1 2 > {file}\n@reboot {owner} /bin/true\n'
    )

    imported = mayfly(embedded, "schedules", "import", str(crontab), "--system")
    write_schedule(embedded, *imported.stdout.splitlines())
    ran = mayfly(embedded, "schedules", "run-now", "echo")
    embedded.dispatch()

    assert imported.returncode == 1
    assert imported.stderr == "Line 4 is not translated: @reboot has no equivalent: schedules follow the clock.\n"
    assert (ran.returncode, embedded.job(int(ran.stdout)).status) == (0, "done")
    assert file.read_text() == "200%\n"


def test_dev_reports_a_wrong_setting_once(embedded: Installation) -> None:
    """Not every minute."""
    ran = mayfly(embedded, "dev", BATCH_SIZE="0")

    assert ran.returncode == 64
    assert "BATCH_SIZE=0" in ran.stderr


def test_wrong_usage_exits_with_64(embedded: Installation) -> None:
    """The exit code 2 of click would look like a timeout."""
    ran = [mayfly(embedded, "nonsense"), mayfly(embedded, "enqueue"), mayfly(embedded, "config", "--nonsense")]

    assert [each.returncode for each in ran] == [64, 64, 64]
