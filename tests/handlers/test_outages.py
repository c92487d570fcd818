"""Handlers that call another service survive an outage of six hours."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from handlers.mail.accounts import limits_of, read_accounts
from handlers.mail.delivery import deliver
from handlers.mail.payloads import Mail
from handlers.outages import SURVIVES_OUTAGE, delay_seconds
from mayfly import Job, enqueue, handler
from mayfly.registry import Handler, load_handlers
from mayfly.testing import drain
from tests.handlers.ai.models import completion
from tests.handlers.community import Community
from tests.handlers.mail.servers import post_office
from tests.handlers.prospects.tables import insert as insert_prospects
from tests.handlers.providers import provider
from tests.receivers import free_port

OUTAGE = timedelta(hours=6)
CALLING = {
    "send_email", "notify_push", "enrich_prospect", "publish_post", "ai_summarize_board", "ai_suggest_post",
    "gpt_ai_cofac_nudging", "send_step_email", "send_step_sms", "send_step_voicemail", "send_campaign_email",
    "process_warmup", "deliver_webhook",
}  # fmt: skip
ARRIVING = {"process_inbound_email", "process_bounce", "process_webhook"}


@dataclass(frozen=True)
class Call:
    """A job that calls a service, prepared with the service's port, and the response of the service."""

    prepare: Callable[[Community, int], tuple[str, dict[str, Any]]]
    response: dict[str, Any] | bytes


def a_notification(community: Community, port: int) -> tuple[str, dict[str, Any]]:
    subscription = {"id": 1, "person_id": 7, "kind": "webhook", "url": f"http://127.0.0.1:{port}/x"}
    community.insert("app_subscriptions", **subscription, created_at=community.now())
    return "notify_push", {"person": 7, "subscription": 1, "title": "Hello"}


def a_prospect(community: Community, _port: int) -> tuple[str, dict[str, Any]]:
    [prospect_id] = insert_prospects(community.url, [{"name": "Ann Miller", "email": "ann@acme.example"}])
    return "enrich_prospect", {"prospect": prospect_id}


def a_draft(community: Community, _port: int) -> tuple[str, dict[str, Any]]:
    community.board()
    return "ai_suggest_post", {"board": 7}


def a_post_on(kind: str) -> Callable[[Community, int], tuple[str, dict[str, Any]]]:
    def prepare(community: Community, port: int) -> tuple[str, dict[str, Any]]:
        community.board()
        community.post(1, channel_id=community.channel(kind, f"http://127.0.0.1:{port}"))
        return "publish_post", {"post": 1}

    return prepare


CALLS = {
    "notify": Call(a_notification, {}),
    "enrich": Call(a_prospect, {"data": {"status": "valid", "score": 97}}),
    "ai": Call(a_draft, completion('{"text": "Roses"}')),
    "mastodon": Call(a_post_on("mastodon"), {"id": "1142"}),
    "webhook": Call(a_post_on("webhook"), {}),
}


@pytest.fixture
def service_port(monkeypatch: pytest.MonkeyPatch) -> int:
    """The port of all services, on which nothing listens yet."""
    port = free_port()
    settings = {
        "PRIVATE_HOSTS": "127.0.0.1", "CHANNEL_TEST": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "HUNTER_URL": f"http://127.0.0.1:{port}", "HUNTER_API_KEY": "key",
        "OPENAI_URL": f"http://127.0.0.1:{port}", "OPENAI_API_KEY": "key",
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return port


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
@pytest.mark.parametrize("outage", ["refused", "503"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_survives_six_hours(community: Community, service_port: int, name: str, outage: str) -> None:
    """Nothing listens on the port, or a proxy sends 503 with a short Retry-After."""
    type_name, payload = CALLS[name].prepare(community, service_port)
    enqueue(type_name, payload)
    with ExitStack() as servers:
        if outage == "503":
            proxy = servers.enter_context(provider(service_port))
            proxy.status, proxy.headers = 503, {"Retry-After": "1"}
        during = drain(advance=OUTAGE, raises=False)
    with provider(service_port) as service:
        response = CALLS[name].response
        service.body = response if isinstance(response, bytes) else json.dumps(response).encode()
        after = drain(advance=True, raises=False)

    assert set(during.outcomes) == {"failed"}
    assert (after.outcomes, len(service.requests)) == ({"done": 1}, 1)


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
@pytest.mark.parametrize("outage", ["refused", "452"])
def test_mail_survives_six_hours(platform: str, outage: str) -> None:
    """Nothing listens on the port, or the server has no space left."""
    port = free_port()
    pool = read_accounts(f"smtp://127.0.0.1:{port}?from=ann@shop.example&tls=none")

    @handler("post", takes=limits_of(pool), **SURVIVES_OUTAGE)
    def post(job: Job, mail: Mail) -> dict[str, str]:
        return deliver(job, mail, pool)

    enqueue("post", {"to": "bob@example.com", "subject": "Hello", "text": "Dear Bob"})
    with ExitStack() as servers:
        if outage == "452":
            full = servers.enter_context(post_office(None, port=port))
            full.at_rcpt["bob@example.com"] = ["452 no space"] * 20
        during = drain(advance=OUTAGE, raises=False)
    with post_office(None, port=port) as office:
        after = drain(advance=True, raises=False)

    assert set(during.outcomes) == {"failed"}
    assert (after.outcomes, office.counts) == ({"done": 1}, {"bob@example.com": 1})


def test_each_type_that_calls_a_service_survives_six_hours() -> None:
    """The sum of the delays before its last attempt, without jitter, is longer than the outage.

    So do those that process what arrives from outside and would be lost with its job.
    """
    known = load_handlers(["handlers"]).handlers

    assert {name for name, each in known.items() if waits_for(each) >= OUTAGE} == CALLING | ARRIVING


def waits_for(each: Handler) -> timedelta:
    if each.max_attempts is None or each.backoff_base is None or each.backoff_cap is None:
        return timedelta(0)
    delays = (min(each.backoff_base * 2**attempt, each.backoff_cap) for attempt in range(1, each.max_attempts))
    return timedelta(seconds=sum(delays))


def test_the_delays_are_documented() -> None:
    """In minutes, as in the README."""
    minutes = [delay_seconds(attempt) / 60 for attempt in range(1, SURVIVES_OUTAGE["max_attempts"])]

    assert minutes == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
