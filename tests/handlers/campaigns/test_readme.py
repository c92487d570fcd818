"""The worked example of the README works: its rows are valid, and the campaign does what the page says."""

import re

import pytest
from freezegun.api import FrozenDateTimeFactory

from handlers.campaigns.campaign import launch
from mayfly import database
from tests.handlers.campaigns.days import pass_days
from tests.handlers.campaigns.servers import MessageServers
from tests.handlers.campaigns.world import World
from tests.process.installation import CHECKOUT


def test_the_example_is_a_campaign(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two emails to each contact, and a text message to the one with a phone number."""
    page = (CHECKOUT / "handlers/campaigns/README.md").read_text("utf-8")
    [block] = re.findall(r"```sql\n(.+?)```", page, re.DOTALL)
    monkeypatch.setenv("SENDER_ANN", servers.settings["SENDER_SMTP"])
    monkeypatch.setenv("SENDER_PHONE", servers.settings["SENDER_TWILIO"])
    for statement in filter(str.strip, block.split(";\n")):
        world.database.run_sqlalchemy(lambda connection: connection.exec_driver_sql(statement))  # noqa: B023
    launch(database(), "fair-2026")

    pass_days(clock, 9)

    assert servers.to("bob@example.com") == ["Your visit to stand B 12", "A question, Bob"]
    assert servers.to("eve@example.com") == ["Your visit to stand B 12", "A question, Eve"]
    assert servers.to("+4930123456") == ["Hello Bob, shall we talk this week?"]
    assert world.status_of() == "COMPLETED"
