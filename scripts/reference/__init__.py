"""The generated pages of docs/. `scripts/docs reference` writes them; a test compares them with the code."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from scripts.reference import cli, exit_codes, http_api, log_messages, metrics, settings, tables

DOCS = Path(__file__).parents[2] / "docs"
# Each returns the whole page; settings.md has paragraphs between its tables, which it keeps.
PAGES: Mapping[str, Callable[[str], str]] = {
    "reference/settings.md": settings.page,
    "reference/cli.md": cli.page,
    "reference/exit-codes.md": exit_codes.page,
    "reference/http-api.md": http_api.page,
    "reference/log-messages.md": log_messages.page,
    "reference/metrics.md": metrics.page,
    "reference/tables.md": tables.page,
}


def current(name: str) -> str:
    path = DOCS / name
    return path.read_text("utf-8") if path.exists() else ""


def outdated(names: Iterable[str] = PAGES) -> dict[str, str]:
    """The pages that differ from the code, by name: how they should be."""
    pages = {name: PAGES[name](current(name)) for name in names}
    return {name: page for name, page in pages.items() if page != current(name)}
