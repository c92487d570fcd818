"""Chromium under Playwright, and visitors that record every problem on their pages."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    expect,
    sync_playwright,
)

from tests.browser.consoles import Console

SECONDS = 60.0  # timeout of every wait
# The same engine without the user interface: a page takes a quarter of the processor time.
PROGRAMS = ("chromium-headless-shell", "chromium")
MISSING = f"No {PROGRAMS[0]} is installed: `apt-get install {PROGRAMS[0]}` brings it (scripts/test does that itself)."
# Logged by the page itself: Playwright has no event for a violation.
LOG_VIOLATIONS = """document.addEventListener("securitypolicyviolation", (violation) =>
    console.error(`CSP: ${violation.violatedDirective} forbids ${violation.blockedURI}`))"""


expect.set_options(timeout=1000 * SECONDS)


@contextmanager
def chromium() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if path is None:
        pytest.fail(MISSING, pytrace=False)  # never a skip, which would go unnoticed
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


class Visitors:
    """Each page in a context of its own. Console errors, failing scripts, violations of the policy, error responses,
    and requests that fail or go to other hosts are problems, unless the test expects them."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._origins: tuple[str, ...] = ("data:", "about:", "blob:")
        self._problems: list[str] = []
        self._expected: list[str] = []

    def open(self, console: Console | None = None, name: str | None = None, path: str = "/", **options: Any) -> Page:
        """A page of that console, logged in as `name` if one is given."""
        if console is not None:
            self._origins += (f"{console.origin}/",)
            options["base_url"] = console.origin
            options["storage_state"] = console.session_of(self._browser, name) if name else None
        context = self._browser.new_context(**options)
        context.set_default_timeout(1000 * SECONDS)
        self._contexts.append(context)
        self._watch(context)
        page = context.new_page()
        if console is not None:
            page.goto(path)
        return page

    def expect(self, pattern: str) -> None:
        """This test causes the problem: it must occur."""
        self._expected.append(pattern)

    def leave(self) -> None:
        """Check that all expected problems occurred, and no others."""
        for context in self._contexts:
            context.close()
        unexpected = [each for each in self._problems if not any(re.search(known, each) for known in self._expected)]
        missed = [known for known in self._expected if not any(re.search(known, each) for each in self._problems)]

        assert not unexpected, f"unexpected: {unexpected}"
        assert not missed, f"did not occur: {missed}"

    def _watch(self, context: BrowserContext) -> None:
        context.add_init_script(LOG_VIOLATIONS)
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self._problems.append(f"script: {error.error}"))
        context.on("request", self._on_request)
        context.on("response", self._on_response)
        context.on("requestfailed", self._on_failure)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._problems.append(f"console: {message.text}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith(self._origins):
            self._problems.append(f"other host: {request.method} {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self._problems.append(f"answer: {response.status} {response.request.method} {response.url}")

    def _on_failure(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left
            self._problems.append(f"failed: {request.method} {request.url}: {request.failure}")
