"""Take in a provider's request: check its signature, store its events and enqueue their jobs, in one transaction."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, select

from handlers.mailroom.provider_events import PROVIDERS, Provider, ProviderEvent, read_events
from handlers.mailroom.tables import RECEIVED, provider_events
from handlers.scope import Scope
from handlers.upsert import insert_missing
from mayfly import enqueue, setting

EVENTS_PER_JOB = 100
HIGH = 0  # priority: a bounce or a complaint stops further mail


class UnknownProvider(Exception):
    """There is no such provider, or no key for it."""


def take_in_events(scope: Scope, tenant_id: str, name: str, headers: Mapping[str, str], body: bytes) -> int:
    """When this returns, the events are committed; returns how many. Taking them in again does no harm.

    Raises UnknownProvider, BadSignature or BadRequest.
    """
    provider = PROVIDERS.get(name)
    if provider is None:
        raise UnknownProvider(f"There is no provider {name}; the known ones are {', '.join(PROVIDERS)}.")
    lower = {key.lower(): value for key, value in headers.items()}
    provider.check(_key(provider, tenant_id), lower, body, scope.now)
    events = read_events(provider, lower, body)
    rows = {row["event_key"]: row for row in (_row(tenant_id, name, each, scope) for each in events)}
    if rows:
        scope.write(lambda connection: _store(connection, tenant_id, rows))
    return len(rows)


def _key(provider: Provider, tenant_id: str) -> str:
    """A tenant may have an account of its own: MAILGUN_SIGNING_KEY_ACME comes before MAILGUN_SIGNING_KEY."""
    suffix = "".join(each if each.isalnum() else "_" for each in tenant_id.upper())
    found = setting(f"{provider.key_setting}_{suffix}", "") or setting(provider.key_setting, "")
    if not found:
        raise UnknownProvider(f"integration not configured: {provider.key_setting}")
    return found


def _row(tenant_id: str, name: str, event: ProviderEvent, scope: Scope) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "event_key": sha256(f"{name}:{event.key}".encode()).hexdigest(),
        "provider": name,
        "kind": event.kind,
        "status": RECEIVED,
        "details": event.details,
        "occurred_at": event.occurred_at,
        "received_at": scope.now,
    }


def _store(connection: Connection, tenant_id: str, rows: Mapping[str, dict[str, Any]]) -> None:
    """Events that are known already change nothing. Sorted, so that two requests do not deadlock."""
    insert_missing(connection, provider_events, [rows[key] for key in sorted(rows)])
    e = provider_events.c
    is_new = (e.tenant_id == tenant_id) & e.event_key.in_(rows) & (e.status == RECEIVED)
    ids: Sequence[int] = connection.scalars(select(e.id).where(is_new).order_by(e.id)).all()
    for begin in range(0, len(ids), EVENTS_PER_JOB):
        part = list(ids[begin : begin + EVENTS_PER_JOB])
        key = f"events:{part[0]}:{part[-1]}:{len(part)}"
        enqueue("process_webhook", {"events": part}, priority=HIGH, unique_key=key, connection=connection)
