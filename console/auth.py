"""Authenticate every request: the HTTP API by bearer token, pages by session cookie.

AuthMiddleware wraps the whole application, so that a request without a valid token or session learns nothing, not
even whether a path exists. It also applies the rate limit and the body limit and, for pages, checks origin and CSRF
token and sets the security headers.
"""

import hmac
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.context import CLOCK_MAX_AGE_SECONDS, ConsoleContext, client_address, session_of
from console.problems import DATABASE_UNAVAILABLE, RETRY_AFTER, RequestRefused, json_problem
from console.sessions import SESSION_COOKIE, Session
from console.web import page
from mayfly import log_messages
from mayfly.admin import auth
from mayfly.admin.auth import Token
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import DatabaseError

API_PATHS = ("/api", "/metrics", "/livez", "/health")  # and everything below /api/
OPEN_API_PATHS = ("/livez", "/health")  # monitoring has no token
LOGIN_PATH = "/login"
OPEN_PAGES = (LOGIN_PATH, "/theme", "/robots.txt")  # and everything below /static/

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
FORM_TYPE = "application/x-www-form-urlencoded"
LIVE_HEADER = "x-mayfly-live"  # of updates by the page's script: they do not keep a session alive

UNAUTHORIZED = "Send a valid token: `Authorization: Bearer …`. `mayfly token create` makes one."
FOREIGN_FORM = (
    "This form was not sent by a page of this console, or it is too old. Go back, reload the page and try again."
)
CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with "no-referrer" browsers send Origin: null with our own forms
    "X-Robots-Tag": "noindex, nofollow",
}


class LoginRequired(Exception):
    def __init__(self, response: Response) -> None:
        self.response = response


class AuthMiddleware:
    def __init__(self, app: ASGIApp, context: ConsoleContext, has_pages: bool) -> None:
        self._app = app
        self._context = context
        self._has_pages = has_pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = self._remove_prefix(scope)
        is_page = self._has_pages and path not in API_PATHS and not path.startswith("/api/")
        scope.setdefault("state", {}).update(context=self._context, is_page=is_page, session=None, token=None)
        request = Request(scope)
        if is_page:
            send = self._sending_headers(request, send)
        body = await self._admit(request, path, receive)
        if isinstance(body, Response):
            await body(scope, receive, send)
        else:
            await self._app(scope, _replaying(body, receive), send)

    async def _admit(self, request: Request, path: str, receive: Receive) -> bytes | Response:
        """The body of an accepted request, or the response to any other."""
        is_page = request.state.is_page
        try:
            if is_page:
                self._check_session(request, path)
            else:
                await self._check_token(request, path)
            body = await self._read_body(request, receive)
            if is_page and request.method not in SAFE_METHODS:
                check_origin(request, path, body)
        except LoginRequired as required:
            return required.response
        except RequestRefused as refused:
            if is_page:
                return page.error_page(request, refused.status, refused.detail, refused.headers)
            return json_problem(refused.status, refused.detail, headers=refused.headers)
        return body

    def _remove_prefix(self, scope: Scope) -> str:
        """The path without CONSOLE_PREFIX; some proxies remove that themselves, and some do not."""
        prefix, path = self._context.settings.console_prefix, str(scope["path"])
        if prefix is None:
            return path
        scope["root_path"] = prefix
        if path == prefix or path.startswith(f"{prefix}/"):
            return path[len(prefix) :] or "/"
        scope["path"] = f"{prefix}{path}"
        return path

    def _check_session(self, request: Request, path: str) -> None:
        cookie, context = request.cookies.get(SESSION_COOKIE), self._context
        request.state.session = None if cookie is None else context.sessions.read(cookie, context.now())
        self._check_rate(f"address {client_address(request)}")
        context.refresh_clock()
        if request.state.session is None and path not in OPEN_PAGES and not path.startswith("/static/"):
            raise LoginRequired(_login_response(request, path))

    async def _check_token(self, request: Request, path: str) -> None:
        address = client_address(request)
        token = None if path in OPEN_API_PATHS else await self._find_token(request)
        self._check_rate(f"address {address}" if token is None else f"token {token.name}")
        if token is None and path not in OPEN_API_PATHS:
            self._context.log.say(log_messages.token_refused(address, "no valid token"))
            raise RequestRefused(401, UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})
        request.state.token = token

    async def _find_token(self, request: Request) -> Token | None:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            return None
        try:
            return await self._context.run(find_token, self._context.database, text.strip())
        except DatabaseError as error:
            message = log_messages.request_failed(request.method, request.scope["path"], str(error))
            self._context.log.say(message)
            raise RequestRefused(503, DATABASE_UNAVAILABLE, RETRY_AFTER) from error

    def _check_rate(self, client: str) -> None:
        wait = self._context.rate_limiter.wait(client, monotonic())
        if wait:
            headers = {"Retry-After": str(int(wait) + 1)}
            raise RequestRefused(429, f"Too many requests (CONSOLE_RATE): wait for {wait:.1f} s.", headers)

    async def _read_body(self, request: Request, receive: Receive) -> bytes:
        """The whole body, up to CONSOLE_BODY_LIMIT."""
        limit = self._context.settings.console_body_limit
        declared = request.headers.get("content-length", "")
        parts: list[bytes] = []
        size = int(declared) if declared.isascii() and declared.isdigit() else 0
        more = size <= limit
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            size = sum(map(len, parts))
            more = message.get("more_body", False) and size <= limit
        if size > limit:
            headers = {"Connection": "close"}  # the rest of it is not read
            raise RequestRefused(413, f"A request may have up to {limit:,} bytes (CONSOLE_BODY_LIMIT).", headers)
        return b"".join(parts)

    def _sending_headers(self, request: Request, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(PAGE_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
                self._renew_session(request, headers)
            await send(message)

        return send_with_headers

    def _renew_session(self, request: Request, headers: MutableHeaders) -> None:
        session, sessions, now = session_of(request), self._context.sessions, self._context.now()
        is_set = any(value.startswith(f"{SESSION_COOKIE}=") for value in headers.getlist("set-cookie"))
        if session is None or is_set or LIVE_HEADER in request.headers or not sessions.needs_renewal(session, now):
            return
        renewed = Response()
        sessions.set_cookie(request, renewed, sessions.start(session.user.name, now, session.nonce))
        headers.append("set-cookie", renewed.headers["set-cookie"])


def find_token(database: Database, text: str) -> Token | None:
    database.refresh_clock(CLOCK_MAX_AGE_SECONDS)
    now = database.clock.now()
    token = database.read(lambda connection: auth.find_token(connection, text, now))
    if token is not None and token.needs_use_recorded(now):
        database.once(lambda connection: auth.record_use(connection, token, now))
    return token


def check_origin(request: Request, path: str, body: bytes) -> None:
    """Refuse a form that another site may have sent. The login form has no CSRF token: there is no session yet."""
    session: Session | None = session_of(request)
    lacks_token = session is not None and path != LOGIN_PATH and not has_csrf_token(request, body, session.csrf_token)
    if is_cross_site(request.headers) or lacks_token:
        raise RequestRefused(403, FOREIGN_FORM)


def is_cross_site(headers: Mapping[str, str]) -> bool:
    """By Sec-Fetch-Site, or by Origin where the browser does not send that (plain HTTP in an intranet).

    Origin is compared with Host only then, because behind a proxy the two may differ. A request with neither header
    does not come from a page in a browser.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()


def has_csrf_token(request: Request, body: bytes, expected: str) -> bool:
    given = request.headers.get(CSRF_HEADER)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given is None and content_type == FORM_TYPE:
        given = parse_qs(body.decode("utf-8", "replace"), max_num_fields=None).get(CSRF_FIELD, [""])[0]
    return hmac.compare_digest((given or "").encode(), expected.encode())


def _login_response(request: Request, path: str) -> Response:
    """Redirect to the login page and back afterwards; the script of a page gets 401 instead."""
    if LIVE_HEADER in request.headers:
        return Response(status_code=401)
    requested = f"{path}?{request.url.query}" if request.url.query else path
    back = requested if request.method in SAFE_METHODS and requested != "/" else ""
    return RedirectResponse(page.url(request, LOGIN_PATH, next=back), 303)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return the body that was read, then what comes next: the disconnect."""
    unread = [body]

    async def replay() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return replay
