"""The table, for the terminal and for the docs. Pure: values in, text out."""

from collections.abc import Iterator, Sequence

from scripts.benchmark.figures import Figure, with_spread
from scripts.benchmark.results import Record

HEADINGS = ("what", "database", "Mayfly", "yardstick", "unit", "ratio", "goal", "")
VERDICTS = {True: "reached", False: "MISSED", None: ""}


def plain_table(records: Sequence[Record]) -> str:
    rows = [HEADINGS, *_rows(records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def markdown_table(records: Sequence[Record]) -> str:
    return _markdown([HEADINGS, *_rows(records)])


def side_by_side(records: Sequence[Record]) -> str:
    """The same figures of every database in one row: Mayfly's, and the yardstick's."""
    headings = [f"{each.engine}, {who}" for each in records for who in ("Mayfly", "bare")]
    names = dict.fromkeys((figure.name, figure.unit) for each in records for figure in each.figures)
    rows = [(f"{name} ({unit})", *_cells(records, name)) for name, unit in names]
    return _markdown([("", *headings), *rows])


def _cells(records: Sequence[Record], name: str) -> Iterator[str]:
    for record in records:
        found = next((each for each in record.figures if each.name == name), None)
        yield with_spread(found.ours) if found else ""
        yield with_spread(found.yardstick) if found else ""


def _markdown(rows: Sequence[tuple[str, ...]]) -> str:
    heading, *rest = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [heading, ("---",) * len(heading), *rest])


def failures(records: Sequence[Record]) -> list[str]:
    return [f"{each.line} on {each.engine} failed: {each.error}" for each in records if each.error is not None]


def _rows(records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    for record in records:
        for figure in record.figures:
            yield _row(record, figure)
        if record.error is not None:
            yield (record.line, record.engine, "", "", "", "", "", "FAILED")


def _row(record: Record, figure: Figure) -> tuple[str, ...]:
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    judged = figure.is_reached is None or record.judged
    verdict = VERDICTS[figure.is_reached] if judged else "not judged"
    goal = figure.goal.text if figure.goal else ""
    ours, yardstick = with_spread(figure.ours), with_spread(figure.yardstick)
    return (figure.name, record.engine, ours, yardstick, figure.unit, ratio, goal, verdict)
