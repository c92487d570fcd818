"""Mail through real SMTP servers: what arrives, through which account, and the outcome of the job."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from handlers.idempotency import Effect
from handlers.mail.accounts import limits_of, read_accounts
from handlers.mail.delivery import deliver
from handlers.mail.payloads import Mail
from mayfly import Job, enqueue, handler
from mayfly.client import current_app
from mayfly.testing import Drained, drain
from tests.handlers.mail.servers import (
    PASSWORD,
    USER,
    Certificate,
    busy_office,
    cutting_office,
    make_certificate,
    post_office,
)
from tests.receivers import free_port

LETTER = (
    "INSERT INTO app_templates (template_key, subject, text_body, created_at)"
    " VALUES ('spring', 'Hello {{ name }}', 'Dear {{ name }}', '2026-05-04 12:00:00')"
)
SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def office(platform: str) -> Iterator[ExitStack]:
    """With the app_ tables; servers are closed after the test."""
    with ExitStack() as stack:
        yield stack


def account(port: int, options: str = "", login: str = "", scheme: str = "smtp") -> str:
    options = options or "tls=none"
    return f"{scheme}://{login}127.0.0.1:{port}?from=ann@shop.example&{options}"


def send_through(*accounts: str) -> None:
    """Declare a handler like send_email, with these accounts."""
    pool = read_accounts(" ".join(accounts))

    @handler("post", takes=limits_of(pool), ack="each", max_attempts=3)
    def post(job: Job, mail: Mail) -> dict[str, str]:
        return deliver(job, mail, pool)


def send(to: str = "bob@example.com", **fields: Any) -> Drained:
    enqueue("post", {"to": to, "subject": "Hello", "text": "Dear Bob", **fields})
    return drain(advance=True, raises=False)


def set_on_doubt(on_doubt: str) -> None:
    """Set on_doubt of the lane that `send` uses, until the test ends."""
    app = current_app()
    app.settings = app.settings.replace(lanes={"default": app.settings.unset_lane.replace(on_doubt=on_doubt)})


def error_of(drained: Drained) -> str:
    return str(drained.runs[-1].outcome.error)


@SQLITE
@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_mail_arrives_encrypted_and_by_login(office: ExitStack, certificate: Certificate, tls: str) -> None:
    """The server's certificate is verified."""
    post = office.enter_context(post_office(certificate, tls=tls))
    login = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}@"
    send_through(account(post.port, f"ca={certificate.file}", login, "smtps" if tls == "tls" else "smtp"))

    drained = send(html="<p>Dear Bob</p>", reply_to="eve@example.com")

    [(recipient, message)] = post.taken
    assert (drained.outcomes, recipient, post.logins) == ({"done": 1}, "bob@example.com", [True])
    assert (message["From"], message["To"], message["Subject"]) == ("ann@shop.example", "bob@example.com", "Hello")
    assert message["Reply-To"] == "eve@example.com"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]


@SQLITE
def test_an_untrusted_certificate_is_refused(office: ExitStack, certificate: Certificate) -> None:
    """Neither the password nor the mail is sent."""
    post = office.enter_context(post_office(certificate, tls="starttls"))
    send_through(account(post.port, "daily=9", "ann%40shop.example:x@"))

    drained = send()

    assert drained.outcomes == {"failed": 2, "dead": 1}
    assert "CERTIFICATE_VERIFY_FAILED" in error_of(drained)
    assert (post.logins, post.taken) == ([], [])


@SQLITE
def test_templates_are_rendered_and_html_is_escaped(office: ExitStack, tmp_path: Path) -> None:
    """A subject is not escaped: it has no tags."""
    post = office.enter_context(post_office(None))
    send_through(account(post.port))

    send(subject="Hi {{ who }}", text="Hi {{ who }}", html="<b>{{ who }}</b>", context={"who": "<Bob>"})

    [(_, message)] = post.taken
    plain, html = (part.get_content().strip() for part in message.iter_parts())
    assert (message["Subject"], plain, html) == ("Hi <Bob>", "Hi <Bob>", "<b>&lt;Bob&gt;</b>")


@SQLITE
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"subject": "{{ a }}", "context": {"a": "x\r\nBcc: all@example.com"}}, "not one line of printable"),
        ({"text": "{{ ''.__class__.__mro__ }}", "context": {}}, "cannot be rendered: access to attribute"),
        ({"text": "{{ nobody }}", "context": {}}, "cannot be rendered: 'nobody' is undefined"),
        ({"text": "{% for", "context": {}}, "cannot be rendered"),
        ({"text": "{{ 5 | dictsort }}", "context": {}}, "cannot be rendered"),
        ({"attachments": [{"path": "../secret"}]}, "there is no attachment '../secret'"),
        ({"attachments": [{"path": "link"}]}, "there is no attachment 'link'"),
    ],
)
def test_dangerous_mails_are_final_and_not_sent(
    office: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], reason: str
) -> None:
    """Header injection, sandbox escapes, files outside the directory."""
    post = office.enter_context(post_office(None))
    (tmp_path / "secret").write_text("s3cret")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "link").symlink_to(tmp_path / "secret")
    monkeypatch.setenv("MAIL_ATTACHMENTS", str(tmp_path / "files"))
    send_through(account(post.port))

    drained = send(**fields)

    assert (drained.outcomes, post.taken) == ({"dead": 1}, [])
    assert reason in error_of(drained)


@SQLITE
def test_attachments_are_files(office: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the directory of the setting."""
    post = office.enter_context(post_office(None))
    (tmp_path / "7.pdf").write_bytes(b"%PDF")
    monkeypatch.setenv("MAIL_ATTACHMENTS", str(tmp_path))
    send_through(account(post.port))

    send(attachments=[{"path": "7.pdf", "name": "invoice.pdf", "type": "application/pdf"}])

    [attached] = post.taken[0][1].iter_attachments()
    assert (attached.get_filename(), attached.get_content()) == ("invoice.pdf", b"%PDF")


@SQLITE
@pytest.mark.parametrize("answer", ["421 closing", "450 greylisted", "451 try later"])
@pytest.mark.parametrize("step", ["at_rcpt", "at_data"])
def test_a_temporary_failure_uses_another_account(office: ExitStack, answer: str, step: str) -> None:
    """At once, whichever account comes first."""
    first, second = (office.enter_context(post_office(None)) for _ in range(2))
    getattr(first, step)["bob@example.com"] = [answer]
    getattr(second, step)["bob@example.com"] = []
    send_through(account(first.port), account(second.port))

    outcomes = [send().outcomes, send().outcomes]  # each begins with another account

    assert outcomes == [{"done": 1}, {"done": 1}]
    assert first.counts + second.counts == {"bob@example.com": 2}
    assert getattr(first, step)["bob@example.com"] == []


def test_the_job_is_retried_if_all_accounts_fail(office: ExitStack) -> None:
    """A greylist accepts the second try."""
    post = office.enter_context(post_office(None))
    post.at_rcpt["bob@example.com"] = ["450 greylisted"]
    post.at_data["bob@example.com"] = ["451 greylisted"]
    send_through(account(post.port))

    drained = send()

    assert (drained.outcomes, post.counts) == ({"failed": 2, "done": 1}, {"bob@example.com": 1})


@SQLITE
def test_a_busy_server_is_skipped(office: ExitStack) -> None:
    """421 instead of a greeting: at once through another account, or later."""
    busy, post = office.enter_context(busy_office()), office.enter_context(post_office(None))
    send_through(account(busy), account(post.port))

    outcomes = [send().outcomes, send().outcomes]  # each begins with another account

    assert outcomes == [{"done": 1}, {"done": 1}]
    assert post.counts == {"bob@example.com": 2}


@SQLITE
@pytest.mark.parametrize("step", ["at_rcpt", "at_data"])
def test_a_refusal_is_final(office: ExitStack, step: str) -> None:
    """With the server's reply; no other account is tried."""
    posts = [office.enter_context(post_office(None)) for _ in range(2)]
    for post in posts:
        getattr(post, step)["bob@example.com"] = ["550 no such user", "550 no such user"]
    send_through(*(account(post.port) for post in posts))

    drained = send()

    assert drained.outcomes == {"dead": 1}
    assert "550 no such user" in error_of(drained)
    assert sorted(len(getattr(post, step)["bob@example.com"]) for post in posts) == [1, 2]


@pytest.mark.every_database
def test_an_account_whose_login_fails_has_a_cooldown(office: ExitStack, certificate: Certificate) -> None:
    """Its mails go through the others, and it is not used again. On every database."""
    bad = office.enter_context(post_office(certificate, tls="starttls"))
    good = office.enter_context(post_office(None))
    send_through(account(bad.port, f"ca={certificate.file}", "ann%40shop.example:wrong@"), account(good.port))

    outcomes = [send().outcomes, send().outcomes]  # each account is the first of one
    asked = len(bad.logins)
    outcomes += [send().outcomes, send().outcomes]

    assert outcomes == [{"done": 1}] * 4
    assert (len(good.taken), set(bad.logins)) == (4, {False})
    assert len(bad.logins) == asked


@SQLITE
def test_a_template_is_stored_once(office: ExitStack, platform: str) -> None:
    """For mails to many recipients."""
    post = office.enter_context(post_office(None))
    send_through(account(post.port))
    with create_engine(platform, poolclass=NullPool).begin() as connection:
        connection.execute(text(LETTER))

    send(subject=None, text=None, template="spring", context={"name": "Bob"})

    [(_, message)] = post.taken
    assert (message["Subject"], message.get_content().strip()) == ("Hello Bob", "Dear Bob")


@SQLITE
def test_a_missing_template_is_final(office: ExitStack) -> None:
    """A retry would not help."""
    post = office.enter_context(post_office(None))
    send_through(account(post.port))

    drained = send(subject=None, text=None, template="spring")

    assert (drained.outcomes, post.taken) == ({"dead": 1}, [])
    assert "there is no template 'spring' in app_templates" in error_of(drained)


@SQLITE
@pytest.mark.usefixtures("_noon")
def test_a_used_up_quota_waits_for_the_next_day(office: ExitStack) -> None:
    """The quota is a limit of Mayfly's; the other accounts continue."""
    few, many = (office.enter_context(post_office(None)) for _ in range(2))
    send_through(account(few.port, "tls=none&daily=1"), account(many.port, "tls=none&daily=2"))
    for number in range(4):
        enqueue("post", {"to": f"{number}@example.com", "subject": "Hello", "text": "Dear you"})

    drained = drain()

    assert drained.outcomes == {"done": 3, "snoozed": 1}
    assert (len(few.taken), len(many.taken)) == (1, 2)
    assert re.fullmatch(r"limit \S+ opens at \S+ 00:00 UTC", drained.runs[-1].outcome.waiting_for or "")


@SQLITE
@pytest.mark.usefixtures("_noon")
def test_a_failed_login_uses_no_quota(office: ExitStack, certificate: Certificate, platform: str) -> None:
    """Nothing was sent; until its cooldown is over, jobs without another account wait for it."""
    bad = office.enter_context(post_office(certificate, tls="starttls"))
    send_through(account(bad.port, f"ca={certificate.file}&daily=1", "ann%40shop.example:wrong@"))

    outcomes = []
    for _ in range(2):
        enqueue("post", {"to": "bob@example.com", "subject": "Hello", "text": "Dear Bob"})
        outcomes.append(drain(raises=False).outcomes)

    with create_engine(platform, poolclass=NullPool).connect() as connection:
        used = connection.execute(text("SELECT used FROM mayfly_limits WHERE span = 'day'")).scalars().all()
        waiting = connection.execute(text("SELECT waiting_for FROM mayfly_jobs ORDER BY id")).scalars().all()
    assert (outcomes, used) == ([{"failed": 1}, {"snoozed": 1}], [0])
    assert waiting[0] is None
    assert str(waiting[1]).endswith(" has a cooldown")


@SQLITE
@pytest.mark.usefixtures("_noon")
@pytest.mark.parametrize(
    ("step", "reply", "outcomes", "used"),
    [
        ("at_rcpt", "450 greylisted", {"failed": 1}, 0),
        ("at_rcpt", "550 no such user", {"dead": 1}, 0),
        ("at_data", "451 try later", {"failed": 1}, 1),
        (None, None, {"failed": 1}, 0),
    ],
    ids=["refused for now", "refused", "refused with its text", "no connection"],
)
def test_only_a_mail_that_was_sent_uses_quota(
    office: ExitStack, platform: str, step: str | None, reply: str | None, outcomes: dict[str, int], used: int
) -> None:
    """The quota counts what the provider counts."""
    post = office.enter_context(post_office(None))
    if step is not None:
        getattr(post, step)["bob@example.com"] = [reply]
    send_through(account(free_port() if step is None else post.port, "tls=none&daily=1"))
    enqueue("post", {"to": "bob@example.com", "subject": "Hello", "text": "Dear Bob"})

    drained = drain(raises=False)

    with create_engine(platform, poolclass=NullPool).connect() as connection:
        counted = connection.execute(text("SELECT used FROM mayfly_limits WHERE span = 'day'")).scalars().all()
    assert (drained.outcomes, counted) == (outcomes, [used])


@SQLITE
@pytest.mark.usefixtures("_noon")
def test_a_reserved_account_is_not_used_by_other_lanes(office: ExitStack) -> None:
    """Even if others have no quota left."""
    kept, shared = (office.enter_context(post_office(None)) for _ in range(2))
    send_through(account(kept.port, "tls=none&lanes=receipts"), account(shared.port, "tls=none&daily=1"))
    for number in range(3):
        enqueue("post", {"to": f"{number}@example.com", "subject": "Hello", "text": "Dear you"})

    assert drain().outcomes == {"done": 1, "snoozed": 2}
    assert (len(kept.taken), len(shared.taken)) == (0, 1)


@SQLITE
def test_a_lane_without_an_account_is_final(office: ExitStack) -> None:
    """A retry would not help."""
    send_through(account(1, "tls=none&lanes=receipts"))

    drained = send()

    assert drained.outcomes == {"dead": 1}
    assert "SMTP_ACCOUNTS has no account for the lane default" in error_of(drained)


@pytest.mark.every_database
def test_the_same_effect_happens_once(office: ExitStack) -> None:
    """Another job with the same key gets the stored result. On every database."""
    post = office.enter_context(post_office(None))
    send_through(account(post.port))

    outcomes = [send(key="welcome:42").outcomes, send(key="welcome:42").outcomes, send(key="welcome:43").outcomes]

    assert outcomes == [{"done": 1}] * 3
    assert post.counts == {"bob@example.com": 2}


def test_a_lost_reply_is_held(office: ExitStack) -> None:
    """The server has accepted the mail: the job is dead with that reason."""
    post = office.enter_context(post_office(None))
    post.hangs_up_on.add("bob@example.com")
    send_through(account(post.port))

    first, again = send(key="k"), send(key="k")

    assert (first.outcomes, again.outcomes) == ({"dead": 1}, {"dead": 1})
    assert "outcome unknown (SMTPServerDisconnected): held, because it may have been sent" in error_of(first)
    assert "outcome unknown (an earlier run ended before the reply): held" in error_of(again)
    assert post.counts == {"bob@example.com": 1}


@SQLITE
def test_a_connection_that_is_lost_within_the_message_is_held(office: ExitStack) -> None:
    """Most servers discard an incomplete message, but not all."""
    send_through(account(office.enter_context(cutting_office())))

    drained = send(text="x" * 50_000)

    assert drained.outcomes == {"dead": 1}
    assert "outcome unknown" in error_of(drained)


@SQLITE
def test_a_lane_may_resend(office: ExitStack) -> None:
    """With the same Message-ID."""
    set_on_doubt("resend")
    post = office.enter_context(post_office(None))
    post.hangs_up_on.add("bob@example.com")
    send_through(account(post.port))

    drained = send()

    assert drained.outcomes == {"failed": 2, "dead": 1}
    assert len({message["Message-ID"] for _, message in post.taken}) == 1
    assert post.counts == {"bob@example.com": 3}


@pytest.mark.every_database
def test_two_runs_do_not_hand_over_the_same_effect(office: ExitStack) -> None:
    """Both have found it open: one of them is retried. On every database."""
    states: list[str] = []

    @handler("rival", max_attempts=1)
    def rival(job: Job) -> None:
        mine, other = Effect(job, "mail", "k"), Effect(Job(99, "x", "x", "{}", 1, 1, 1), "mail", "k")
        other._job.runtime = job.runtime
        states.extend([mine.load().state, other.load().state])
        other.hand_over("someone")
        mine.hand_over("me")

    enqueue("rival")
    drained = drain(raises=False)

    assert states == ["open", "open"]
    assert "another job is working on the same effect: mail:k" in error_of(drained)
