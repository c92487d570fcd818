"""The report at the end: jobs per lane, results, and what to try next."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from scripts.demonstration.fake_services import FakeServices
from scripts.demonstration.home import Home
from scripts.demonstration.smtp_server import MailSink

COUNTED = {"done": ("done",), "dead": ("dead",), "cancelled": ("cancelled",), "waiting": ("pending", "processing")}
BY_LANE = "SELECT lane, type, status, COUNT(*) FROM mayfly_jobs GROUP BY lane, type, status ORDER BY lane, type"
FIGURES = {
    "posts published": "SELECT COUNT(*) FROM app_posts WHERE remote_id IS NOT NULL",
    "invoices": "SELECT COUNT(*) FROM app_invoices",
    "prospects": "SELECT COUNT(*) FROM app_prospects WHERE merged_into IS NULL",
    "duplicate prospects merged": "SELECT COUNT(*) FROM app_prospects WHERE merged_into IS NOT NULL",
    "pairs of prospects to review": "SELECT COUNT(*) FROM app_merge_proposals WHERE state = 'open'",
    "language model calls": "SELECT COUNT(*) FROM app_llm_calls",
    "boards nudged": "SELECT COUNT(*) FROM app_nudges WHERE state = 'posted'",
    "metric rollups": "SELECT COUNT(*) FROM app_metric_rollups WHERE span <> 'minute'",
}


def print_report(home: Home, mail: MailSink, services: FakeServices) -> None:
    database = home.open()
    console = Console()
    console.print(_lanes(database.read(lambda connection: connection.execute(BY_LANE).all())))
    results = database.read(
        lambda connection: {what: connection.execute(asked).scalar() for what, asked in FIGURES.items()}
    )
    database.close()
    console.print(_results({"mails": mail.accepted, "mails greylisted": mail.greylisted, **results}))
    calls = ", ".join(f"{name} {count}" for name, count in sorted(services.calls.items()))
    console.print(f"Calls of fake services: {calls}\n")
    console.print(next_steps(home), highlight=False, soft_wrap=True)


def _lanes(rows: Sequence[Any]) -> Table:
    table = Table("lane", "type", title="Jobs per lane", padding=(0, 1, 0, 0))  # fits into 80 columns
    for name in COUNTED:
        table.add_column(name, justify="right")
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for lane, kind, status, count in rows:
        found[lane, kind][status] += count
    for (lane, kind), by_status in found.items():
        counts = [sum(by_status[each] for each in statuses) for statuses in COUNTED.values()]
        table.add_row(lane, kind, *(str(count) if count else "" for count in counts))
    return table


def _results(results: dict[str, Any]) -> Table:
    table = Table("result", title="Results")
    table.add_column("count", justify="right")
    for what, count in results.items():
        table.add_row(what, f"{int(count or 0):,}")
    return table


def next_steps(home: Home) -> str:
    return "\n  ".join([
        "What to try next:",
        f"{home.mail}/            every mail as a file",
        f"{home.attachments}/     invoices as PDF",
        f"{home.archives}/        the archived board",
        f"{home.path}/logs/dispatcher.log",
        *commands(home),
        f"and log in at http://127.0.0.1:8321 as admin with the password {home.console_password}",
    ])  # fmt: skip


def commands(home: Home) -> list[str]:
    """They work in any directory."""
    mayfly = f"MAYFLY_HOME={shlex.quote(str(home.path))} {shlex.quote(str(home.checkout / '.venv/bin'))}"
    search = f"MAYFLY_HOME={shlex.quote(str(home.path))} {shlex.quote(str(home.checkout / 'scripts/search'))}"
    return [f"{mayfly}/mayfly status", f"{mayfly}/mayfly dead", f"{search} saturday", f"{mayfly}/mayfly console"]
