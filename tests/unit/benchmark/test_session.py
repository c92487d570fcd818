"""A session of benchmarks: one line after the other, each kept as soon as it is there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.benchmark.figures import Figure, Finding, at_least
from scripts.benchmark.lab import Lab
from scripts.benchmark.registry import Line, Step
from scripts.benchmark.results import FILE, Record, read_records
from scripts.benchmark.session import Session

FIGURE = Figure("x", "s", (1.0,), (2.0,), at_least(0.85))


def good(_lab: Lab) -> Iterator[Finding]:
    yield FIGURE


def broken(_lab: Lab) -> Iterator[Finding]:
    yield FIGURE
    raise OSError("the disk is full")


def ignore(_record: Record) -> None:
    """Nobody wants to be told."""


def session(output: Path, *lines: tuple[str, Line], scale: float = 1.0) -> Session:
    return Session([Step(name, "sqlite", line) for name, line in lines], scale, 1, output, {"cores": 2})


def test_a_line_that_fails_loses_no_other(tmp_path: Path) -> None:
    """Nor what it had found before; the reason is kept, and each line was written before the next one began."""
    written: list[int] = []

    def count(_record: Record) -> None:
        written.append(len(read_records(tmp_path / FILE)))

    lines = (("drain", Line("", broken, {"sqlite": 1})), ("idle", Line("", good, {"sqlite": 1})))
    records = session(tmp_path, *lines).run(count)

    assert [(each.line, each.figures, each.error) for each in records] == [
        ("drain", (FIGURE,), "the disk is full"),
        ("idle", (FIGURE,), None),
    ]
    assert written == [1, 2]
    assert read_records(tmp_path / FILE) == records


@pytest.mark.parametrize(("scale", "scales", "judged"), [(1, True, True), (0.5, True, False), (0.5, False, True)])
def test_a_goal_for_full_size_is_judged_at_full_size(
    tmp_path: Path, scale: float, scales: bool, judged: bool
) -> None:
    """One that has nothing to do with size always is."""
    (record,) = session(tmp_path, ("idle", Line("", good, {"sqlite": 1}, scales=scales)), scale=scale).run(ignore)

    assert record.judged is judged
