"""Deliver one notification to one subscription, and decide the outcome of its job."""

from collections.abc import Callable
from datetime import datetime

from handlers.http import HttpResponse, ResponseTooLarge, ResponseUnknown, client_for_user_url
from handlers.idempotency import DONE, HANDED_OVER, Effect, may_resend
from handlers.notify import ntfy, webhook
from handlers.notify.message import PushMessage
from handlers.notify.payloads import Notification
from handlers.notify.tables import Subscription, delete_subscription
from mayfly import Dead, Job, Retry, Snooze

GONE = (404, 410)
RESPONSE_SECONDS = 10.0
# A duplicate notification is a nuisance, a lost one goes unnoticed: if the outcome is unknown, it is sent again.
ON_DOUBT = "resend"


def deliver(job: Job, notification: Notification, subscription: Subscription, key: str) -> dict[str, object]:
    effect = Effect(job, "push", f"{key}:{subscription.id}")
    record = effect.load()
    if record.state == DONE:
        return {"answer": record.answer}
    if record.state == HANDED_OVER and not may_resend(job, ON_DOUBT):
        raise _doubt(subscription)
    if not subscription.host:
        raise Dead(f"the URL of subscription {subscription.id} is not valid")
    message = _writer(subscription.kind)(notification, subscription, key, job.now)
    effect.hand_over(subscription.label, record.state)
    try:
        response = _send(message)
    except (ResponseTooLarge, ResponseUnknown) as error:
        raise error if may_resend(job, ON_DOUBT) else _doubt(subscription) from error
    except (Dead, Retry, Snooze) as refused:
        effect.reopen(str(refused))
        raise
    if response.status in GONE:
        delete_subscription(job, subscription)
    effect.complete(str(response.status))
    return {"answer": str(response.status)}


def _writer(kind: str) -> Callable[[Notification, Subscription, str, datetime], PushMessage]:
    if kind != "webpush":
        return {"webhook": webhook.write, "ntfy": ntfy.write}[kind]
    try:
        from handlers.notify import webpush  # cryptography, for runners that send to a browser
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise Dead(f"web push needs {missing}: pip install 'mayfly-jobs[push]'") from None
    return webpush.write


def _send(message: PushMessage) -> HttpResponse:
    client = client_for_user_url(message.url, response_seconds=RESPONSE_SECONDS, quotes=False)
    return client.call("POST", "", message.body, message.headers, expected=GONE)


def _doubt(subscription: Subscription) -> Exception:
    return Dead(f"handed over to {subscription.label}, outcome unknown: held, because it may have been sent")
