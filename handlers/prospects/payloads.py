"""The payloads of prospect jobs."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from handlers.payloads import Id, Line, Payload

Column = Literal[
    "email", "name", "first_name", "last_name", "company", "title", "phone", "website", "linkedin", "city",
    "country", "notes",
]  # fmt: skip
Rule = Literal["mail", "similarity"]
Path = Annotated[Line, StringConstraints(min_length=1)]
Heading = Annotated[str, StringConstraints(max_length=200)]


class ImportProspects(Payload):
    """A file below IMPORT_FILES. Format and columns are detected unless given."""

    path: Path
    # The field of a column by its heading; None: ignore the column.
    mapping: Annotated[dict[Heading, Column | None], Field(default_factory=dict, max_length=500)]
    encoding: Literal["utf-8", "utf-16-le", "utf-16-be", "cp1252"] | None = None
    delimiter: Literal[",", ";", "\t", "|"] | None = None


class DedupProspects(Payload):
    """`similarity` is the minimum for a match; 100 is equality. `John Smith` and `Jon Smith` have 94.7."""

    similarity: Annotated[float, Field(ge=80, le=100)] = 93.0
    neighbours: Annotated[int, Field(ge=1, le=200)] = 20  # compared with each one, in the order of names
    rules: Annotated[tuple[Rule, ...], Field(min_length=1, max_length=2)] = ("mail", "similarity")


class UndoMerge(Payload):
    """One merge, or all of one run of dedup_prospects by the id of its job."""

    merge: Id | None = None
    run: Id | None = None

    @model_validator(mode="after")
    def _has_one_of_both(self) -> "UndoMerge":
        if (self.merge is None) == (self.run is None):
            raise ValueError("give either merge or run")
        return self


class ReviewMerge(Payload):
    """The decision about a row of app_merge_proposals."""

    proposal: Id
    merge: Annotated[bool, Field(strict=True)]


class EnrichProspect(Payload):
    prospect: Id
