"""A real `python -m console` with an account per role, for browsers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser

from tests.process.console.api import PASSWORD, Api, account_settings

ENVIRONMENT = "staging"


@dataclass
class Console(Api):
    options: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._sessions: dict[str, Any] = {}
        self.settings = {**account_settings(ENVIRONMENT, olga="operator", vera="viewer"), **self.settings}
        super().__post_init__()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def session_of(self, browser: Browser, name: str) -> Any:
        """Cookies of a logged-in user: the first call uses the login form, later ones reuse its result."""
        if name not in self._sessions:
            with browser.new_context(base_url=self.origin) as context:
                page = context.new_page()
                page.goto("/login")
                page.get_by_label("Account").fill(name)
                page.get_by_label("Password").fill(PASSWORD)
                page.get_by_role("button", name="Log in").click()
                page.wait_for_url(lambda url: "/login" not in url)
                self._sessions[name] = context.storage_state()
        return self._sessions[name]


__all__ = ["ENVIRONMENT", "PASSWORD", "Console"]
