"""Jobs of dead runners are released: by process on this machine, by lease for other hosts, never by age."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from dispatcher.rescue import judge_lost
from mayfly.db.database import Database
from mayfly.fleet.runners import EndedRunner, close_runners, lost_among
from mayfly.job import Job, RareFields
from mayfly.process.identity import Host, Process, start_time, this_host, this_process
from mayfly.process.status_page import RunnerStatus, RunningJob
from mayfly.queue.outcome import DONE, Failure, Outcome, Settlement, Settler
from mayfly.queue.policy import Backoff, RetryContext, after_failure
from mayfly.queue.rescue import close_lost, dead_runners, expired_jobs, held_jobs, jobs_held_by, rescue_runner
from mayfly.queue.settle import Settled, settle
from mayfly.schema import metadata as tables
from tests.database.factories import CYCLE, change_job, claim_jobs, in_threads, insert_runner, make_settler, rows_of
from tests.factories import get_row, insert_row, insert_rows
from tests.statement_recorder import recorded_statements

HERE = this_host("here")
ELSEWHERE = Host("there", "another boot/another namespace")


def test_a_runner_of_this_machine_is_dead_when_its_process_is(database: Database) -> None:
    """At once, even if its lease has not expired."""
    insert_runner(database, process=dead_process(), lease_seconds=3600)

    assert found_dead(database) == ["worker-1"]


def test_a_runner_of_this_machine_is_alive_as_long_as_its_process(database: Database) -> None:
    """Even after its lease."""
    insert_runner(database, process=this_process(), lease_seconds=-3600)

    assert found_dead(database) == []


def test_a_reused_pid_does_not_keep_a_runner_alive(database: Database) -> None:
    """A process is its pid and its start time."""
    reused = this_process()._replace(started=this_process().started - 1)
    insert_runner(database, process=reused)

    assert found_dead(database) == ["worker-1"]


def test_a_runner_of_another_host_is_alive_until_its_lease_ends(database: Database) -> None:
    """Its pid has no meaning here."""
    insert_runner(database, "worker-1", place=ELSEWHERE, process=dead_process(), lease_seconds=60)
    insert_runner(database, "worker-2", place=ELSEWHERE, process=this_process(), lease_seconds=-1)

    assert found_dead(database) == ["worker-2"]


def test_a_runner_from_before_a_reboot_is_checked_by_its_lease(database: Database) -> None:
    """After a reboot its pid may belong to another process."""
    before = Host(HERE.name, "the boot before/1")
    insert_runner(database, place=before, process=this_process(), lease_seconds=60)

    assert found_dead(database) == []


def test_a_closed_runner_is_not_checked_again(database: Database) -> None:
    """Its end was recorded once."""
    insert_runner(database, process=dead_process())
    close_lost(database, "worker-1", RunnerStatus(done=3, failed=1))

    assert found_dead(database) == []
    [row] = rows_of(database, tables.runners)
    assert (row.ending, row.jobs_done, row.jobs_failed, row.exit_code) == ("lost", 3, 1, None)


def test_several_runners_are_closed_by_one_statement(database: Database) -> None:
    """Each with its own figures; of what is not known, a row keeps the last ones."""
    for number in (1, 2, 3):
        insert_runner(database, f"worker-{number}")
    close_lost(database, "worker-3", RunnerStatus(done=7))
    ended = {
        "worker-1": EndedRunner("ok", exit_code=0, jobs_done=5, average_ms=0.5, peak_memory=1 << 33),
        "worker-2": EndedRunner("crash", signal=9),
        "worker-3": EndedRunner("ok", exit_code=0, jobs_done=9),
    }

    with recorded_statements() as sent:
        closed = database.once(lambda connection: close_runners(connection, ended, database.clock.now()))

    assert (closed, [each.split()[0] for each in sent if each != "BEGIN IMMEDIATE"]) == (2, ["UPDATE"])
    rows = sorted(rows_of(database, tables.runners), key=lambda each: str(each.worker_id))
    assert [(each.ending, each.exit_code, each.signal, each.jobs_done, each.peak_memory) for each in rows] == [
        ("ok", 0, None, 5, 1 << 33),
        ("crash", None, 9, 0, None),
        ("lost", None, None, 7, None),
    ]
    assert database.read(lambda connection: lost_among(connection, ended)) == ["worker-3"]


def test_jobs_of_several_runners_are_found_by_one_query(database: Database) -> None:
    """By their owner, in whatever lane; those of others are not found."""
    for lane in ("a", "a", "b", "c"):
        insert_row(database, lane=lane)
    owners = (("worker-1", "a"), ("worker-2", "a"), ("worker-3", "b"), ("worker-4", "c"))
    held = {worker_id: claim_jobs(database, 1, worker_id, lane=lane)[0].id for worker_id, lane in owners}
    asked = {"worker-1": "a", "worker-3": "b", "worker-5": "c"}

    with recorded_statements() as sent:
        found = database.read(lambda connection: jobs_held_by(connection, asked))

    assert {worker_id: [job.id for job in jobs] for worker_id, jobs in found.items()} == {
        "worker-1": [held["worker-1"]],
        "worker-3": [held["worker-3"]],
    }
    assert len(sent) == 1


def test_only_jobs_of_the_runner_are_rescued(database: Database) -> None:
    """Those of its lane that are not settled."""
    insert_rows(database, 3)
    first, second = claim_jobs(database, 2)
    claim_jobs(database, 1, "worker-2")
    settle(database, make_settler(), [Settlement(first, DONE, 1)], {})

    held = database.run(lambda connection: held_jobs(connection, "default", "worker-1"))

    assert [job.id for job in held] == [second.id]


def test_a_held_job_has_the_values_of_its_claim(database: Database) -> None:
    """The same token and attempt, so that it can be settled for its runner."""
    insert_rows(
        database, 1, type="sleep", payload='{"seconds": 1}', attempts=1, crashes=1, interruptions=2, suspect=1
    )
    [claimed] = claim_jobs(database)

    [held] = database.run(lambda connection: held_jobs(connection, "default", "worker-1"))

    assert replace(held, group_key=claimed.group_key) == claimed


def test_without_a_status_page_all_of_several_jobs_are_suspects(database: Database) -> None:
    """Each is run again alone, and no attempt is used."""
    jobs = insert_rows(database, 3)
    claim_jobs(database)

    rescued = rescue(database, seen=None)

    rows = [get_row(database, job) for job in jobs]
    assert len(rescued.settlements) == 3
    assert [(row.status, row.suspect, row.attempts, row.crashes) for row in rows] == [("pending", 1, 0, 0)] * 3
    assert rows_of(database, tables.attempts) == []


def test_without_a_status_page_a_single_job_has_crashed(database: Database) -> None:
    """No other job can have been running."""
    [job] = insert_rows(database, 1)
    claim_jobs(database)
    now = database.clock.now()

    rescue(database, seen=None, crash="the runner disappeared")

    row = get_row(database, job)
    assert (row.status, row.suspect, row.attempts, row.crashes) == ("pending", 1, 0, 1)
    assert (row.last_error or "").startswith("crashed: the runner disappeared")
    assert row.run_at > now + timedelta(seconds=1)
    assert [each.outcome for each in rows_of(database, tables.attempts)] == ["crashed"]


def test_with_a_status_page_only_the_running_job_has_crashed(database: Database) -> None:
    """The other jobs of the claim are released unchanged."""
    jobs = insert_rows(database, 3)
    claim_jobs(database)

    running = RunnerStatus(running=(RunningJob(jobs[1], 0.0, None),))
    rescue(database, seen=running, crash="the runner disappeared")

    rows = [get_row(database, job) for job in jobs]
    assert [(row.crashes, row.suspect, row.attempts, row.status) for row in rows] == [
        (0, 0, 0, "pending"),
        (1, 1, 0, "pending"),
        (0, 0, 0, "pending"),
    ]


def test_the_third_crash_is_dead(database: Database) -> None:
    """With the reason."""
    [job] = insert_rows(database, 1, crashes=2, suspect=1)
    claim_jobs(database)

    rescue(database, seen=None, crash="the runner disappeared")

    row = get_row(database, job)
    assert (row.status, row.crashes) == ("dead", 3)
    assert (row.last_error or "").startswith("crashed 3 times, last: the runner disappeared")


def test_the_death_of_a_dispatcher_is_no_crash(database: Database) -> None:
    """The running job is released, counted and run alone; the eleventh time it is dead."""
    [first, last] = insert_rows(database, 1) + insert_rows(database, 1, releases=10)
    claim_jobs(database)
    running = RunnerStatus(running=(RunningJob(first, 0.0, None), RunningJob(last, 0.0, None)))

    rescue(database, seen=running)

    rows = [get_row(database, job) for job in (first, last)]
    assert [(row.status, row.attempts, row.crashes, row.releases, row.suspect) for row in rows] == [
        ("pending", 0, 0, 1, 1),
        ("dead", 1, 0, 10, 0),
    ]
    assert rows[1].last_error.startswith("released 10 times in a row, last: the runner disappeared")


def test_a_failure_resets_the_count_of_releases(database: Database) -> None:
    """Only consecutive releases count."""
    [job] = insert_rows(database, 1, releases=9)
    [claimed] = claim_jobs(database)
    outcome = after_failure(claimed, Failure.from_reason("no"), retry_context(database))

    settle(database, make_settler(), [Settlement(claimed, outcome, 5)], {})

    assert claimed.rare_fields == RareFields(releases=9)
    assert get_row(database, job).releases == 0


def test_a_job_that_its_runner_settles_meanwhile_is_left_alone(database: Database, rival: Database) -> None:
    """The runner was alive after all: the row decides, and the rescue reports what it changed."""
    insert_rows(database, 2)
    first, second = claim_jobs(database)

    def decide_while_it_works(job: Job, held: int) -> tuple[Outcome, int | None]:
        if job.id == first.id:
            settle(rival, make_settler(), [Settlement(first, DONE, 1)], {})
        return judge_lost(job, held, None, retry_context(database))

    rescued = rescue_runner(database, make_settler(), "default", decide_while_it_works, {})

    assert [each.job.id for each in rescued.settlements] == [second.id]
    assert get_row(database, first.id).status == "done"


def test_two_hosts_rescue_a_runner_once(migrated_url: str, database: Database) -> None:
    """Both detect it at the same time: each job is settled by one of them."""
    insert_rows(database, 20)
    claim_jobs(database, 20)

    def rescue_elsewhere(host: str) -> Sequence[Settlement]:
        own = Database(migrated_url)
        settlements = rescue(own, seen=None, totals_key=host).settlements
        own.close()
        return settlements

    hosts = in_threads([lambda: rescue_elsewhere("host-1"), lambda: rescue_elsewhere("host-2")])

    assert sorted(each.job.id for part in hosts for each in part) == [
        row.id for row in rows_of(database, tables.jobs)
    ]
    assert sum(row.jobs for row in rows_of(database, tables.totals)) == 20


def test_an_expired_lease_is_found_without_a_runners_row(database: Database) -> None:
    """The last resort: by lane and owner, only expired leases."""
    insert_rows(database, 2)
    insert_rows(database, 1, lane="mail")
    gone, alive = claim_jobs(database, 1)[0], claim_jobs(database, 1, "worker-2")[0]
    mail = claim_jobs(database, 1, lane="mail")[0]
    now = database.clock.now()
    for job in (gone, mail):
        change_job(database, job.id, lease_until=now - timedelta(seconds=1))

    expired = database.read(lambda connection: expired_jobs(connection, ["default", "mail"], now))

    found = {owner: [job.id for job in jobs] for owner, jobs in expired.items()}
    assert found == {("default", "worker-1"): [gone.id], ("mail", "worker-1"): [mail.id]}
    assert alive.id not in found[("default", "worker-1")]


def dead_process() -> Process:
    """One that has exited."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = Process(child.pid, start_time(child.pid) or 0)
    child.kill()
    child.communicate()
    return process


def found_dead(database: Database) -> list[str]:
    return [runner.worker_id for runner in dead_runners(database, HERE)]


def rescue(
    database: Database, seen: RunnerStatus | None, totals_key: str = "dispatcher-1", crash: str | None = None
) -> Settled:
    settler = Settler("worker-1", CYCLE, totals_key)
    return rescue_runner(
        database,
        settler,
        "default",
        lambda job, held: judge_lost(job, held, seen, retry_context(database), crash),
        {},
    )


def retry_context(database: Database) -> RetryContext:
    return RetryContext(database.clock.now(), Backoff())
