"""The screens, in the order in which they stand in the navigation. Whoever adds a screen adds its line here."""

import json
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

from console.context import ConsoleContext
from console.web import static
from console.web.sessions import ADMIN, OPERATOR, VIEWER, Person, Session
from mayfly import __version__
from mayfly.admin.audit import PAGE, Actor
from mayfly.clock import host_now
from mayfly.errors import DatabaseError
from mayfly.format import moment, span
from mayfly.settings import Settings


class Screen(NamedTuple):
    path: str
    title: str
    role: str = VIEWER  # who sees the link; the screen itself asks for its role again


SCREENS: Sequence[Screen] = (
    Screen("/", "Overview"),
    Screen("/jobs", "Jobs"),
    Screen("/dead", "Dead"),
    Screen("/lanes", "Lanes"),
    Screen("/schedules", "Schedules"),
    Screen("/cycles", "Cycles"),
    Screen("/runners", "Runners"),
    Screen("/limits", "Limits"),
    Screen("/audit", "Audit"),
    Screen("/settings", "Settings", ADMIN),
    Screen("/enqueue", "Enqueue", OPERATOR),
)

MEBIBYTE = 1 << 20


def ago(at: datetime, now: datetime) -> str:
    """3 min ago, in 2 h, just now."""
    away = now - at
    if abs(away) < timedelta(seconds=1):
        return "just now"
    return f"{span(away)} ago" if away > timedelta(0) else f"in {span(-away)}"


def exact(at: datetime) -> str:
    return moment(at)


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(milliseconds: float | None) -> str:
    """12 ms, 3.4 s, 7 min."""
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{round(seconds, 1):g} s" if seconds < 120 else span(timedelta(seconds=seconds))


def seconds(given: float | None) -> str:
    return "" if given is None else duration(given * 1000)


def mebibytes(given: int | None) -> str:
    return "" if given is None else f"{given / MEBIBYTE:,.0f} MiB"


def number(given: Any) -> str:
    """With its thousands; a capped one says so itself."""
    return f"{given:,}" if isinstance(given, int) else str(given)


def as_json(given: Any) -> str:
    return json.dumps(given, indent=2, ensure_ascii=False, default=str)


FILTERS = {"exact": exact, "iso": iso, "duration": duration, "seconds": seconds, "number": number,
           "mebibytes": mebibytes, "as_json": as_json}  # fmt: skip

THEME, FLASH = "mayfly_theme", "mayfly_flash"
THEMES = ("system", "light", "dark")
FLASH_SECONDS = 60
NOWHERE = "The address is wrong, or what it showed is gone."
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= FILTERS


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    text = TEMPLATES.get_template(template).render(**_common(request), **values)
    answer = HTMLResponse(text, status)
    if FLASH in request.cookies:
        answer.delete_cookie(FLASH, path=root(request))
    return answer


def refusal(request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """A page that says what is wrong; while the database is away one that looks again by itself."""
    told = NOWHERE if (status, detail) == (404, "Not Found") else detail  # Starlette's own words
    answer = render(request, "refusal.html", status, detail=told, status_code=status)
    answer.headers.update(headers or {})
    if status == 503 and request.method == "GET":
        answer.headers["Refresh"] = "5"
    return answer


def redirect(request: Request, path: str, said: str | None = None) -> Response:
    """To a page of ours, with a sentence that is shown there once."""
    answer = RedirectResponse(url(request, path), 303)
    session = session_of(request)
    if said is not None and session is not None:
        text = str(URLSafeSerializer(session.csrf, salt=FLASH).dumps(said))
        answer.set_cookie(FLASH, text, FLASH_SECONDS, path=root(request), httponly=True, samesite="lax")
    return answer


def url(request: Request, path: str, **query: Any) -> str:
    """With the prefix of the proxy, and with those parts of the query that are something."""
    given = {name: value for name, value in query.items() if value not in (None, "", ())}
    prefix = site_of(request).settings.console_prefix or ""
    return f"{prefix}{path}{'?' if given else ''}{urlencode(given, doseq=True)}"


def root(request: Request) -> str:
    """The path for which cookies are."""
    return site_of(request).settings.console_prefix or "/"


def site_of(request: Request) -> ConsoleContext:
    site: ConsoleContext = request.state.site
    return site


def session_of(request: Request) -> Session | None:
    session: Session | None = request.state.session
    return session


def environment_of(settings: Settings) -> str:
    """What this installation is called wherever somebody must not mistake it for another."""
    return settings.console_environment or settings.host_name


def actor_of(person: Person) -> Actor:
    return Actor(person.name, PAGE)


def _needs(role: str) -> Any:
    def check(request: Request) -> Person:
        session = session_of(request)
        if session is None or not session.person.may(role):  # without a session the door lets nobody so far
            raise HTTPException(403, f"This is for those with the role {role}. Ask somebody who has it.")
        return session.person

    return Depends(check)


Here = Annotated[ConsoleContext, Depends(site_of)]
Viewer = Annotated[Person, _needs(VIEWER)]
Operator = Annotated[Person, _needs(OPERATOR)]
Admin = Annotated[Person, _needs(ADMIN)]


def _common(request: Request) -> dict[str, Any]:
    site, session = site_of(request), session_of(request)
    person = session.person if session else None
    name = environment_of(site.settings)
    theme = request.cookies.get(THEME)
    now = now_of(site)
    return {
        "ago": partial(ago, now=now),
        "csrf_token": session.csrf if session else "",
        "environment": name,
        "flash": _flash(request, session),
        "here": request.scope["path"].removeprefix(site.settings.console_prefix or "") or "/",
        "is_production": name.lower().startswith(("prod", "live")),
        "may": person.may if person else lambda _role: False,
        "navigation": [each for each in SCREENS if person and person.may(each.role)],
        "now": now,
        "person": person,
        "query": request.url.query,
        "static": lambda each: url(request, static.address(each)),
        "theme": theme if theme in THEMES else "system",
        "themes": THEMES,
        "url": partial(url, request),
        "version": __version__,
    }


def now_of(site: ConsoleContext) -> datetime:
    """By the database's clock; while that is away and was never asked, by ours."""
    try:
        return site.database.clock.now()
    except DatabaseError:
        return host_now()


def _flash(request: Request, session: Session | None) -> str | None:
    given = request.cookies.get(FLASH)
    if given is None or session is None:
        return None
    try:
        return str(URLSafeSerializer(session.csrf, salt=FLASH).loads(given))
    except BadData:
        return None
