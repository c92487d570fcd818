"""A webhook in the format of Slack's incoming webhooks, which Mattermost, Discord (/slack) and others accept too."""

from datetime import datetime

from handlers.notify.message import PushMessage, json_message
from handlers.notify.payloads import Notification
from handlers.notify.tables import Subscription

ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})  # "<!here>" would notify a whole channel


def write(notification: Notification, subscription: Subscription, _key: str, _now: datetime) -> PushMessage:
    title, body = (text.translate(ESCAPED) for text in (notification.title, notification.body))
    lines = [f"*{title}*", body, f"<{notification.url.translate(ESCAPED)}>" if notification.url else ""]
    return json_message(subscription.url, {"text": "\n".join(filter(None, lines))})
