"""Notifications: to each of a person's subscriptions by itself, be it a browser, a chat or a phone."""

from handlers.notify.payloads import Notification
from handlers.notify.tables import find_subscription, subscriptions_of
from mayfly import Job, enqueue, handler

__handlers__ = ()  # all are here; what they need is imported by who tells


# In threads: a push service that is slow holds up nobody but its own jobs.
@handler("notify_push", lane="notify", timeout=30, ack="each", threads=8)
def notify_push(job: Job, notification: Notification) -> dict[str, object]:
    key = notification.key or f"job:{job.id}"
    if notification.subscription is None:
        return {"subscriptions": _fan_out(job, notification, key)}
    subscription = find_subscription(job, notification.subscription, notification.person)
    if subscription is None:
        return {"gone": notification.subscription}
    from handlers.notify.delivery import deliver  # HTTP and cryptography, for runners that tell

    return deliver(job, notification, subscription, key)


def _fan_out(job: Job, notification: Notification, key: str) -> int:
    """A job for each, enqueued with this one's `done`: what one of them meets is not the others' matter."""
    found = subscriptions_of(job, notification.person)
    for number in found:
        told = notification.model_copy(update={"key": key, "subscription": number})
        enqueue("notify_push", told.model_dump(exclude_none=True), unique_key=f"push:{key}:{number}")
    return len(found)
