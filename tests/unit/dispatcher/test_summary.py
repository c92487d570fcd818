"""The summary of a cycle: its exit code, its lines, its row, and the mail about problems."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.lane_figures import MAX_LANES_LOGGED, lane_figures
from dispatcher.summary import (
    CycleSummary,
    Ending,
    RunnerEnd,
    cycle_row,
    failure_text,
    figures_of,
    summary_lines,
    summary_text,
)
from mayfly.process import exits
from mayfly.schema.metadata import cycles
from mayfly.stats.histograms import Count


def make_summary(*endings: Ending, **changes: Any) -> CycleSummary:
    """A cycle whose runners, all of one lane, ran for a second each."""
    fields: dict[str, Any] = {
        "cycle_id": 7,
        "pending": 23,
        "planned": len(endings),
        "ends": [RunnerEnd("default", ending, 1000, "default") for ending in endings],
        "duration_ms": 8300,
    }
    return CycleSummary(**fields | changes)


OK, ERROR, TIMEOUT, CRASH = Ending.OK, Ending.ERROR, Ending.TIMEOUT, Ending.CRASH
some_endings = st.lists(st.sampled_from(Ending), max_size=6)


# --- the exit code ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("summary", "code"),
    [
        (make_summary(), exits.SUCCESS),
        (make_summary(OK, OK), exits.SUCCESS),
        (make_summary(OK, ERROR), exits.ERROR),
        (make_summary(OK, CRASH), exits.ERROR),
        (make_summary(OK, TIMEOUT), exits.TIMEOUT),
        (make_summary(OK, guard_fired=True), exits.TIMEOUT),
        (make_summary(TIMEOUT, ERROR), exits.ERROR),
        (make_summary(TIMEOUT, CRASH, guard_fired=True), exits.ERROR),
        (make_summary(problems=("the database went away",)), exits.ERROR),
        (make_summary(TIMEOUT, guard_fired=True, problems=("the database went away",)), exits.ERROR),
    ],
)
def test_the_worst_result_decides_the_exit_code(summary: CycleSummary, code: int) -> None:
    """An error outranks a timeout, a timeout outranks success; an idle cycle is a success."""
    assert summary.exit_code == code


@given(some_endings, st.booleans(), st.booleans())
def test_zero_means_success(endings: list[Ending], guard_fired: bool, problem: bool) -> None:
    """No other cycle exits with 0."""
    summary = make_summary(*endings, guard_fired=guard_fired, problems=("away",) * problem)

    assert (summary.exit_code == 0) == (set(endings) <= {OK} and not guard_fired and not problem)


@given(some_endings)
def test_every_runner_is_successful_or_failed(endings: list[Ending]) -> None:
    """Every result but ok is a failure; timeouts are among the failed."""
    summary = make_summary(*endings)

    assert summary.successful + summary.failed == len(endings)
    assert cycle_row(summary)["timed_out"] == endings.count(TIMEOUT) <= summary.failed


# --- the lines --------------------------------------------------------------------------------------------


def test_the_summary_block_is_unchanged() -> None:
    """Operators grep for its lines."""
    assert summary_lines(make_summary(OK, OK, ERROR, pending=1000, is_capped=True)) == [
        "Dispatch Summary:",
        "Pending jobs: 1000+",
        "Workers spawned: 3",
        "Successful workers: 2",
        "Failed workers: 1",
        "Total duration: 8300ms",
        "Avg worker duration: 1000ms",
    ]


def test_lines_of_optional_steps_come_first() -> None:
    """In the order of the steps, before the six figures."""
    lines = summary_lines(make_summary(notes=("Schedules fired: 3, skipped: 0", "Paused lanes: mail")))

    assert lines[:4] == [
        "Dispatch Summary:",
        "Schedules fired: 3, skipped: 0",
        "Paused lanes: mail",
        "Pending jobs: 23",
    ]


def test_an_idle_cycle_has_no_average() -> None:
    """Not measured is not zero."""
    assert summary_lines(make_summary())[-1] == "Avg worker duration: -"


def test_a_lane_has_a_line_with_every_figure() -> None:
    """Its runners, the outcomes of its jobs over all types, and the 95th percentiles."""
    summary = make_summary(
        OK,
        CRASH,
        tally={
            ("default", "noop", "done"): Count(20, {5: 20}, {100: 19, 5000: 1}),
            ("default", "sleep", "done"): Count(2, {200: 2}, {100: 2}),
            ("default", "sleep", "timed out"): Count(1, {50_000: 1}, {}),
            ("default", "noop", "released"): Count(4),
        },
    )

    assert list(lane_figures(summary)) == [
        {
            "cycle": 7,
            "lane": "default",
            "runners": 2,
            "runners_crash": 1,
            "runners_ok": 1,
            "done": 22,
            "failed": 0,
            "timed_out": 1,
            "dead": 0,
            "crashed": 0,
            "released": 4,
            "duration_p95_ms": 200,
            "wait_p95_ms": 100,
        }
    ]


def test_a_lane_without_jobs_has_a_line_with_its_runners() -> None:
    """Figures that were not measured are a dash."""
    (figures,) = lane_figures(make_summary(OK))

    assert (figures["runners"], figures["done"], figures["duration_p95_ms"]) == (1, 0, "-")


def test_a_lane_without_runners_has_a_line_with_its_jobs() -> None:
    """Jobs rescued from runners of another cycle are counted in this one."""
    (figures,) = lane_figures(make_summary(tally={("mail", "send", "crashed"): Count(3)}))

    assert (figures["lane"], figures["runners"], figures["crashed"]) == ("mail", 0, 3)


def test_lanes_are_separate_and_sorted() -> None:
    """The figures of one lane are not added to another."""
    ends = [RunnerEnd(lane, ending, 10, lane) for lane, ending in (("mail", OK), ("default", OK), ("mail", TIMEOUT))]
    figures = lane_figures(make_summary(ends=ends, tally={("alpha", "noop", "done"): Count(1)}))

    assert [(each["lane"], each["runners"], each["done"]) for each in figures] == [
        ("alpha", 0, 1),
        ("default", 1, 0),
        ("mail", 2, 0),
    ]


def test_an_idle_cycle_has_no_lines_of_lanes() -> None:
    """Nothing happened in any lane."""
    assert list(lane_figures(make_summary())) == []


def test_the_figures_of_heartbeats_and_spans_are_numbers() -> None:
    """Also a count that stopped at its cap; only the log has a plus sign."""
    figures = figures_of(make_summary(OK, pending=1027, is_capped=True), "web-1")

    assert {name for name, value in figures.items() if not isinstance(value, int)} == {"host"}
    assert figures["pending"] == 1027
    assert " pending=1027 " in summary_text(make_summary(OK, pending=1027, is_capped=True), "web-1")


# --- the row ----------------------------------------------------------------------------------------------


def test_the_row_of_a_cycle_is_its_summary() -> None:
    """Every figure is under its column's name."""
    summary = make_summary(
        OK, TIMEOUT, ERROR, rescued=2, repeated=1, pruned=500, problems=("away", "still away"), is_capped=True
    )

    assert cycle_row(summary) == {
        "exit_code": 1,
        "pending": 23,
        "planned": 3,
        "spawned": 3,
        "successful": 1,
        "failed": 2,
        "timed_out": 1,
        "rescued": 2,
        "repeated": 1,
        "pruned": 500,
        "duration_ms": 8300,
        "note": "away\nstill away",
    }


def test_the_row_has_the_columns_of_its_table() -> None:
    """With the columns known at the start, and that of operators, it is complete; the note may be NULL."""
    row = cycle_row(make_summary(OK))

    assert row.keys() | {"id", "host", "schema_version", "started_at", "finished_at", "forgotten_at"} == set(
        cycles.c.keys()
    )
    assert row["note"] is None


# --- the mail ---------------------------------------------------------------------------------------------


@given(st.lists(st.just(OK), max_size=5))
def test_a_successful_cycle_sends_no_mail(endings: list[Ending]) -> None:
    """Cron mails all output, so there is none."""
    assert failure_text(make_summary(*endings), "web-1", "/var/log/mayfly.log") == ""


def test_a_problem_is_a_short_paragraph() -> None:
    """The cycle, the host, the runners by result, other problems, and the log to read."""
    summary = make_summary(OK, CRASH, ERROR, CRASH, problems=("The database went away.",))

    assert failure_text(summary, "web-1", "/var/log/dispatcher.log").splitlines() == [
        "Mayfly's cycle 7 on web-1 ended with code 1.",
        "Runners: 4 started, of which 2 crash, 1 error.",
        "The database went away.",
        "See /var/log/dispatcher.log.",
    ]


def test_a_problem_without_runners_mentions_none() -> None:
    """Only the problem."""
    paragraph = failure_text(make_summary(problems=("The database went away.",)), "web-1", "the log (syslog)")

    assert "Runners:" not in paragraph
    assert paragraph.endswith("The database went away.\nSee the log (syslog).")


@given(some_endings, st.booleans())
def test_every_failed_cycle_is_mailed(endings: list[Ending], guard_fired: bool) -> None:
    """A cycle has output if and only if its exit code is not 0."""
    summary = make_summary(*endings, guard_fired=guard_fired)

    assert bool(failure_text(summary, "web-1", "log")) == (summary.exit_code != 0)


def test_a_lane_that_was_entered_counts_its_runner() -> None:
    """The runner ended in its last lane; in the earlier ones it ended well."""
    ends = [RunnerEnd("c", TIMEOUT, 10, "a")]

    figures = list(lane_figures(make_summary(ends=ends), entered=["b", "c"]))

    assert [(each["lane"], each["runners"], each.get("runners_ok")) for each in figures] == [
        ("a", 1, 1), ("b", 1, 1), ("c", 1, None)
    ]  # fmt: skip
    assert figures[2]["runners_timeout"] == 1


def test_of_very_many_lanes_the_log_has_the_important_ones() -> None:
    """Those with failures, then the largest; one line has the sum of the rest."""
    small = {(f"small-{number}", "noop", "done"): Count(1) for number in range(2 * MAX_LANES_LOGGED)}
    large = {(f"large-{number}", "noop", "done"): Count(9) for number in range(MAX_LANES_LOGGED - 1)}

    *lines, rest = lane_figures(make_summary(tally={**small, **large, ("broken", "noop", "dead"): Count(1)}))

    assert {line["lane"] for line in lines} == {"broken", *(lane for lane, _, _ in large)}
    assert (rest["other_lanes"], rest["done"]) == (2 * MAX_LANES_LOGGED, 2 * MAX_LANES_LOGGED)
