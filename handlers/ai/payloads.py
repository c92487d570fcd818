"""What may be asked of the model, checked when it is enqueued."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from handlers.fields import Id


class BoardToSummarize(BaseModel):
    model_config = ConfigDict(extra="forbid")

    board: Id


class PostToSuggest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    board: Id
    about: Annotated[str, StringConstraints(max_length=500)] = ""  # in the words of whoever asks for it


class Nudging(BaseModel):
    """Without a board: a round that finds those that went quiet."""

    model_config = ConfigDict(extra="forbid")

    board: Id | None = None
