"""Fill docs/performance.md from the results: the figures there are never typed by hand."""

import re
from collections.abc import Sequence
from pathlib import Path

from scripts.benchmark.charts import write_charts
from scripts.benchmark.engines import ENGINES
from scripts.benchmark.report import markdown_table, side_by_side
from scripts.benchmark.results import Record, write_records

PAGE, COPY = "performance.md", "performance.json"
BLOCK = re.compile(
    r"(<!-- (results|profile): written by scripts/bench --write-docs -->\n).*?(<!-- /\2 -->)", re.DOTALL
)
ALTERNATIVES = {
    "drain": "Jobs done over time, Mayfly and the bare loop, on each database",
    "size": "Time of a claim and of an idle cycle against the number of rows",
}
PROFILE = "profile"


def write_docs(records: Sequence[Record], docs: Path) -> None:
    """The page, its plots, and the results that both come from."""
    page = docs / PAGE
    write_records(docs / COPY, records)
    charts = write_charts(docs, records, "performance-")
    page.write_text(filled(page.read_text(), records, [path.name for path in charts]))


def filled(page: str, records: Sequence[Record], charts: Sequence[str]) -> str:
    """The page with its blocks written anew."""
    blocks = {"results": results_block(records, charts), "profile": profile_block(records)}
    return BLOCK.sub(lambda found: f"{found[1]}\n{blocks[found[2]]}\n\n{found[3]}", page)


def results_block(records: Sequence[Record], charts: Sequence[str]) -> str:
    measured = [each for each in records if each.line != PROFILE]
    if not measured:
        return "Nothing has been measured yet."
    pictures = [f"![{ALTERNATIVES[name.partition('-')[2].partition('.')[0]]}]({name})" for name in charts]
    return "\n\n".join([_circumstances(measured), markdown_table(measured), *pictures])


def profile_block(records: Sequence[Record]) -> str:
    measured = [each for each in records if each.line == PROFILE]
    return side_by_side(measured) if measured else "Nothing has been measured yet."


def _circumstances(records: Sequence[Record]) -> str:
    """A sentence for each machine and version that the figures come from; usually one."""
    sentences = dict.fromkeys(_sentence(each) for each in records)
    servers = dict.fromkeys(
        f"{ENGINES[each.engine].title} {each.environment['server']}" for each in records if each.environment["server"]
    )
    return "\n\n".join([*sentences, f"Databases: {', '.join(servers)}, with the settings they come with."])


def _sentence(record: Record) -> str:
    facts = record.environment
    libraries = ", ".join(f"{name} {number}" for name, number in facts["libraries"].items())
    scale = "" if record.scale == 1 else f" At {record.scale:g} of the full size, so the goals are not judged."
    runs = "one run each" if record.times == 1 else f"medians of {record.times} runs (least–greatest)"
    return (
        f"Mayfly {facts['mayfly']}, {record.measured_at[:10]}, {runs}:"
        f" {facts['cores']} cores of {facts['cpu']}, {facts['memory_gb']:g} GB, Linux {facts['kernel']},"
        f" Python {facts['python']}, {libraries}.{scale}"
    )
