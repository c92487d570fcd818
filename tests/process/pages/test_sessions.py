"""Who gets in: a password, a session that ends, and nobody without one."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.console.api import Api
from tests.process.installation import Installation, wait_until
from tests.process.pages.routes import routes
from tests.process.pages.visitor import PASSWORD, Visitor, hash_of, text_of

Serving = Callable[..., Api]


def test_without_a_password_it_refuses_to_start(embedded: Installation) -> None:
    """A sentence and exit code 64; a password that is not hashed is none."""
    bare = embedded.run("console")
    plain = embedded.run("console", CONSOLE_PASSWORD_HASH=PASSWORD)

    assert (bare.returncode, plain.returncode) == (64, 64)
    assert "set CONSOLE_PASSWORD_HASH to what `mayfly password` prints" in bare.stderr
    assert PASSWORD not in plain.stderr


def test_what_mayfly_password_prints_lets_somebody_in(serving: Serving, tmp_path: Path) -> None:
    """Of the account admin, and of another; too short a one is refused."""
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db")
    settings: dict[str, str] = {}
    for arguments in ([], ["--name", "ann", "--role", "operator"]):
        printed = password_printed(made, "another long one", *arguments)
        settings |= dict(re.findall(r"^(\w+)='?(.+?)'?$", printed, flags=re.MULTILINE))
    console = serving(**settings)

    assert set(settings) == {
        "CONSOLE_PASSWORD_HASH", "CONSOLE_ACCOUNTS__ANN__ROLE", "CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH"
    }  # fmt: skip
    for name, role in (("admin", "admin"), ("ann", "operator")):
        page = Visitor(console.port).log_in(name, "another long one").get("/jobs")
        assert f"{name} <small>{role}</small>" in page.text


def password_printed(installation: Installation, password: str, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "mayfly", "password", *arguments],
        env=installation.environment(), cwd="/", input=f"{password}\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_short_password_is_refused(embedded: Installation) -> None:
    """Before it is hashed."""
    with pytest.raises(AssertionError, match="at least 8 characters"):
        password_printed(embedded, "short")


def test_without_a_session_every_page_leads_to_the_login(served: Api) -> None:
    """Whatever the method, be it there or not; what is asked for by the page itself hears 401."""
    visitor = Visitor(served.port)
    asked = [(method, path) for method in ("GET", "POST") for path in [*routes(method), "/nowhere"]]

    answers = {f"{method} {path}": visitor.ask(method, path) for method, path in asked}

    assert {what: each.status for what, each in answers.items() if each.status != 303} == {}
    assert {each.headers["location"].partition("?")[0] for each in answers.values()} == {"/login"}
    assert visitor.get("/jobs", headers={"X-Mayfly-Live": "1"}).status == 401
    assert [visitor.get(each).status for each in ("/login", "/robots.txt", "/livez")] == [200, 200, 200]
    assert visitor.get("/robots.txt").text == "User-agent: *\nDisallow: /\n"


def test_the_api_is_as_closed_as_ever(served: Api) -> None:
    """A session is no token, and no token is a session."""
    visitor = Visitor(served.port).log_in()

    answer = visitor.get("/api/v1/jobs")

    assert (answer.status, answer.headers["content-type"]) == (401, "application/problem+json")
    assert visitor.get("/metrics").status == 401
    assert Visitor(served.port).get("/jobs", headers={"Authorization": f"Bearer {served.token}"}).status == 303
    assert served.get("/jobs").status == 200


def test_a_wrong_password_and_a_wrong_name_look_alike(serving: Serving) -> None:
    """401, a sentence, no cookie, and nothing of the password in the log."""
    api = serving()
    visitor = Visitor(api.port)
    answers = [
        visitor.ask("POST", "/login", {"name": name, "password": "guessed it"}) for name in ("admin", "nobody")
    ]
    api.process.terminate()
    _out, log = api.process.communicate()

    assert {each.status for each in answers} == {401}
    assert {"There is no such account, or the password is wrong." in text_of(each) for each in answers} == {True}
    assert visitor.cookies == {}
    assert "Refused a login from 127.0.0.1 as 'nobody'" in log
    assert "guessed it" not in log


def test_after_five_failures_an_account_waits(serving: Serving) -> None:
    """With the right password too; another account does not."""
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


@pytest.mark.parametrize(("has_proxy", "address"), [("false", "127.0.0.1"), ("true", "10.0.0.9")])
def test_only_a_proxy_is_believed_where_somebody_comes_from(serving: Serving, has_proxy: str, address: str) -> None:
    """Anybody else could have as many addresses as he likes."""
    api = serving(CONSOLE_TLS_PROXY=has_proxy)
    form = {"name": "admin", "password": "wrong"}
    Visitor(api.port).ask("POST", "/login", form, {"X-Forwarded-For": "10.0.0.9"})
    api.process.terminate()

    assert f"Refused a login from {address} as 'admin'" in api.process.communicate()[1]


@pytest.mark.parametrize("has_tls", [False, True])
def test_the_cookie_is_for_nobody_else(serving: Serving, has_tls: bool) -> None:
    """Not for scripts, nor other people's pages; behind TLS not for a wire without it."""
    visitor = Visitor(serving(CONSOLE_TLS_PROXY=str(has_tls).lower()).port).log_in()
    [cookie] = visitor.set_cookies

    parts = {part.strip().lower() for part in cookie.split(";")}
    assert {"httponly", "samesite=lax", "path=/"} <= parts
    assert ("secure" in parts) is has_tls


def test_who_logs_out_is_out_with_every_copy_of_his_cookie(served: Api) -> None:
    """Also a thief who has it from before."""
    visitor = Visitor(served.port).log_in()
    thief = Visitor(visitor.port, cookies=dict(visitor.cookies))
    before = thief.get("/jobs").status

    answer = visitor.post("/logout")

    assert before == 200
    assert answer.headers["location"] == "/login"
    assert visitor.cookies == {}
    assert thief.get("/jobs").status == 303


def test_a_session_ends_by_itself(serving: Serving) -> None:
    """And leads back to where one was, once the password was given again. A live update does not delay its end."""
    visitor = Visitor(serving(CONSOLE_SESSION="2").port).log_in()
    wait_until(lambda: visitor.get("/jobs?lane=mail", headers={"X-Mayfly-Live": "1"}).status == 401, "it has ended")

    ended = visitor.get("/jobs?lane=mail")

    assert ended.headers["location"] == "/login?next=%2Fjobs%3Flane%3Dmail"
    again = visitor.ask("POST", "/login", {"name": "admin", "password": PASSWORD, "next": "/jobs?lane=mail"})
    assert again.headers["location"] == "/jobs?lane=mail"


def test_a_session_that_is_used_goes_on(serving: Serving) -> None:
    """It is renewed when a tenth of it is over, and stays the same session."""
    visitor = Visitor(serving(CONSOLE_SESSION="20").port).log_in()
    first, token = visitor.cookies["mayfly_session"], visitor.token

    wait_until(lambda: visitor.get("/jobs").status == 200 and visitor.cookies["mayfly_session"] != first, "renewed")

    assert visitor.token == token


def test_a_new_password_ends_the_sessions_of_the_old_one(serving: Serving) -> None:
    """Of its own account alone."""
    api = serving()
    admin, viewer = Visitor(api.port).log_in(), Visitor(api.port).log_in("viewer")
    api.process.terminate()
    api.process.wait()
    api.settings = {**api.settings, "CONSOLE_PASSWORD_HASH": hash_of("a new one of these")}

    api.start()

    assert (admin.get("/jobs").status, viewer.get("/jobs").status) == (303, 200)


@pytest.mark.parametrize("change", [lambda cookie: cookie[:-2], lambda cookie: f"x{cookie}", lambda _cookie: "a.b.c"])
def test_a_cookie_that_was_changed_is_nobodys(served: Api, change: Callable[[str], str]) -> None:
    """Nor does it upset anything."""
    visitor = Visitor(served.port).log_in()
    visitor.cookies["mayfly_session"] = change(visitor.cookies["mayfly_session"])

    assert visitor.get("/jobs").status == 303


@pytest.mark.parametrize("where", ["//evil.example/x", "https://evil.example", "/\\evil.example", "jobs", "/a\nb"])
def test_the_login_leads_to_our_own_pages_only(served: Api, where: str) -> None:
    """Whatever an address says."""
    visitor = Visitor(served.port)

    answer = visitor.ask("POST", "/login", {"name": "admin", "password": PASSWORD, "next": where})

    assert answer.headers["location"] == "/"
