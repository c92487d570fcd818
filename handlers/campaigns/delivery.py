"""Stage 3: send one message, through the first sender that can, and record the outcome of its execution."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Row, select, update

from handlers.campaigns.campaign import Campaign, load_campaign
from handlers.campaigns.contact_events import stop_contacts
from handlers.campaigns.enrolment import canonical_number, exclusions
from handlers.campaigns.payloads import StepMessage
from handlers.campaigns.problems import AnswerUnknown, MessageRefused, SenderBusy, SenderFailed
from handlers.campaigns.providers import RenderedMessage, hand_over
from handlers.campaigns.senders import (
    Reservation,
    Sender,
    cool_down,
    count_problem,
    in_order,
    is_of,
    keep_counted,
    load_senders,
    next_chance,
    release,
    reserve,
)
from handlers.campaigns.slots import jitter
from handlers.campaigns.tables import (
    ACTIVE,
    CANCELLED,
    EMAIL,
    FAILED,
    MAX_REASON_LENGTH,
    QUEUED,
    SENT,
    SKIPPED,
    contacts,
    enrolments,
    executions,
)
from handlers.idempotency import DONE, HANDED_OVER, AlsoWrite, Effect, EffectRecord, may_resend
from handlers.mail.bulk import UnsubscribeLinks
from handlers.mail.message import render
from handlers.mail.payloads import Mail
from handlers.mail.templates import find_template
from handlers.mailroom.deliveries import Delivery, Origin
from handlers.suppressions import BOUNCED, suppress
from mayfly import Dead, Job, Retry, Snooze


@dataclass(frozen=True)
class Target:
    """One execution with its campaign and contact, as read at the start of a run."""

    campaign: Campaign
    execution: Row[Any]
    contact: Row[Any]
    stop_reason: str | None  # of the enrolment, or of the contact
    texts: tuple[str, str | None, str | None] | None  # subject, text and html


def send_step(job: Job, message: StepMessage, channel: str) -> dict[str, str]:
    target = job.read(lambda connection: _load(connection, message))
    delivery = _Delivery(job, message, channel, target)
    try:
        return delivery.run()
    except Dead as error:
        delivery.end(FAILED, str(error))
        raise
    except Retry as error:
        if job.attempt >= job.max_attempts:
            delivery.end(FAILED, f"all {job.max_attempts} attempts failed: {error}")
        raise


def _load(connection: Connection, message: StepMessage) -> Target:
    execution = connection.execute(select(executions).where(is_of(message))).first()
    contact = connection.execute(select(contacts).where(contacts.c.id == message.contact)).first()
    if execution is None or contact is None:
        raise Dead("the execution or the contact of this message was deleted")
    enrolled = select(enrolments.c.stop_reason).where(
        enrolments.c.campaign_id == message.campaign, enrolments.c.contact_id == message.contact
    )
    reason = connection.scalar(enrolled) or exclusions(connection, [contact]).get(contact.id)
    texts = connection.execute(find_template(execution.template_key)).first()
    campaign = load_campaign(connection, message.campaign)
    return Target(campaign, execution, contact, reason, None if texts is None else tuple(texts))


class _Delivery:
    """One message in one run of its job."""

    def __init__(self, job: Job, message: StepMessage, channel: str, target: Target) -> None:
        self._job, self._message, self._channel, self._target = job, message, channel, target
        self._effect = Effect(job, "campaign", f"{message.campaign}:{message.step}:{message.contact}")
        origin = Origin(campaign_id=message.campaign, contact_id=message.contact, step_id=message.step)
        self._row = Delivery(job, self._effect.key, target.contact.email or "", origin)
        self._state = ""  # of the effect, as last read by this run

    def run(self) -> dict[str, str]:
        if self._target.execution.status not in (QUEUED, CANCELLED):
            return {"status": self._target.execution.status}
        record = self._effect.load()
        self._state = record.state
        if record.state == DONE:  # a killed run has sent it
            return self._sent(record.answer or "")
        if record.state == HANDED_OVER:
            self._resend_or_hold(record)
        ended = self._end_without_sending()
        if ended is not None:
            return ended
        self._wait_for_business_hours()
        return self._through_senders(self._rendered())

    def end(self, status: str, reason: str) -> dict[str, str]:
        """Only the first end counts. A message that was sent is SENT, even if the campaign was paused meanwhile."""
        values = {"status": status, "reason": " ".join(reason.split())[:MAX_REASON_LENGTH]}
        self._write_end(values, QUEUED)
        return {key: str(value) for key, value in values.items()}

    def _sent(self, answer: str) -> dict[str, str]:
        values = {"status": SENT, "reason": None, "answer": answer[:MAX_REASON_LENGTH], "sent_at": self._job.now}
        self._write_end(values, QUEUED, CANCELLED)
        return {"status": SENT, "answer": answer}

    def _write_end(self, values: dict[str, Any], *statuses: str) -> None:
        change = update(executions).where(is_of(self._message), executions.c.status.in_(statuses)).values(**values)
        self._job.write(lambda connection: connection.execute(change))

    # --- checks before a message is sent ------------------------------------------------------------------

    def _resend_or_hold(self, record: EffectRecord) -> None:
        if not may_resend(self._job):
            raise _doubt(record.provider, "an earlier run ended before the answer")
        keep_counted(self._job, self._message)

    def _end_without_sending(self) -> dict[str, str] | None:
        target, campaign = self._target, self._target.campaign
        if target.execution.status == CANCELLED or self._job.group_key != campaign.messages_group:
            return {"status": target.execution.status, "reason": "planned again, or cancelled"}
        if campaign.status != ACTIVE:
            return self._without_quota(CANCELLED, f"the campaign is {campaign.status}")
        if target.stop_reason is not None:
            return self._without_quota(SKIPPED, target.stop_reason)
        return None

    def _without_quota(self, status: str, reason: str) -> dict[str, str]:
        release(self._job, self._message)  # of an earlier run that was killed
        return self.end(status, reason)

    def _wait_for_business_hours(self) -> None:
        now, hours = self._job.now, self._target.campaign.hours_for(self._target.contact.zone)
        if not hours.is_open(now):
            raise Snooze(until=self._open_after(now), reason=f"outside business hours in {hours.zone}")

    def _open_after(self, at: datetime) -> datetime:
        """The next business hours, at a random instant of their first slot: many messages may wait for them."""
        campaign = self._target.campaign
        hours = campaign.hours_for(self._target.contact.zone)
        opens_at = hours.next_open(at)
        later = opens_at + jitter(self._effect.key) * campaign.slot
        return later if hours.is_open(later) else opens_at

    def _rendered(self) -> RenderedMessage:
        """An unfilled field is an error, and nothing is sent."""
        contact, texts = self._target.contact, self._target.texts
        if texts is None:
            raise Dead(f"there is no template {self._target.execution.template_key!r} in app_templates")
        subject, text, html = texts
        context = _filled(contact)
        if self._channel != EMAIL:
            number = canonical_number(contact.phone) or ""
            return RenderedMessage(self._channel, number, render(text or "", context, "text"), key=self._effect.key)
        link = UnsubscribeLinks().link_for(contact.email)
        context["unsubscribe"] = link
        parts = {"subject": subject, "text": text, "html": html}
        rendered = {name: source and render(source, context, name) for name, source in parts.items()}
        try:
            fields = {"to": contact.email, "unsubscribe": link, "reply_to": self._row.replies_to, **rendered}
            mail = Mail.model_validate(fields)
        except ValidationError as error:
            raise Dead(f"the email is not valid: {error.errors()[0]['msg']}") from None
        text, bounces_to = rendered["text"] or "", self._row.bounces_to
        return RenderedMessage(EMAIL, contact.email, text, mail, self._effect.key, bounces_to)

    # --- senders ------------------------------------------------------------------------------------------

    def _through_senders(self, message: RenderedMessage) -> dict[str, str]:
        """Try one after the other. An account without quota, or with a problem of its own, leaves it to the next."""
        job, now = self._job, self._job.now
        senders = job.read(lambda connection: load_senders(connection, self._channel, now))
        errors = []
        for sender in in_order(senders, self._target.execution.sender_id, now):
            reservation = reserve(job, self._message, sender)
            if reservation is Reservation.ENDED:
                return {"status": CANCELLED, "reason": "paused or cancelled"}
            if reservation is Reservation.EXHAUSTED:
                continue
            try:
                return self._sent(self._through(sender, message))
            except SenderFailed as error:
                cool_down(job, sender, str(error))
                errors.append(f"{sender.name}: {error}")
            except SenderBusy as error:
                errors.append(f"{sender.name}: {error}")
        if errors:
            raise Retry("; ".join(errors))
        if not senders:
            raise Retry(f"no row of app_sender_accounts can send {self._channel}")
        raise Snooze(until=self._open_after(next_chance(senders, now)), reason="the quota of all senders is used up")

    def _through(self, sender: Sender, message: RenderedMessage) -> str:
        """Any error other than AnswerUnknown means that nothing was sent: the quota is returned."""
        try:
            answer = hand_over(self._job, sender, message, lambda: self._before(sender))
        except AnswerUnknown as error:
            if may_resend(self._job):
                raise Retry(f"handed over to {sender.name}, outcome unknown: sending it again") from error
            raise _doubt(sender.name, str(error)) from error
        except MessageRefused as error:
            self._refuse(sender, error)
            if error.is_bounce:
                self._record_bounce(sender, str(error))
            raise Dead(f"{sender.name}: {error}") from error
        except (SenderFailed, SenderBusy, Retry, Snooze, Dead) as error:
            self._take_back(str(error))
            raise
        self._effect.complete(answer, self._with_row(lambda connection: self._row.complete(connection, answer)))
        return answer

    def _before(self, sender: Sender) -> None:
        record = self._with_row(lambda connection: self._row.hand_over(connection, sender.name, sender.address))
        self._effect.hand_over(sender.name, self._state, record)
        self._state = HANDED_OVER

    def _with_row(self, write: AlsoWrite) -> AlsoWrite | None:
        """Only emails have a row in app_mail_deliveries."""
        return write if self._channel == EMAIL else None

    def _refuse(self, sender: Sender, error: MessageRefused) -> None:
        name, address, reply = sender.name, sender.address, str(error)
        self._take_back(
            reply,
            self._with_row(lambda connection: self._row.refuse(connection, name, address, reply, error.is_bounce)),
        )

    def _take_back(self, answer: str, also: AlsoWrite | None = None) -> None:
        self._effect.reopen(answer, also)
        self._state = self._effect.load().state
        release(self._job, self._message)

    def _record_bounce(self, sender: Sender, reply: str) -> None:
        suppress(self._job, self._message_address(), BOUNCED, reply)
        contact_id, now = self._message.contact, self._job.now

        def work(connection: Connection) -> None:
            if stop_contacts(connection, [contact_id], BOUNCED, now):
                count_problem(connection, sender.id, "bounces")

        self._job.write(work)

    def _message_address(self) -> str:
        return str(self._target.contact.email)


def _filled(contact: Row[Any]) -> dict[str, Any]:
    """The values for templates. An empty field is missing: use `{{ city | default("your city") }}`."""
    own = {name: getattr(contact, name) for name in ("name", "email", "phone", "company")}
    return {name: value for name, value in {**own, **(contact.fields or {})}.items() if value not in (None, "")}


def _doubt(provider: str | None, why: str) -> Dead:
    return Dead(f"handed over to {provider}, outcome unknown ({why}): held, because it may have been sent")
