"""The payloads of jobs for the model."""

from typing import Annotated

from pydantic import StringConstraints

from handlers.payloads import Id, Payload


class BoardToSummarize(Payload):
    board: Id


class PostToSuggest(Payload):
    board: Id
    about: Annotated[str, StringConstraints(max_length=500)] = ""  # free text


class Nudging(Payload):
    """Without a board it is the scheduled job that finds quiet boards."""

    board: Id | None = None
