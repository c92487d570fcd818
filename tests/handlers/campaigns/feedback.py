"""How the platform learns what contacts do with its messages: replies, bounces and complaints arrive as mail."""

import re
from collections.abc import Callable

from handlers.mailroom.intake import Envelope, take_in
from mayfly import database
from tests.handlers.campaigns.invariants import SentMessage
from tests.handlers.mailroom.shapes import Dsn, arf, message


class Feedback:
    """One method per event. `contact` is an address or phone number, `message` what it has received.

    `enqueue` takes a type and a payload, as `mayfly.enqueue` does.
    """

    def __init__(self, enqueue: Callable[[str, dict[str, str]], object]) -> None:
        self._enqueue = enqueue
        self._number = 0

    def reply(self, contact: str, sent: SentMessage) -> None:
        answered = f"In-Reply-To: <{bare(sent)}>"
        raw = message("Please call me", headers=answered, author=contact, subject="Re: Hello")
        self._receive(contact, "replied", sent, raw, contact)

    def bounce(self, contact: str, sent: SentMessage) -> None:
        returned = f"Content-Type: message/rfc822\n\nMessage-ID: <{bare(sent)}>\n\nHello\n"
        raw = Dsn(returned=returned, recipient=f"rfc822; {contact}").raw()
        self._receive(contact, "bounced", sent, raw, "")

    def unsubscribe(self, contact: str) -> None:
        self._report(contact, "unsubscribed")

    def complain(self, contact: str, sent: SentMessage) -> None:
        raw = arf(returned=f"Message-ID: <{bare(sent)}>\nSubject: Hello\n\nDear you")
        self._receive(contact, "complained", sent, raw, "")

    def _receive(self, contact: str, event: str, sent: SentMessage, raw: bytes, sender: str) -> None:
        """What contacts do with a text message or a call is reported by its provider."""
        if sent.message_id:
            own = f"Message-ID: <feedback-{self._next()}@example.com>"  # two messages with the same one are one
            unique = re.sub(rb"^Message-ID: \S+", own.encode(), raw, count=1, flags=re.MULTILINE | re.IGNORECASE)
            take_in(database(), unique, Envelope(sender=sender))
        else:
            self._report(contact, event)

    def _report(self, contact: str, event: str) -> None:
        self._enqueue("record_contact_event", {"address": contact, "event": event})

    def _next(self) -> int:
        self._number += 1
        return self._number


def bare(sent: SentMessage) -> str:
    return sent.message_id.strip("<> ")
