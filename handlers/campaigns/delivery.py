"""Stage 3: send one message, through the first sender that can, and record the outcome of its execution."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Row, Select, and_, bindparam, select

from handlers.campaigns.campaign import Campaign, load_campaign
from handlers.campaigns.contact_events import stop_contacts
from handlers.campaigns.enrolment import canonical_number, exclusions
from handlers.campaigns.payloads import StepMessage
from handlers.campaigns.providers import RenderedMessage, hand_over
from handlers.campaigns.senders import (
    IS_MESSAGE,
    UPDATE_MESSAGE,
    AnswerUnknown,
    MessageRefused,
    Reservation,
    Sender,
    SenderBusy,
    SenderFailed,
    cool_down,
    count_problem,
    in_order,
    keep_counted,
    key_of,
    load_senders,
    open_board,
    release,
    reserve,
    take_back,
)
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
from handlers.mail.tables import templates
from handlers.mailroom.deliveries import Delivery, MailOrigin
from handlers.suppressions import BOUNCED, suppress
from mayfly import BusinessHours, Dead, Job, Retry, Snooze

# A constant, because building a statement takes longer than its execution.
TARGET: Select[Any] = (
    select(
        executions.c.status, executions.c.sender_id, executions.c.template_key, *contacts.c, enrolments.c.stop_reason,
        templates.c.subject, templates.c.text_body, templates.c.html_body,
    )
    .join_from(executions, contacts, contacts.c.id == executions.c.contact_id)
    .outerjoin(
        enrolments,
        and_(
            enrolments.c.campaign_id == executions.c.campaign_id, enrolments.c.contact_id == executions.c.contact_id
        ),
    )
    .outerjoin(
        templates,
        and_(
            templates.c.tenant_id == executions.c.tenant_id, templates.c.template_key == executions.c.template_key
        ),
    )
    .where(IS_MESSAGE)
)  # fmt: skip
IN_STATUS = UPDATE_MESSAGE.where(executions.c.status.in_(bindparam("statuses", expanding=True)))


@dataclass(frozen=True)
class Target:
    """One execution with its contact, texts and campaign, as read at the start of a run."""

    campaign: Campaign
    row: Row[Any]  # of TARGET
    stop_reason: str | None  # of the enrolment, or of the contact
    effect: EffectRecord
    senders: Sequence[Sender]


def send_step(job: Job, message: StepMessage, channel: str) -> dict[str, str]:
    effect = Effect(job, "campaign", f"{message.campaign}:{message.step}:{message.contact}")
    target = job.read(lambda connection: _load(connection, job, message, channel, effect))
    delivery = _MessageRun(job, message, channel, effect, target)
    try:
        return delivery.run()
    except Dead as error:
        delivery.end(FAILED, str(error))
        raise
    except Retry as error:
        if job.attempt >= job.max_attempts:
            delivery.end(FAILED, f"all {job.max_attempts} attempts failed: {error}")
        raise


def _load(connection: Connection, job: Job, message: StepMessage, channel: str, effect: Effect) -> Target:
    row = connection.execute(TARGET, key_of(message)).first()
    if row is None:
        raise Dead("the execution or the contact of this message was deleted")
    campaign = load_campaign(connection, message.campaign)
    senders = load_senders(connection, campaign.tenant_id, channel, job.now)
    reason = row.stop_reason or exclusions(connection, campaign.tenant_id, [row]).get(row.id)
    return Target(campaign, row, reason, effect.load_on(connection), senders)


class _MessageRun:
    """One message in one run of its job."""

    def __init__(self, job: Job, message: StepMessage, channel: str, effect: Effect, target: Target) -> None:
        self._job, self._message, self._channel, self._effect, self._target = job, message, channel, effect, target
        self._state = target.effect.state  # as last read or written by this run
        origin = MailOrigin(target.campaign.tenant_id, message.campaign, message.contact, message.step)
        self._email = Delivery(job, effect.key, target.row.email or "", origin)

    def run(self) -> dict[str, str]:
        if self._target.row.status not in (QUEUED, CANCELLED):
            return {"status": self._target.row.status}
        record = self._target.effect
        if record.state == DONE:  # a killed run has sent it
            return self._sent(record.answer or "")
        if record.state == HANDED_OVER:
            self._resend_or_hold(record)
        ended = self._end_without_sending()
        if ended is not None:
            return ended
        if not self._hours.is_open(self._job.now):
            raise self._postponed(f"outside business hours in {self._hours.zone}")
        return self._through_senders(self._rendered())

    def end(self, status: str, reason: str) -> dict[str, str]:
        """Only the first end counts. A message that was sent is SENT, even if the campaign was paused meanwhile."""
        values = {"status": status, "reason": " ".join(reason.split())[:MAX_REASON_LENGTH]}
        self._job.write(self._change(values, QUEUED))
        return {key: str(value) for key, value in values.items()}

    def _sent(self, answer: str) -> dict[str, str]:
        values = {"status": SENT, "reason": None, "answer": answer[:MAX_REASON_LENGTH], "sent_at": self._job.now}
        change = self._change(values, QUEUED, CANCELLED)

        def write(connection: Connection) -> None:
            change(connection)
            if self._channel == EMAIL:
                self._email.complete(connection, answer)

        self._effect.complete(answer, also=write)
        return {"status": SENT, "answer": answer}

    def _change(self, values: dict[str, Any], *statuses: str) -> Callable[[Connection], object]:
        parameters = {**key_of(self._message), "statuses": statuses, **values}
        return lambda connection: connection.execute(IN_STATUS, parameters)

    # --- checks before a message is sent ------------------------------------------------------------------

    def _resend_or_hold(self, record: EffectRecord) -> None:
        if not may_resend(self._job):
            raise _doubt(record.provider, "an earlier run ended before the answer")
        keep_counted(self._job, self._message)

    def _end_without_sending(self) -> dict[str, str] | None:
        target, campaign = self._target, self._target.campaign
        if target.row.status == CANCELLED or self._job.group_key != campaign.messages_group:
            return {"status": target.row.status, "reason": "planned again, or cancelled"}
        if campaign.status != ACTIVE:
            return self._without_quota(CANCELLED, f"the campaign is {campaign.status}")
        if target.stop_reason is not None:
            return self._without_quota(SKIPPED, target.stop_reason)
        return None

    def _without_quota(self, status: str, reason: str) -> dict[str, str]:
        release(self._job, self._message)  # of an earlier run that was killed
        return self.end(status, reason)

    def _rendered(self) -> RenderedMessage:
        """An unfilled field is an error, and nothing is sent."""
        contact = self._target.row
        subject, text, html = contact.subject, contact.text_body, contact.html_body
        if subject is None:
            raise Dead(f"there is no template {contact.template_key!r} in app_templates")
        context = _filled(contact)
        if self._channel != EMAIL:
            number = canonical_number(contact.phone) or ""
            return RenderedMessage(self._channel, number, render(text or "", context, "text"), key=self._effect.key)
        link = UnsubscribeLinks(self._target.campaign.tenant_id).link_for(contact.email)
        context["unsubscribe"] = link
        parts = {"subject": subject, "text": text, "html": html}
        rendered = {name: source and render(source, context, name) for name, source in parts.items()}
        try:
            fields = {"to": contact.email, "unsubscribe": link, "reply_to": self._email.replies_to, **rendered}
            mail = Mail.model_validate(fields)
        except ValidationError as error:
            raise Dead(f"the email is not valid: {error.errors()[0]['msg']}") from None
        text, bounces_to = rendered["text"] or "", self._email.bounces_to
        return RenderedMessage(EMAIL, contact.email, text, mail, self._effect.key, bounces_to)

    # --- senders ------------------------------------------------------------------------------------------

    def _through_senders(self, message: RenderedMessage) -> dict[str, str]:
        """Try one after the other. An account without quota, or with a problem of its own, leaves it to the next."""
        job, now = self._job, self._job.now
        errors, full = [], Reservation.DAY_FULL
        for sender in in_order(self._target.senders, self._target.row.sender_id, now):
            match reserve(job, self._message, sender, self._target.campaign):
                case Reservation.ENDED:
                    return {"status": CANCELLED, "reason": "paused or cancelled"}
                case Reservation.DAY_FULL:
                    continue
                case Reservation.SLOT_FULL:
                    full = Reservation.SLOT_FULL
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
        is_cooling = all(each.is_cooling(now) for each in self._target.senders)
        raise self._postponed("all senders have a cooldown" if is_cooling else full.value)

    def _postponed(self, reason: str) -> Exception:
        """Plan the message again, for the next slot with room. No attempt is used."""
        campaign, row, now = self._target.campaign, self._target.row, self._job.now

        def work(connection: Connection) -> datetime | None:
            board = open_board(connection, campaign, self._channel, now)
            if board is None:
                return None
            take_back(connection, self._message)  # of an earlier run that was killed
            slot_at, at, sender_id = board.assign(row.zone, now, self._effect.key)
            planned = {"slot_at": slot_at, "scheduled_at": at, "sender_id": sender_id}
            self._change(planned, QUEUED)(connection)
            return at

        at = self._job.write(work)
        if at is None:
            return Retry(f"no row of app_sender_accounts with a limit above 0 can send {self._channel}")
        return Snooze(until=at, reason=reason)

    @property
    def _hours(self) -> BusinessHours:
        return self._target.campaign.hours_for(self._target.row.zone)

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
        return answer

    def _before(self, sender: Sender) -> None:
        record = self._with_row(lambda connection: self._email.hand_over(connection, sender.name, sender.address))
        self._effect.hand_over(sender.name, self._state, record)
        self._state = HANDED_OVER

    def _with_row(self, write: AlsoWrite) -> AlsoWrite | None:
        """Only emails have a row in app_mail_deliveries."""
        return write if self._channel == EMAIL else None

    def _refuse(self, sender: Sender, error: MessageRefused) -> None:
        name, address, reply = sender.name, sender.address, str(error)
        self._take_back(
            reply,
            self._with_row(lambda connection: self._email.refuse(connection, name, address, reply, error.is_bounce)),
        )

    def _take_back(self, answer: str, also: AlsoWrite | None = None) -> None:
        self._effect.reopen(answer, also)
        self._state = self._effect.load().state
        release(self._job, self._message)

    def _record_bounce(self, sender: Sender, reply: str) -> None:
        suppress(self._job, sender.tenant_id, self._message_address(), BOUNCED, reply)
        contact_id, now = self._message.contact, self._job.now

        def work(connection: Connection) -> None:
            if stop_contacts(connection, [contact_id], BOUNCED, now):
                count_problem(connection, sender.id, "bounces")

        self._job.write(work)

    def _message_address(self) -> str:
        return str(self._target.row.email)


def _filled(contact: Row[Any]) -> dict[str, Any]:
    """The values for templates. An empty field is missing: use `{{ city | default("your city") }}`."""
    own = {name: getattr(contact, name) for name in ("name", "email", "phone", "company")}
    return {name: value for name, value in {**own, **(contact.fields or {})}.items() if value not in (None, "")}


def _doubt(provider: str | None, why: str) -> Dead:
    return Dead(f"handed over to {provider}, outcome unknown ({why}): held, because it may have been sent")
