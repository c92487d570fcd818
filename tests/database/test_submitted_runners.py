"""The rows of runners that launchers start."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dispatcher.idle import reasons
from mayfly.db.database import Database
from mayfly.fleet.cycles import open_cycle
from mayfly.fleet.runners import (
    Death,
    EndedRunner,
    close_runner,
    live_by_lane,
    live_by_lane_and_on_host,
    live_runners,
)
from mayfly.fleet.submitted import (
    EngineStep,
    Submission,
    TakenOver,
    add_submitted,
    begin_submit,
    close_overdue,
    close_surplus,
    close_unstarted,
    end_step,
    engine_rows,
    has_ended_work,
    must_stop,
    note_cause,
    note_death,
    note_found,
    queued_by_lane,
    refusals,
    request_stop,
    take_over_submitted,
)
from mayfly.monitoring.alerts import AlertKind, detect
from mayfly.process.identity import Host, Process, this_host
from mayfly.queue.rescue import dead_runners
from mayfly.schema.metadata import runners
from tests.database.factories import CYCLE, rows_of
from tests.unit.settings.factories import settings_in

NODE, PROCESS, OTHER_PROCESS = Host("node", "boot"), Process(17, 1700), Process(18, 1800)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def submit(database: Database, *worker_ids: str, lane: str = "import", start_in: float = 300) -> None:
    """Planned, and not submitted yet."""
    now = database.clock.now()
    start_by = now + timedelta(seconds=start_in)
    planned = [Submission(each, lane, CYCLE, "slurm", start_by, f"/logs/{each}.log") for each in worker_ids]
    database.run(lambda connection: add_submitted(connection, planned, now))


def take_over(database: Database, process: Process = PROCESS, after: timedelta = SECOND) -> TakenOver | str:
    now = database.clock.now() + after
    return database.run(lambda c: take_over_submitted(c, "worker-1", NODE, process, now, now + MINUTE))


def row(database: Database) -> dict[str, Any]:
    [found] = rows_of(database, runners)
    return found._asdict()


def close(database: Database, ending: str, cause: str = "a reason", worker_id: str = "worker-1") -> bool:
    now = database.clock.now()
    return database.run(lambda c: close_unstarted(c, worker_id, ending, cause, now, EngineStep.CANCEL))


def test_a_planned_runner_counts_in_its_lane_and_on_no_host(database: Database) -> None:
    """It is alive for every host until long after its time to start, also for one without the launcher."""
    submit(database, "worker-1", "worker-2")

    assert database.read(live_by_lane) == database.read(queued_by_lane) == {"import": 2}
    here = this_host("here")
    assert database.read(lambda c: live_by_lane_and_on_host(c, here)) == ({"import": 2}, 0)
    assert dead_runners(database, here) == []


def test_a_process_takes_over_its_row_once(database: Database) -> None:
    """Then it has the lease, and its host and process are known. A repetition by the same process succeeds."""
    submit(database, "worker-1")

    assert take_over(database) == TakenOver("import", CYCLE)
    assert take_over(database) == TakenOver("import", CYCLE)
    assert take_over(database, OTHER_PROCESS) == "process 17 on node has taken over its row"
    assert (row(database)["host"], row(database)["pid"]) == ("node", 17)
    assert database.read(queued_by_lane) == {}


def test_a_late_process_does_not_take_over(database: Database) -> None:
    """After the deadline, after the row was closed, and without a row."""
    assert take_over(database) == "this database has no such runner"
    submit(database, "worker-1")
    assert take_over(database, after=timedelta(hours=1)) == "it has started too late"
    assert close(database, "not started")
    assert take_over(database) == "its row is closed (not started)"


def test_a_runner_that_has_started_is_not_closed_as_unstarted(database: Database) -> None:
    """The process was faster than the dispatcher."""
    submit(database, "worker-1", start_in=2)
    take_over(database)

    later = database.clock.now() + MINUTE

    assert not close(database, "not started")
    assert database.run(lambda c: close_overdue(c, later)) == []
    assert database.run(lambda c: close_surplus(c, "import", 5, later)) == []


def test_an_overdue_runner_is_closed(database: Database) -> None:
    """And cancelled in the engine, if it was submitted."""
    submit(database, "worker-1", "worker-2", start_in=2)
    database.run(lambda c: begin_submit(c, "worker-1"))
    later = database.clock.now() + MINUTE

    closed = database.run(lambda c: close_overdue(c, later))

    assert sorted(closed) == [("worker-1", "import", "slurm"), ("worker-2", "import", "slurm")]
    assert [each.engine_step for each in rows_of(database, runners)] == ["cancel", None]
    assert database.read(lambda c: has_ended_work(c, later))
    assert not database.read(lambda c: has_ended_work(c, later + timedelta(hours=2)))


def test_a_submit_is_begun_once(database: Database) -> None:
    """By one host only, also if the submit fails."""
    submit(database, "worker-1")

    assert database.run(lambda c: begin_submit(c, "worker-1"))
    assert not database.run(lambda c: begin_submit(c, "worker-1"))


def test_an_answer_does_not_undo_what_has_happened_meanwhile(database: Database) -> None:
    """The runner may have failed before the answer to its submit is stored."""
    submit(database, "worker-1")
    database.run(lambda c: begin_submit(c, "worker-1"))
    database.run(lambda c: note_cause(c, "worker-1", "the network was slow"))
    take_over(database)
    now = database.clock.now()
    database.run(lambda c: close_runner(c, "worker-1", EndedRunner("error", exit_code=1), now))

    database.run(lambda c: note_found(c, "worker-1", "17"))

    [found] = database.read(lambda c: engine_rows(c, "slurm", now))
    assert (found.step, found.external_id, found.has_started) == (EngineStep.EXPLAIN, "17", True)
    database.run(lambda c: end_step(c, "worker-1", EngineStep.EXPLAIN))
    assert database.read(lambda c: engine_rows(c, "slurm", now)) == []


def test_a_runner_that_succeeded_is_forgotten_by_its_launcher(database: Database) -> None:
    """Its failed submit is no cause any more when it was found."""
    submit(database, "worker-1")
    database.run(lambda c: begin_submit(c, "worker-1"))
    database.run(lambda c: note_cause(c, "worker-1", "the network was slow"))
    database.run(lambda c: note_found(c, "worker-1", "17"))
    take_over(database)
    now = database.clock.now()

    database.run(lambda c: close_runner(c, "worker-1", EndedRunner("ok", exit_code=0), now))

    assert (row(database)["engine_step"], row(database)["cause"]) == (None, None)
    assert database.read(lambda c: engine_rows(c, "slurm", now)) == []


def test_the_newest_runners_in_the_queue_are_surplus(database: Database) -> None:
    """As many as requested."""
    submit(database, "worker-1", "worker-2", "worker-3")
    now = database.clock.now()

    closed = database.run(lambda c: close_surplus(c, "import", 2, now))

    assert closed == [("worker-3", "slurm"), ("worker-2", "slurm")]
    assert database.read(live_by_lane) == {"import": 1}


def test_a_noted_death_ends_the_lease(database: Database) -> None:
    """The next cycle of any host settles its jobs."""
    submit(database, "worker-1")
    take_over(database)
    now = database.clock.now()
    death = Death("crash", None, 11, {7: now})

    assert database.run(lambda c: note_death(c, "worker-1", replace(death, jobs_done=3), now))

    [dead] = dead_runners(database, this_host("here"))
    assert (dead.death, dead.launcher, row(database)["jobs_done"]) == (death, "slurm", 3)


def test_a_submitted_runner_of_this_host_is_alive_while_its_lease_is_valid(database: Database) -> None:
    """Even if its process is gone. It uses no slot of the host."""
    submit(database, "worker-1")
    now, here = database.clock.now(), this_host("here")
    database.run(lambda c: take_over_submitted(c, "worker-1", here, Process(2**22 + 1, 1), now, now + MINUTE))

    assert dead_runners(database, here) == []
    assert database.read(lambda c: live_by_lane_and_on_host(c, here)) == ({"import": 1}, 0)
    assert [each.host for each in database.read(live_runners)] == [here]


@pytest.mark.parametrize("is_accepted", [True, False])
def test_a_refusal_counts_until_a_later_submit_is_accepted(database: Database, is_accepted: bool) -> None:
    """And for ten minutes at most."""
    submit(database, "worker-1")
    close(database, "refused", "no such partition")
    submit(database, "worker-2")
    if is_accepted:
        database.run(lambda c: note_found(c, "worker-2", "17"))
    now = database.clock.now()

    found = database.read(lambda c: refusals(c, now))

    assert [(lane, each.launcher, each.reason) for lane, each in found.items()] == (
        [] if is_accepted else [("import", "slurm", "no such partition")]
    )
    assert database.read(lambda c: refusals(c, now + timedelta(minutes=11))) == {}


def test_a_live_runner_has_the_cause_of_its_end(database: Database) -> None:
    """Before its submit is found, the cause is why that has failed."""
    submit(database, "worker-1")
    database.run(lambda c: begin_submit(c, "worker-1"))
    take_over(database)
    causes = []

    for note in (note_cause, note_found, note_cause):
        database.run(lambda c, note=note: note(c, "worker-1", "17"))  # type: ignore[misc]
        causes += [each.cause for each in database.read(live_runners)]

    assert causes == [None, None, "17"]


def test_a_stop_is_requested_for_the_runners_of_a_host(database: Database) -> None:
    """Those in the queue are closed, the others read the request."""
    submit(database, "worker-1", "worker-2")
    take_over(database)
    now = database.clock.now()
    database.run(lambda c: open_cycle(c, CYCLE, "here", now))

    assert database.run(lambda c: request_stop(c, "another", now)) == []
    assert not database.read(lambda c: must_stop(c, "worker-1"))
    stopped = database.run(lambda c: request_stop(c, "here", now))

    assert [(each.worker_id, each.has_started) for each in stopped] == [("worker-1", True), ("worker-2", False)]
    assert database.read(lambda c: must_stop(c, "worker-1"))
    assert [each.ending for each in rows_of(database, runners)] == [None, "cancelled"]


def test_a_refused_submit_is_an_incident(database: Database, tmp_path: Path) -> None:
    """With the reason of the launcher; it ends when a submit is accepted."""
    settings = settings_in(tmp_path, {}, toml="[launchers.slurm]\n")
    submit(database, "worker-1")
    close(database, "refused", "no such partition")
    now = database.clock.now()

    [incident] = database.read(lambda c: detect(c, settings, now))

    assert (incident.kind, incident.subject) == (AlertKind.REFUSED, "import")
    assert incident.detail == "the launcher slurm refused a runner of lane import: no such partition"
    submit(database, "worker-2")
    database.run(lambda c: note_found(c, "worker-2", "17"))
    assert database.read(lambda c: detect(c, settings, now)) == []


def test_a_cycle_is_not_idle_while_an_engine_is_to_be_asked(database: Database, tmp_path: Path) -> None:
    """A runner that has ended may have to be cancelled in it, or its cause is not known yet."""
    settings = settings_in(tmp_path, {}, toml="[launchers.slurm]\n")
    submit(database, "worker-1")
    database.run(lambda c: begin_submit(c, "worker-1"))
    close(database, "cancelled")
    now = database.clock.now()

    found = database.read(lambda c: list(reasons(c, settings, tmp_path, now)))

    assert found == ["a runner of a launcher has ended, and a step is left in its engine"]
    database.run(lambda c: end_step(c, "worker-1", EngineStep.CANCEL))
    assert database.read(lambda c: list(reasons(c, settings, tmp_path, now))) == []
