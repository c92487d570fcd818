"""What payloads of all areas are made of."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

Id = Annotated[int, Field(strict=True, ge=1, lt=1 << 63)]  # of a row


def one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of printable characters")
    return text


Line = Annotated[str, StringConstraints(max_length=500), AfterValidator(one_line)]
EffectName = Annotated[str, StringConstraints(min_length=1, max_length=150), AfterValidator(one_line)]
