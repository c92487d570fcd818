"""A user of the web console: requests over real connections, with the cookies of a browser."""

import html
import http.client
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.process.console.api import PASSWORD, SECONDS, Answer, Api, account_settings
from tests.process.installation import Installation


def serve_pages(installation: Installation, **settings: str) -> Api:
    accounts = account_settings("testing", viewer="viewer", operator="operator")
    return Api(installation, {**accounts, **settings}, options=())


@dataclass
class Visitor:
    port: int
    prefix: str = ""
    cookies: dict[str, str] = field(default_factory=dict)
    set_cookies: list[str] = field(default_factory=list)  # of the last response

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
        """As a form of the console sends it: with the CSRF token."""
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
        """From a page of another visitor with the same session, so that no message is consumed here."""
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
    """The visible text: without tags, entities and repeated white space."""
    body = answer.text.partition("<main")[2].partition("</main>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())
