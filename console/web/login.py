"""Log in, log out, and set the theme."""

from datetime import timedelta
from typing import Annotated

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, Form, Request, Response

from console.context import ConsoleContext, client_address, session_of
from console.rate_limit import network_of
from console.web.page import THEME_COOKIE, THEMES, Context, Viewer, cookie_path, local_path, redirect, render
from mayfly import log_messages
from mayfly.admin.auth import DUMMY_HASH, end_session, password_matches
from mayfly.clock import monotonic
from mayfly.format import format_duration

router = APIRouter()

MAX_PASSWORD_LENGTH = 1000
MAX_NAME_LENGTH = 64
THEME_SECONDS = 365 * 24 * 3600
LOGIN_FAILED = "Unknown account or wrong password."
ONE_HASH_AT_A_TIME = CapacityLimiter(1)  # each takes 64 MB and a core

Text = Annotated[str, Form()]


@router.get("/login")
async def show(request: Request, next: str = "/") -> Response:
    if session_of(request) is not None:
        return redirect(request, local_path(next))
    return _form(request, "", next)


@router.post("/login")
async def log_in(
    request: Request, context: Context, name: Text = "", password: Text = "", next: Text = "/"
) -> Response:
    address, now = client_address(request), monotonic()
    network = network_of(address)
    # With the network: failures from elsewhere must not lock the account.
    account = f"{network} {name[:MAX_NAME_LENGTH]}"
    wait = max(context.address_logins.wait(network, now), context.account_logins.wait(account, now))
    if wait:
        _log_refusal(context, address, name, "too many attempts")
        return _locked(request, name, next, wait)
    if not await _password_matches(context, name, password):
        context.address_logins.fail(network, now)
        context.account_logins.fail(account, now)
        _log_refusal(context, address, name, "wrong name or password")
        return _form(request, name, next, LOGIN_FAILED, 401)
    context.account_logins.succeed(account)
    context.address_logins.succeed(network)
    context.log.write(log_messages.logged_in(address, name))
    response = redirect(request, local_path(next))
    context.sessions.set_cookie(request, response, context.sessions.start(name, context.now()))
    return response


@router.post("/logout")
async def log_out(request: Request, context: Context, _user: Viewer) -> Response:
    session = session_of(request)
    if session is not None:
        now = context.now()
        await context.run(context.database.run, lambda connection: end_session(connection, session.nonce, now))
    response = redirect(request, "/login")
    context.sessions.delete_cookie(request, response)
    return response


@router.post("/theme")
async def set_theme(request: Request, theme: Text = "system", next: Text = "/") -> Response:
    response = redirect(request, local_path(next))
    if theme in THEMES:
        path = cookie_path(request)
        response.set_cookie(THEME_COOKIE, theme, THEME_SECONDS, path=path, httponly=True, samesite="lax")
    return response


async def _password_matches(context: ConsoleContext, name: str, password: str) -> bool:
    """Take the same time for an unknown name: it must not show which accounts exist."""
    account = context.sessions.accounts.get(name)
    known_hash = DUMMY_HASH if account is None else account.password_hash
    given = password[:MAX_PASSWORD_LENGTH]
    matches = await run_sync(password_matches, known_hash, given, limiter=ONE_HASH_AT_A_TIME)
    return matches and account is not None


def _locked(request: Request, name: str, next: str, wait_seconds: float) -> Response:
    wait = format_duration(timedelta(seconds=wait_seconds))
    response = _form(request, name, next, f"Too many attempts. Try again in {wait}.", 429)
    response.headers["Retry-After"] = str(int(wait_seconds) + 1)
    return response


def _form(request: Request, name: str, next: str, error: str | None = None, status: int = 200) -> Response:
    return render(request, "login.html", status, next=local_path(next), name=name, error=error)


def _log_refusal(context: ConsoleContext, address: str, name: str, reason: str) -> None:
    context.log.write(log_messages.login_refused(address, name[:MAX_NAME_LENGTH], reason))
