"""Log in, log out, and choose between light and dark."""

from datetime import timedelta
from typing import Annotated

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, Form, Request, Response

from console.auth import gate_of, local_path
from console.web.page import THEME, THEMES, Viewer, redirect, render, root, session_of, site_of
from mayfly import log_messages
from mayfly.admin.auth import DUMMY_HASH, password_matches
from mayfly.clock import monotonic
from mayfly.format import span

router = APIRouter()

MAX_PASSWORD_LENGTH = 1000
THEME_SECONDS = 365 * 24 * 3600
WRONG = "There is no such account, or the password is wrong."
ONE_AT_A_TIME = CapacityLimiter(1)  # a hash takes 64 MB and a core

Text = Annotated[str, Form()]


@router.get("/login")
async def show(request: Request, next: str = "/") -> Response:
    if session_of(request) is not None:
        return redirect(request, local_path(next))
    return render(request, "login.html", next=local_path(next), name="", wrong=None)


@router.post("/login")
async def log_in(request: Request, name: Text = "", password: Text = "", next: Text = "/") -> Response:
    gate, site = gate_of(request), site_of(request)
    address, now = address_of(request), monotonic()
    wait = max(gate.addresses.wait(address, now), gate.names.wait(name, now))
    if wait:
        site.log.say(log_messages.login_refused(address, name[:64], "too many attempts"))
        wrong = f"Too many attempts: wait for {span(timedelta(seconds=wait))}, then try again."
        return _again(request, name, next, wrong, 429, {"Retry-After": str(int(wait) + 1)})
    account = gate.accounts.get(name)
    known = DUMMY_HASH if account is None else account.password_hash  # as long for a name that is nobody's
    is_right = await run_sync(password_matches, known, password[:MAX_PASSWORD_LENGTH], limiter=ONE_AT_A_TIME)
    if account is None or not is_right:
        gate.addresses.fail(address, now)
        gate.names.fail(name, now)
        site.log.say(log_messages.login_refused(address, name[:64], "wrong name or password"))
        return _again(request, name, next, WRONG, 401)
    gate.names.succeed(name)
    gate.addresses.succeed(address)
    site.log.say(log_messages.logged_in(address, name))
    answer = redirect(request, local_path(next))
    gate.remember(request, answer, gate.sessions.begin(name, gate.now()))
    return answer


@router.post("/logout")
async def log_out(request: Request, _person: Viewer) -> Response:
    gate, session = gate_of(request), session_of(request)
    if session is not None:
        gate.sessions.end(session, gate.now())
    answer = redirect(request, "/login")
    gate.forget(request, answer)
    return answer


@router.post("/theme")
async def choose(request: Request, theme: Text = "system", next: Text = "/") -> Response:
    answer = redirect(request, local_path(next))
    if theme in THEMES:
        answer.set_cookie(THEME, theme, THEME_SECONDS, path=root(request), httponly=True, samesite="lax")
    return answer


def _again(
    request: Request, name: str, next: str, wrong: str, status: int, headers: dict[str, str] | None = None
) -> Response:
    answer = render(request, "login.html", status, next=local_path(next), name=name, wrong=wrong)
    answer.headers.update(headers or {})
    return answer


def address_of(request: Request) -> str:
    return request.client.host if request.client else "nowhere"
