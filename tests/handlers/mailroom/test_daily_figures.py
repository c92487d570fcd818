"""Daily figures: the sum of the deliveries, whenever and however often they are computed."""

import random
from collections import Counter
from contextlib import closing
from datetime import date, timedelta
from threading import Event, Thread
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, update

from handlers.mailroom.daily_figures import ROWS_PER_COMMIT, compute_stale_day, mark_changed_days
from handlers.mailroom.tables import daily_figures, days, deliveries
from mayfly import MayflyError, enqueue
from mayfly.testing import drain
from tests.handlers.mailroom.sent_mail import NOON, SentMail
from tests.hypothesis_profiles import in_full

DAY = timedelta(days=1)
LONG_AGO = date(2020, 1, 1)
EVENTS = ("delivered_at", "replied_at", "complained_at", "hard", "soft")
FIGURES = ("sent", "delivered", "bounced", "soft_bounced", "replied", "complained")


def aggregate(**payload: Any) -> dict[str, int]:
    enqueue("aggregate_daily", payload)
    [run] = drain().runs
    assert isinstance(run.result, dict)
    return run.result


def figures(mail: SentMail) -> dict[tuple[str, str, int, str], tuple[int, ...]]:
    return {
        (row.tenant_id, row.day, row.campaign_id, row.sender): tuple(getattr(row, name) for name in FIGURES)
        for row in mail.rows(daily_figures)
    }


def naive_figures(mail: SentMail) -> dict[tuple[str, str, int, str], tuple[int, ...]]:
    """Counted one by one, in Python."""
    found: dict[tuple[str, str, int, str], Counter[str]] = {}
    for row in mail.rows(deliveries):
        if row.sent_at is None:
            continue
        key = (row.tenant_id, row.sent_at.date().isoformat(), row.campaign_id or 0, row.sender)
        counts = found.setdefault(key, Counter())
        counts["sent"] += 1
        counts["bounced"] += row.bounce_type == "hard"
        counts["soft_bounced"] += row.bounce_type == "soft"
        for name in ("delivered", "replied", "complained"):
            counts[name] += getattr(row, f"{name}_at") is not None
    return {key: tuple(counts[name] for name in FIGURES) for key, counts in found.items()}


@pytest.mark.every_database
def test_late_events_correct_earlier_days(mail: SentMail) -> None:
    """The first computation, a late bounce and a late reply, and nothing to do. On every database."""
    for number in range(4):
        mail.delivery(campaign_id=7 if number else None, delivered_at=NOON)
    mail.delivery(tenant_id="other", sender="bob@shop.example", sent_at=NOON - 9 * DAY)

    first = aggregate()
    mail.change(2, bounce_type="hard", bounced_at=NOON + DAY)
    mail.change(5, replied_at=NOON + DAY)
    late = aggregate()
    idle = aggregate()

    assert [first, late, idle] == [
        {"changed": 5, "marked": 0, "computed": 2},
        {"changed": 2, "marked": 0, "computed": 2},
        {"changed": 0, "marked": 0, "computed": 0},
    ]
    assert figures(mail) == {
        ("default", "2026-05-04", 0, "ann@shop.example"): (1, 1, 0, 0, 0, 0),
        ("default", "2026-05-04", 7, "ann@shop.example"): (3, 3, 1, 0, 0, 0),
        ("other", "2026-04-25", 0, "bob@shop.example"): (1, 0, 0, 0, 1, 0),
    }


def test_rates_are_shares_of_the_sent_emails(mail: SentMail) -> None:
    """All of them, so that tenants can be compared."""
    for number in range(8):
        mail.delivery(
            delivered_at=NOON if number < 6 else None,
            bounce_type="hard" if number == 7 else None,
            replied_at=NOON if number < 4 else None,
            complained_at=NOON if number == 0 else None,
        )

    aggregate()

    [row] = mail.rows(daily_figures)
    assert (row.delivery_rate, row.bounce_rate, row.reply_rate, row.complaint_rate) == (0.75, 0.125, 0.5, 0.125)


class Sent(NamedTuple):
    tenant: str
    campaign: int | None
    sender: str
    days_ago: int


class Happened(NamedTuple):
    """To one of the emails that were sent so far."""

    to: int
    event: str


class Computed(NamedTuple):
    """With or without a range."""

    days_ago: int | None


STEPS = st.lists(
    st.one_of(
        st.builds(
            Sent,
            st.sampled_from(["a", "b"]),
            st.sampled_from([None, 1, 2]),
            st.sampled_from(["ann", "bob"]),
            st.integers(0, 3),
        ),
        st.builds(Happened, st.integers(0, 99), st.sampled_from(EVENTS)),
        st.builds(Computed, st.sampled_from([None, 0, 3])),
    ),
    max_size=40,
)


@given(steps=STEPS, repeats=st.integers(1, 3))
@in_full(60)
def test_figures_are_the_sum_of_all_deliveries(mail: SentMail, steps: list[Any], repeats: int) -> None:
    """In any order of emails, events and computations, however often the last one is repeated."""
    mail.clear(deliveries, daily_figures, days)
    sent: list[int] = []
    for step in steps:
        match step:
            case Sent(tenant, campaign, sender, days_ago):
                at = NOON - days_ago * DAY
                sent.append(mail.delivery(tenant_id=tenant, campaign_id=campaign, sender=sender, sent_at=at))
            case Happened(to, event) if sent:
                values = {"bounce_type": event} if event in ("hard", "soft") else {event: NOON}
                mail.change(sent[to % len(sent)], **values)
            case Computed(days_ago):
                aggregate(**({} if days_ago is None else {"days": [str(NOON.date() - days_ago * DAY), "2026-05-04"]}))
    for _ in range(repeats):
        aggregate()

    assert figures(mail) == naive_figures(mail)


@pytest.mark.every_database
def test_figures_are_complete_after_concurrent_changes(platform: str, mail: SentMail) -> None:
    """Two hosts compute while emails are sent and bounce; one more run completes the figures. On every database."""
    chance = random.Random(5)
    is_over = Event()
    hosts = [Thread(target=compute_until, args=(platform, is_over)) for _ in range(2)]
    for each in hosts:
        each.start()
    for _ in range(60):
        mail.delivery(sent_at=NOON - chance.randrange(2) * DAY, campaign_id=chance.choice([None, 1]))
        mail.change(chance.randint(1, mail.last_delivery), bounce_type=chance.choice(["hard", "soft"]))
    is_over.set()
    for each in hosts:
        each.join()

    aggregate()

    assert figures(mail) == naive_figures(mail)


def compute_until(url: str, is_over: Event) -> None:
    with closing(SentMail(url)) as other:
        while not is_over.is_set():
            other.database.run_sqlalchemy(lambda connection: mark_changed_days(connection, LONG_AGO))
            other.database.run_sqlalchemy(lambda connection: compute_stale_day(connection, NOON))


@pytest.mark.every_database
def test_a_range_is_computed_again(mail: SentMail) -> None:
    """Of one tenant or of all; figures of other days stay as they are. On every database."""
    for days_ago in range(4):
        mail.delivery(sent_at=NOON - days_ago * DAY)
        mail.delivery(sent_at=NOON - days_ago * DAY, tenant_id="other")
    aggregate()
    mail.execute(update(daily_figures).values(sent=99))

    one = aggregate(tenant_id="other", days=["2026-05-02", "2026-05-02"])
    every = aggregate(days=["2026-05-03", "2026-05-31"])

    assert [one["computed"], every["computed"]] == [1, 4]
    assert {(row.tenant_id, row.day) for row in mail.rows(daily_figures, daily_figures.c.sent == 99)} == {
        ("default", "2026-05-01"), ("default", "2026-05-02"), ("other", "2026-05-01"),
    }  # fmt: skip


def test_many_changes_are_marked_in_slices(mail: SentMail) -> None:
    """Each in its own transaction; the day is computed once."""
    for _ in range(3):
        mail.deliveries(ROWS_PER_COMMIT // 2)

    found = aggregate()

    assert found == {"changed": 3 * ROWS_PER_COMMIT // 2, "marked": 0, "computed": 1}
    assert figures(mail) == {("default", "2026-05-04", 0, "ann@shop.example"): (1500, 0, 0, 0, 0, 0)}


def test_figures_of_days_with_deleted_deliveries_are_final(mail: SentMail, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a late event nor a range changes them."""
    mail.delivery(sent_at=NOON - 3 * DAY)
    mail.delivery(sent_at=NOON - 3 * DAY)
    aggregate()
    before = figures(mail)
    monkeypatch.setenv("APP_KEEP_DELIVERIES_DAYS", "2")
    mail.execute(delete(deliveries).where(deliveries.c.id == 1))
    mail.change(2, replied_at=NOON)

    aggregate(days=["2026-04-01", "2026-05-04"])

    assert (figures(mail), before) == (before, {("default", "2026-05-01", 0, "ann@shop.example"): (2, 0, 0, 0, 0, 0)})


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({"days": ["2026-05-04", "2026-05-01"]}, "the last day must not be before the first one"),
        ({"days": ["2016-01-01", "2026-05-01"]}, "nor 3,700 days after it"),
        ({"tenant_id": "other"}, "a tenant_id needs days"),
    ],
)
def test_a_range_must_be_one(mail: SentMail, payload: dict[str, Any], error: str) -> None:
    """Refused when it is enqueued."""
    with pytest.raises(MayflyError, match=error):
        enqueue("aggregate_daily", payload)
