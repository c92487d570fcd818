"""JSON as text: what goes in comes out, and what is no JSON does not go in."""

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
def test_what_goes_in_comes_out(value: object) -> None:
    """Every JSON value survives, text of every kind included."""
    assert json_text.decode(json_text.encode(value)) == value


@given(values)
def test_the_text_can_always_be_stored(value: object) -> None:
    """UTF-8 without NUL and on one line: every database and every log takes it."""
    text = json_text.encode(value)

    assert text.encode()
    assert not set(text) & {"\x00", "\n", "\r"}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_has_no_word_for_are_refused(number: float) -> None:
    """No other language could read them."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text.encode({"number": number})


@pytest.mark.parametrize("value", [datetime(2026, 5, 4, tzinfo=UTC), {1, 2}, b"bytes", object()])
def test_objects_are_refused(value: object) -> None:
    """Nothing is guessed: who wants a date stored writes it as text."""
    with pytest.raises(TypeError, match="not JSON serializable"):
        json_text.encode({"value": value})


def test_text_stays_readable() -> None:
    """Whoever looks with SQL sees umlauts and four-byte characters, not their numbers."""
    assert json_text.encode({"näme": "💥"}) == '{"näme":"💥"}'


@pytest.mark.parametrize(("text", "encoded"), [("a\x00b", r'"a\u0000b"'), ("\n", r'"\n"'), ("\x1f", r'"\u001f"')])
def test_control_characters_are_escaped(text: str, encoded: str) -> None:
    """NUL above all: PostgreSQL has no text with it."""
    assert json_text.encode(text) == encoded


@pytest.mark.parametrize("text", ["\ud800", "\udca5 alone", "two the wrong way round: \udda5\ud83e"])
def test_an_unpaired_surrogate_is_refused(text: str) -> None:
    """MariaDB takes no JSON with one, not even escaped."""
    with pytest.raises(ValueError, match="unpaired surrogate"):
        json_text.encode({"text": text})


def test_json_is_nested_as_deep_as_every_database_takes_it() -> None:
    """MariaDB takes 31 levels; brackets inside of texts are none."""
    deep = nested(json_text.MAX_DEPTH)

    assert json_text.decode(json_text.encode(deep)) == deep


@pytest.mark.parametrize("levels", [json_text.MAX_DEPTH + 1, 500])
def test_json_that_is_nested_deeper_is_refused(levels: int) -> None:
    """Here, with a sentence, and not by a constraint of the database's."""
    with pytest.raises(ValueError, match="nested deeper than 31 levels"):
        json_text.encode(nested(levels))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    """A list of a hundred objects has two levels, and its texts may be full of brackets."""
    wide = [{"text": '[{"[[[[\\"{{{'}] * 100

    assert json_text.decode(json_text.encode(wide)) == wide


def test_text_nested_too_deep_to_read_is_no_json() -> None:
    """By plain SQL anything can come in; the job must fail, not its runner."""
    with pytest.raises(ValueError, match="nested too deep"):
        json_text.decode("[" * 100_000 + "]" * 100_000)


def nested(levels: int) -> list[object]:
    value: list[object] = ['a [ bracket " in a text']
    for _ in range(levels - 1):
        value = [value]
    return value


def test_the_text_is_compact() -> None:
    """No blanks: payloads are counted in bytes."""
    assert json_text.encode({"a": [1, 2], "b": None}) == '{"a":[1,2],"b":null}'
