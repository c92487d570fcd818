"""What may be asked of the model, checked when it is enqueued."""

from typing import Annotated

from pydantic import StringConstraints

from handlers.fields import Id, Payload


class BoardToSummarize(Payload):
    board: Id


class PostToSuggest(Payload):
    board: Id
    about: Annotated[str, StringConstraints(max_length=500)] = ""  # in the words of whoever asks for it


class Nudging(Payload):
    """Without a board: a round that finds those that went quiet."""

    board: Id | None = None
