"""How the platform learns what contacts do with its messages."""

from collections.abc import Callable

from tests.handlers.campaigns.invariants import SentMessage


class Feedback:
    """One method per event. `contact` is an address or phone number, `message` what it has received.

    `enqueue` takes a type and a payload, as `mayfly.enqueue` does.
    """

    def __init__(self, enqueue: Callable[[str, dict[str, str]], object]) -> None:
        self._enqueue = enqueue

    def reply(self, contact: str, message: SentMessage) -> None:
        self._report(contact, "replied")

    def bounce(self, contact: str, message: SentMessage) -> None:
        self._report(contact, "bounced")

    def unsubscribe(self, contact: str) -> None:
        self._report(contact, "unsubscribed")

    def complain(self, contact: str, message: SentMessage) -> None:
        self._report(contact, "complained")

    def _report(self, contact: str, event: str) -> None:
        self._enqueue("record_contact_event", {"address": contact, "event": event})
