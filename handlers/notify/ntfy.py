"""ntfy: a phone that subscribes to a topic. Sent as JSON, because HTTP headers cannot hold every title."""

from datetime import datetime

from handlers.notify.message import PushMessage, json_message
from handlers.notify.payloads import Notification
from handlers.notify.tables import Subscription
from mayfly import Dead


def write(notification: Notification, subscription: Subscription, _key: str, _now: datetime) -> PushMessage:
    server, _, topic = subscription.url.rstrip("/").rpartition("/")
    if not topic or server.endswith(":/"):
        raise Dead(f"the URL of subscription {subscription.id} names no topic")
    token = subscription.token or ""
    if not (token.isascii() and token.isprintable()):  # the HTTP client would quote it in its error message
        raise Dead(f"the token of subscription {subscription.id} cannot be used")
    content = {"topic": topic, "title": notification.title, "message": notification.body or notification.title}
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return json_message(server, {**content, **({"click": notification.url} if notification.url else {})}, headers)
