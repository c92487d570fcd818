"""The shapes that the model is asked for, and what its words may be: text for people, which does nothing by itself.

Whatever the model was told by whom, this is all that can come of it.
"""

import re
import unicodedata
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, model_validator

SUMMARY_LENGTH = 1500  # characters
POST_LENGTH = 2000
NUDGE_LENGTH = 500

# What a page or a phone would turn into a link, a mention or markup; looked for after 'ｗｗｗ．' has become 'www.'.
_NOT_PLAIN = re.compile(r"://|www\.|@|[<>]|\]\(|\w\.[^\W\d_]{2}", re.IGNORECASE)


def readable(text: str) -> str:
    """Lines of printable characters: nothing invisible, nothing that turns the direction of writing."""
    text = text.strip()
    if not text or not all(line.isprintable() for line in text.split("\n")):
        raise ValueError("must be printable text")
    return text


def plain(text: str) -> str:
    """Words alone: neither links nor mentions nor markup."""
    if _NOT_PLAIN.search(unicodedata.normalize("NFKC", text)):
        raise ValueError("must have neither links nor mentions nor markup")
    return text


def one_paragraph(text: str) -> str:
    if "\n" in text:
        raise ValueError("must be one paragraph")
    return text


class Summary(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    summary: Annotated[str, StringConstraints(max_length=SUMMARY_LENGTH), AfterValidator(readable)]


class Suggestion(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: Annotated[str, StringConstraints(max_length=POST_LENGTH), AfterValidator(readable), AfterValidator(plain)]


class Nudge(BaseModel):
    """Whether, and what."""

    model_config = ConfigDict(extra="forbid", strict=True)

    nudge: bool
    text: Annotated[str, StringConstraints(max_length=NUDGE_LENGTH)] = ""

    @model_validator(mode="after")
    def _has_words(self) -> "Nudge":
        if self.nudge:
            self.text = one_paragraph(plain(readable(self.text)))
        return self
