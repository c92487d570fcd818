"""Send one email through the first account that accepts it, and decide the outcome of its job."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from handlers.cooldown import active_cooldowns, start_cooldown
from handlers.idempotency import DONE, HANDED_OVER, Effect, EffectRecord, may_resend
from handlers.mail.accounts import Account
from handlers.mail.message import compose
from handlers.mail.payloads import Mail
from handlers.mail.smtp import IDLE, LoginFailed, PermanentFailure, ReplyUnknown, TemporaryFailure, send
from handlers.mail.templates import with_template
from handlers.mailroom.deliveries import Delivery, MailOrigin
from handlers.payloads import DEFAULT_TENANT
from handlers.suppressions import BOUNCED, canonical, suppress, suppressed
from mayfly import Cancel, Dead, Job, Retry, Snooze

MAX_EFFECT_NAME = 180  # its column has 190 characters, with the kind of the effect


def deliver(job: Job, mail: Mail, accounts: Sequence[Account], origin: MailOrigin | None = None) -> dict[str, Any]:
    effect = Effect(job, "mail", effect_name(mail.tenant_id, mail.key) if mail.key else f"job:{job.id}")
    row = Delivery(job, effect.key, mail.to, origin or MailOrigin(mail.tenant_id))
    record = effect.load()
    if record.state == DONE:
        return {"answer": record.answer or "", "account": record.provider or "", **row.result()}
    if record.state == HANDED_OVER and not may_resend(job):
        raise _doubt(record.provider, "an earlier run ended before the reply")
    _refuse_suppressed(job, mail)
    usable = [each for each in accounts if each.serves(job.lane)]
    delivery = _Sending(job, with_template(job, mail), effect, record, row)
    return delivery.through(rotated(usable, job.id, record.provider))


def effect_name(tenant_id: str, key: str) -> str:
    """Two tenants may use the same key for two emails."""
    if tenant_id == DEFAULT_TENANT:
        return key
    name = f"{tenant_id}/{key}"
    return name if len(name) <= MAX_EFFECT_NAME else f"{tenant_id}/{sha256(key.encode()).hexdigest()}"


def rotated(accounts: Sequence[Account], number: int, last: str | None) -> list[Account]:
    """Jobs start with different accounts; the account that the last run used is tried last."""
    start = number % len(accounts) if accounts else 0
    in_turn = [*accounts[start:], *accounts[:start]]
    return sorted(in_turn, key=lambda each: each.name == last)


def _refuse_suppressed(job: Job, mail: Mail) -> None:
    """Only for bulk mail, which has an unsubscribe link. A receipt or a new password was requested."""
    if mail.unsubscribe is None:
        return
    for address, reason in suppressed(job, mail.tenant_id, [canonical(mail.to)]).items():
        raise Cancel(f"{address} is suppressed: {reason}")


def _doubt(provider: str | None, why: str) -> Exception:
    return Dead(f"handed over to {provider}, outcome unknown ({why}): held, because it may have been sent")


class _Sending:
    """One email in one run of its job."""

    def __init__(self, job: Job, mail: Mail, effect: Effect, record: EffectRecord, row: Delivery) -> None:
        self._job, self._effect, self._row = job, effect, row
        self._mail = mail if mail.reply_to is not None else mail.model_copy(update={"reply_to": row.replies_to})
        self._state = record.state  # as last read by this run
        self._is_sent = False  # through the current account, at least in part

    def through(self, accounts: Sequence[Account]) -> dict[str, Any]:
        """Try the accounts in this order."""
        cooldowns = active_cooldowns(self._job)
        errors, waits = [], []
        for account in accounts:
            if account.name in cooldowns:
                waits.append(Snooze(until=cooldowns[account.name], reason=f"{account.name} has a cooldown"))
                continue
            grant = self._job.take(account.key)
            if grant.opens_at is not None:
                IDLE.close(account)  # other runners use all connections of the account
                waits.append(Snooze(until=grant.opens_at, reason=grant.reason))
                continue
            self._is_sent = False
            try:
                return {"answer": self._send(account), "account": account.name, **self._row.result()}
            except (LoginFailed, TemporaryFailure, Dead) as error:
                if not self._is_sent:
                    grant.release()
                if isinstance(error, Dead):
                    raise
                errors.append(f"{account.name}: {error}")
        if errors:
            raise Retry("; ".join(errors))
        if waits:
            raise min(waits, key=lambda each: str(each.until))
        raise Dead(f"SMTP_ACCOUNTS has no account for the lane {self._job.lane}")

    def _send(self, account: Account) -> str:
        message = compose(self._mail, account.sender, self._effect.key)
        try:
            hand_over, bounces_to = (lambda: self._hand_over(account)), self._row.bounces_to
            answer = send(account, self._mail.to, message, hand_over, bounces_to)
        except LoginFailed as error:
            start_cooldown(self._job, account.name, str(error))
            raise
        except ReplyUnknown as error:
            if may_resend(self._job):
                raise Retry(f"handed over to {account.name}, outcome unknown: sending it again") from error
            raise _doubt(account.name, str(error)) from error
        except TemporaryFailure as error:
            self._reopen(str(error))
            raise
        except PermanentFailure as error:
            self._refuse(account, error)
            if error.is_bounce:
                suppress(self._job, self._mail.tenant_id, self._mail.to, BOUNCED, str(error))
            raise Dead(f"{account.name}: {error}") from error
        self._effect.complete(answer, lambda connection: self._row.complete(connection, answer))
        return answer

    def _hand_over(self, account: Account) -> None:
        self._effect.hand_over(
            account.name,
            self._state,
            lambda connection: self._row.hand_over(connection, account.name, account.sender),
        )
        self._state, self._is_sent = HANDED_OVER, True

    def _refuse(self, account: Account, error: PermanentFailure) -> None:
        name, sender = account.name, account.sender
        self._effect.reopen(
            str(error), lambda connection: self._row.refuse(connection, name, sender, str(error), error.is_bounce)
        )

    def _reopen(self, answer: str) -> None:
        """Does nothing if this run has not handed it over."""
        self._effect.reopen(answer)
        self._state = self._effect.load().state
