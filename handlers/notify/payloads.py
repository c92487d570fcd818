"""What somebody is told, checked when it is enqueued: short enough for every way of telling it."""

import json
from typing import Annotated, Self

from pydantic import AfterValidator, StringConstraints, model_validator

from handlers.fields import EffectName, Id, Payload, one_line

LIMIT = 3800  # bytes as JSON; push services take 4096 of what is encrypted, with its header and our JSON around it


def plain(text: str) -> str:
    if any(not each.isprintable() and each != "\n" for each in text):
        raise ValueError("must be printable characters, in lines")
    return text


def size(text: str | None) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


class Notification(Payload):
    """With a `subscription` it is for that one; otherwise for all that the person has."""

    person: Id
    title: Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(one_line)]
    body: Annotated[str, StringConstraints(max_length=LIMIT), AfterValidator(plain)] = ""
    url: Annotated[str, StringConstraints(pattern=r"^https?://[!-~]+$", max_length=500)] | None = None
    key: EffectName | None = None
    subscription: Id | None = None

    @model_validator(mode="after")
    def is_short(self) -> Self:
        if size(self.title) + size(self.body) + size(self.url) > LIMIT:
            raise ValueError(f"title, body and url may have {LIMIT:,} bytes together, as JSON")
        return self
