"""Render pages: templates and their filters, links, redirects, role checks, and the values of every page."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from itsdangerous import BadData, URLSafeSerializer
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from console.context import ConsoleContext, context_of, session_of
from console.problems import title_of
from console.sessions import ADMIN, OPERATOR, VIEWER, Session
from console.web import static
from mayfly import __version__
from mayfly.admin.auth import PAGE, Actor
from mayfly.format import format_duration, moment

THEME_COOKIE, FLASH_COOKIE = "mayfly_theme", "mayfly_flash"
THEMES = ("system", "light", "dark")
FLASH_SECONDS = 60
NO_SUCH_PAGE = "There is no such page. The address is wrong, or its subject was deleted."
MEBIBYTE = 1 << 20
MAX_NAME_ON_LINE = 24  # characters, as in .name of console.css
AFTER_SEPARATOR = re.compile(r"(?<=[_.:/-])(?!$)")


class Screen(NamedTuple):
    path: str
    title: str
    role: str = VIEWER  # hides the link; the screen checks the role again


# The navigation, in display order. A new screen adds a line here.
SCREENS: Sequence[Screen] = (
    Screen("/", "Overview"),
    Screen("/jobs", "Jobs"),
    Screen("/dead", "Dead"),
    Screen("/batches", "Batches"),
    Screen("/types", "Types"),
    Screen("/lanes", "Lanes"),
    Screen("/schedules", "Schedules"),
    Screen("/cycles", "Cycles"),
    Screen("/runners", "Runners"),
    Screen("/limits", "Limits"),
    Screen("/sources", "Sources"),
    Screen("/audit", "Audit"),
    Screen("/settings", "Settings", ADMIN),
    Screen("/enqueue", "Enqueue", OPERATOR),
)


# --- responses --------------------------------------------------------------------------------------------


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    text = TEMPLATES.get_template(template).render(**_common(request), **values)
    response = HTMLResponse(text, status)
    if FLASH_COOKIE in request.cookies:
        response.delete_cookie(FLASH_COOKIE, path=cookie_path(request))
    return response


def error_page(request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Render an error. The page reloads itself while the database is unavailable."""
    is_unknown_path = (status, detail) == (404, "Not Found")  # Starlette's own text
    text = NO_SUCH_PAGE if is_unknown_path else detail
    response = render(request, "error.html", status, title=title_of(status), detail=text)
    response.headers.update(headers or {})
    if status == 503 and request.method == "GET":
        response.headers["Refresh"] = "5"
    return response


def redirect(request: Request, path: str, message: str | None = None) -> Response:
    """Redirect to a page of the console, which shows the message once."""
    response = RedirectResponse(url(request, path), 303)
    session = session_of(request)
    if message is not None and session is not None:
        text = str(_flash_signer(session).dumps(message))
        response.set_cookie(
            FLASH_COOKIE, text, FLASH_SECONDS, path=cookie_path(request), httponly=True, samesite="lax"
        )
    return response


def without_empty_parameters(request: Request) -> Response | None:
    """A redirect to the address without the empty fields of a form; None if it has none."""
    given = request.query_params.multi_items()
    kept = [(name, value) for name, value in given if value]
    query = f"?{urlencode(kept)}" if kept else ""
    return None if kept == given else RedirectResponse(f"{url(request, page_path(request))}{query}", 303)


def page_path(request: Request) -> str:
    """Without CONSOLE_PREFIX."""
    prefix = context_of(request).settings.console_prefix or ""
    return str(request.scope["path"]).removeprefix(prefix) or "/"


def local_path(given: str) -> str:
    """Return the path if it is one of the console; otherwise, such as for another host, the overview."""
    is_local = given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable()
    return given if is_local and "\\" not in given else "/"


def url(request: Request, path: str, **query: Any) -> str:
    """Build a link with CONSOLE_PREFIX; empty parameters are skipped."""
    given = {name: value for name, value in query.items() if value not in (None, "", ())}
    prefix = context_of(request).settings.console_prefix or ""
    return f"{prefix}{path}{'?' if given else ''}{urlencode(given, doseq=True)}"


def cookie_path(request: Request) -> str:
    return context_of(request).settings.console_prefix or "/"


# --- dependencies of routes -------------------------------------------------------------------------------


def _requires(role: str) -> Any:
    def check(request: Request) -> Actor:
        session = session_of(request)
        if session is None or not session.may(role):
            raise HTTPException(403, f"This needs the role {role}. Ask an administrator of the console.")
        return Actor(session.name, PAGE)

    return Depends(check)


Context = Annotated[ConsoleContext, Depends(context_of)]
Viewer = Annotated[Actor, _requires(VIEWER)]
Operator = Annotated[Actor, _requires(OPERATOR)]
Admin = Annotated[Actor, _requires(ADMIN)]


# --- template filters -------------------------------------------------------------------------------------


def ago(at: datetime, now: datetime) -> str:
    """3 min ago, in 2 h, just now."""
    age = now - at
    if abs(age) < timedelta(seconds=1):
        return "just now"
    return f"{format_duration(age)} ago" if age > timedelta(0) else f"in {format_duration(-age)}"


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(milliseconds: float | None) -> str:
    """12 ms, 3.4 s, 7 min."""
    return "" if milliseconds is None else format_duration(milliseconds / 1000, precise=True)


def seconds(given: float | None) -> str:
    return "" if given is None else duration(given * 1000)


def mebibytes(given: int | None) -> str:
    return "" if given is None else f"{given / MEBIBYTE:,.0f} MiB"


def number(given: Any) -> str:
    """With thousands separators; a CappedCount formats itself."""
    return f"{given:,}" if isinstance(given, int) else str(given)


def plural(given: Any, noun: str) -> str:
    """1 job, 2 jobs, 10,000+ jobs."""
    return f"{number(given)} {noun}{'' if str(given) == '1' else 's'}"


def breakable(name: str) -> Markup:
    """With possible line breaks after its separators, if it is too long for one line of a table."""
    return Markup("<wbr>").join(AFTER_SEPARATOR.split(name) if len(name) > MAX_NAME_ON_LINE else [name])


def as_json(given: Any) -> str:
    return json.dumps(given, indent=2, ensure_ascii=False, default=str)


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "exact": moment, "iso": iso, "duration": duration, "seconds": seconds, "number": number, "plural": plural,
    "mebibytes": mebibytes, "as_json": as_json, "breakable": breakable,
}  # fmt: skip


# --- values for every template ----------------------------------------------------------------------------


def _common(request: Request) -> dict[str, Any]:
    context, user = context_of(request), session_of(request)
    theme = request.cookies.get(THEME_COOKIE)
    now = context.now()
    path = page_path(request)
    return {
        "address": f"{path}?{request.url.query}" if request.url.query else path,
        "ago": partial(ago, now=now),
        "csrf_token": user.csrf_token if user else "",
        "environment": context.environment,
        "flash": _flash(request, user),
        "path": path,
        "is_production": context.environment.lower().startswith(("prod", "live")),
        "may": user.may if user else lambda _role: False,
        "navigation": _navigation(user, has_sources=bool(context.settings.sources)),
        "now": now,
        "static": lambda each: url(request, static.address(each)),
        "theme": theme if theme in THEMES else "system",
        "themes": THEMES,
        "url": partial(url, request),
        "user": user,
        "version": __version__,
    }


def _navigation(user: Session | None, has_sources: bool) -> list[Screen]:
    """Most installations have no sources."""
    shown = (each for each in SCREENS if has_sources or each.path != "/sources")
    return [each for each in shown if user and user.may(each.role)]


def _flash(request: Request, session: Session | None) -> str | None:
    given = request.cookies.get(FLASH_COOKIE)
    if given is None or session is None:
        return None
    try:
        return str(_flash_signer(session).loads(given))
    except BadData:
        return None


def _flash_signer(session: Session) -> URLSafeSerializer:
    return URLSafeSerializer(session.csrf_token, salt=FLASH_COOKIE)
