"""Notifications: one job per subscription of a person; a subscription is a browser, a chat channel or a phone."""

from handlers.notify.payloads import Notification
from handlers.outages import SURVIVES_OUTAGE
from mayfly import Job, enqueue, handler

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs


# In threads: a slow push service delays only its own jobs.
@handler("notify_push", lane="notify", timeout=30, ack="each", threads=8, **SURVIVES_OUTAGE)
def notify_push(job: Job, notification: Notification) -> dict[str, object]:
    from handlers.notify.tables import find_subscription

    key = notification.key or f"job:{job.id}"
    if notification.subscription is None:
        return {"subscriptions": _fan_out(job, notification, key)}
    subscription = find_subscription(job, notification.subscription, notification.person)
    if subscription is None:
        return {"gone": notification.subscription}
    from handlers.notify.delivery import deliver  # HTTP and cryptography, for runners that send

    return deliver(job, notification, subscription, key)


def _fan_out(job: Job, notification: Notification, key: str) -> int:
    """Enqueue one job per subscription, in the transaction of this job's `done`; each is retried on its own."""
    from handlers.notify.tables import subscription_ids

    ids = subscription_ids(job, notification.person)
    for each in ids:
        payload = notification.model_copy(update={"key": key, "subscription": each})
        enqueue("notify_push", payload.model_dump(exclude_none=True), unique_key=f"push:{key}:{each}")
    return len(ids)
