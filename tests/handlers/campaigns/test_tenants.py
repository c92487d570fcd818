"""Tenants share a database: what one of them has, or what its contacts do, changes nothing for another."""

import json

import pytest
from click.testing import CliRunner
from freezegun.api import FrozenDateTimeFactory

from handlers.campaigns import tables as t
from handlers.campaigns.campaign import launch
from handlers.campaigns.cli import campaigns
from handlers.mail.bulk import token_for
from handlers.suppressions import suppressions
from mayfly import database, enqueue
from mayfly.testing import drain
from tests.handlers.campaigns.days import HOUR, pass_time
from tests.handlers.campaigns.servers import MessageServers
from tests.handlers.campaigns.world import CREATED, World

TENANTS = ("acme", "bolt")
BOB = "bob@example.com"


@pytest.fixture
def two_tenants(world: World) -> World:
    """Each has a campaign `spring` with a sender `ann`, a template `hello`, and Bob as contact."""
    for number, tenant in enumerate(TENANTS, 1):
        world.template("hello", subject=f"Hello from {tenant}", tenant_id=tenant)
        world.sender("ann", tenant_id=tenant, address=f"ann@{tenant}.example")
        world.contacts(1, group=number, tenant_id=tenant, email=BOB)
        world.campaign(tenant_id=tenant, groups=(1, 2))
    return world


def launch_all(clock: FrozenDateTimeFactory) -> None:
    for tenant in TENANTS:
        launch(database(), "spring", tenant)
    pass_time(clock, HOUR)


@pytest.mark.every_database
def test_a_campaign_uses_only_what_its_tenant_has(
    two_tenants: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """Senders, templates and contacts, although names, keys and addresses are the same. On every database."""
    launch_all(clock)

    sent = {(row.campaign_id, row.contact_id, row.sender_id, row.status) for row in two_tenants.rows(t.executions)}
    assert sent == {(1, 1, 1, "SENT"), (2, 2, 2, "SENT")}
    assert sorted(each.text.partition("\n")[0] for each in servers.received) == [
        "Hello from acme", "Hello from bolt"
    ]  # fmt: skip
    for table in (t.enrolments, t.executions, t.sender_days):
        assert sorted(row.tenant_id for row in two_tenants.rows(table)) == ["acme", "bolt"]


@pytest.mark.parametrize("event", ["replied", "bounced", "unsubscribed", "complained"])
def test_what_a_contact_does_concerns_one_tenant(
    two_tenants: World, servers: MessageServers, clock: FrozenDateTimeFactory, event: str
) -> None:
    """The other one still sends to the address."""
    enqueue("record_contact_event", {"tenant_id": "acme", "address": BOB, "event": event})
    drain()

    launch_all(clock)

    assert [row.tenant_id for row in two_tenants.rows(t.enrolments)] == ["bolt"]
    assert [row.tenant_id for row in two_tenants.rows(t.contacts, t.contacts.c.replied_at.is_not(None))] == (
        ["acme"] if event == "replied" else []
    )
    assert [(row.tenant_id, row.reason) for row in two_tenants.rows(suppressions)] == (
        [] if event == "replied" else [("acme", event)]
    )
    assert len(servers.by_recipient[BOB]) == 1


def test_bans_and_unsubscribe_links_concern_one_tenant(
    two_tenants: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """Of the tenant that has them."""
    ban = {"kind": "domain", "value": "example.com", "created_at": CREATED}
    two_tenants.insert(t.bans, {"tenant_id": "acme", **ban}, {"tenant_id": "other", **ban})
    enqueue("unsubscribe", {"token": token_for("other", BOB, servers.settings["UNSUBSCRIBE_SECRET"])})
    drain()

    launch_all(clock)

    assert [row.tenant_id for row in two_tenants.rows(suppressions)] == ["other"]
    assert [row.tenant_id for row in two_tenants.rows(t.enrolments)] == ["bolt"]


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_operators_name_the_tenant(two_tenants: World, clock: FrozenDateTimeFactory) -> None:
    """The list has all tenants; without --tenant it is `default`."""
    runner = CliRunner()
    launched = runner.invoke(campaigns, ["launch", "spring", "--tenant", "bolt"])
    unknown = runner.invoke(campaigns, ["launch", "spring"])
    listed = json.loads(runner.invoke(campaigns, ["list", "--json"]).output)
    shown = json.loads(runner.invoke(campaigns, ["show", "spring", "--tenant", "bolt", "--json"]).output)

    assert (launched.exit_code, str(unknown.exception)) == (
        0, "There is no campaign 'spring'; `mayfly campaigns list` lists them."
    )  # fmt: skip
    assert {each["tenant_id"]: each["status"] for each in listed} == {"acme": "DRAFT", "bolt": "ACTIVE"}
    assert [each["name"] for each in shown["senders"]] == ["ann"]
    assert "spring (acme)" in runner.invoke(campaigns, ["list"]).output
