"""The base class and common field types of all payloads."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

Id = Annotated[int, Field(strict=True, ge=1, lt=1 << 63)]  # of a row


def one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of printable characters")
    return text


Line = Annotated[str, StringConstraints(max_length=500), AfterValidator(one_line)]
DEFAULT_TENANT = "default"
Tenant = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
EffectName = Annotated[str, StringConstraints(min_length=1, max_length=150), AfterValidator(one_line)]


class Payload(BaseModel):
    """Forbids unknown fields. Validators are built for the first job of a type: most runners need few types."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
