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


Value = Annotated[Line, StringConstraints(min_length=1, max_length=190)]
Values = Annotated[tuple[Value, ...], Field(min_length=1, max_length=100)]


class ProspectFilter(Payload):
    """A prospect fits if each given field has one of these values, ignoring case."""

    company: Values | None = None
    title: Values | None = None
    city: Values | None = None
    country: Values | None = None
    email_status: Values | None = None
    import_job: Id | None = None  # the job that imported it


class ProspectAudience(Payload):
    """The prospects with an address that fit; `{"prospects": {}}` are all."""

    prospects: ProspectFilter


Audience = Literal["everybody"] | BoardAudience | ListAudience | ProspectAudience


class Outreach(Payload):
    """Subject, text and html are Jinja2 templates with name, email, unsubscribe link and fields of each recipient."""

    blast: BlastName  # a job with the same name and another text is dead
    to: Audience
    subject: Annotated[Line, StringConstraints(min_length=1)]
    text: Body | None = None
    html: Body | None = None
    reply_to: Address | None = None
    # The recipients of these blasts are excluded.
    without: Annotated[list[BlastName], Field(default_factory=list, max_length=20)]

    @model_validator(mode="after")
    def _has_a_body(self) -> Self:
        if self.text is self.html is None:
            raise ValueError("needs text or html")
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
