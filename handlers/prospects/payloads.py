"""What is asked for, checked when it is enqueued."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from handlers.fields import Id, Line, Payload

Column = Literal[
    "email", "name", "first_name", "last_name", "company", "title", "phone", "website", "linkedin", "city",
    "country", "notes",
]  # fmt: skip
Rule = Literal["mail", "likeness"]
Path = Annotated[Line, StringConstraints(min_length=1)]
Heading = Annotated[str, StringConstraints(max_length=200)]


class ImportProspects(Payload):
    """A file below IMPORT_FILES. What is not said of it is found out."""

    path: Path
    # None: not to be read.
    mapping: Annotated[dict[Heading, Column | None], Field(default_factory=dict, max_length=500)]
    encoding: Literal["utf-8", "utf-16-le", "utf-16-be", "cp1252"] | None = None
    delimiter: Literal[",", ";", "\t", "|"] | None = None


class DedupProspects(Payload):
    """How alike is the same: 100 is to the letter."""

    likeness: Annotated[float, Field(ge=80, le=100)] = 93.0
    neighbours: Annotated[int, Field(ge=1, le=200)] = 20
    rules: Annotated[tuple[Literal["mail", "likeness"], ...], Field(min_length=1, max_length=2)] = (
        "mail",
        "likeness",
    )


class UndoMerge(Payload):
    """One merge, or all of one run of dedup_prospects by the id of its job."""

    merge: Id | None = None
    run: Id | None = None

    @model_validator(mode="after")
    def one_of_both(self) -> "UndoMerge":
        if (self.merge is None) == (self.run is None):
            raise ValueError("say either merge or run")
        return self


class EnrichProspect(Payload):
    prospect: Id
