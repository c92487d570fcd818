"""Rows of campaigns, contacts and senders, as the application inserts them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import FromClause, Table, insert, select, update

from handlers.campaigns import tables as t
from handlers.mail.tables import templates
from mayfly.db.database import Database
from mayfly.db.dialects import Unit

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


class StepSpec(NamedTuple):
    channel: str = "email"
    day: int = 0
    wait_days: int = 0
    template: str = "hello"


class World:
    """The campaign tables of one database. Ids count from 1 in the order of insertion."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self._contacts = self._steps = 0
        self.template("hello")

    def close(self) -> None:
        self.database.close()

    def insert(self, table: Table, *rows: dict[str, Any]) -> None:
        self.database.run_sqlalchemy(lambda connection: connection.execute(insert(table), list(rows)))

    def rows(self, table: FromClause, *conditions: Any) -> Sequence[Any]:
        query = select(table).where(*conditions).order_by(*table.primary_key)
        return self.database.run_sqlalchemy(lambda connection: connection.execute(query).all(), Unit.READ)

    def change(self, table: Table, *conditions: Any, **values: Any) -> None:
        change = update(table).where(*conditions).values(**values)
        self.database.run_sqlalchemy(lambda connection: connection.execute(change))

    def template(
        self, key: str, subject: str = "Hello {{ name }}", text: str = "Dear {{ name }}", tenant_id: str = "default"
    ) -> None:
        texts = {"subject": subject, "text_body": text, "html_body": None, "created_at": CREATED}
        self.insert(templates, {"tenant_id": tenant_id, "template_key": key, **texts})

    def campaign(
        self,
        *steps: StepSpec,
        name: str = "spring",
        groups: Sequence[int] = (1,),
        zone: str = "Europe/Berlin",
        **columns: Any,
    ) -> int:
        """With one step group per day; by default it is one email at once."""
        number = len(self.rows(t.campaigns)) + 1
        usual = {"status": t.DRAFT, "hours": "09:00-17:00", "weekdays": "12345", "holidays": [], "slot_seconds": 900,
                 "per_slot": 5, "run": 1, "created_at": CREATED}  # fmt: skip
        self.insert(t.campaigns, {"id": number, "name": name, "zone": zone, **usual, **columns})
        for group in groups:
            self.insert(t.campaign_lead_groups, {"campaign_id": number, "lead_group_id": group})
        for day in sorted({each.day for each in steps or [StepSpec()]}):
            group_id = 100 * number + day
            self.insert(t.step_groups, {"id": group_id, "campaign_id": number, "day": day})
            for position, step in enumerate(each for each in steps or [StepSpec()] if each.day == day):
                self._steps += 1
                row = {"position": position, "channel": step.channel, "template_key": step.template}
                self.insert(t.steps, {"id": self._steps, "group_id": group_id, "wait_days": step.wait_days, **row})
        return number

    def contacts(self, count: int, group: int = 1, **columns: Any) -> list[int]:
        """Number 7 is 7@example.com and +49307."""
        return self.add_contacts(count * [{"lead_group_id": group, **columns}])

    def add_contacts(self, rows: Sequence[dict[str, Any]]) -> list[int]:
        """With the columns that differ from the usual ones."""
        numbers = range(self._contacts + 1, self._contacts + len(rows) + 1)
        self._contacts += len(rows)
        made = [_contact(number, row) for number, row in zip(numbers, rows, strict=True)]
        for begin in range(0, len(made), 5000):
            self.insert(t.contacts, *made[begin : begin + 5000])
        return list(numbers)

    def sender(self, name: str = "ann", provider: str = "smtp", **columns: Any) -> int:
        number = len(self.rows(t.sender_accounts)) + 1
        limit = columns.pop("limit", 1000)
        credential = {"smtp": "SENDER_SMTP", "gmail": f"SENDER_GMAIL_{number}", "twilio": "SENDER_TWILIO"}[provider]
        address = f"+1555{number}" if provider == "twilio" else f"{name}@shop.example"
        usual = {"address": address, "credential": credential, "zone": "Europe/Berlin", "curve": [], "warmup_day": 0,
                 "daily_limit": limit, "current_limit": limit, "health": 100, "bounces": 0,
                 "complaints": 0}  # fmt: skip
        self.insert(t.sender_accounts, {"id": number, "name": name, "provider": provider, **usual, **columns})
        return number

    def statuses(self, campaign: int = 1) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in self.rows(t.executions, t.executions.c.campaign_id == campaign):
            found[row.status] = found.get(row.status, 0) + 1
        return found

    def execution(self, contact: int, step: int = 1) -> Any:
        [row] = self.rows(t.executions, t.executions.c.contact_id == contact, t.executions.c.step_id == step)
        return row

    def status_of(self, campaign: int = 1) -> str:
        return str(self.rows(t.campaigns, t.campaigns.c.id == campaign)[0].status)


def _contact(number: int, columns: dict[str, Any]) -> dict[str, Any]:
    own = {"id": number, "email": f"{number}@example.com", "phone": f"+4930{number}"}
    return {**own, "name": f"Number {number}", "company": None, "zone": None, "banned": 0, "fields": {}, **columns}
