"""The door before every request: where it is meant to go, whose it is, how often he asks, how much he brings."""

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.answers import of_mayfly, problem
from console.site import Site
from mayfly import events
from mayfly.access import tokens
from mayfly.access.tokens import Token
from mayfly.clock import monotonic
from mayfly.errors import DatabaseError

OPEN = {"/livez", "/health"}  # to everybody: who watches over machines has no token
SCHEME = "bearer"
CLOCK_SECONDS = 60.0  # for so long a measured clock is believed


class Refused(Exception):
    """With the answer that says why."""

    def __init__(self, answer: Response) -> None:
        self.answer = answer


class Door:
    """Around the whole application: who does not pass is not even told whether there is such a page."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            path = self._enter(scope)
            scope.setdefault("state", {})["token"] = await self._admit(scope, path)
            body = await self._read(scope, receive)
        except Refused as refused:
            await refused.answer(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)

    def _enter(self, scope: Scope) -> str:
        """The path behind the prefix; some proxies take that off, and some do not."""
        prefix, path = self._site.settings.console_prefix, str(scope["path"])
        if prefix is None:
            return path
        scope["root_path"] = prefix
        if path == prefix or path.startswith(f"{prefix}/"):
            return path[len(prefix) :] or "/"
        scope["path"] = f"{prefix}{path}"
        return path

    async def _admit(self, scope: Scope, path: str) -> Token | None:
        if path in OPEN:
            self._slow_down(f"address {_address(scope)}")
            return None
        token = await self._token(scope)
        if token is None:
            self._slow_down(f"address {_address(scope)}")
            self._site.log.say(events.token_refused(_address(scope), "no valid token"))
            told = {"WWW-Authenticate": "Bearer"}
            raise Refused(problem(401, "Send a token that holds: `Authorization: Bearer …`.", headers=told))
        self._slow_down(f"token {token.name}")
        return token

    async def _token(self, scope: Scope) -> Token | None:
        scheme, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
        if scheme.lower() != SCHEME or not text.strip():
            return None
        try:
            return await self._site.run(self._find, text.strip())
        except DatabaseError as error:
            self._site.log.say(events.request_failed(scope["method"], scope["path"], str(error)))
            raise Refused(of_mayfly(error)) from error

    def _find(self, text: str) -> Token | None:
        database = self._site.database
        database.keep_time(CLOCK_SECONDS)
        now = database.clock.now()
        token = database.read(lambda connection: tokens.find(connection, text, now))
        if token is not None and token.is_unseen(now):
            database.once(lambda connection: tokens.note_use(connection, token, now))
        return token

    def _slow_down(self, who: str) -> None:
        wait = self._site.rate.wait(who, monotonic())
        if wait:
            told = {"Retry-After": str(int(wait) + 1)}
            raise Refused(problem(429, f"More than CONSOLE_RATE allows: wait for {wait:.1f} s.", headers=told))

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, of which there is not much: nobody can fill our memory with one."""
        limit = self._site.settings.console_body_limit
        told = Headers(scope=scope).get("content-length", "")
        parts: list[bytes] = []
        size = int(told) if told.isascii() and told.isdigit() else 0
        more = size <= limit
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            size = sum(map(len, parts))
            more = message.get("more_body", False) and size <= limit
        if size > limit:
            closing = {"Connection": "close"}  # the rest of it is not read
            raise Refused(problem(413, f"A request may have {limit:,} bytes (CONSOLE_BODY_LIMIT).", headers=closing))
        return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, and then whatever comes: that the other side has hung up."""
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "nowhere"
