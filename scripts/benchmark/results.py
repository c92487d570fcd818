"""What was measured, as JSON: written after each line, so that nothing is lost with what comes after it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.benchmark.figures import Curve, Figure, Goal

FILE = "results.json"


@dataclass(frozen=True)
class Record:
    """One line on one database: its findings, and under what circumstances they were made."""

    line: str
    engine: str
    scale: float
    times: int
    judged: bool  # at this scale
    measured_at: str
    seconds: float
    environment: Mapping[str, Any]
    figures: tuple[Figure, ...] = ()
    curves: tuple[Curve, ...] = ()
    error: str | None = None

    @property
    def is_missed(self) -> bool:
        missed = any(each.is_reached is False for each in self.figures)
        return self.error is not None or (self.judged and missed)


def write_records(path: Path, records: Iterable[Record]) -> None:
    """In one step: whoever reads finds the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    lines = ",\n".join(json.dumps(_as_json(each), ensure_ascii=False) for each in records)
    unfinished.write_text(f'{{"records": [\n{lines}\n]}}\n')  # a line each, for diffs
    unfinished.replace(path)


def read_records(path: Path) -> list[Record]:
    if not path.exists():
        return []
    return [_from_json(each) for each in json.loads(path.read_text())["records"]]


def merged(old: Sequence[Record], new: Record, order: Sequence[tuple[str, str]]) -> list[Record]:
    """The new record in the place of an older one of the same line and database."""
    key = (new.line, new.engine)
    kept = [each for each in old if (each.line, each.engine) != key and (each.line, each.engine) in order]
    return sorted([*kept, new], key=lambda each: order.index((each.line, each.engine)))


def _as_json(record: Record) -> dict[str, Any]:
    """With what people look for and programs need not compute."""
    fields = asdict(record)
    for shown, figure in zip(fields["figures"], record.figures, strict=True):
        shown |= {"median": figure.value, "ratio": figure.ratio, "reached": figure.is_reached}
    return fields


def _from_json(fields: dict[str, Any]) -> Record:
    figures = tuple(_figure(each) for each in fields["figures"])
    curves = tuple(Curve(**{**each, "points": tuple(map(tuple, each["points"]))}) for each in fields["curves"])
    return Record(**{**fields, "figures": figures, "curves": curves})


def _figure(fields: dict[str, Any]) -> Figure:
    goal = Goal(**fields["goal"]) if fields["goal"] else None
    return Figure(fields["name"], fields["unit"], tuple(fields["ours"]), tuple(fields["yardstick"]), goal)
