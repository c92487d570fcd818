"""Accessibility checks of a page; the rules are in checks.js."""

from dataclasses import dataclass, replace
from pathlib import Path

from playwright.sync_api import Page

RULES = Path(__file__).with_name("checks.js").read_text("utf-8")


@dataclass(frozen=True)
class Finding:
    rule: str
    element: str = ""  # the beginning of its source
    detail: str = ""

    def on(self, variant: str) -> "Finding":
        return replace(self, detail=f"{self.detail} ({variant})".strip())

    def __str__(self) -> str:
        return " ".join(filter(None, [f"{self.rule}:", self.detail, self.element]))


def check(page: Page) -> list[Finding]:
    """Findings for the page in its current theme and width."""
    page.keyboard.press("Tab")  # makes :focus-visible apply, as for keyboard users
    return [Finding(**each) for each in page.evaluate(RULES)]
