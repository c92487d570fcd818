"""The payloads of outreach jobs."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from handlers.mail.payloads import Address
from handlers.payloads import Id, Line, Payload

# Part of keys, of the batch name, and of shell commands.
BlastName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}$")]
Body = Annotated[str, StringConstraints(pattern=r"^[^\x00]+$", max_length=1_000_000)]  # PostgreSQL stores no NUL


class BoardAudience(Payload):
    """The members of a board."""

    board: Id


class ListAudience(Payload):
    """The rows of app_recipients with this key."""

    list: Annotated[Line, StringConstraints(min_length=1, max_length=190)]


Audience = Literal["everybody"] | BoardAudience | ListAudience


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
    def _has_a_body(self) -> Self:
        if self.text is self.html is None:
            raise ValueError("needs a text or an html")
        return self


class BatchCounts(Payload):
    """The `batch` that Mayfly adds to the payload of a batch's callback; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    batch: str
    done: int
    dead: int
    cancelled: int


class BlastCallback(Payload):
    job: Id
    batch: BatchCounts


class Unsubscribe(Payload):
    token: Annotated[str, StringConstraints(min_length=1, max_length=400, pattern=r"^[A-Za-z0-9_.-]+$")]
