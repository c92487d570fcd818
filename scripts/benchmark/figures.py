"""Measured values with their goals: medians, ratios, tables, and the JSON file that stores them."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")

SCALE_HEADINGS = ("database", "dispatchers", "jobs/s", "server CPU per job, µs", "client CPU per job, µs")
HEADLINES = {  # by the end of a figure's name
    "drain 1,000,000 jobs": "jobs/s in a drain of 1,000,000 no-op jobs",
    "500 jobs that wait 100 ms each, async def": "seconds for 500 jobs that wait 100 ms each, `async def`",
    "idle cycle: CPU": "CPU of an idle minute, ms",
    "20 jobs/s for 300 s: median": "wait of a job in a lane that lingers, ms",
    "1,000 lanes with 5 jobs each: one cycle": "seconds for 1,000 lanes with 5 jobs each",
}
HEADINGS = ("what", "database", "Mayfly", "yardstick", "unit", "ratio", "goal", "")
VERDICTS = {True: "reached", False: "MISSED", None: ""}


@dataclass(frozen=True)
class Goal:
    """A bound for the ratio to the yardstick, or for the value itself."""

    at_least: float | None = None
    at_most: float | None = None
    of_ratio: bool = True

    def is_reached(self, value: float) -> bool:
        too_small = self.at_least is not None and value < self.at_least
        too_large = self.at_most is not None and value > self.at_most
        return not too_small and not too_large

    @property
    def text(self) -> str:
        bounds = [("≥", self.at_least), ("≤", self.at_most)]
        return " and ".join(f"{sign} {format_value(bound)}" for sign, bound in bounds if bound is not None)


@dataclass(frozen=True)
class Figure:
    """One row of the report: the value of every run, of Mayfly and of the yardstick if there is one."""

    name: str
    unit: str
    ours: tuple[float, ...]
    yardstick: tuple[float, ...] = ()
    goal: Goal | None = None

    @property
    def value(self) -> float:
        return median(self.ours)

    @property
    def ratio(self) -> float | None:
        """Ratio of the medians; None without a yardstick, or if the yardstick is zero."""
        theirs = median(self.yardstick) if self.yardstick else 0
        return self.value / theirs if theirs else None

    @property
    def is_reached(self) -> bool | None:
        """None if there is no goal."""
        judged = self.ratio if self.goal and self.goal.of_ratio else self.value
        return None if self.goal is None or judged is None else self.goal.is_reached(judged)


@dataclass(frozen=True)
class Record:
    """The figures of one benchmark on one database, and the environment in which they were measured."""

    benchmark: str
    engine: str
    yardstick: str  # "bare", or the other revision
    times: int
    is_full_size: bool
    measured_at: str
    environment: Mapping[str, Any]
    figures: tuple[Figure, ...] = ()
    error: str | None = None

    @property
    def is_missed(self) -> bool:
        missed = any(each.is_reached is False for each in self.figures)
        return self.error is not None or (self.is_full_size and missed)


def at_least(bound: float) -> Goal:
    return Goal(at_least=bound)


def at_most(bound: float) -> Goal:
    return Goal(at_most=bound)


def alternately(
    ours: Callable[[], Ours], theirs: Callable[[], Theirs], times: int
) -> tuple[list[Ours], list[Theirs]]:
    """Alternately, so that other load on the machine affects both."""
    pairs = [(ours(), theirs()) for _ in range(times)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def format_value(value: float) -> str:
    """Three significant digits, thousands separated."""
    return f"{value:.3g}" if value and abs(value) < 100 else f"{value:,.0f}"


def format_values(values: Sequence[float]) -> str:
    """The median, with minimum and maximum if they differ."""
    if not values:
        return ""
    if min(values) == max(values):
        return format_value(median(values))
    return f"{format_value(median(values))} ({format_value(min(values))}–{format_value(max(values))})"


# --- tables -----------------------------------------------------------------------------------------------


def plain_table(records: Sequence[Record]) -> str:
    rows = [HEADINGS, *_rows(records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def markdown_table(records: Sequence[Record]) -> str:
    rows = [HEADINGS, ("---",) * len(HEADINGS), *_rows(records)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def headline_table(records: Sequence[Record]) -> str:
    """The medians of HEADLINES, one column per database."""
    engines = list(dict.fromkeys(each.engine for each in records))
    rows = [("median", *engines), ("---",) * (len(engines) + 1)]
    rows += [(text, *(_median(records, engine, name) for engine in engines)) for name, text in HEADLINES.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _median(records: Sequence[Record], engine: str, name: str) -> str:
    figures = (figure for each in records if each.engine == engine for figure in each.figures)
    return next((format_value(figure.value) for figure in figures if figure.name.endswith(name)), "")


def scale_table(records: Sequence[Record]) -> str:
    """The benchmark `hosts`: one row per database and number of dispatchers; one dispatcher was the yardstick."""
    rows = [SCALE_HEADINGS, ("---",) * len(SCALE_HEADINGS)]
    for record in records:
        figures = list(filter(None, (re.search(r"(\d+) dispatchers", each.name) for each in record.figures)))
        if record.benchmark == "hosts" and figures:
            rows += _scale_rows(record, list(dict.fromkeys(int(found[1]) for found in figures)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _scale_rows(record: Record, numbers: Sequence[int]) -> Iterator[tuple[str, ...]]:
    def of(hosts: int) -> list[Figure]:
        return [each for each in record.figures if f" {hosts} dispatchers" in each.name]

    yield (record.engine, "1", *(format_values(each.yardstick) for each in of(numbers[0])))
    for hosts in numbers:
        yield (record.engine, str(hosts), *(format_values(each.ours) for each in of(hosts)))


def _rows(records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    for record in records:
        yield from (_row(record, figure) for figure in record.figures)
        if record.error is not None:
            yield (record.benchmark, record.engine, "", "", "", "", "", "FAILED")


def _row(record: Record, figure: Figure) -> tuple[str, ...]:
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    verdict = VERDICTS[figure.is_reached] if figure.is_reached is None or record.is_full_size else "not judged"
    values = format_values(figure.ours), format_values(figure.yardstick)
    return (figure.name, record.engine, *values, figure.unit, ratio, figure.goal.text if figure.goal else "", verdict)


# --- the JSON file ----------------------------------------------------------------------------------------


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Written atomically, one record per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    lines = ",\n".join(json.dumps(asdict(each), ensure_ascii=False) for each in records)
    unfinished.write_text(f'{{"records": [\n{lines}\n]}}\n')
    unfinished.replace(path)


def read_records(path: Path) -> list[Record]:
    if not path.exists():
        return []
    return [_record(each) for each in json.loads(path.read_text())["records"]]


def merge_record(old: Sequence[Record], new: Record, order: Sequence[tuple[str, str]]) -> list[Record]:
    """The new record replaces the older one of the same benchmark and database."""
    kept = [each for each in old if _key(each) != _key(new) and _key(each) in order]
    return sorted([*kept, new], key=lambda each: order.index(_key(each)))


def _key(record: Record) -> tuple[str, str]:
    return record.benchmark, record.engine


def _record(fields: dict[str, Any]) -> Record:
    return Record(**{**fields, "figures": tuple(_figure(each) for each in fields["figures"])})


def _figure(fields: dict[str, Any]) -> Figure:
    goal = Goal(**fields["goal"]) if fields["goal"] else None
    return Figure(fields["name"], fields["unit"], tuple(fields["ours"]), tuple(fields["yardstick"]), goal)
