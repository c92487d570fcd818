"""ntfy: a phone that listens to a topic. As JSON, because its headers could not carry every title."""

from datetime import datetime

from handlers.notify.message import Message, json_message
from handlers.notify.payloads import Notification
from handlers.notify.tables import Subscription
from mayfly import Dead


def write(notification: Notification, subscription: Subscription, _key: str, _now: datetime) -> Message:
    server, _, topic = subscription.url.rstrip("/").rpartition("/")
    if not topic or server.endswith(":/"):
        raise Dead(f"the URL of subscription {subscription.id} names no topic")
    content = {"topic": topic, "title": notification.title, "message": notification.body or notification.title}
    headers = {"Authorization": f"Bearer {subscription.token}"} if subscription.token else {}
    return json_message(server, {**content, **({"click": notification.url} if notification.url else {})}, headers)
