"""At the end: what each lane did, what came of it, and where to look."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from scripts.demonstration.home import Home
from scripts.demonstration.post import Office
from scripts.demonstration.standins import StandIns

COUNTED = {"done": ("done",), "dead": ("dead",), "cancelled": ("cancelled",), "waiting": ("pending", "processing")}
BY_LANE = "SELECT lane, type, status, COUNT(*) FROM mayfly_jobs GROUP BY lane, type, status ORDER BY lane, type"
FIGURES = {
    "posts published on their channels": "SELECT COUNT(*) FROM app_posts WHERE remote_id IS NOT NULL",
    "invoices": "SELECT COUNT(*) FROM app_invoices",
    "prospects": "SELECT COUNT(*) FROM app_prospects WHERE merged_into IS NULL",
    "prospects that were somebody else": "SELECT COUNT(*) FROM app_prospects WHERE merged_into IS NOT NULL",
    "calls of the language model": "SELECT COUNT(*) FROM app_llm_calls",
    "boards nudged": "SELECT COUNT(*) FROM app_nudges WHERE state = 'posted'",
    "hours and days added up": "SELECT COUNT(*) FROM app_metric_rollups WHERE span <> 'minute'",
}


def tell(home: Home, office: Office, outside: StandIns) -> None:
    database = home.open()
    console = Console()
    console.print(_lanes(database.read(lambda connection: connection.execute(BY_LANE).all())))
    results = database.read(
        lambda connection: {what: connection.execute(asked).scalar() for what, asked in FIGURES.items()}
    )
    database.close()
    console.print(_came_of_it({"mails": office.taken, "mails put off by the server": office.put_off, **results}))
    calls = ", ".join(f"{name} {count}" for name, count in sorted(outside.calls.items()))
    console.print(f"Calls to stand-ins: {calls}\n")
    console.print(where_to_look(home), highlight=False, soft_wrap=True)


def _lanes(rows: Sequence[Any]) -> Table:
    table = Table("lane", "type", title="What each lane did")
    for name in COUNTED:
        table.add_column(name, justify="right")
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for lane, kind, status, count in rows:
        found[lane, kind][status] += count
    for (lane, kind), by_status in found.items():
        counts = [sum(by_status[each] for each in statuses) for statuses in COUNTED.values()]
        table.add_row(lane, kind, *(str(count) if count else "" for count in counts))
    return table


def _came_of_it(results: dict[str, Any]) -> Table:
    table = Table("what", title="What came of it")
    table.add_column("how many", justify="right")
    for what, count in results.items():
        table.add_row(what, f"{int(count or 0):,}")
    return table


def where_to_look(home: Home) -> str:
    at = f"MAYFLY_HOME={home.path}"
    return (
        "Where to look:\n"
        f"  {home.mail}/            every mail, as a file\n"
        f"  {home.attachments}/     invoices as PDF\n"
        f"  {home.archives}/        the archived board\n"
        f"  {home.path}/logs/dispatcher.log\n"
        f"  {at} .venv/bin/mayfly status\n"
        f"  {at} .venv/bin/mayfly dead\n"
        f"  {at} scripts/search feast\n"
        f"  {at} .venv/bin/python -m console"
    )
