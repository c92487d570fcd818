"""What tests do with the mail room: take in messages, process them, read its tables."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from handlers.mailroom.intake import Envelope, take_in
from mayfly import database
from mayfly.testing import Drained, drain
from tests.handlers.mailroom.shapes import BOB, OURS
from tests.handlers.rows import insert, select

NOON = "2026-05-04 12:00:00"


@dataclass
class MailOffice:
    url: str

    def receive(self, raw: bytes, sender: str | None = BOB, **envelope: Any) -> dict[str, Any]:
        """Take a message in and process it with all that follows; returns the result of the first job."""
        self.take_in(raw, sender, **envelope)
        return self.results("process_inbound_email", self.drain())[0]

    def take_in(self, raw: bytes, sender: str | None = BOB, **envelope: Any) -> None:
        take_in(database(), raw, Envelope(sender=sender, **envelope))

    def drain(self) -> Drained:
        return drain(raises=True)

    def results(self, type_name: str, drained: Drained) -> list[dict[str, Any]]:
        return [json.loads(run.outcome.result or "null") for run in drained.runs if run.job.type == type_name]

    def send(self, message_id: str = OURS, recipient: str = BOB, **columns: Any) -> None:
        """As if `send_email` had sent it."""
        row = {
            "id": 1, "tenant_id": "default", "effect_key": f"mail:{message_id}", "job_id": 1, "recipient": recipient,
            "sender": "ann@shop.example", "provider": "ann", "message_id": message_id,
            "token": message_id.partition("@")[0], "status": "sent", "created_at": NOON, "sent_at": NOON,
            "changed_at": NOON,
        }  # fmt: skip
        insert(self.url, "app_mail_deliveries", {**row, **columns})

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        return select(self.url, statement)

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT COUNT(*) FROM {table}")[0][0])

    def events(self) -> list[tuple[str, str]]:
        """The contact events that were enqueued: address and event."""
        found = self.rows("SELECT payload FROM mayfly_jobs WHERE type = 'record_contact_event' ORDER BY id")
        return [(each["address"], each["event"]) for each in map(_loaded, (row[0] for row in found))]


def _loaded(text: Any) -> dict[str, str]:
    loaded: dict[str, str] = json.loads(text)
    return loaded
