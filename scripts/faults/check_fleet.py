"""Guarantees about limits, caps, totals, schedules, deadlines and leftovers. Pure: evidence in, violations out."""

from collections import Counter
from collections.abc import Iterable, Iterator

from scripts.faults.check_jobs import FINAL
from scripts.faults.evidence import Evidence
from scripts.faults.history import Event

MINUTE = 60.0
MARGIN_SECONDS = 2.0  # a cycle that begins this close to a due time may be before or after it


def limits_are_never_exceeded(evidence: Evidence) -> Iterator[str]:
    """A run ends with its handler, with its process, or with its lease: then its slot may be used again."""
    for at, running in _overlaps(_limited_runs(evidence)):
        if running > evidence.bounds.limit:
            yield f"{running} jobs ran at {at:.3f} with a limit of {evidence.bounds.limit}"


def _limited_runs(evidence: Evidence) -> Iterator[tuple[float, float]]:
    lease_of = {each.worker_id: each.lease_until for each in evidence.runners}
    owner_of = {(each.job_id, each.new_claims): each.worker_id for each in evidence.audit if each.is_claim}
    left = {(event["job"], event["token"]): event.at for event in evidence.events("leave")}
    for event in evidence.events("enter"):
        run = event["job"], event["token"]
        ended_at = left[run] if run in left else _last_sure_moment(evidence, event)
        yield event.at, min(ended_at, lease_of.get(owner_of.get(run) or "", ended_at))


def _last_sure_moment(evidence: Evidence, entered: Event) -> float:
    """For a run without an end: when its process or its dispatcher was killed or suspended."""
    family = (entered.pid, entered["dispatcher"])
    signals = (each.at for each in evidence.events("signal") if each.at >= entered.at and each["process"] in family)
    return min(signals, default=entered.at)


def slots_are_not_lost(evidence: Evidence) -> Iterator[str]:
    """Killed runners hold slots at most until their lease ends: without runners, the whole limit is free."""
    if evidence.free_slots < evidence.bounds.limit:
        yield f"{evidence.free_slots} of {evidence.bounds.limit} slots are free, although no runner is left"


def caps_are_never_exceeded(evidence: Evidence) -> Iterator[str]:
    """According to the rows of runners, at any time."""
    rows = {each.worker_id: each for each in evidence.runners}
    running: Counter[str] = Counter()
    bounds = evidence.bounds
    for change in sorted(evidence.runner_audit):
        row = rows.get(change.worker_id)
        if row is None:
            yield f"runner {change.worker_id} has no row"
            continue
        for name, cap in ((f"lane {row.lane}", bounds.lane_workers), (f"host {row.host}", bounds.host_workers)):
            running[name] += 1 if change.is_open else -1
            if running[name] > cap:
                yield f"{name} had {running[name]} runners with a cap of {cap}"


def totals_equal_the_table(evidence: Evidence) -> Iterator[str]:
    """Per type: each is counted by another path (batches, ack="each", job.transaction(), threads)."""
    ended = Counter((each.type, each.status) for each in evidence.jobs if each.status in FINAL)
    counted = {key: jobs for key, jobs in evidence.totals.items() if key[1] in FINAL}
    for type_name, outcome in sorted({*ended, *counted}):
        jobs, seen = ended[type_name, outcome], counted.get((type_name, outcome), 0)
        if jobs != seen:
            yield f"{jobs} jobs of type {type_name} are {outcome}, {seen} were counted"


def schedules_fire_once_per_due_time(evidence: Evidence) -> Iterator[str]:
    """Not twice, and at the latest by the first successful cycle of the minute."""
    due_at = {each.job_id: each.run_at for each in evidence.audit if each.old_status is None}
    fired: Counter[tuple[str, float]] = Counter()
    for job in evidence.jobs:
        if job.schedule is not None:
            fired[job.schedule, round(due_at[job.id], 1)] += 1
    yield from (f"{name} fired {number} times at {at}" for (name, at), number in fired.items() if number > 1)
    for name in {name for name, _at in fired}:
        times = sorted(at for each, at in fired if each == name)
        for number in range(1, round((times[-1] - times[0]) / MINUTE)):
            due = times[0] + number * MINUTE
            if not any(abs(at - due) < 1 for at in times) and _had_good_cycle(evidence, due):
                yield f"{name} did not fire at {due:.1f}"


def _had_good_cycle(evidence: Evidence, due: float) -> bool:
    begins, ends = due + MARGIN_SECONDS, due + MINUTE - MARGIN_SECONDS
    return any(
        each.exit_code == 0 and each.finished_at is not None and begins <= each.started_at <= each.finished_at <= ends
        for each in evidence.cycles
    )


def cycles_end_in_time(evidence: Evidence) -> Iterator[str]:
    """Unless the dispatcher itself was suspended."""
    frozen = {event["process"] for event in evidence.signals("SIGSTOP")}
    for each in evidence.exits:
        seconds = each.ended_at - each.started_at
        if each.pid not in frozen and seconds > evidence.bounds.cycle_seconds:
            yield f"a cycle on {each.host} took {seconds:.1f} s"


def nothing_is_left(evidence: Evidence) -> Iterator[str]:
    yield from evidence.leftovers


def _overlaps(intervals: Iterable[tuple[float, float]]) -> Iterator[tuple[float, int]]:
    """The number of intervals after each start. One that ends at that time does not count."""
    changes = [change for begin, end in intervals if end > begin for change in ((begin, 1), (end, -1))]
    running = 0
    for at, change in sorted(changes):
        running += change
        if change > 0:
            yield at, running
