"""The form built from the JSON schema of a payload, and the payload built from the form."""

from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

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
    """Numbers are numbers, and empty fields are left out."""
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
