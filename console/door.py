"""The door before every request: where it is meant to go, whose it is, how often he asks, how much he brings."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.answers import AWAY, RETRY_SECONDS, Refused, problem
from console.site import Site
from console.web.gate import Gate
from mayfly import events
from mayfly.access import tokens
from mayfly.access.tokens import Token
from mayfly.clock import monotonic
from mayfly.errors import DatabaseError

OPEN = {"/livez", "/health"}  # to everybody: who watches over machines has no token
SCHEME = "bearer"
CLOCK_SECONDS = 60.0  # for so long a measured clock is believed


class Door:
    """Around the whole application: who does not pass is not even told whether there is such a page.

    Pages are for people with a session, and their gate asks for that; everything else is for programs with a token,
    and so is everything where there is no gate.
    """

    def __init__(self, app: ASGIApp, site: Site, gate: Gate | None = None) -> None:
        self._app = app
        self._site = site
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = self._enter(scope)
        is_page = self._gate is not None and self._gate.is_page(path)
        scope.setdefault("state", {}).update(site=self._site, is_page=is_page, session=None, token=None)
        if self._gate is not None and is_page:
            await self._show(self._gate, path, scope, receive, send)
            return
        try:
            scope["state"]["token"] = await self._admit(scope, path)
            body = await self._read(scope, receive)
        except Refused as refused:
            answer = problem(refused.status, refused.detail, headers=refused.headers)
            await answer(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)

    async def _show(self, gate: Gate, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """A page, or what stands in the way of it, as a page."""
        sending = gate.sending(scope, send)
        try:
            elsewhere = gate.enter(scope, path)
            self._slow_down(f"address {_address(scope)}")
            gate.keep_time(CLOCK_SECONDS)
            if elsewhere is not None:
                await elsewhere(scope, receive, sending)
                return
            body = await self._read(scope, receive)
            gate.check(scope, path, body)
        except Refused as refused:
            await gate.refusal(scope, refused)(scope, receive, sending)
            return
        await self._app(scope, _replayed(body, receive), sending)

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
            raise Refused(401, "Send a token that holds: `Authorization: Bearer …`.", told)
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
            raise Refused(503, AWAY, {"Retry-After": str(RETRY_SECONDS)}) from error

    def _find(self, text: str) -> Token | None:
        database = self._site.database
        database.refresh_clock(CLOCK_SECONDS)
        now = database.clock.now()
        token = database.read(lambda connection: tokens.find(connection, text, now))
        if token is not None and token.is_unseen(now):
            database.once(lambda connection: tokens.note_use(connection, token, now))
        return token

    def _slow_down(self, who: str) -> None:
        wait = self._site.rate.wait(who, monotonic())
        if wait:
            told = {"Retry-After": str(int(wait) + 1)}
            raise Refused(429, f"More than CONSOLE_RATE allows: wait for {wait:.1f} s.", told)

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
            raise Refused(413, f"A request may have {limit:,} bytes (CONSOLE_BODY_LIMIT).", closing)
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
