"""What contacts do: reply, unsubscribe, complain; and bounces. Later messages to them are skipped."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, or_, select, update

from handlers.campaigns.enrolment import canonical_number
from handlers.campaigns.payloads import ContactEvent
from handlers.campaigns.senders import count_problem
from handlers.campaigns.tables import PLANNED, SENT, SKIPPED, contacts, enrolments, executions
from handlers.suppressions import BOUNCED, canonical, suppress_on
from mayfly import Job

REPLIED, COMPLAINED = "replied", "complained"
PROBLEMS = {BOUNCED: "bounces", COMPLAINED: "complaints"}  # counted for the sender of the last message


def record_event(job: Job, event: ContactEvent) -> dict[str, int]:
    """Returns the number of contacts with this address. A repeated event changes nothing."""
    now = job.now
    key = canonical(event.address) if "@" in event.address else canonical_number(event.address) or event.address
    return {"contacts": job.write(lambda connection: _record(connection, event.tenant_id, key, event.event, now))}


def _record(connection: Connection, tenant_id: str, key: str, event: str, now: datetime) -> int:
    if event != REPLIED:
        suppress_on(connection, tenant_id, key, event, now)
    c = contacts.c
    with_key = select(c.id).where(c.tenant_id == tenant_id, or_(c.email == key, c.phone == key))
    ids = list(connection.scalars(with_key))
    if event == REPLIED and ids:
        new = update(contacts).where(contacts.c.id.in_(ids), contacts.c.replied_at.is_(None))
        connection.execute(new.values(replied_at=now))
    stopped = stop_contacts(connection, ids, event, now)
    sender_id = _last_sender(connection, ids) if stopped and event in PROBLEMS else None
    if sender_id is not None:
        count_problem(connection, sender_id, PROBLEMS[event])
    return len(ids)


def stop_contacts(connection: Connection, ids: Sequence[int], reason: str, now: datetime) -> int:
    """Stop their enrolments, in all campaigns; returns how many. Jobs that are queued skip themselves."""
    if not ids:
        return 0
    running = update(enrolments).where(enrolments.c.contact_id.in_(ids), enrolments.c.stopped_at.is_(None))
    stopped = connection.execute(running.values(stopped_at=now, stop_reason=reason)).rowcount
    waiting = update(executions).where(executions.c.contact_id.in_(ids), executions.c.status == PLANNED)
    connection.execute(waiting.values(status=SKIPPED, reason=reason))
    return stopped


def _last_sender(connection: Connection, ids: Sequence[int]) -> int | None:
    e = executions.c
    query = select(e.sender_id).where(e.contact_id.in_(ids), e.status == SENT).order_by(e.sent_at.desc()).limit(1)
    return connection.scalar(query)
