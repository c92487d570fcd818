"""Which post and which board: all else is in the tables."""

from handlers.fields import Id, Payload


class Post(Payload):
    post: Id


class Board(Payload):
    board: Id


class Nothing(Payload):
    """By schedule."""
