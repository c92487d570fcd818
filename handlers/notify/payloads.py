"""The payload of a notification: short enough for every kind of subscription."""

import json
from typing import Annotated, Self

from pydantic import AfterValidator, StringConstraints, model_validator

from handlers.payloads import EffectName, Id, Payload, one_line

MAX_BYTES = 3800  # as JSON; push services accept 4096 encrypted bytes, including a header and our JSON


def plain(text: str) -> str:
    if any(not each.isprintable() and each != "\n" for each in text):
        raise ValueError("must be lines of printable characters")
    return text


def size(text: str | None) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


class Notification(Payload):
    """For one `subscription`, or else for all subscriptions of the person."""

    person: Id
    title: Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(one_line)]
    body: Annotated[str, StringConstraints(max_length=MAX_BYTES), AfterValidator(plain)] = ""
    url: Annotated[str, StringConstraints(pattern=r"^https?://[!-~]+$", max_length=500)] | None = None  # of a click
    key: EffectName | None = None  # all jobs with this key send one notification per subscription
    subscription: Id | None = None

    @model_validator(mode="after")
    def is_short(self) -> Self:
        if size(self.title) + size(self.body) + size(self.url) > MAX_BYTES:
            raise ValueError(f"title, body and url may have {MAX_BYTES:,} bytes together, as JSON")
        return self
