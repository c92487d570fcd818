"""What a mail is made of, checked when it is enqueued: nothing in here can end a header and begin another."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

LINK = r"^(https?://|mailto:)[!-;=?-~]+$"  # all of ASCII that is seen, but for the < > around it
ADDRESS = r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$"


def one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of printable characters")
    return text


Line = Annotated[str, StringConstraints(max_length=500), AfterValidator(one_line)]
Address = Annotated[str, StringConstraints(pattern=ADDRESS, max_length=190)]
Link = Annotated[str, StringConstraints(pattern=LINK, max_length=500)]


class Attachment(BaseModel):
    """A file below MAIL_ATTACHMENTS, by its path: a payload is no place for it."""

    model_config = ConfigDict(extra="forbid")

    path: Line
    name: Line | None = None
    type: Annotated[str, StringConstraints(pattern=r"^[a-z0-9.+-]+/[a-z0-9.+-]+$")] = "application/octet-stream"


class Mail(BaseModel):
    """With a `context`, subject, text and html are Jinja2 templates; with a `letter` they stand in the database."""

    model_config = ConfigDict(extra="forbid")

    to: Address
    subject: Line | None = None
    letter: Annotated[Line, StringConstraints(min_length=1, max_length=190)] | None = None
    text: str | None = None
    html: str | None = None
    context: dict[str, Any] | None = None
    reply_to: Address | None = None
    unsubscribe: Link | None = None
    attachments: Annotated[list[Attachment], Field(max_length=20)] = []
    key: Annotated[str, StringConstraints(min_length=1, max_length=150), AfterValidator(one_line)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if (self.subject is None) == (self.letter is None):
            raise ValueError("needs a subject or a letter, and not both")
        if self.letter is not None and (self.text, self.html) != (None, None):
            raise ValueError("has its text and html from its letter")
        return self
