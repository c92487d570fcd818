"""Which post and which board: all else is in the tables."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Id = Annotated[int, Field(strict=True, ge=1, lt=1 << 63)]


class Post(BaseModel):
    model_config = ConfigDict(extra="forbid")

    post: Id


class Board(BaseModel):
    model_config = ConfigDict(extra="forbid")

    board: Id


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")
