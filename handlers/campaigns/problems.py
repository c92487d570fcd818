"""What may go wrong when a message is handed over to a provider."""


class SenderFailed(Exception):
    """The account is at fault: a wrong password, a revoked access, a missing setting. Nothing was sent."""


class SenderBusy(Exception):
    """The account cannot send now; another one can. Nothing was sent."""


class MessageRefused(Exception):
    """The provider will never accept this message. Nothing was sent."""

    def __init__(self, reason: str, is_bounce: bool = False) -> None:
        super().__init__(reason)
        self.is_bounce = is_bounce


class AnswerUnknown(Exception):
    """The message was handed over, and no answer was read: it may have been sent."""
