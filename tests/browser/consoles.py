"""A real `python -m console` for people: with an account of each role, and Mayfly's own settings otherwise."""

import http.client
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from argon2 import PasswordHasher
from playwright.sync_api import Browser

from tests.process.installation import Installation, StartedProcess, wait_until
from tests.servers.private import free_port

PASSWORD = "correct horse battery"
ROLES = {"admin": "admin", "olga": "operator", "vera": "viewer"}
ENVIRONMENT = "staging"


@cache
def cheap_hash() -> str:
    """A real one that takes no time: what is tested here is not how long a guess takes."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)


def accounts() -> dict[str, str]:
    settings = {"CONSOLE_PASSWORD_HASH": cheap_hash(), "CONSOLE_ENVIRONMENT": ENVIRONMENT}
    for name in ROLES.keys() - {"admin"}:
        settings[f"CONSOLE_ACCOUNTS__{name.upper()}__ROLE"] = ROLES[name]
        settings[f"CONSOLE_ACCOUNTS__{name.upper()}__PASSWORD_HASH"] = cheap_hash()
    return settings


@dataclass
class Console:
    installation: Installation
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self._sessions: dict[str, Any] = {}
        self.process = self.start()

    def start(self) -> StartedProcess:
        settings = {"CONSOLE_PORT": str(self.port), **accounts(), **self.settings}
        process = self.installation.start("console", **settings)
        wait_until(lambda: self.is_up or process.poll() is not None, "the console answers")
        assert process.poll() is None, process.communicate()
        return process

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_up(self) -> bool:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as connection:
            try:
                connection.request("GET", "/livez")
                return connection.getresponse().status == 200
            except OSError:
                return False

    def session_of(self, browser: Browser, name: str) -> Any:
        """The cookies of somebody who has logged in: once, by the form, and from then on without it."""
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
