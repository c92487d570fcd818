"""A real `python -m console`, and requests to its HTTP API over real connections."""

import http.client
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from argon2 import PasswordHasher

from mayfly.admin import auth
from mayfly.admin.auth import SCOPES, Actor, AuditEntry
from tests.process.installation import Installation, StartedProcess, wait_until
from tests.servers.private import free_port

SECONDS = 90.0
EXTERNAL_PREFIX = {"LANES__OUTSIDE__EXTERNAL": "true"}
PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Api:
    """Its token has all scopes."""

    installation: Installation
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    options: Sequence[str] = ("--api-only",)

    def __post_init__(self) -> None:
        self.renew_token()
        self.process = self.start()

    def renew_token(self) -> None:
        self.token = self.make_token("everything", *SCOPES)

    def start(self) -> StartedProcess:
        process = self.installation.start("console", *self.options, CONSOLE_PORT=str(self.port), **self.settings)
        wait_until(lambda: self.is_up or process.poll() is not None, "the console answers")
        assert process.poll() is None, process.communicate()
        return process

    @property
    def is_up(self) -> bool:
        try:
            return self.ask("GET", "/livez", token=None).status == 200
        except OSError:
            return False

    def make_token(self, name: str, *scopes: str, **columns: Any) -> str:
        text = auth.new_token_text()
        database = self.installation.database
        new = auth.Token(name, auth.hash_token(text), frozenset(scopes), database.clock.now(), "test", **columns)
        entry = AuditEntry(Actor("test"), "create token", name, new.created_at)
        database.run(lambda connection: auth.add_token(connection, new, entry))
        return text

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
        content_type: bool = True,
    ) -> Answer:
        """With the token of this console by default, and without one if it is None; a body is declared as JSON."""
        own = {"Authorization": f"Bearer {token or self.token}"} if token is not None else {}
        sent = json.dumps(body).encode() if body is not None else raw
        content = {"Content-Type": "application/json"} if sent is not None and content_type else {}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)) as connection:
            connection.request(method, path, sent, {**own, **content, **(headers or {})})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read().decode())

    def get(self, path: str, **more: Any) -> Answer:
        return self.ask("GET", f"/api/v1{path}", **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self.ask("POST", f"/api/v1{path}", body, **more)

    def pull(self, **wish: Any) -> list[dict[str, Any]]:
        answer = self.post("/pull", {"lanes": ["outside"], **wish})
        assert answer.status == 200, answer.text
        found: list[dict[str, Any]] = answer.json["jobs"]
        return found


class Serve(Protocol):
    def __call__(self, installation: Installation, **settings: str) -> Api: ...


def serve_api(installation: Installation, **settings: str) -> Api:
    installation.settings = EXTERNAL_PREFIX
    return Api(installation, settings)


@cache
def inexpensive_hash() -> str:
    """A valid argon2 hash with the lowest cost: these tests are not about the time to guess a password."""
    return hash_password(PASSWORD)


def hash_password(password: str) -> str:
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(password)


def account_settings(environment: str, **roles: str) -> dict[str, str]:
    """Accounts by name, beside `admin`, all with the same password."""
    return {
        "CONSOLE_PASSWORD_HASH": inexpensive_hash(),
        "CONSOLE_ENVIRONMENT": environment,
        **{f"CONSOLE_ACCOUNTS__{name.upper()}__ROLE": role for name, role in roles.items()},
        **{f"CONSOLE_ACCOUNTS__{name.upper()}__PASSWORD_HASH": inexpensive_hash() for name in roles},
    }
