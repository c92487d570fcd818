"""Authenticate every request: the HTTP API by bearer token, pages by session cookie.

AuthMiddleware wraps the whole application: without a valid token or session the response does not even show whether a
path exists. It also applies the rate limit and the body limit, and sets the security headers. For pages it checks
origin and CSRF token. Routes of handlers (console.hooks) have only the limits.
"""

import hmac
from collections.abc import Awaitable, Mapping
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.context import CLOCK_MAX_AGE_SECONDS, ConsoleContext, client_address, session_of
from console.problems import DATABASE_UNAVAILABLE, DATABASE_UNAVAILABLE_PAGE, RETRY_AFTER, json_problem
from console.sessions import SESSION_COOKIE, Session
from console.web import page
from mayfly import log_messages
from mayfly.admin import auth
from mayfly.admin.auth import Token
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import DatabaseError
from mayfly.schema.tables import NAME_LENGTH

T = TypeVar("T")

HOOKS_PATH = "/hooks/"  # routes of handlers, which check each request themselves
API_PATHS = ("/api", "/metrics", "/livez", "/health")  # and everything below /api/
OPEN_API_PATHS = ("/livez", "/health")  # monitoring needs no token
LOGIN_PATH = "/login"
OPEN_PAGES = (LOGIN_PATH, "/theme", "/robots.txt")  # and everything below /static/

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
FORM_TYPE = "application/x-www-form-urlencoded"
WORKER_HEADER = "mayfly-worker"  # the name of an external worker: several may share a token
LIVE_HEADER = "x-mayfly-live"  # sent by the live updates of a page, which do not renew the session

UNAUTHORIZED = "Send a valid token: `Authorization: Bearer …`. `mayfly token create` creates one."
INVALID_FORM = (
    "This form was not sent by a page of this console, or the page is too old. Go back, reload it and try again."
)
INCOMPLETE = "The connection ended before the whole request was received."
TWO_LENGTHS = "Send either Content-Length or Transfer-Encoding, not both."
CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
API_HEADERS = {"X-Content-Type-Options": "nosniff"}
PAGE_HEADERS = {
    **API_HEADERS,
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with "no-referrer" browsers send Origin: null with our own forms
    "X-Robots-Tag": "noindex, nofollow",
}


class RequestRefused(Exception):
    def __init__(self, response: Response) -> None:
        self.response = response


def refusal(request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None) -> RequestRefused:
    if request.state.is_page:
        return RequestRefused(page.error_page(request, status, detail, headers))
    return RequestRefused(json_problem(status, detail, headers))


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
        is_page = self._has_pages and path not in API_PATHS and not path.startswith(("/api/", HOOKS_PATH))
        scope.setdefault("state", {}).update(context=self._context, is_page=is_page, session=None, token=None)
        request = Request(scope)
        send = self._sending_headers(request, send)
        body = await self._admit(request, path, receive)
        if isinstance(body, Response):
            await body(scope, receive, send)
        else:
            await self._app(scope, _replaying(body, receive), send)

    async def _admit(self, request: Request, path: str, receive: Receive) -> bytes | Response:
        """Return the body of an accepted request, or the response to a refused one."""
        is_page = request.state.is_page
        try:
            check_framing(request)
            if path.startswith(HOOKS_PATH):
                self._check_rate(request, f"address {client_address(request)}")
            elif is_page:
                await self._check_session(request, path)
            else:
                await self._check_token(request, path)
            body = await self._read_body(request, receive)
            if is_page and request.method not in SAFE_METHODS:
                check_origin(request, path, body)
        except RequestRefused as refused:
            return refused.response
        return body

    def _remove_prefix(self, scope: Scope) -> str:
        """Return the path without CONSOLE_PREFIX, which some proxies remove and others keep."""
        prefix, path = self._context.settings.console_prefix, str(scope["path"])
        if prefix is None:
            return path
        scope["root_path"] = prefix
        if path == prefix or path.startswith(f"{prefix}/"):
            return path[len(prefix) :] or "/"
        scope["path"] = f"{prefix}{path}"
        return path

    async def _check_session(self, request: Request, path: str) -> None:
        self._check_rate(request, f"address {client_address(request)}")
        self._context.refresh_clock()
        if path.startswith("/static/"):
            return
        request.state.session = await self._find_session(request)
        if request.state.session is None and path not in OPEN_PAGES:
            raise RequestRefused(_login_response(request, path))

    async def _find_session(self, request: Request) -> Session | None:
        cookie, context = request.cookies.get(SESSION_COOKIE), self._context
        session = None if cookie is None else context.sessions.read(cookie, context.now())
        if session is None or await self._query(request, context.read(auth.has_ended, session.nonce)):
            return None
        return session

    async def _check_token(self, request: Request, path: str) -> None:
        address = client_address(request)
        token = None if path in OPEN_API_PATHS else await self._find_token(request)
        self._check_rate(request, f"address {address}" if token is None else rated_client(request, token))
        if token is None and path not in OPEN_API_PATHS:
            self._context.log.write(log_messages.token_refused(address, "no valid token"))
            raise refusal(request, 401, UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})
        request.state.token = token

    async def _find_token(self, request: Request) -> Token | None:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            return None
        return await self._query(request, self._context.run(find_token, self._context.database, text.strip()))

    async def _query(self, request: Request, query: Awaitable[T]) -> T:
        """Without the database no session and no token is valid."""
        try:
            return await query
        except DatabaseError as error:
            message = log_messages.request_failed(request.method, request.scope["path"], str(error))
            self._context.log.write(message)
            detail = DATABASE_UNAVAILABLE_PAGE if request.state.is_page else DATABASE_UNAVAILABLE
            raise refusal(request, 503, detail, RETRY_AFTER) from error

    def _check_rate(self, request: Request, client: str) -> None:
        wait = self._context.rate_limiter.wait(client, monotonic())
        if wait:
            headers = {"Retry-After": str(int(wait) + 1)}
            raise refusal(request, 429, f"Too many requests (CONSOLE_RATE): wait {wait:.1f} s.", headers)

    async def _read_body(self, request: Request, receive: Receive) -> bytes:
        """Read the whole body, up to CONSOLE_BODY_LIMIT."""
        limit = self._context.settings.console_body_limit
        declared = request.headers.get("content-length", "")
        parts: list[bytes] = []
        size = int(declared) if declared.isascii() and declared.isdigit() else 0
        more = size <= limit
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise refusal(request, 400, INCOMPLETE)
            parts.append(message.get("body", b""))
            size = sum(map(len, parts))
            more = message.get("more_body", False) and size <= limit
        if size > limit:
            headers = {"Connection": "close"}  # the rest of the body is not read
            raise refusal(request, 413, f"The request is larger than {limit:,} bytes (CONSOLE_BODY_LIMIT).", headers)
        return b"".join(parts)

    def _sending_headers(self, request: Request, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(PAGE_HEADERS if request.state.is_page else API_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
                session = session_of(request)
                if session is not None:
                    self._renew_session(request, session, headers)
            await send(message)

        return send_with_headers

    def _renew_session(self, request: Request, session: Session, headers: MutableHeaders) -> None:
        sessions, now = self._context.sessions, self._context.now()
        is_set = any(value.startswith(f"{SESSION_COOKIE}=") for value in headers.getlist("set-cookie"))
        if is_set or LIVE_HEADER in request.headers or not sessions.needs_renewal(session, now):
            return
        renewed = Response()
        sessions.set_cookie(request, renewed, sessions.start(session.name, now, session.nonce))
        headers.append("set-cookie", renewed.headers["set-cookie"])


def rated_client(request: Request, token: Token) -> str:
    """Whose requests are limited together: those of a token, or of each worker that uses it.

    A worker is known by its name, or else by its address.
    """
    if auth.WORK not in token.scopes:
        return f"token {token.name}"
    worker = request.headers.get(WORKER_HEADER, "")[:NAME_LENGTH]
    return f"token {token.name} worker {worker or client_address(request)}"


def find_token(database: Database, text: str) -> Token | None:
    database.refresh_clock(CLOCK_MAX_AGE_SECONDS)
    now = database.clock.now()
    token = database.read(lambda connection: auth.find_token(connection, text, now))
    if token is not None and token.needs_use_recorded(now):
        database.once(lambda connection: auth.record_use(connection, token, now))
    return token


def check_framing(request: Request) -> None:
    """Refuse a request with two lengths: a proxy may use the other one, and the body then has a second request."""
    if "transfer-encoding" in request.headers and "content-length" in request.headers:
        raise refusal(request, 400, TWO_LENGTHS, {"Connection": "close"})


def check_origin(request: Request, path: str, body: bytes) -> None:
    """Refuse forms of other sites. The login form has no CSRF token, because there is no session yet."""
    session: Session | None = session_of(request)
    lacks_token = session is not None and path != LOGIN_PATH and not has_csrf_token(request, body, session.csrf_token)
    if is_cross_site(request.headers) or lacks_token:
        raise refusal(request, 403, INVALID_FORM)


def is_cross_site(headers: Mapping[str, str]) -> bool:
    """Check Sec-Fetch-Site, or Origin if the browser does not send that (plain HTTP in an intranet).

    Origin is only the fallback, because behind a proxy it may differ from Host. A request with neither header does
    not come from a page in a browser.
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
    """Redirect to the login page, which redirects back; live updates get 401 instead."""
    if LIVE_HEADER in request.headers:
        return Response(status_code=401)
    requested = f"{path}?{request.url.query}" if request.url.query else path
    back = requested if request.method in SAFE_METHODS and requested != "/" else ""
    return RedirectResponse(page.url(request, LOGIN_PATH, next=back), 303)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Replay the body that was read already, then continue with the real messages (the disconnect)."""
    unread = [body]

    async def replay() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return replay
