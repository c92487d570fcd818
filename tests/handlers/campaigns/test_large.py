"""50,000 contacts are enrolled and planned within a minute of handler time."""

import pytest
from freezegun.api import FrozenDateTimeFactory

from handlers.campaigns import tables as t
from handlers.campaigns.campaign import launch
from handlers.campaigns.planning import PAGE_SIZE
from mayfly import database
from mayfly.clock import monotonic
from mayfly.testing import drain, enqueued_jobs
from tests.handlers.campaigns.days import HOUR, MANY
from tests.handlers.campaigns.world import World

CONTACTS = 50_000
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Tokyo", None)


@pytest.mark.slow
@pytest.mark.every_database
def test_fifty_thousand_contacts_are_planned_within_a_minute(world: World, clock: FrozenDateTimeFactory) -> None:
    """In slices of ten pages; one execution and one job per contact. On every database."""
    for number in range(20):
        world.sender(f"s{number}", limit=500, zone=str(ZONES[number % 3]))
    for zone in ZONES:
        world.contacts(CONTACTS // len(ZONES), zone=zone)
    world.campaign()
    launch(database(), "spring")
    clock.tick(HOUR)

    began = monotonic()
    drained = drain(lanes=["send_campaign", "send_campaign_step"], slice_after=10, most=MANY)
    seconds = monotonic() - began

    slices = drained.outcomes["sliced"]
    print(f"{CONTACTS:,} contacts planned and queued in {seconds:.1f} s, {slices} slices of 10 × {PAGE_SIZE}")
    assert seconds < 60
    assert world.statuses() == {"QUEUED": CONTACTS}
    jobs = enqueued_jobs("send_step_email")
    assert len({job.payload["contact"] for job in jobs}) == len(jobs) == CONTACTS
    by_slot: dict[tuple[int, object], int] = {}
    for row in world.rows(t.executions):
        by_slot[row.sender_id, row.slot_at] = by_slot.get((row.sender_id, row.slot_at), 0) + 1
    assert max(by_slot.values()) <= 5
