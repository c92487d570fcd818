"""The JSON responses that are accepted from the model: plain text for people, validated.

A prompt injection may change the response, but only texts that pass these checks are used.
"""

import re
import unicodedata
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, model_validator

MAX_SUMMARY_LENGTH = 1500  # characters
MAX_POST_LENGTH = 2000
MAX_NUDGE_LENGTH = 500

# Text that clients turn into links, mentions or markup; matched after Unicode normalization ('ｗｗｗ．' → 'www.').
_NOT_PLAIN = re.compile(r"://|www\.|@|[<>]|\]\(|\w\.[^\W\d_]{2}", re.IGNORECASE)


def readable(text: str) -> str:
    """Accept lines of printable characters; no control, invisible or bidirectional ones."""
    text = text.strip()
    if not text or not all(line.isprintable() for line in text.split("\n")):
        raise ValueError("must be printable text")
    return text


def plain(text: str) -> str:
    """Refuse links, mentions and markup."""
    if _NOT_PLAIN.search(unicodedata.normalize("NFKC", text)):
        raise ValueError("must not contain links, mentions or markup")
    return text


def one_paragraph(text: str) -> str:
    if "\n" in text:
        raise ValueError("must be one paragraph")
    return text


class Summary(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    summary: Annotated[str, StringConstraints(max_length=MAX_SUMMARY_LENGTH), AfterValidator(readable)]


class Suggestion(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: Annotated[
        str, StringConstraints(max_length=MAX_POST_LENGTH), AfterValidator(readable), AfterValidator(plain)
    ]


class Nudge(BaseModel):
    """Whether to post, and the text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    nudge: bool
    text: Annotated[str, StringConstraints(max_length=MAX_NUDGE_LENGTH)] = ""

    @model_validator(mode="after")
    def _has_text(self) -> "Nudge":
        if self.nudge:
            self.text = one_paragraph(plain(readable(self.text)))
        return self
