"""JSON as text: values survive a round trip, and values that are not JSON are refused."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import json_text

any_text = st.text()  # without lone surrogates
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_every_json_value_survives_a_round_trip(value: object) -> None:
    """Including text of every kind."""
    assert json_text.decode(json_text.encode(value)) == value


@given(values)
def test_encoded_text_can_always_be_stored(value: object) -> None:
    """It is UTF-8 without NUL and on one line, so every database and every log accepts it."""
    text = json_text.encode(value)

    assert text.encode()
    assert not set(text) & {"\x00", "\n", "\r"}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_cannot_represent_are_refused(number: float) -> None:
    """Other languages could not read them."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text.encode({"number": number})


@pytest.mark.parametrize("value", [datetime(2026, 5, 4, tzinfo=UTC), {1, 2}, b"bytes", object()])
def test_objects_are_refused(value: object) -> None:
    """No conversion is guessed: a date must be given as text."""
    with pytest.raises(TypeError, match="not JSON serializable"):
        json_text.encode({"value": value})


def test_text_stays_readable() -> None:
    """Umlauts and four-byte characters are not escaped, so they can be read with SQL."""
    assert json_text.encode({"näme": "💥"}) == '{"näme":"💥"}'


@pytest.mark.parametrize(("text", "encoded"), [("a\x00b", r'"a\u0000b"'), ("\n", r'"\n"'), ("\x1f", r'"\u001f"')])
def test_control_characters_are_escaped(text: str, encoded: str) -> None:
    """Above all NUL, which PostgreSQL cannot store in text."""
    assert json_text.encode(text) == encoded


@pytest.mark.parametrize("text", ["\ud800", "\udca5 alone", "two the wrong way round: \udda5\ud83e"])
def test_an_unpaired_surrogate_is_refused(text: str) -> None:
    """MariaDB accepts no JSON with one, not even escaped."""
    with pytest.raises(ValueError, match="unpaired surrogate"):
        json_text.encode({"text": text})


def test_json_may_be_nested_as_deep_as_every_database_accepts() -> None:
    """MariaDB accepts 31 levels; brackets inside texts do not count."""
    deep = nested(json_text.MAX_DEPTH)

    assert json_text.decode(json_text.encode(deep)) == deep


@pytest.mark.parametrize("levels", [json_text.MAX_DEPTH + 1, 500])
def test_json_with_more_levels_is_refused(levels: int) -> None:
    """With a sentence, and not by a constraint of the database."""
    with pytest.raises(ValueError, match="nested deeper than 31 levels"):
        json_text.encode(nested(levels))


def test_many_brackets_on_one_level_are_not_deep() -> None:
    """A list of a hundred objects has two levels, and its texts can contain brackets."""
    wide = [{"text": '[{"[[[[\\"{{{'}] * 100

    assert json_text.decode(json_text.encode(wide)) == wide


def test_text_nested_too_deep_to_parse_is_not_json() -> None:
    """SQL can insert any text; the job must fail, not its runner."""
    with pytest.raises(ValueError, match="nested too deep"):
        json_text.decode("[" * 100_000 + "]" * 100_000)


def nested(levels: int) -> list[object]:
    value: list[object] = ['a [ bracket " in a text']
    for _ in range(levels - 1):
        value = [value]
    return value


def test_the_text_is_compact() -> None:
    """It has no spaces: payloads are counted in bytes."""
    assert json_text.encode({"a": [1, 2], "b": None}) == '{"a":[1,2],"b":null}'
