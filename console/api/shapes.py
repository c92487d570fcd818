"""What requests look like. Numbers out of bounds are brought into them; what else is wrong is refused."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from console.answers import SHAPES
from mayfly.jobs.which import MOST_ID
from mayfly.schema import KEY_LENGTH, NAME_LENGTH

MOST_JOBS = 1000
JobId = Annotated[int, Path(ge=1, le=MOST_ID)]
ONE, MANY = SHAPES


def _moment(given: object) -> object:
    """pydantic would take numbers, and texts of numbers, for seconds since 1970."""
    try:
        return datetime.fromisoformat(given if isinstance(given, str) else "")
    except ValueError as error:
        raise ValueError("must be a time with its zone, such as 2026-05-04T12:00:00Z") from error


def _bounded(least: int, most: int, text: bool = True) -> Any:
    """Described, not checked: that is for the door all jobs pass, which has the words for it."""
    names = ("minLength", "maxLength") if text else ("minimum", "maximum")
    return Field(json_schema_extra=dict(zip(names, (least, most), strict=True)))


Moment = Annotated[AwareDatetime, BeforeValidator(_moment), Field(strict=False)]
Name = Annotated[str, _bounded(1, NAME_LENGTH)]
Key = Annotated[str, _bounded(1, KEY_LENGTH)]
Number = Annotated[float, Field(allow_inf_nan=False)]


def clamp(given: float, least: float, most: float) -> float:
    return max(least, min(most, given))


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class NewJob(Body):
    """The arguments of `mayfly.enqueue`."""

    type: Name
    payload: dict[str, Any] = {}
    lane: Name | None = None
    run_at: Moment | None = None
    delay: Number | None = None
    priority: Annotated[int, _bounded(0, 2, text=False)] | None = None
    unique_key: Key | None = None
    unique: str | Number | None = None
    on_conflict: Literal["keep", "replace", "error"] | None = None
    group_key: Key | None = None
    max_attempts: Annotated[int, _bounded(1, 1000, text=False)] | None = None
    expires_at: Moment | None = None
    expires_in: Number | None = None

    def given(self) -> dict[str, Any]:
        return {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}


NewJobs = Annotated[
    Annotated[NewJob, Tag(ONE)] | Annotated[list[NewJob], Field(min_length=1, max_length=MOST_JOBS), Tag(MANY)],
    Discriminator(lambda given: MANY if isinstance(given, list) else ONE),
]


class Enqueued(BaseModel):
    """Of each job, in the order in which they were given: its id, or that of the job which holds its unique key."""

    ids: list[int]
