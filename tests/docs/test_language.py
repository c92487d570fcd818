"""Plain English: words that do not belong in code, messages, pages and docs."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATHS = (
    "mayfly", "dispatcher", "runner", "console", "handlers", "scripts", "cron.d", "deploy", "docs", "README.md",
    "CONTRIBUTING.md", "CHANGELOG.md",
)  # fmt: skip
TEXTS = (".py", ".html", ".js", ".md", ".sh", ".toml", ".yaml", "")  # "": scripts without a suffix
BANNED = re.compile(
    r"""\b(
    told | mended | midwi\w* | nurser\w* | newborn | dearer          # report, fixed; metaphors; more expensive
    | nobody | somebody | whoever | whomever | he | she | his | him  # processes and rows are not persons
    | for\ ever | of\ late | so\ many | gave\ way | gives?\ way      # forever, recently, a number, yield
    | is\ dead\ since | (?:what|whatever)\ becomes?\ of              # Dead since, the outcome
    | put\ off | puts\ off | held\ up | left\ out                    # snoozed or delayed, paused, skipped
    | goes\ on | went\ on | side\ by\ side                           # continues, concurrently
    | given?\ back | gives\ back | gave\ back                        # released
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)
# Public names: a column of mayfly_alerts, a field of the HTTP API, a former field in the changelog.
ALLOWED = {
    "mayfly/monitoring/alerts.py": {"told"},
    "mayfly/schema/metadata.py": {"told"},
    "console/api/actions.py": {"told"},
    "docs/reference/tables.md": {"told"},
    "docs/how-to/pull-workers.md": {"told"},
    "docs/reference/http-api.md": {"told"},
    "CHANGELOG.md": {"told", "nursery_ended"},
}


def test_texts_are_in_plain_english() -> None:
    """No banned word stands in product code, templates, scripts or Markdown."""
    found = [each for path in text_files() for each in banned_words(path, (ROOT / path).read_text("utf-8"))]

    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["Nobody runs.", "It is dead since noon", "told by mail", "put\noff", "for ever"])
def test_a_banned_word_is_found(text: str) -> None:
    """In any case, and across a line break."""
    assert list(banned_words("README.md", text))


def text_files() -> Iterator[str]:
    for root in (ROOT / each for each in PATHS):
        found = [root] if root.is_file() else sorted(root.rglob("*"))
        yield from (str(each.relative_to(ROOT)) for each in found if each.is_file() and each.suffix in TEXTS)


def banned_words(path: str, text: str) -> Iterator[str]:
    flat = re.sub(r"\s", " ", text)  # one character for one, so that positions stay
    for match in BANNED.finditer(flat):
        if match[0].lower() not in ALLOWED.get(path, ()):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
