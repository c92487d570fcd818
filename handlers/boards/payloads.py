"""Which post and which board: all else is in the tables."""

from pydantic import BaseModel, ConfigDict

from handlers.fields import Id


class Post(BaseModel):
    model_config = ConfigDict(extra="forbid")

    post: Id


class Board(BaseModel):
    model_config = ConfigDict(extra="forbid")

    board: Id


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")
