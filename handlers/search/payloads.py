"""What a rebuild is told: nothing, and nothing else is taken."""

from handlers.fields import Payload


class Rebuild(Payload):
    """The whole of it."""
