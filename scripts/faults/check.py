"""All checks of the torture test. Each has the name of the guarantee, and yields one sentence per violation."""

from collections.abc import Callable, Iterator

from scripts.faults import check_exits, check_fleet, check_jobs
from scripts.faults.evidence import Evidence

CHECKS: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    check_jobs.no_job_is_lost,
    check_jobs.every_job_was_enqueued,
    check_jobs.no_job_exists_twice,
    check_jobs.everything_is_terminal,
    check_jobs.one_effect_per_job,
    check_jobs.changes_are_legal,
    check_jobs.one_start_per_claim,
    check_jobs.attempts_are_within_bounds,
    check_jobs.nothing_starts_before_it_is_due,
    check_jobs.repeated_runs_are_explained,
    check_fleet.limits_are_never_exceeded,
    check_fleet.slots_are_not_lost,
    check_fleet.caps_are_never_exceeded,
    check_fleet.totals_equal_the_table,
    check_fleet.schedules_fire_once_per_due_time,
    check_fleet.cycles_end_in_time,
    check_exits.exit_codes_of_runners_fit,
    check_exits.exit_codes_of_cycles_fit,
    check_exits.exit_codes_of_dispatchers_fit,
    check_fleet.nothing_is_left,
)


def violations(evidence: Evidence) -> list[str]:
    return [f"{check.__name__}: {text}" for check in CHECKS for text in check(evidence)]
