"""Warm-up: the plan of a day, and emails between accounts over real SMTP and, in slow tests, a real Dovecot."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from freezegun.api import FrozenDateTimeFactory
from hypothesis import given
from hypothesis import strategies as st

from handlers.mailroom.imap import spam_folder_in
from handlers.mailroom.intake import Envelope, take_in
from handlers.mailroom.tables import accounts, messages, warmup_mails, warmup_steps, warmups
from handlers.mailroom.warmup_plan import CHECKS_PER_DAY, mails_on, partner_of, plan_day
from mayfly import MayflyError, database, enqueue
from mayfly.testing import Drained, drain, enqueued_jobs
from tests.conftest import or_skip
from tests.databases import Databases
from tests.handlers.mail.servers import Post, post_office
from tests.handlers.mailroom.sent_mail import NOON, SentMail
from tests.handlers.mailroom.warmup_accounts import NAMES, Mailbox, add_accounts, delivering_to, settings
from tests.handlers.rows import insert
from tests.servers.dovecot import SPAM_FOLDER, Dovecot

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
ANN, BOB = 1, 2
DAY = timedelta(days=1)


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    with post_office(None) as opened:
        for name, value in settings(opened.port).items():
            monkeypatch.setenv(name, value)
        yield opened


def do_step(account: int, kind: str, number: int) -> Drained:
    payload = {"email_account_id": account, "warmup_type": kind, "sequence_step": number}
    enqueue("process_warmup", payload, max_attempts=1)
    return drain(lanes=["warmup"], raises=False)


# --- the plan ---------------------------------------------------------------------------------------------


def test_the_number_of_mails_grows_to_its_maximum() -> None:
    """From the first day on."""
    assert [mails_on(day, 5, 2, 10) for day in (-1, 0, 1, 2, 3, 99)] == [5, 5, 7, 9, 10, 10]


@given(mails=st.integers(0, 50), seed=st.text(max_size=5))
def test_a_day_has_all_its_steps_within_its_hours(mails: int, seed: str) -> None:
    """Emails are spread, and the mailbox is checked before it is engaged with."""
    begin, end = NOON, NOON + timedelta(hours=10)
    steps = list(plan_day(mails, begin, end, seed))

    outbound = [each.run_at for each in steps if each.warmup_type == "outbound"]
    assert Counter(each.warmup_type for each in steps) == Counter(
        {"outbound": mails, "inbound": CHECKS_PER_DAY, "engagement": CHECKS_PER_DAY}
    )
    assert outbound == sorted(outbound)
    assert all(begin <= each <= end for each in outbound)
    assert all(each - other <= 2 * (end - begin) / mails for other, each in pairwise(outbound))


def test_partners_take_turns() -> None:
    """Each of the others gets the same share, and two accounts do not write to the same one at once."""
    others = [2, 3, 4]

    assert Counter(partner_of(1, step, others) for step in range(30)) == {2: 10, 3: 10, 4: 10}
    assert partner_of(1, 1, others) != partner_of(5, 1, others)


@pytest.mark.every_database
def test_each_account_has_one_plan_per_day(mail: SentMail, clock: FrozenDateTimeFactory) -> None:
    """However often the job runs; a day later the steps continue. On every database."""
    add_accounts(mail, ("ann", "bob"), start_per_day=2, max_per_day=2)
    mail.change_rows(warmups, warmups.c.email_account_id == BOB, is_active=0)

    for at in (NOON, NOON, NOON + DAY):
        clock.move_to(at)
        enqueue("plan_warmup")
        drain(lanes=["warmup"])

    jobs = [each for each in enqueued_jobs("process_warmup") if each.payload["warmup_type"] == "outbound"]
    steps = Counter((row.email_account_id, row.warmup_type) for row in mail.rows(warmup_steps))
    assert steps == {(ANN, "outbound"): 4, (ANN, "inbound"): 8, (ANN, "engagement"): 8}
    assert [each.payload["sequence_step"] for each in jobs] == [1, 2, 3, 4]
    assert {each.priority for each in jobs} == {2}
    assert [each.run_at.date() for each in jobs] == [NOON.date()] * 2 + [(NOON + DAY).date()] * 2


def test_the_day_of_an_account_begins_in_its_zone(mail: SentMail, clock: FrozenDateTimeFactory) -> None:
    """In Tokyo it is tomorrow already."""
    add_accounts(mail, ("ann",), start_per_day=1, max_per_day=1, zone="Asia/Tokyo")
    clock.move_to(datetime.fromisoformat("2026-05-04 20:00:00+00:00"))

    enqueue("plan_warmup")
    drain(lanes=["warmup"])

    [job] = [each for each in enqueued_jobs("process_warmup") if each.payload["warmup_type"] == "outbound"]
    assert mail.rows(warmups)[0].planned_on == "2026-05-05"
    assert datetime.fromisoformat("2026-05-04T23:00+00:00") <= job.run_at  # 08:00 in Tokyo


@SQLITE
def test_an_unknown_type_names_the_known_ones(mail: SentMail) -> None:
    """When the job is enqueued, and if it came by plain SQL."""
    payload = '{"email_account_id": 1, "warmup_type": "reply", "sequence_step": 1}'
    insert(mail.url, "mayfly_jobs", {"type": "process_warmup", "lane": "warmup", "payload": payload, "run_at": NOON})

    drained = drain(lanes=["warmup"], raises=False)

    assert "'outbound', 'inbound' or 'engagement'" in str(drained.runs[0].reason)
    with pytest.raises(MayflyError, match="'outbound', 'inbound' or 'engagement'"):
        do_step(ANN, "reply", 1)


# --- sending ----------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_a_step_sends_one_email_to_a_partner(mail: SentMail, post: Post) -> None:
    """Once, however often it is enqueued. On every database."""
    add_accounts(mail)

    results = [do_step(ANN, "outbound", 1).runs[0].result for _ in range(2)]

    [(recipient, message)] = post.taken
    [row] = mail.rows(warmup_mails)
    assert results == [{"sent": 1}] * 2
    assert recipient in ("bob@shop.example", "eve@shop.example")
    assert (message["From"], message["Message-ID"]) == ("ann@shop.example", f"<{row.message_id}>")
    assert (message["Subject"], row.sent_at, row.from_account_id) == (row.subject, NOON, ANN)


@SQLITE
def test_an_email_whose_outcome_is_unknown_is_not_sent_again(mail: SentMail, post: Post) -> None:
    """The server took it and closed the connection. The mailbox of the recipient will show it."""
    add_accounts(mail, ("ann", "bob"))
    post.hangs_up_on.add("bob@shop.example")

    for _ in range(2):
        do_step(ANN, "outbound", 1)

    assert len(post.taken) == 1
    assert mail.rows(warmup_mails)[0].sent_at == NOON


@SQLITE
@pytest.mark.parametrize(("reply", "outcome"), [("550 5.1.1 no such user", "dead"), ("451 later", "failed")])
def test_a_refused_email_is_not_expected(mail: SentMail, post: Post, reply: str, outcome: str) -> None:
    """A temporary refusal is retried."""
    add_accounts(mail, ("ann", "bob"))
    post.at_rcpt["bob@shop.example"] = [reply]
    payload = {"email_account_id": ANN, "warmup_type": "outbound", "sequence_step": 1}

    enqueue("process_warmup", payload)
    first = drain(lanes=["warmup"], raises=False)
    unsent = mail.rows(warmup_mails)[0].sent_at
    drain(lanes=["warmup"], advance=True, raises=False)

    assert (first.outcomes, unsent) == ({outcome: 1}, None)
    assert len(post.taken) == (1 if outcome == "failed" else 0)


@SQLITE
@pytest.mark.parametrize(
    ("account", "reason"),
    [(9, "account 9 is not in warm-up"), (ANN, "no other account of the tenant default is in warm-up")],
)
def test_a_step_without_accounts_is_cancelled(mail: SentMail, post: Post, account: int, reason: str) -> None:
    """With the reason."""
    add_accounts(mail, ("ann",))

    drained = do_step(account, "outbound", 1)

    assert drained.outcomes == {"cancelled": 1}
    assert str(drained.runs[0].reason).startswith(reason)


@SQLITE
def test_only_settings_of_mailboxes_are_used(mail: SentMail, post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a user with the right to add accounts could use any other one."""
    add_accounts(mail, ("ann", "bob"))
    monkeypatch.setenv("SMTP_ACCOUNTS", "smtp://127.0.0.1:1?from=ann@shop.example")
    mail.change_rows(accounts, accounts.c.id == ANN, smtp_credential="SMTP_ACCOUNTS")

    drained = do_step(ANN, "outbound", 1)

    assert "must be the name of a setting that begins with MAILBOX_" in str(drained.runs[0].reason)


@SQLITE
def test_an_email_of_a_warmup_is_no_reply(mail: SentMail, post: Post) -> None:
    """It is received like any other mail, but as such."""
    add_accounts(mail, ("ann", "bob"))
    do_step(ANN, "outbound", 1)
    [(_, message)] = post.taken

    take_in(database(), message.as_bytes(), Envelope("bob@shop.example", "ann@shop.example"))
    drain(lanes=["email_processing"])

    assert [(row.type, row.email_account_id) for row in mail.rows(messages)] == [("warmup", BOB)]


# --- mailboxes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listing", "folder"),
    [
        ([rb'(\HasNoChildren \Junk) "/" Spamverdacht', rb'(\HasNoChildren) "/" Junk'], "Spamverdacht"),
        ([rb'(\HasNoChildren) "." INBOX', rb'(\HasNoChildren) "." "INBOX.Junk"'], "INBOX.Junk"),
        ([rb'(\HasNoChildren) "/" "Junk E-mail"'], "Junk E-mail"),
        ([rb'(\All \HasNoChildren) "/" "[Gmail]/All Mail"', rb'(\Junk) "/" "[Gmail]/Spam"'], "[Gmail]/Spam"),
        ([rb"(\HasNoChildren) NIL INBOX", None, (b"a", b"b")], None),
        ([], None),
    ],
)
def test_the_spam_folder_is_found_by_its_attribute_or_name(listing: list[Any], folder: str | None) -> None:
    """As servers list folders."""
    assert spam_folder_in(listing) == folder


@pytest.fixture(scope="module")
def shared_dovecot(databases: Databases) -> Iterator[Dovecot]:
    with or_skip():
        server = databases.dovecot()
    yield server
    server.remove()


@pytest.fixture
def dovecot(shared_dovecot: Dovecot) -> Dovecot:
    """With empty mailboxes: the Message-IDs of a warm-up are the same in each test."""
    for name in NAMES:
        with closing(Mailbox(shared_dovecot, f"{name}@shop.example")) as mailbox:
            mailbox.clear()
    return shared_dovecot


@pytest.mark.slow
@pytest.mark.every_database
def test_emails_are_moved_flagged_and_answered(
    mail: SentMail, dovecot: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over SMTP into a real spam folder, from there to the inbox, and back as an answer. On every database."""
    folders = {"ann@shop.example": "INBOX", "bob@shop.example": SPAM_FOLDER}
    add_accounts(mail, ("ann", "bob"), reply_percent=100, flag_percent=100)
    with delivering_to(dovecot, folders) as port, closing(Mailbox(dovecot, "bob@shop.example")) as bob:
        for name, value in settings(port, dovecot.port).items():
            monkeypatch.setenv(name, value)
        bob.add("INBOX", b"Message-ID: <other@shop.example>\r\nSubject: Not ours\r\n\r\nHello\r\n")

        results = [
            do_step(account, kind, number).runs[0].result
            for number in (1, 2)
            for account, kind in ((ANN, "outbound"), (BOB, "inbound"), (BOB, "engagement"), (ANN, "inbound"))
        ]
        last = do_step(ANN, "engagement", 1).runs[0].result

        inbox, spam = bob.messages("INBOX"), bob.messages(SPAM_FOLDER)
        with closing(Mailbox(dovecot, "ann@shop.example")) as ann:
            answers = ann.messages("INBOX")
    found, answered = {"found": 1, "moved": 1, "missing": 0}, {"answered": 1, "flagged": 1, "left": 0}
    assert results == [{"sent": 1}, found, answered, {**found, "moved": 0}] * 2
    assert last == {"answered": 0, "flagged": 2, "left": 0}
    assert spam == []
    assert [sorted(flags & {r"\Seen", r"\Flagged", r"\Answered"}) for _, flags in inbox] == [
        [], [r"\Answered", r"\Flagged", r"\Seen"], [r"\Answered", r"\Flagged", r"\Seen"],
    ]  # fmt: skip
    assert [message["In-Reply-To"] for message, _ in answers] == [message["Message-ID"] for message, _ in inbox[1:]]
    assert all(message["Subject"].startswith("Re: ") for message, _ in answers)
    assert [(row.was_spam, row.found_at, row.engaged_at) for row in mail.rows(warmup_mails)] == [
        (1, NOON, NOON), (0, NOON, NOON), (1, NOON, NOON), (0, NOON, NOON),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.every_database
def test_an_email_that_does_not_arrive_is_missing(
    mail: SentMail, dovecot: Dovecot, clock: FrozenDateTimeFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is searched for during a week. On every database."""
    add_accounts(mail, ("ann", "bob"))
    with post_office(None) as post:  # accepts it and delivers nothing
        for name, value in settings(post.port, dovecot.port).items():
            monkeypatch.setenv(name, value)
        do_step(ANN, "outbound", 1)

        first = do_step(BOB, "inbound", 1).runs[0].result
        clock.tick(8 * DAY)
        later = do_step(BOB, "inbound", 2).runs[0].result

    assert [first, later] == [{"found": 0, "moved": 0, "missing": 1}, {"found": 0, "moved": 0, "missing": 0}]
