"""The form built from the JSON schema of a payload, and the payload built from the form."""

from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import AwareDatetime, BaseModel, Field

from console.web.enqueue import inputs_of, payload_of
from mayfly.errors import BadField


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    x: int = 1


class Everything(BaseModel):
    name: str
    count: int = Field(3, ge=1, le=9, description="how many")
    ratio: float | None = None
    loud: bool = False
    colour: Colour = Colour.RED
    kind: Literal["a", "b"] = "a"
    tags: list[str] = []
    inner: Inner = Inner()


SCHEMA = Everything.model_json_schema()


def filled(**given: str) -> dict[str, Any]:
    return payload_of(inputs_of(SCHEMA, {f"payload.{name}": value for name, value in given.items()}))


def test_each_field_gets_the_input_of_its_type() -> None:
    """With its default, its bounds and its description."""
    inputs = {each.name: each for each in inputs_of(SCHEMA, {})}

    assert {name: (each.kind, each.value) for name, each in inputs.items()} == {
        "name": ("string", ""), "count": ("integer", "3"), "ratio": ("number", ""), "loud": ("boolean", "false"),
        "colour": ("choice", '"red"'), "kind": ("choice", '"a"'), "tags": ("json", "[]"),
        "inner": ("json", '{"x": 1}'),
    }  # fmt: skip
    assert inputs["colour"].choices == ('"red"', '"blue"')
    assert inputs["count"].help == "how many, at least 1, at most 9"
    assert [name for name, each in inputs.items() if each.is_required] == ["name"]


def test_a_filled_form_becomes_a_valid_payload() -> None:
    """Numbers are numbers, and empty fields are omitted."""
    payload = filled(
        name="12", count="5", ratio="", loud="true", colour='"blue"', kind='"b"', tags='["x"]', inner='{"x": 2}'
    )

    assert payload == {
        "name": "12", "count": 5, "loud": True, "colour": "blue", "kind": "b", "tags": ["x"], "inner": {"x": 2}
    }  # fmt: skip
    assert Everything.model_validate(payload).inner.x == 2


def test_invalid_json_is_refused_by_field_name() -> None:
    """An invalid number is left to the payload model."""
    with pytest.raises(BadField, match="tags="):
        filled(name="x", tags="[1,")
    assert filled(name="x", count="many")["count"] == "many"
    assert filled()["name"] == ""


class Reminder(BaseModel):
    home_address: Inner
    second: Inner = Field(Inner(), title="Second address")
    api_key: str
    send_at: AwareDatetime = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)
    day: date | None = None


def test_a_nested_field_is_labelled_by_its_own_name() -> None:
    """Not by the class of its model; a title of the field comes first."""
    labels = {each.name: each.label for each in inputs_of(Reminder.model_json_schema(), {})}

    assert (labels["home_address"], labels["second"]) == ("Home Address", "Second address")


def test_dates_and_times_are_picked() -> None:
    """In UTC; a time with a zone, as another program may send it, stays as it is."""
    schema = Reminder.model_json_schema()
    inputs = {each.name: each for each in inputs_of(schema, {})}
    given = {"payload.send_at": "2026-05-05T08:15", "payload.day": "2026-05-05"}
    payload = payload_of(inputs_of(schema, given))
    other = payload_of(inputs_of(schema, {"payload.send_at": "2026-05-05T08:15+02:00"}))

    assert (inputs["send_at"].kind, inputs["send_at"].value) == ("datetime", "2026-05-04T12:30:00")
    assert inputs["day"].kind == "date"
    assert (payload["send_at"], payload["day"]) == ("2026-05-05T08:15Z", "2026-05-05")
    assert other["send_at"] == "2026-05-05T08:15+02:00"


def test_redacted_fields_are_secret() -> None:
    """In any case of letters, as everywhere else."""
    inputs = inputs_of(Reminder.model_json_schema(), {}, ["API_KEY"])

    assert [each.name for each in inputs if each.is_secret] == ["api_key"]
