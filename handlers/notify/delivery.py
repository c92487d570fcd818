"""The way of one notification to one subscription, and what becomes of its job."""

from collections.abc import Callable
from datetime import datetime

from handlers.effects import DONE, HANDED_OVER, Effect, may_resend
from handlers.notify import ntfy, webhook
from handlers.notify.message import Message
from handlers.notify.payloads import Notification
from handlers.notify.tables import Subscription, remove
from handlers.outside import Answer, TooMuch, Unanswered, given_by_people
from mayfly import Dead, Job, Retry, Snooze

GONE = (404, 410)
ANSWER_SECONDS = 10.0
# Two notifications are a nuisance, one that never came is noticed by nobody: what may be lost is sent again.
ON_DOUBT = "resend"


def deliver(job: Job, notification: Notification, subscription: Subscription, key: str) -> dict[str, object]:
    effect = Effect(job, "push", f"{key}:{subscription.id}")
    entry = effect.look()
    if entry.state == DONE:
        return {"answer": entry.answer}
    if entry.state == HANDED_OVER and not may_resend(job, ON_DOUBT):
        raise _doubt(subscription)
    if not subscription.host:
        raise Dead(f"the URL of subscription {subscription.id} is none")
    message = _writer(subscription.kind)(notification, subscription, key, job.now)
    effect.hand_over(subscription.shown, entry.state)
    try:
        answer = _send(message)
    except (TooMuch, Unanswered) as error:
        raise error if may_resend(job, ON_DOUBT) else _doubt(subscription) from error
    except (Dead, Retry, Snooze) as refused:
        effect.reopen(str(refused))
        raise
    if answer.status in GONE:
        remove(job, subscription)
    effect.done(str(answer.status))
    return {"answer": str(answer.status)}


def _writer(kind: str) -> Callable[[Notification, Subscription, str, datetime], Message]:
    if kind != "webpush":
        return {"webhook": webhook.write, "ntfy": ntfy.write}[kind]
    try:
        from handlers.notify import webpush  # cryptography, for runners that tell a browser
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise Dead(f"web push needs {missing}: pip install 'mayfly-jobs[push]'") from None
    return webpush.write


def _send(message: Message) -> Answer:
    outside = given_by_people(message.url, answer_seconds=ANSWER_SECONDS, quotes=False)
    return outside.call("POST", "", message.body, message.headers, expected=GONE)


def _doubt(subscription: Subscription) -> Exception:
    return Dead(f"handed over to {subscription.shown}, answer unknown: held, because it may have been sent")
