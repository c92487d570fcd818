"""Passwords, sessions and cookies."""

import re
import subprocess
import sys
from collections.abc import Callable
from copy import copy
from pathlib import Path

import pytest

from tests.process.console.api import PASSWORD, Api, hash_password
from tests.process.installation import Installation, wait_until
from tests.process.pages.routes import routes
from tests.process.pages.visitor import Visitor, text_of
from tests.servers.private import free_port

Serving = Callable[..., Api]


def test_the_console_refuses_to_start_without_a_password(embedded: Installation) -> None:
    """With an error message and exit code 64; also for a password that is not hashed."""
    bare = embedded.run("console")
    plain = embedded.run("console", CONSOLE_PASSWORD_HASH=PASSWORD)

    assert (bare.returncode, plain.returncode) == (64, 64)
    assert "set CONSOLE_PASSWORD_HASH to the output of `mayfly password`" in bare.stderr
    assert PASSWORD not in plain.stderr


def test_the_login_page_names_no_account(serving: Serving) -> None:
    """A guess needs a name as well."""
    assert "admin" not in text_of(Visitor(serving().port).get("/login"))


def test_the_output_of_mayfly_password_is_a_valid_account(serving: Serving, tmp_path: Path) -> None:
    """For the account admin and for another one."""
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db")
    settings: dict[str, str] = {}
    for arguments in ([], ["--name", "ann", "--role", "operator"]):
        printed = password_printed(made, "another long one", *arguments)
        settings |= dict(re.findall(r"^(\w+)='?(.+?)'?$", printed, flags=re.MULTILINE))
    api = serving(**settings)

    assert set(settings) == {
        "CONSOLE_PASSWORD_HASH", "CONSOLE_ACCOUNTS__ANN__ROLE", "CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH"
    }  # fmt: skip
    for name, role in (("admin", "admin"), ("ann", "operator")):
        page = Visitor(api.port).log_in(name, "another long one").get("/jobs")
        assert f"{name} <small>{role}</small>" in page.text


def password_printed(installation: Installation, password: str, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "mayfly", "password", *arguments],
        env=installation.environment(), cwd="/", input=f"{password}\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize(
    ("password", "reason"),
    [("nine char", "at least 10 characters"), ("Password123", "common"), ("1234567890", "common")],
)
def test_a_weak_password_is_refused(embedded: Installation, password: str, reason: str) -> None:
    """One with fewer than 10 characters, or one that is guessed first, in any case of its letters."""
    with pytest.raises(AssertionError, match=reason) as refused:
        password_printed(embedded, password)

    assert password not in str(refused.value)


def test_pages_redirect_to_the_login_without_a_session(served: Api) -> None:
    """For every method and path, known or not; live updates get 401."""
    visitor = Visitor(served.port)
    requests = [(method, path) for method in ("GET", "POST") for path in [*routes(method), "/nowhere"]]

    answers = {f"{method} {path}": visitor.ask(method, path) for method, path in requests}

    assert {what: each.status for what, each in answers.items() if each.status != 303} == {}
    assert {each.headers["location"].partition("?")[0] for each in answers.values()} == {"/login"}
    assert visitor.get("/jobs", headers={"X-Mayfly-Live": "1"}).status == 401
    assert [visitor.get(each).status for each in ("/login", "/robots.txt", "/livez")] == [200, 200, 200]
    assert visitor.get("/robots.txt").text == "User-agent: *\nDisallow: /\n"


def test_sessions_and_tokens_are_separate(served: Api) -> None:
    """A session does not open the API, and a token does not open pages."""
    visitor = Visitor(served.port).log_in()

    answer = visitor.get("/api/v1/jobs")

    assert (answer.status, answer.headers["content-type"]) == (401, "application/problem+json")
    assert visitor.get("/metrics").status == 401
    assert Visitor(served.port).get("/jobs", headers={"Authorization": f"Bearer {served.token}"}).status == 303
    assert served.get("/jobs").status == 200


def test_a_wrong_password_and_an_unknown_account_look_alike(serving: Serving) -> None:
    """401, the same message, no cookie; the password is not logged."""
    api = serving()
    visitor = Visitor(api.port)
    answers = [
        visitor.ask("POST", "/login", {"name": name, "password": "guessed it"}) for name in ("admin", "unknown")
    ]
    api.process.terminate()
    _out, log = api.process.communicate()

    assert {each.status for each in answers} == {401}
    assert {"Unknown account or wrong password." in text_of(each) for each in answers} == {True}
    assert visitor.cookies == {}
    assert "Refused a login from 127.0.0.1 as 'unknown'" in log
    assert "guessed it" not in log


def test_five_failed_logins_lock_an_account_for_their_address(serving: Serving) -> None:
    """Even the right password is refused there; other accounts are not locked."""
    api = serving()
    visitor = Visitor(api.port)
    failed = [visitor.ask("POST", "/login", {"name": "admin", "password": "wrong"}).status for _ in range(5)]

    locked = visitor.ask("POST", "/login", {"name": "admin", "password": PASSWORD})

    assert failed == [401] * 5
    assert locked.status == 429
    assert 0 < int(locked.headers["retry-after"]) <= 31
    assert "Too many attempts" in text_of(locked)
    assert visitor.cookies == {}
    Visitor(api.port).log_in("viewer")


def test_failed_logins_from_elsewhere_do_not_lock_an_account(serving: Serving) -> None:
    """Of any number of other addresses; otherwise anyone could lock out the administrator."""
    api = serving(CONSOLE_TLS_PROXY="true")
    wrong, right = ({"name": "admin", "password": each} for each in ("wrong", PASSWORD))
    visitor = Visitor(api.port)
    for number in range(30):
        visitor.ask("POST", "/login", wrong, {"X-Forwarded-For": f"10.0.0.{number % 3}"})

    own, other = (
        visitor.ask("POST", "/login", right, {"X-Forwarded-For": each}) for each in ("10.0.1.1", "10.0.0.1")
    )

    assert (own.status, other.status) == (303, 429)


@pytest.mark.parametrize(("has_proxy", "address"), [("false", "127.0.0.1"), ("true", "10.0.0.9")])
def test_forwarded_addresses_are_trusted_only_from_a_proxy(serving: Serving, has_proxy: str, address: str) -> None:
    """Otherwise a client could use any number of addresses."""
    api = serving(CONSOLE_TLS_PROXY=has_proxy)
    form = {"name": "admin", "password": "wrong"}
    Visitor(api.port).ask("POST", "/login", form, {"X-Forwarded-For": "10.0.0.9"})
    api.process.terminate()

    assert f"Refused a login from {address} as 'admin'" in api.process.communicate()[1]


@pytest.mark.parametrize("has_tls", [False, True])
def test_the_session_cookie_is_protected(serving: Serving, has_tls: bool) -> None:
    """HttpOnly, SameSite=Lax, and Secure behind TLS."""
    visitor = Visitor(serving(CONSOLE_TLS_PROXY=str(has_tls).lower()).port).log_in()
    [cookie] = visitor.set_cookies

    parts = {part.strip().lower() for part in cookie.split(";")}
    assert {"httponly", "samesite=lax", "path=/"} <= parts
    assert ("secure" in parts) is has_tls


def test_logging_out_invalidates_every_copy_of_the_cookie(served: Api) -> None:
    """Also one stolen before."""
    visitor = Visitor(served.port).log_in()
    thief = Visitor(visitor.port, cookies=dict(visitor.cookies))
    before = thief.get("/jobs").status

    answer = visitor.post("/logout")

    assert before == 200
    assert answer.headers["location"] == "/login"
    assert visitor.cookies == {}
    assert thief.get("/jobs").status == 303


def test_a_logout_survives_a_restart_of_the_console(serving: Serving) -> None:
    """And holds on every console of the same database; other sessions stay valid."""
    api = serving()
    visitor, other = Visitor(api.port).log_in(), Visitor(api.port).log_in()
    thief = Visitor(visitor.port, cookies=dict(visitor.cookies))
    second = copy(api)
    second.port = free_port()
    second.start()
    before = Visitor(second.port, cookies=thief.cookies).get("/jobs").status
    visitor.post("/logout")
    api.process.terminate()
    api.process.wait()

    api.start()

    assert before == 200
    assert (thief.get("/jobs").status, other.get("/jobs").status) == (303, 200)
    assert Visitor(second.port, cookies=thief.cookies).get("/jobs").status == 303
    assert thief.get("/login").status == 200


def test_a_session_expires(serving: Serving) -> None:
    """The login leads back to the same page. Live updates do not extend a session."""
    visitor = Visitor(serving(CONSOLE_SESSION="2").port).log_in()
    wait_until(
        lambda: visitor.get("/jobs?lane=mail", headers={"X-Mayfly-Live": "1"}).status == 401,
        "expired",
    )

    ended = visitor.get("/jobs?lane=mail")

    assert ended.headers["location"] == "/login?next=%2Fjobs%3Flane%3Dmail"
    again = visitor.ask("POST", "/login", {"name": "admin", "password": PASSWORD, "next": "/jobs?lane=mail"})
    assert again.headers["location"] == "/jobs?lane=mail"


def test_a_session_in_use_is_renewed(serving: Serving) -> None:
    """After a tenth of its length; the CSRF token stays the same."""
    visitor = Visitor(serving(CONSOLE_SESSION="20").port).log_in()
    first, token = visitor.cookies["mayfly_session"], visitor.token

    wait_until(lambda: visitor.get("/jobs").status == 200 and visitor.cookies["mayfly_session"] != first, "renewed")

    assert visitor.token == token


def test_a_new_password_ends_the_sessions_of_the_old_one(serving: Serving) -> None:
    """Those of other accounts stay valid."""
    api = serving()
    admin, viewer = Visitor(api.port).log_in(), Visitor(api.port).log_in("viewer")
    api.process.terminate()
    api.process.wait()
    api.settings = {
        **api.settings,
        "CONSOLE_PASSWORD_HASH": hash_password("a new password"),
    }

    api.start()

    assert (admin.get("/jobs").status, viewer.get("/jobs").status) == (303, 200)


@pytest.mark.parametrize("change", [lambda cookie: cookie[:-2], lambda cookie: f"x{cookie}", lambda _cookie: "a.b.c"])
def test_a_modified_cookie_is_refused(served: Api, change: Callable[[str], str]) -> None:
    """As if there were no session."""
    visitor = Visitor(served.port).log_in()
    visitor.cookies["mayfly_session"] = change(visitor.cookies["mayfly_session"])

    assert visitor.get("/jobs").status == 303


@pytest.mark.parametrize("where", ["//evil.example/x", "https://evil.example", "/\\evil.example", "jobs", "/a\nb"])
def test_the_login_redirects_only_within_the_console(served: Api, where: str) -> None:
    """Other targets become the overview."""
    visitor = Visitor(served.port)

    answer = visitor.ask("POST", "/login", {"name": "admin", "password": PASSWORD, "next": where})

    assert answer.headers["location"] == "/"
