"""Debian's Chromium under Playwright, and visitors who write down whatever goes wrong on their pages."""

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

SECONDS = 60.0  # for whatever a page is waited for
MISSING = "No chromium is installed: `apt-get install chromium` brings it, and scripts/test does so where it may."
# Told by the page itself, because a violation that is only reported is no error of the console.
TELL_VIOLATIONS = """document.addEventListener("securitypolicyviolation", (violation) =>
    console.error(`CSP: ${violation.violatedDirective} forbids ${violation.blockedURI}`))"""


expect.set_options(timeout=1000 * SECONDS)


@contextmanager
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.fail(MISSING, pytrace=False)  # never a skip: nobody would notice that no page was looked at
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


class Visitors:
    """Each in a context of his own. Console errors, scripts that fail, violations of the policy, answers that refuse,
    and requests that fail or go elsewhere are problems, unless the test expects them."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._origins: tuple[str, ...] = ("data:", "about:", "blob:")
        self._problems: list[str] = []
        self._expected: list[str] = []

    def open(self, console: Console | None = None, name: str | None = None, path: str = "/", **options: Any) -> Page:
        """A page of that console, for somebody who has logged in if he has a name."""
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
        """This test provokes it: it must come, and is no problem then."""
        self._expected.append(pattern)

    def leave(self) -> None:
        """Nothing that was not expected has happened, and all that was."""
        for context in self._contexts:
            context.close()
        unexpected = [each for each in self._problems if not any(re.search(known, each) for known in self._expected)]
        missed = [known for known in self._expected if not any(re.search(known, each) for each in self._problems)]

        assert not unexpected, f"went wrong: {unexpected}"
        assert not missed, f"expected in vain: {missed}"

    def _watch(self, context: BrowserContext) -> None:
        context.add_init_script(TELL_VIOLATIONS)
        context.on("console", self._hear)
        context.on("weberror", lambda error: self._problems.append(f"script: {error.error}"))
        context.on("request", self._see_request)
        context.on("response", self._see_response)
        context.on("requestfailed", self._see_failure)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._problems.append(f"console: {message.text}")

    def _see_request(self, request: Request) -> None:
        if not request.url.startswith(self._origins):
            self._problems.append(f"elsewhere: {request.method} {request.url}")

    def _see_response(self, response: Response) -> None:
        if response.status >= 400:
            self._problems.append(f"answer: {response.status} {response.request.method} {response.url}")

    def _see_failure(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # somebody went on to another page
            self._problems.append(f"failed: {request.method} {request.url}: {request.failure}")
