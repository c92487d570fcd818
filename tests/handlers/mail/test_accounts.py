"""The setting SMTP_ACCOUNTS, and the payload of a mail."""

from email.parser import BytesParser
from email.policy import default

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from handlers.mail.accounts import BadAccount, limits_of, read_accounts
from handlers.mail.delivery import rotated
from handlers.mail.message import compose
from handlers.mail.payloads import Mail
from mayfly import Dead
from tests.hypothesis_profiles import in_full

POOL = "smtp://ann%40a.example:p%20w@a.example?daily=9&at_once=1\nsmtps://b.example?from=bob@b.example"


def test_accounts_are_urls() -> None:
    """With default ports, and STARTTLS by default."""
    first, second = read_accounts(POOL)

    assert (first.user, first.password, first.sender) == ("ann@a.example", "p w", "ann@a.example")
    assert (first.port, first.tls, first.daily, first.at_once) == (587, "starttls", 9, 1)
    assert (second.port, second.tls, second.sender, second.user) == (465, "tls", "bob@b.example", None)
    assert "p w" not in repr(first)
    assert [(each.most, each.span) for each in limits_of([first])] == [(9, "day"), (1, "at once")]


@pytest.mark.parametrize(
    "text",
    [
        "http://a.example?from=a@a.example",
        "smtp://?from=a@a.example",
        "smtp://a.example",
        "smtp://u:s3cret@a.example",
        "smtp://u:s3cret@a.example?from=a@a.example&dayly=3",
        "smtp://u:s3cret@a.example?from=a@a.example&daily=many",
        "smtp://u:s3cret@a.example:port?from=a@a.example",
        "smtp://u:s3cret@a.example?from=a@a.example&tls=maybe",
        "smtp://a.example?from=a@a.example smtp://u:s3cret@a.example?from=a@a.example",
    ],
)
def test_an_invalid_account_is_refused_without_its_password(text: str) -> None:
    """By its position in the list."""
    with pytest.raises(BadAccount, match=r"SMTP_ACCOUNTS: account [12] ") as raised:
        read_accounts(text)

    assert "s3cret" not in str(raised.value)


def test_an_account_may_be_reserved_for_lanes() -> None:
    """It serves all lanes by default."""
    kept, any_ = read_accounts(
        "smtp://a.example?from=a@a.example&lanes=send_outreach,send_digest smtp://b.example?from=b@b.example"
    )

    assert [kept.serves(lane) for lane in ("send_outreach", "send_digest", "send_email")] == [True, True, False]
    assert any_.serves("send_email")


def test_accounts_take_turns() -> None:
    """By job id; the one that was tried last comes last."""
    pool = read_accounts(POOL)
    names = [each.name for each in pool]

    assert [[each.name for each in rotated(pool, number, None)] for number in (0, 1)] == [names, names[::-1]]
    assert [each.name for each in rotated(pool, 0, names[0])] == names[::-1]


@in_full(50)
@given(st.text(min_size=1), st.sampled_from(["\n", "\r", "\r\n", "\x00", "\x0b", "\u2028"]), st.text())
def test_no_field_can_inject_a_header(before: str, end: str, after: str) -> None:
    """Neither the subject nor an address."""
    for field in ("to", "subject", "reply_to", "key"):
        with pytest.raises(ValidationError):
            Mail.model_validate(
                {"to": "a@b.example", "subject": "s", "text": "t", field: f"{before}{end}{after}"[-400:]}
            )


@pytest.mark.parametrize(
    "change",
    [
        {"text": 7},
        {"bcc": "x@y.example"},
        {"to": "nobody"},
        {"to": "a@b.example\n"},
        {"subject": None},
        {"letter": "spring"},
        {"subject": None, "letter": "spring"},
        {"unsubscribe": "https://x.example/>\r\nBcc: all@example.com"},
        {"unsubscribe": "javascript:alert(1)"},
    ],
)
def test_an_invalid_mail_is_refused(change: dict[str, object]) -> None:
    """When it is enqueued."""
    with pytest.raises(ValidationError):
        Mail.model_validate({"to": "a@b.example", "subject": "s", "text": "t", **change})


JSON = st.none() | st.booleans() | st.integers() | st.text()
FIELDS = {
    "to": st.sampled_from(["a@b.example", "A.b+c@d.example"]) | st.text(),
    "subject": st.text() | st.sampled_from(["Hello {{ name }}", "{{ 7 * 'x' }}", "{% for"]),
    "text": st.text() | st.sampled_from(["{{ name }}", "{{ name.a.b }}", "{{ [1] | join(name) }}", "{{ 1 / 0 }}"]),
    "html": st.none() | st.text() | st.just("<b>{{ name }}</b>"),
    "context": st.none() | st.dictionaries(st.sampled_from(["name", "x"]), JSON | st.lists(JSON)),
    "unsubscribe": st.none() | st.sampled_from(["https://x.example/?a=b", "mailto:a@b.example"]) | st.text(),
    "reply_to": st.none() | st.just("r@b.example"),
}


@in_full(50)
@given(st.fixed_dictionaries({}, optional=FIELDS))
def test_any_payload_is_refused_or_becomes_one_mail(payload: dict[str, object]) -> None:
    """Or its job is dead with a reason; every header comes from its own field."""
    try:
        mail = Mail.model_validate(payload)
        message = BytesParser(policy=default).parsebytes(compose(mail, "ann@shop.example", "key"))
    except (ValidationError, Dead):
        return

    asked = {"List-Unsubscribe": mail.unsubscribe, "Reply-To": mail.reply_to}
    named = {name for name, value in asked.items() if value is not None}
    known = {"From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type", "List-Unsubscribe-Post"}
    assert named <= set(message.keys()) <= named | known | {"Content-Transfer-Encoding"}
    assert (message.get_all("To"), message.get_all("From")) == ([mail.to], ["ann@shop.example"])
