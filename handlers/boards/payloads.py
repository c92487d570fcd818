"""The payloads of board jobs: ids only, everything else is in the tables."""

from handlers.payloads import Id, Payload


class PostPayload(Payload):
    post: Id


class BoardPayload(Payload):
    board: Id


class DuePosts(Payload):
    """No fields: enqueued by schedule."""
