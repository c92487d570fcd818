"""Whether a request that changes something comes from a page of ours. Pure."""

import asyncio
import hmac
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.context import ConsoleContext
from console.problems import DATABASE_AWAY, RETRY_SECONDS, RequestRefused, problem
from console.web import page
from console.web.sessions import COOKIE, LoginAttempts, Session, SessionStore, accounts_of
from console.web.tasks import BackgroundTasks
from mayfly import log_messages
from mayfly.admin import auth
from mayfly.admin.auth import Token
from mayfly.clock import monotonic
from mayfly.errors import DatabaseError

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
FIELD, HEADER = "csrf", "x-csrf-token"
FORM = "application/x-www-form-urlencoded"


def is_foreign(headers: Mapping[str, str]) -> bool:
    """What the browser says of where it comes from.

    Plain-HTTP names of an intranet get no Sec-Fetch-Site, and only then Origin is compared with Host: behind a proxy
    the two may differ. A request with neither is no browser's, or comes from no page.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()


def brings_token(headers: Mapping[str, str], body: bytes, token: str) -> bool:
    given = headers.get(HEADER)
    if given is None and headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
        given = parse_qs(body.decode("utf-8", "replace"), max_num_fields=None).get(FIELD, [""])[0]
    return hmac.compare_digest((given or "").encode(), token.encode())


def local_path(given: str) -> str:
    """Where somebody wants to go, if that is a page of ours; else the first one."""
    is_local = given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable()
    return given if is_local and "\\" not in given else "/"


LOGIN = "/login"
OPEN_PAGES = (LOGIN, "/theme", "/robots.txt")  # and all below /static: without a session
NOT_PAGES = ("/api", "/metrics", "/livez", "/health")
LIVE = "x-mayfly-live"  # what the page itself asks for, nobody's doing: it does not keep a session alive
FOREIGN_FORM = (
    "This form was not sent from a page of this console, or is too old. Go back, reload the page, try again."
)

CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # not "no-referrer": browsers would say Origin: null of our own forms
    "X-Robots-Tag": "noindex, nofollow",
}


class SessionGate:
    """What the pages remember between requests: sessions that ended, and who failed to log in."""

    def __init__(self, site: ConsoleContext) -> None:
        self.site = site
        self.accounts = accounts_of(site.settings)
        place = page.environment_of(site.settings)
        self.sessions = SessionStore(self.accounts, site.settings.console_session, place)
        self.addresses = LoginAttempts(free=20)
        self.names = LoginAttempts(free=5)
        self.errands = BackgroundTasks(site.log)
        self._timing: asyncio.Task[None] | None = None

    def now(self) -> datetime:
        return page.now_of(self.site)

    def keep_time(self, seconds: float) -> None:
        """Measure the database's clock anew if that was so long ago. Nobody waits for it."""
        if self._timing is None or self._timing.done():
            self._timing = asyncio.create_task(self._measure(seconds))

    async def _measure(self, seconds: float) -> None:
        with suppress(DatabaseError):  # whoever looks at something is told
            await self.site.run(self.site.database.refresh_clock, seconds)

    @staticmethod
    def is_page(path: str) -> bool:
        return path not in NOT_PAGES and not path.startswith("/api/")

    def enter(self, scope: Scope, path: str) -> Response | None:
        """Note who asks; the answer for somebody who must log in first."""
        request = Request(scope)
        request.state.gate = self
        request.state.session = session = self._session(request)
        if session is not None or path in OPEN_PAGES or path.startswith("/static/"):
            return None
        if LIVE in request.headers:
            return Response(status_code=401)
        asked = f"{path}?{request.url.query}" if request.url.query else path
        where = asked if request.method in SAFE and asked != "/" else ""
        return RedirectResponse(page.url(request, LOGIN, next=where), 303)

    @staticmethod
    def check(scope: Scope, path: str, body: bytes) -> None:
        """Refuse what somebody else's page may have sent. A login has no token: nobody is logged in yet."""
        headers = Headers(scope=scope)
        if scope["method"] in SAFE:
            return
        session: Session | None = scope["state"]["session"]
        lacks_token = session is not None and path != LOGIN and not brings_token(headers, body, session.csrf)
        if is_foreign(headers) or lacks_token:
            raise RequestRefused(403, FOREIGN_FORM)

    def refusal(self, scope: Scope, refused: RequestRefused) -> Response:
        return page.refusal(Request(scope), refused.status, refused.detail, refused.headers)

    def sending(self, scope: Scope, send: Send) -> Send:
        """With the headers that every page has, and the session renewed."""

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(scope, message)
            await send(message)

        return send_on

    def _session(self, request: Request) -> Session | None:
        cookie = request.cookies.get(COOKIE)
        return None if cookie is None else self.sessions.read(cookie, self.now())

    def _add_headers(self, scope: Scope, message: Message) -> None:
        headers = MutableHeaders(scope=message)
        for name, value in HEADERS.items():
            headers[name] = value
        headers.setdefault("Cache-Control", "no-store")
        request, now = Request(scope), self.now()
        session: Session | None = getattr(request.state, "session", None)
        is_set = any(value.startswith(f"{COOKIE}=") for value in headers.getlist("set-cookie"))
        if session and not is_set and LIVE not in request.headers and self.sessions.is_old(session, now):
            answer = Response()
            self.remember(request, answer, self.sessions.begin(session.person.name, now, session.nonce))
            headers.append("set-cookie", answer.headers["set-cookie"])

    def remember(self, request: Request, answer: Response, cookie: str) -> None:
        answer.set_cookie(COOKIE, cookie, int(self.sessions.length.total_seconds()), **self.manners(request))

    def forget(self, request: Request, answer: Response) -> None:
        answer.delete_cookie(COOKIE, **self.manners(request))

    def manners(self, request: Request) -> dict[str, Any]:
        """Not for scripts, nor for other people's pages, nor, where there is TLS, for a wire without it."""
        secure = self.site.settings.console_tls_proxy or request.url.scheme == "https"
        return {"path": page.root(request), "secure": secure, "httponly": True, "samesite": "lax"}


def gate_of(request: Request) -> SessionGate:
    gate: SessionGate = request.state.gate
    return gate


OPEN_PATHS = {"/livez", "/health"}  # to everybody: who watches over machines has no token
SCHEME = "bearer"
CLOCK_SECONDS = 60.0  # for so long a measured clock is believed


class AuthMiddleware:
    """Around the whole application: who does not pass is not even told whether there is such a page.

    Pages are for people with a session, and their gate asks for that; everything else is for programs with a token,
    and so is everything where there is no gate.
    """

    def __init__(self, app: ASGIApp, site: ConsoleContext, gate: SessionGate | None = None) -> None:
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
        except RequestRefused as refused:
            answer = problem(refused.status, refused.detail, headers=refused.headers)
            await answer(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)

    async def _show(self, gate: SessionGate, path: str, scope: Scope, receive: Receive, send: Send) -> None:
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
        except RequestRefused as refused:
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
        if path in OPEN_PATHS:
            self._slow_down(f"address {_address(scope)}")
            return None
        token = await self._token(scope)
        if token is None:
            self._slow_down(f"address {_address(scope)}")
            self._site.log.say(log_messages.token_refused(_address(scope), "no valid token"))
            told = {"WWW-Authenticate": "Bearer"}
            raise RequestRefused(401, "Send a token that holds: `Authorization: Bearer …`.", told)
        self._slow_down(f"token {token.name}")
        return token

    async def _token(self, scope: Scope) -> Token | None:
        scheme, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
        if scheme.lower() != SCHEME or not text.strip():
            return None
        try:
            return await self._site.run(self._find, text.strip())
        except DatabaseError as error:
            self._site.log.say(log_messages.request_failed(scope["method"], scope["path"], str(error)))
            raise RequestRefused(503, DATABASE_AWAY, {"Retry-After": str(RETRY_SECONDS)}) from error

    def _find(self, text: str) -> Token | None:
        database = self._site.database
        database.refresh_clock(CLOCK_SECONDS)
        now = database.clock.now()
        token = database.read(lambda connection: auth.find_token(connection, text, now))
        if token is not None and token.is_unseen(now):
            database.once(lambda connection: auth.record_use(connection, token, now))
        return token

    def _slow_down(self, who: str) -> None:
        wait = self._site.rate.wait(who, monotonic())
        if wait:
            told = {"Retry-After": str(int(wait) + 1)}
            raise RequestRefused(429, f"More than CONSOLE_RATE allows: wait for {wait:.1f} s.", told)

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
            raise RequestRefused(413, f"A request may have {limit:,} bytes (CONSOLE_BODY_LIMIT).", closing)
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
