"""A simulated year: real handlers, real local servers, a stopped clock that is moved from job to job."""

from datetime import UTC, datetime, timedelta

import pytest
from freezegun.api import FrozenDateTimeFactory

from handlers.campaigns import tables as t
from handlers.campaigns.campaign import launch, pause, resume
from mayfly import database, enqueue
from mayfly.clock import monotonic
from mayfly.testing import drain
from tests.handlers.campaigns.days import DAY, HOUR, MANY
from tests.handlers.campaigns.feedback import Feedback
from tests.handlers.campaigns.invariants import read_messages
from tests.handlers.campaigns.scenario import NAMES, Scale, Scenario
from tests.handlers.campaigns.servers import MessageServers
from tests.handlers.campaigns.world import World

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 365
ZONES = (
    "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "Asia/Tokyo", "Australia/Sydney",
)  # fmt: skip
HOLIDAYS = ["2026-01-19", "2026-04-03", "2026-04-06", "2026-11-26", "2026-12-25"]
LAUNCHES = {11: 1, 76: 2, 290: 3}  # day of the year: campaign; the last two run over changes of the clocks
PAUSES, RESUMES = {80: 2, 294: 3}, {85: 2, 299: 3}
RESETS_WITHOUT_MESSAGES = 25  # then each account is at the end of its curve, with full health
EDIT, BAN, REVOCATIONS = 78, 79, (77, 291)


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_a_year_of_campaigns_keeps_every_promise(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """Replies, bounces, bans, pauses, edits, holidays, changes of the clocks: no message breaks a rule."""
    live_through_a_year(world, servers, clock, Scale(contacts=42, senders=6, daily_limit=8))


@pytest.mark.slow
@pytest.mark.every_database
def test_a_year_of_many_campaign_messages_keeps_every_promise(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """The same with 2,000 contacts. On every database."""
    live_through_a_year(world, servers, clock, Scale(contacts=2000, senders=20, daily_limit=33))


def live_through_a_year(world: World, servers: MessageServers, clock: FrozenDateTimeFactory, scale: Scale) -> None:
    began = monotonic()
    clock.move_to(NEW_YEAR)
    scenario = Scenario(world, servers, Feedback(enqueue), scale, ZONES)
    for number in NAMES:
        scenario.add_campaign(number, days_apart=7, holidays=HOLIDAYS)

    day = 0
    while day < DAYS:
        begin_day(scenario, day)
        days = 1 if is_active(world) else quiet_days(day)
        pass_days(clock, days)
        scenario.note_limits(NEW_YEAR + day * DAY)
        day += days

    messages = read_messages(world, servers.received)
    print(f"{len(messages):,} messages of {scale.contacts:,} contacts in {monotonic() - began:.0f} s")
    assert {world.status_of(number) for number in NAMES} == {t.COMPLETED}
    assert len(messages) > 3 * scale.contacts
    assert {each.at.month for each in messages} >= {1, 3, 4, 10, 11}
    assert len(scenario.reported) > scale.contacts / 20
    scenario.assert_every_promise(messages)


def begin_day(scenario: Scenario, day: int) -> None:
    now = NEW_YEAR + day * DAY
    for days, action in ((LAUNCHES, launch), (PAUSES, pause), (RESUMES, resume)):
        if day in days:
            action(database(), NAMES[days[day]])
    if day == EDIT:
        scenario.edit_template()
    if day == BAN:
        scenario.ban(now)
    (scenario.revoke_gmail if day in REVOCATIONS else scenario.restore_gmail)()
    scenario.report_feedback(now)
    scenario.note_limits(now)


def is_active(world: World) -> bool:
    """A paused campaign is resumed on a day of its own."""
    return bool(world.rows(t.campaigns, t.campaigns.c.status.in_((t.ACTIVE, t.PAUSED))))


def quiet_days(day: int) -> int:
    """Until the next launch."""
    return min((each for each in LAUNCHES if each > day), default=DAYS) - day


def pass_days(clock: FrozenDateTimeFactory, days: int) -> None:
    """With the recurring jobs, as long as they change anything."""
    for each in range(min(days, RESETS_WITHOUT_MESSAGES)):
        enqueue("reset_warmup", delay=each * DAY)
    if days == 1:  # a campaign is active
        enqueue("process_followups", delay=HOUR)
        enqueue("process_followups", delay=DAY / 2)
        enqueue("close_campaigns", delay=DAY - HOUR)
    drain(advance=days * DAY, raises=False, most=MANY)
    clock.tick(timedelta(days=days))
