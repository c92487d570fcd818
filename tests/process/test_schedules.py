"""Schedules in real cycles: fired and run in the same minute, by one of several hosts, and reported everywhere."""

import json
from pathlib import Path

import pytest

from mayfly.schema import create_embedded
from tests.process.installation import Installation
from tests.process.schedules import fired, make_due, wait_for_early_in_the_minute, write_schedule


def with_schedules(installation: Installation, *lines: str) -> Installation:
    """Schedules that a first cycle has read, in the minute in which they were written."""
    write_and_dispatch(installation, *lines)
    while fired(installation):  # the next minute began before that cycle
        for table in ("mayfly_jobs", "mayfly_schedules"):
            installation.execute(f"DELETE FROM {table}")
        (installation.home / "logs" / "dispatcher.log").unlink()
        write_and_dispatch(installation, *lines)
    return installation


def write_and_dispatch(installation: Installation, *lines: str) -> None:
    write_schedule(installation, *lines)
    cycle = installation.dispatch()
    assert (cycle.returncode, cycle.stderr) == (0, "")


# --- a cycle ----------------------------------------------------------------------------------------------


def test_due_schedules_are_run_in_the_same_cycle(installation: Installation) -> None:
    """They fire before the plan is made; log and summary report it."""
    with_schedules(installation, "* * * * * noop", '* * * * * sleep {"seconds": 0} lane=naps', "0 0 1 1 * fail")
    wait_for_early_in_the_minute()
    make_due(installation)

    cycle = installation.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    rows = installation.rows("SELECT type, lane, status FROM mayfly_jobs ORDER BY type")
    assert [tuple(row) for row in rows] == [("noop", "default", "done"), ("sleep", "naps", "done")]
    assert "[DISPATCHER] Schedules fired: 2 (noop, sleep)" in installation.log
    assert "[DISPATCHER] Schedules fired: 2, skipped: 2" in installation.log
    assert "Schedule noop: skipped due times " in installation.log


@pytest.mark.every_database
def test_two_hosts_fire_sixty_two_schedules_once(installation: Installation, tmp_path: Path) -> None:
    """At the same moment, on one database: every due time is one job, and neither host logs an error."""
    lines = [f"* * * * * noop name=entry-{number}" for number in range(62)]
    other = Installation(tmp_path / "other", installation.url, {"HOST_NAME": "other"})
    other.home.mkdir()
    write_schedule(other, *lines)
    with_schedules(installation, *lines)
    wait_for_early_in_the_minute()
    make_due(installation)

    cycles = [host.start("dispatcher") for host in (installation, other)]
    ended = [(cycle.wait(90), cycle.communicate()) for cycle in cycles]
    other.end()

    assert ended == [(0, ("", ""))] * 2
    keys = [row.group_key for row in installation.rows("SELECT group_key FROM mayfly_jobs")]
    assert sorted(keys) == sorted(f"schedule:entry-{number}" for number in range(62))
    assert installation.statuses() == {"done": 62}
    assert (installation.log + other.log).count("] Schedules fired: 62 (") == 1


def test_a_dry_run_shows_due_schedules(embedded: Installation) -> None:
    """Their jobs are in the plan, and nothing is changed."""
    with_schedules(embedded, "* * * * * noop lane=mail", "* * * * * sleep")
    make_due(embedded)

    shown = embedded.dispatch("--dry-run").stdout
    facts = json.loads(embedded.dispatch("--dry-run", "--json").stdout)

    assert "Schedules due, their jobs counted above: noop, sleep.\nPending jobs: 2. Runners planned: 2." in shown
    assert facts["schedules"] == ["noop", "sleep"]
    assert [(each["lane"], each["pending"]) for each in facts["lanes"]] == [("default", 1), ("mail", 1)]
    assert fired(embedded) == []


def test_a_wrong_line_is_reported_and_the_others_run(embedded: Installation) -> None:
    """Log, mail, list and doctor have file, line, column and reason."""
    with_schedules(embedded, "* * * * * noop")
    write_schedule(embedded, "* * * * * noop", "# fine", "* 25 * * * sleep")
    make_due(embedded)
    sentence = "cron.d/schedule, line 3, column 3: '25' is not a valid hour"

    planned = embedded.dispatch("--dry-run")
    cycle = embedded.dispatch()
    listed = embedded.run("mayfly", "schedules")
    examined = embedded.run("mayfly", "doctor")

    assert (planned.returncode, planned.stderr) == (0, f"{sentence}\n")
    assert cycle.returncode == 1
    assert sentence in cycle.stderr
    assert f"Schedule refused: {sentence}" in embedded.log
    assert (fired(embedded), embedded.statuses()) == (["noop"], {"done": 1})
    assert (listed.returncode, listed.stderr) == (1, f"{sentence}\n")
    assert examined.returncode == 1
    assert any(line.split(maxsplit=2)[1:] == ["schedules", sentence] for line in examined.stdout.splitlines())


@pytest.mark.parametrize("arrange", ["missing", "not text", "a directory in it"])
def test_an_unreadable_file_is_reported(embedded: Installation, arrange: str) -> None:
    """With its name; jobs are run."""
    embedded.enqueue("noop")
    if arrange == "not text":
        (embedded.home / "mine").write_bytes(b"* * * * * noop\n\xff\n")
    if arrange == "a directory in it":
        (embedded.home / "mine").mkdir()
        (embedded.home / "mine" / "inner").mkdir()

    cycle = embedded.dispatch(SCHEDULE_FILES="mine")

    sentences = {
        "missing": "mine: cannot be read: No such file or directory. See SCHEDULE_FILES",
        "not text": "mine, line 2, column 1: is not UTF-8 text",
        "a directory in it": "mine/inner: cannot be read: Is a directory. See SCHEDULE_FILES",
    }
    assert (cycle.returncode, embedded.statuses()) == (1, {"done": 1})
    assert sentences[arrange] in cycle.stderr
    assert "Traceback" not in cycle.stderr + embedded.log


def test_several_files_and_a_directory_are_read(embedded: Installation) -> None:
    """A name used in another file is refused; backup files of editors are not read."""
    write_schedule(embedded, "* * * * * noop", name="schedule.d/one")
    write_schedule(embedded, "* * * * * sleep", "* * * * * noop", name="schedule.d/two")
    write_schedule(embedded, "nonsense", name="schedule.d/two~")

    listed = embedded.run("mayfly", "schedules")

    assert [line.split()[0] for line in listed.stdout.splitlines() if line[:1].isalpha()] == ["noop", "sleep"]
    taken = "the name 'noop' is taken by cron.d/schedule.d/one, line 1: give this one another with name="
    assert listed.stderr == f"cron.d/schedule.d/two, line 2, column 1: {taken}\n"


# --- the command line -------------------------------------------------------------------------------------


def test_the_list_shows_last_and_next_runs_in_both_zones(embedded: Installation) -> None:
    """As text and as JSON."""
    with_schedules(embedded, "30 14 * * * noop tz=Europe/Berlin", "* * * * * sleep")
    make_due(embedded)
    embedded.dispatch()

    text = embedded.run("mayfly", "schedules").stdout
    facts = json.loads(embedded.run("mayfly", "schedules", "--json").stdout)

    noop, sleep = facts["schedules"]
    assert facts["problems"] == []
    assert (noop["name"], noop["rule"], noop["tz"], noop["last"]) == ("noop", "30 14 * * *", "Europe/Berlin", None)
    assert len(noop["next"]) == 5
    assert all(at["local"][11:16] == "14:30" and at["utc"][11:16] in ("12:30", "13:30") for at in noop["next"])
    assert sleep["last"]["utc"].endswith(":00+00:00")
    assert "\n  last  never\n  next  " in text
    assert " 14:30 CE" in text


def test_a_schedule_is_paused_and_resumed_by_hand(installation: Installation) -> None:
    """On all hosts; due times during the pause are skipped, with the reason."""
    with_schedules(installation, "* * * * * noop")
    paused = installation.run("mayfly", "schedules", "pause", "noop", "--reason", "the printer burns")
    make_due(installation)
    installation.dispatch()
    listed = installation.run("mayfly", "schedules").stdout
    assert fired(installation) == []
    resumed = [installation.run("mayfly", "schedules", "resume", "noop") for _ in range(2)]
    make_due(installation)
    installation.dispatch()

    assert (paused.returncode, paused.stdout) == (0, "Paused noop.\n")
    assert " UTC (paused: the printer burns)" in installation.log
    assert ": the printer burns\n" in listed
    assert [(each.returncode, each.stdout) for each in resumed] == [
        (0, "Resumed noop.\n"),
        (0, "noop was not paused.\n"),
    ]
    assert fired(installation) == ["noop"]


def test_a_schedule_is_run_now(installation: Installation) -> None:
    """Its job has its payload and lane, independent of its rule; with overlap=skip not while one is unfinished."""
    with_schedules(installation, '0 0 1 1 * sleep {"seconds": 0} lane=naps', "0 0 1 1 * noop overlap=skip")

    first, second = (installation.run("mayfly", "schedules", "run-now", "sleep") for _ in range(2))
    noop, again = (installation.run("mayfly", "schedules", "run-now", "noop") for _ in range(2))

    row = installation.job(int(first.stdout))
    assert (row.type, row.payload, row.lane, row.status) == ("sleep", '{"seconds":0}', "naps", "pending")
    assert int(second.stdout) != int(first.stdout)
    assert (noop.returncode, again.returncode, again.stdout) == (0, 1, "")
    assert again.stderr == "Schedule 'noop' has overlap=skip and an unfinished job: nothing was enqueued.\n"
    assert fired(installation) == ["noop", "sleep", "sleep"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("pause", "nop"), "There is no schedule 'nop' in the files of SCHEDULE_FILES. Did you mean 'noop'?"),
        (("resume", "nop"), "Did you mean 'noop'?"),
        (("run-now", "nop"), "Did you mean 'noop'?"),
        (("pause", "noop", "--until", "tomorrow"), "'tomorrow' must be a time with a zone"),
        (("pause", "noop", "--until", "2031-05-04T12:00"), "must be a time with a zone"),
        (("pause", "noop", "--until", "2001-05-04T12:00Z"), "must be a time in the future"),
        (("pause",), "Missing argument 'NAME'"),
    ],
)
def test_wrong_usage_is_an_error_message(embedded: Installation, arguments: tuple[str, ...], sentence: str) -> None:
    """With exit code 64."""
    write_schedule(embedded, "* * * * * noop")

    ran = embedded.run("mayfly", "schedules", *arguments)

    assert (ran.returncode, ran.stdout) == (64, "")
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


# --- from Python ------------------------------------------------------------------------------------------

DECLARING = """
from mayfly import Job, handler, schedule

schedule("rollup", "* * * * *", {"depth": 2}, lane="figures", tz="Europe/Berlin")

@handler("rollup", lane="figures")
def rollup(job: Job) -> int:
    return job.payload["depth"]
"""


def test_a_schedule_from_python_is_synced_and_fired(embedded: Installation) -> None:
    """Until it is synced doctor reports it; without schedule() its file is removed."""
    create_embedded(embedded.url)
    module = embedded.home / "figures.py"
    module.write_text(DECLARING)
    settings = {"HANDLERS": "tests.basic_handlers,figures"}
    synced = embedded.home / "cron.d" / "schedule.d" / "from-python"

    before = embedded.run("mayfly", "doctor", **settings).stdout
    shown = embedded.run("mayfly", "schedules", "sync", "--dry-run", **settings)
    assert not synced.exists()
    written = embedded.run("mayfly", "schedules", "sync", **settings)
    after = embedded.run("mayfly", "doctor", **settings).stdout
    embedded.dispatch(**settings)
    embedded.execute("DELETE FROM mayfly_jobs")  # in case the minute has changed since it was written
    make_due(embedded)
    embedded.dispatch(**settings)

    assert ("run `mayfly schedules sync`" in before, "run `mayfly schedules sync`" in after) == (True, False)
    assert shown.stdout.splitlines()[1:] == ['* * * * * rollup {"depth":2} lane=figures tz=Europe/Berlin']
    assert written.stdout == f"Wrote 1 schedule to {synced}.\n"
    [row] = embedded.rows("SELECT lane, status, result FROM mayfly_jobs")
    assert tuple(row) == ("figures", "done", "2")
    embedded.run("mayfly", "schedules", "sync", HANDLERS="tests.basic_handlers")
    assert not synced.exists()


def test_a_wrong_declaration_is_an_error_message(embedded: Installation) -> None:
    """It names the module; nothing is written."""
    (embedded.home / "figures.py").write_text('import mayfly\nmayfly.schedule("rollup", "* 25 * * *")\n')

    ran = embedded.run("mayfly", "schedules", "sync", HANDLERS="figures")

    assert ran.returncode == 64
    assert "BadDeclaration: schedule('rollup', …): '25' is not a valid hour" in ran.stderr
    assert not (embedded.home / "cron.d").exists()
