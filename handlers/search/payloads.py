"""The payload of a rebuild: no fields."""

from handlers.payloads import Payload


class RebuildSearchIndex(Payload):
    """The whole index."""
