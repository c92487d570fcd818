"""Suppressions: bounces, unsubscribe links, and mails to suppressed recipients."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import DBAPIError

from handlers.mail.bounces import is_bounce
from handlers.mail.bulk import UnsubscribeLinks, owner_of, token_for
from handlers.mail.payloads import Mail
from handlers.outreach.payloads import Unsubscribe
from mayfly import enqueue
from mayfly.testing import drain, enqueued_jobs
from tests.handlers.mail.servers import Post
from tests.handlers.outreach.audience import Tables, write
from tests.hypothesis_profiles import in_full

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
SUPPRESSIONS = "SELECT address, reason, detail FROM app_suppressions ORDER BY address"


@pytest.mark.parametrize(
    ("answer", "to_recipient", "bounced"),
    [
        ("550 5.1.1 no such user", True, True),
        ("550 5.1.1 no such user", False, True),
        ("550 no such user", True, True),
        ("553 mailbox name not allowed", True, True),
        ("550 no such user", False, False),
        ("550 5.7.1 your host is on a list", True, False),
        ("550 5.1.8 sender refused", True, False),
        ("552 5.2.2 mailbox full", True, False),
        ("550 5.2.1 mailbox disabled", True, True),
        ("554 transaction failed", True, False),
        ("450 4.1.1 try later", True, False),
        ("", True, False),
    ],
)
def test_bounces_are_recognised(answer: str, to_recipient: bool, bounced: bool) -> None:
    """A missing mailbox; not a refusal of the host, the sender or the text."""
    assert is_bounce(answer, to_recipient) is bounced


def test_a_bounced_address_gets_no_more_mail(tables: Tables, post: Post) -> None:
    """From the next blast; the server's reply is stored."""
    tables.people(["Ann@example.com", "bob@example.com", "carl@example.com"])
    post.at_rcpt["Ann@example.com"] = ["550 5.1.1 no such user"]
    post.at_data["carl@example.com"] = ["550 5.7.1 looks like spam"]
    write()
    first = drain(raises=False)
    write(blast="summer")
    drain(raises=False)

    assert first.outcomes == {"done": 3, "dead": 2}
    assert [tuple(row) for row in tables.rows(SUPPRESSIONS)] == [
        ("ann@example.com", "bounced", "550 5.1.1 no such user")
    ]
    assert post.counts == {"bob@example.com": 2, "carl@example.com": 1}


@pytest.mark.every_database
def test_an_unsubscribed_address_gets_no_more_mail(tables: Tables, post: Post) -> None:
    """By the link in a mail; twice has the same effect. On every database."""
    tables.people(["Ann@example.com"])
    write()
    drain()
    link = post.taken[0][1]["List-Unsubscribe"]
    token = link.strip("<>").partition("who=")[2]
    enqueue("unsubscribe", {"token": token})
    enqueue("unsubscribe", {"token": token})
    write(blast="summer")

    outcomes = drain().outcomes

    assert outcomes == {"done": 4}
    assert [tuple(row) for row in tables.rows(SUPPRESSIONS)] == [("ann@example.com", "unsubscribed", None)]
    assert post.counts == {"Ann@example.com": 1}


@SQLITE
def test_a_pending_mail_to_an_unsubscribed_address_is_cancelled(tables: Tables, post: Post) -> None:
    """Only bulk mail: a receipt is sent all the same."""
    tables.suppress("ann@example.com", "unsubscribed")
    mail = {"to": "Ann@example.com", "subject": "Hello", "text": "Dear you"}
    enqueue("send_email", {**mail, "unsubscribe": "https://shop.example/leave"})
    enqueue("send_email", {**mail, "subject": "Your receipt"})

    outcomes = drain().outcomes

    assert outcomes == {"cancelled": 1, "done": 1}
    assert enqueued_jobs()[0].last_error == "ann@example.com is suppressed: unsubscribed"
    assert [message["Subject"] for _, message in post.taken] == ["Your receipt"]


@SQLITE
def test_a_forged_token_is_refused(tables: Tables) -> None:
    """Knowing an address is not enough to unsubscribe it."""
    ours, theirs = token_for("acme", "ann@example.com", "s3cret"), token_for("acme", "bob@example.com", "guessed")
    enqueue("unsubscribe", {"token": theirs})
    enqueue("unsubscribe", {"token": f"{theirs.partition('.')[0]}.{ours.partition('.')[2]}"})

    assert drain().outcomes == {"dead": 2}
    assert tables.rows(SUPPRESSIONS) == []


@in_full(50)
@given(st.from_regex(r"[A-Za-z0-9_.-]{1,80}", fullmatch=True))
def test_any_token_is_read_or_refused(token: str) -> None:
    """Never an unexpected error."""
    assert owner_of(token, "s3cret") is None


@in_full(50)
@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", fullmatch=True), st.emails())
def test_a_token_contains_its_tenant_and_address(tenant_id: str, address: str) -> None:
    """The address in canonical form."""
    assert owner_of(token_for(tenant_id, address.upper(), "s3cret"), "s3cret") == (tenant_id, address.lower())


def test_the_longest_link_fits_into_an_email(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its token into the payload of `unsubscribe`."""
    monkeypatch.setenv("UNSUBSCRIBE_URL", f"https://shop.example/{'a' * 172}{{token}}")
    monkeypatch.setenv("UNSUBSCRIBE_SECRET", "s3cret")
    address = f"{'b' * 64}@{'c' * 125}"

    link = UnsubscribeLinks("t" * 64).link_for(address)

    mail = Mail.model_validate({"to": address, "subject": "Hello", "text": "Dear you", "unsubscribe": link})
    assert mail.unsubscribe == link
    assert Unsubscribe(token=link.removeprefix(f"https://shop.example/{'a' * 172}"))


def test_a_suppression_in_upper_case_is_refused_by_the_table(tables: Tables) -> None:
    """It would have no effect."""
    with pytest.raises(DBAPIError, match="app_suppressions_lower_case"):
        tables.suppress("Ann@example.com")
