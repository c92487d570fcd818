"""Whether a page can be read, heard and reached by everybody: the rules are in checks.js, beside this file."""

from dataclasses import dataclass, replace
from pathlib import Path

from playwright.sync_api import Page

RULES = Path(__file__).with_name("checks.js").read_text("utf-8")


@dataclass(frozen=True)
class Finding:
    rule: str
    element: str = ""  # the beginning of its source
    detail: str = ""

    def on(self, look: str) -> "Finding":
        return replace(self, detail=f"{self.detail} ({look})".strip())

    def __str__(self) -> str:
        return " ".join(filter(None, [f"{self.rule}:", self.detail, self.element]))


def check(page: Page) -> list[Finding]:
    """What is wrong with the page as it is shown now, in these colours and at this width."""
    page.keyboard.press("Tab")  # from here on focus is as visible as it is to somebody without a mouse
    return [Finding(**each) for each in page.evaluate(RULES)]
