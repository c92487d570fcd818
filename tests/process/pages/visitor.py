"""Somebody who looks at the web console: real requests over real connections, with the cookies of a browser."""

import html
import http.client
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlencode

from argon2 import PasswordHasher

from tests.process.console.api import SECONDS, Answer, Api
from tests.process.installation import Installation

PASSWORD = "correct horse battery"


@cache
def hash_of(password: str) -> str:
    """As cheap as argon2 can be: what it costs is not what is tested here."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(password)


def accounts() -> dict[str, str]:
    """One of each role, all with the same password; admin's is CONSOLE_PASSWORD_HASH."""
    return {
        "CONSOLE_PASSWORD_HASH": hash_of(PASSWORD),
        "CONSOLE_ENVIRONMENT": "testing",
        **{f"CONSOLE_ACCOUNTS__{name.upper()}__ROLE": name for name in ("viewer", "operator")},
        **{f"CONSOLE_ACCOUNTS__{name.upper()}__PASSWORD_HASH": hash_of(PASSWORD) for name in ("viewer", "operator")},
    }


def serve(installation: Installation, **settings: str) -> Api:
    return Api(installation, {**accounts(), **settings}, options=())


@dataclass
class Visitor:
    port: int
    prefix: str = ""
    cookies: dict[str, str] = field(default_factory=dict)
    set_cookies: list[str] = field(default_factory=list)  # of the last answer

    def ask(self, method: str, path: str, form: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        body = None if form is None else urlencode(form, doseq=True)
        content = {} if body is None else {"Content-Type": "application/x-www-form-urlencoded"}
        cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        sent = {**content, **(cookies if self.cookies else {}), **(headers or {})}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)) as connection:
            connection.request(method, f"{self.prefix}{path}", body, sent)
            response = connection.getresponse()
            self.set_cookies = response.headers.get_all("set-cookie") or []
            self._keep()
            return Answer(response.status, dict(response.getheaders()), response.read().decode())

    def get(self, path: str, **more: Any) -> Answer:
        return self.ask("GET", path, **more)

    def post(self, path: str, headers: Mapping[str, str] | None = None, /, **form: Any) -> Answer:
        """As a form of ours sends it: with the token."""
        return self.ask("POST", path, {"csrf": self.token, **form}, headers)

    def follow(self, answer: Answer) -> Answer:
        assert answer.status == 303, answer.text
        return self.get(answer.headers["location"].removeprefix(self.prefix))

    def log_in(self, name: str = "admin", password: str = PASSWORD, **more: Any) -> "Visitor":
        answer = self.ask("POST", "/login", {"name": name, "password": password, **more})
        assert answer.status == 303, answer.text
        return self

    @property
    def token(self) -> str:
        """From another page, on which nothing is said that somebody should read here."""
        session = {"mayfly_session": self.cookies["mayfly_session"]}
        page = Visitor(self.port, self.prefix, session).get("/nowhere").text
        [found] = set(re.findall(r'name="csrf" value="([^"]*)"', page))
        return str(found)

    def _keep(self) -> None:
        for each in self.set_cookies:
            name, _, value = each.partition(";")[0].partition("=")
            if "max-age=0" in each.lower() or value in ("", '""'):
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value


def text_of(answer: Answer) -> str:
    """What somebody reads: without tags, entities and white space in a row."""
    body = answer.text.partition("<main")[2].partition("</main>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())
