"""Before every page: who asks, by his session; what changes something must come from a page of ours."""

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Any

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import Message, Scope, Send

from console.answers import Refused
from console.site import Site
from console.web import page
from console.web.accounts import accounts_of
from console.web.attempts import Attempts
from console.web.errands import Errands
from console.web.origin import SAFE, brings_token, is_foreign
from console.web.sessions import COOKIE, Session, Sessions
from mayfly.errors import DatabaseError

LOGIN = "/login"
OPEN = (LOGIN, "/theme", "/robots.txt")  # and all below /static: without a session
NOT_PAGES = ("/api", "/metrics", "/livez", "/health")
LIVE = "x-mayfly-live"  # what the page itself asks for, nobody's doing: it does not keep a session alive
FOREIGN = "This form was not sent from a page of this console, or is too old. Go back, reload the page, try again."

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


class Gate:
    """What the pages remember between requests: sessions that ended, and who failed to log in."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.accounts = accounts_of(site.settings)
        place = page.environment_of(site.settings)
        self.sessions = Sessions(self.accounts, site.settings.console_session, place)
        self.addresses = Attempts(free=20)
        self.names = Attempts(free=5)
        self.errands = Errands(site.log)
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
        if session is not None or path in OPEN or path.startswith("/static/"):
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
            raise Refused(403, FOREIGN)

    def refusal(self, scope: Scope, refused: Refused) -> Response:
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


def gate_of(request: Request) -> Gate:
    gate: Gate = request.state.gate
    return gate
