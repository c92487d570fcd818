"""`scripts/screenshots`: screenshots of each screen for the docs, light and dark, with a month of history."""

import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from mayfly.schema.migrations import migrate
from tests.browser.browsers import Visitors, chromium
from tests.browser.consoles import Console
from tests.browser.sample import SETTINGS, fill, write_files
from tests.browser.screens import SCREENS, address_of
from tests.process.installation import CHECKOUT, Installation

FOLDER = CHECKOUT / "docs" / "images"
MONTH = timedelta(days=30)
SIZES = {"desktop": {"width": 1280, "height": 860}, "phone": {"width": 390, "height": 844}}
ON_PHONE = ("overview", "jobs", "job", "dead")
WHOLE = ("overview",)  # the full page, on the desktop
WIDE = "desktop"
PICTURED = {"overview": "/?range=24h"}  # other addresses than in the tests


def main() -> None:
    """Of the screens named as arguments, or of all of them."""
    with tempfile.TemporaryDirectory(prefix="mayfly-shop-") as home, chromium() as browser:
        shop = open_shop(Path(home))
        try:
            for screen in sys.argv[1:] or [*SCREENS, "login"]:
                picture(browser, shop, screen)
        finally:
            shop.installation.end()


def open_shop(home: Path) -> Console:
    url = f"sqlite:///{home}/mayfly.db"
    migrate(url)
    write_files(home)
    installation = Installation(home, url, SETTINGS)
    fill(installation.database, MONTH)
    return Console(installation, {"CONSOLE_ENVIRONMENT": "production"})


def picture(browser: Browser, shop: Console, screen: str) -> None:
    visitors = Visitors(browser)
    for size in SIZES if screen in ON_PHONE else [WIDE]:
        for colours in ("light", "dark"):
            options: dict[str, Any] = {"viewport": SIZES[size], "color_scheme": colours}
            if screen == "login":
                page = visitors.open(shop, path="/login", **options)
            else:
                page = visitors.open(
                    shop, "admin", PICTURED.get(screen) or address_of(screen, shop.installation), **options
                )
            is_whole = screen in WHOLE and size == WIDE
            save(page, FOLDER / f"{screen}{'' if size == WIDE else f'-{size}'}-{colours}.png", is_whole)
    visitors.leave()


def save(page: Page, path: Path, is_whole: bool) -> None:
    path.parent.mkdir(exist_ok=True)
    page.screenshot(path=path, animations="disabled", caret="hide", full_page=is_whole)
    print(f"{path.relative_to(CHECKOUT)}  {path.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
