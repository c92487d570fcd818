"""The way of one mail: through which account, and what becomes of its job."""

from collections.abc import Sequence

from handlers.effects import DONE, HANDED_OVER, Effect, Entry, may_resend
from handlers.mail.accounts import Account
from handlers.mail.letters import written_out
from handlers.mail.message import compose
from handlers.mail.payloads import Mail
from handlers.mail.smtp import LoginFailed, Passing, Refused, Unknown, send
from handlers.rests import rest, resting
from handlers.suppressions import BOUNCED, canonical, suppress, suppressed
from mayfly import Cancel, Dead, Job, Retry, Snooze


def deliver(job: Job, mail: Mail, accounts: Sequence[Account]) -> dict[str, str]:
    effect = Effect(job, "mail", mail.key or f"job:{job.id}")
    entry = effect.look()
    if entry.state == DONE:
        return {"answer": entry.answer or "", "account": entry.provider or ""}
    if entry.state == HANDED_OVER and not may_resend(job):
        raise _doubt(entry.provider, "its run ended before the answer came")
    _refuse_suppressed(job, mail)
    usable = [each for each in accounts if each.serves(job.lane)]
    return _Delivery(job, written_out(job, mail), effect, entry).through(in_turn(usable, job.id, entry.provider))


def in_turn(accounts: Sequence[Account], number: int, last: str | None) -> list[Account]:
    """Each job begins with another account, and the one that was tried last comes last."""
    start = number % len(accounts) if accounts else 0
    rotated = [*accounts[start:], *accounts[:start]]
    return sorted(rotated, key=lambda each: each.name == last)


def _refuse_suppressed(job: Job, mail: Mail) -> None:
    """Mail that one can unsubscribe from is one of many; a receipt or a new password is for who asked for it."""
    if mail.unsubscribe is None:
        return
    for address, reason in suppressed(job, [canonical(mail.to)]).items():
        raise Cancel(f"{address} is not written to any more: {reason}")


def _doubt(provider: str | None, why: str) -> Exception:
    return Dead(f"handed over to {provider}, answer unknown ({why}): held, because it may have been sent")


class _Delivery:
    """One run."""

    def __init__(self, job: Job, mail: Mail, effect: Effect, entry: Entry) -> None:
        self._job, self._mail, self._effect = job, mail, effect
        self._state = entry.state  # of the ledger, as we know it

    def through(self, accounts: Sequence[Account]) -> dict[str, str]:
        """The first account that can; others are asked in turn."""
        at_rest = resting(self._job)
        said, waits = [], []
        for account in accounts:
            if account.name in at_rest:
                waits.append(Snooze(until=at_rest[account.name]))
                continue
            grant = self._job.take(account.key)
            if grant.opens_at is not None:
                waits.append(Snooze(until=grant.opens_at))
                continue
            try:
                return {"answer": self._send(account), "account": account.name}
            except (LoginFailed, Passing) as error:
                said.append(f"{account.name}: {error}")
        if said:
            raise Retry("; ".join(said))
        if waits:
            raise min(waits, key=lambda each: str(each.until))
        raise Dead(f"SMTP_ACCOUNTS names no account for the lane {self._job.lane}")

    def _send(self, account: Account) -> str:
        message = compose(self._mail, account.sender, self._effect.key)
        try:
            answer = send(account, self._mail.to, message, lambda: self._hand_over(account))
        except LoginFailed as error:
            rest(self._job, account.name, str(error))
            raise
        except Unknown as error:
            if may_resend(self._job):
                raise Retry(f"handed over to {account.name}, answer unknown: sent again") from error
            raise _doubt(account.name, str(error)) from error
        except Passing as error:
            self._reopen(str(error))
            raise
        except Refused as error:
            self._reopen(str(error))
            if error.is_bounce:
                suppress(self._job, self._mail.to, BOUNCED, str(error))
            raise Dead(f"{account.name}: {error}") from error
        self._effect.done(answer)
        return answer

    def _hand_over(self, account: Account) -> None:
        self._effect.hand_over(account.name, self._state)
        self._state = HANDED_OVER

    def _reopen(self, answer: str) -> None:
        """Nothing to do where it was not handed over in this run."""
        self._effect.reopen(answer)
        self._state = self._effect.look().state
