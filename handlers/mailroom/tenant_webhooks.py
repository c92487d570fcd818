"""Webhooks of tenants: an event is stored with its jobs in one transaction, then delivered to each endpoint.

Deliveries are signed, retried for three days, and repeated with the same id after a crash, so that receivers can
detect duplicates. An endpoint that fails is called less and less often, and is disabled after three days.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NoReturn
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row, select, update

from handlers.http import HttpResponse, ResponseTooLarge, base_and_path, client_for_user_url
from handlers.http.signing import key_of, signed_headers
from handlers.mailroom.payloads import WebhookTask
from handlers.mailroom.tables import MAX_REASON_LENGTH, webhook_deliveries, webhook_endpoints
from handlers.outages import SURVIVES_THREE_DAYS, delay_seconds
from handlers.upsert import insert_missing
from mayfly import Cancel, Dead, Job, Retry, Snooze, enqueue, setting

OPEN, DELIVERED, FAILED = "open", "delivered", "failed"
NORMAL, LOW = 1, 2  # priorities; 0 is for the events of providers
FREQUENT = ("mail.delivered",)  # they do not delay replies and bounces
# Otherwise a user with the right to add endpoints could have requests signed with any setting.
CREDENTIAL = r"WEBHOOK_[A-Z0-9_]{1,56}"
URL = r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?([/?][!-~]*)?"
LIFETIME = timedelta(days=3)
RESPONSE_SECONDS = 15.0
GONE = 410
# Unlike other services, a receiver may return any of them while it is misconfigured: they are retried.
REFUSALS = tuple({*range(300, 500)} - {408, 425, 429})


def publish(connection: Connection, tenant_id: str, event_type: str, key: str, data: Mapping[str, Any],
            now: datetime) -> None:  # fmt: skip
    """Part of the caller's transaction. An event with the same key is sent once to each endpoint."""
    e = webhook_endpoints.c
    active = select(e.id, e.events).where(e.tenant_id == tenant_id, e.disabled_at.is_(None)).order_by(e.id)
    wanted = [row.id for row in connection.execute(active) if row.events is None or event_type in row.events]
    content = {"type": event_type, "timestamp": now.isoformat(), "data": dict(data)}
    for endpoint_id in wanted:
        row = {
            "tenant_id": tenant_id, "endpoint_id": endpoint_id, "event_key": key, "event_type": event_type,
            "content": content, "status": OPEN, "created_at": now,
        }  # fmt: skip
        insert_missing(connection, webhook_deliveries, row)
        d = webhook_deliveries.c
        number = connection.scalar(select(d.id).where(d.endpoint_id == endpoint_id, d.event_key == key))
        payload = {"endpoint": endpoint_id, "delivery": number}
        priority = LOW if event_type in FREQUENT else NORMAL
        enqueue("deliver_webhook", payload, priority=priority, unique_key=f"webhook:{number}", connection=connection)


def deliver(job: Job, task: WebhookTask) -> dict[str, str]:
    e, d = webhook_endpoints.c, webhook_deliveries.c
    endpoint_query, query = select(webhook_endpoints).where(e.id == task.endpoint), select(webhook_deliveries)
    endpoint = job.read(lambda connection: connection.execute(endpoint_query).first())
    row = job.read(lambda connection: connection.execute(query.where(d.id == task.delivery)).first())
    if endpoint is None or row is None:
        raise Cancel("the endpoint or the event was deleted")
    if row.status != OPEN:
        return {"status": row.status}
    return _WebhookRun(job, endpoint, row).run()


class _WebhookRun:
    """One event to one endpoint, in one run of its job."""

    def __init__(self, job: Job, endpoint: Row[Any], row: Row[Any]) -> None:
        self._job, self._endpoint, self._row = job, endpoint, row
        self._is_last = job.now >= row.created_at + LIFETIME or job.attempt >= job.max_attempts

    def run(self) -> dict[str, str]:
        endpoint = self._endpoint
        if endpoint.disabled_at is not None:
            raise Cancel(f"endpoint {endpoint.id} is disabled: {endpoint.disabled_reason}")
        if endpoint.retry_at is not None and endpoint.retry_at > self._job.now and not self._is_last:
            raise Snooze(
                until=endpoint.retry_at, reason=f"endpoint {endpoint.id} has failed {endpoint.failures} times"
            )
        response = self._send()
        if response.status == GONE:
            self._disable(f"{response.host} returned 410: the endpoint is gone")
        if response.status in REFUSALS:
            reason = f"{response.host} returned {response.status}"
            self._fail(reason, Retry(reason))
        self._succeed(f"{response.host} returned {response.status}")
        return {"status": DELIVERED}

    def _send(self) -> HttpResponse:
        endpoint, row = self._endpoint, self._row
        if not re.fullmatch(URL, endpoint.url):
            self._disable("its URL must begin with http:// or https:// and name a host")
        if not re.fullmatch(CREDENTIAL, endpoint.credential):
            self._disable("its credential must be the name of a setting that begins with WEBHOOK_")
        body = json.dumps(row.content, ensure_ascii=False, separators=(",", ":"))
        headers = signed_headers(row.event_key, body, self._job.now, *_keys(endpoint.credential))
        headers["Content-Type"] = "application/json"
        base, path = base_and_path(endpoint.url)
        client = client_for_user_url(base, response_seconds=RESPONSE_SECONDS, quotes=False)
        try:
            return client.call("POST", path, body.encode(), headers, expected=REFUSALS)
        except (Retry, Snooze) as error:
            self._fail(str(error), error)
        except ResponseTooLarge as error:
            self._fail(str(error), Retry(str(error)))
        except Dead as error:
            self._disable(str(error))  # not a public address

    # --- outcomes -----------------------------------------------------------------------------------------

    def _succeed(self, response: str) -> None:
        works = update(webhook_endpoints).where(webhook_endpoints.c.id == self._endpoint.id)
        values = {"failing_since": None, "failures": 0, "retry_at": None}

        def work(connection: Connection) -> None:
            self._write_end(connection, DELIVERED, response)
            if self._endpoint.failing_since is not None:
                connection.execute(works.values(**values))

        self._job.write(work)

    def _fail(self, reason: str, outcome: Retry | Snooze) -> NoReturn:
        endpoint, now = self._endpoint, self._job.now
        if endpoint.failing_since is not None and now >= endpoint.failing_since + LIFETIME:
            self._disable(f"it has failed since {endpoint.failing_since:%Y-%m-%d %H:%M} UTC: {reason}")
        failures = endpoint.failures + 1
        values = {
            "failing_since": endpoint.failing_since or now,
            "failures": failures,
            "retry_at": now + timedelta(seconds=delay_seconds(failures, SURVIVES_THREE_DAYS)),
        }
        fails = update(webhook_endpoints).where(webhook_endpoints.c.id == endpoint.id)

        def work(connection: Connection) -> None:
            connection.execute(fails.values(**values))
            self._write_end(connection, FAILED if self._is_last else OPEN, reason)

        self._job.write(work)
        if self._is_last:
            raise Dead(f"not delivered within {LIFETIME.days} days: {reason}")
        raise outcome

    def _disable(self, reason: str) -> NoReturn:
        """The first runner that finds the problem sends the notice; the job is dead, so that operators see it too."""
        endpoint, now = self._endpoint, self._job.now
        e = webhook_endpoints.c
        disabled = update(webhook_endpoints).where(e.id == endpoint.id, e.disabled_at.is_(None))
        values = {"disabled_at": now, "disabled_reason": reason[:MAX_REASON_LENGTH]}

        def work(connection: Connection) -> None:
            self._write_end(connection, FAILED, reason)
            if connection.execute(disabled.values(**values)).rowcount and endpoint.contact:
                notice = {**_notice(endpoint, reason), "key": f"webhook-notice:{endpoint.id}:{now.isoformat()}"}
                enqueue("send_email", notice, unique_key=str(notice["key"]), connection=connection)

        self._job.write(work)
        raise Dead(f"endpoint {endpoint.id} of the tenant {endpoint.tenant_id} was disabled: {reason}")

    def _write_end(self, connection: Connection, status: str, response: str) -> None:
        d = webhook_deliveries.c
        change = update(webhook_deliveries).where(d.id == self._row.id, d.status == OPEN)
        delivered_at = self._job.now if status == DELIVERED else None
        values = {"status": status, "response": response[:MAX_REASON_LENGTH], "delivered_at": delivered_at}
        connection.execute(change.values(**values))


def _keys(credential: str) -> list[bytes]:
    """Of one or more secrets: while a secret is replaced, a request is signed with the old and the new one."""
    secrets = setting(credential, "").split()
    if not secrets:
        raise Cancel(f"integration not configured: {credential}")
    return [key_of(each) for each in secrets]


def _notice(endpoint: Row[Any], reason: str) -> dict[str, str]:
    host = urlsplit(endpoint.url).hostname or "?"  # its path is a secret
    text = (
        f"Your webhook endpoint {endpoint.id} at {host} is disabled: {reason}.\n\n"
        "No more events are sent to it. When it works again, ask your administrator to enable it.\n"
    )
    subject = f"Your webhook endpoint at {host} is disabled"
    return {"tenant_id": endpoint.tenant_id, "to": endpoint.contact, "subject": subject, "text": text}
