"""What a blast is made of, checked when it is enqueued."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from handlers.fields import Id, Line, Payload
from handlers.mail.payloads import Address

# Part of keys, of the name of its batch, and of commands that people type.
BlastName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}$")]
Body = Annotated[str, StringConstraints(pattern=r"^[^\x00]+$", max_length=1_000_000)]  # PostgreSQL keeps no NUL


class Board(Payload):
    """The members of one."""

    board: Id


class Stored(Payload):
    """The rows of app_addressees that have this key."""

    list: Annotated[Line, StringConstraints(min_length=1, max_length=190)]


Audience = Literal["everybody"] | Board | Stored


class Outreach(Payload):
    """Subject, text and html are Jinja2 templates with `name`, `email` and `unsubscribe` of each recipient."""

    blast: BlastName
    to: Audience
    subject: Annotated[Line, StringConstraints(min_length=1)]
    text: Body | None = None
    html: Body | None = None
    reply_to: Address | None = None
    without: Annotated[list[BlastName], Field(default_factory=list, max_length=20)]

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.text is self.html is None:
            raise ValueError("needs a text or an html")
        return self


class Went(Payload):
    """As a batch tells its callback: what it may tell besides is nothing to us."""

    model_config = ConfigDict(extra="ignore")

    batch: str
    done: int
    dead: int
    cancelled: int


class Ended(Payload):
    job: Id
    batch: Went


class Leaving(Payload):
    token: Annotated[str, StringConstraints(min_length=1, max_length=400, pattern=r"^[A-Za-z0-9_.-]+$")]
