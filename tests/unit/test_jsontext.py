"""JSON as text: what goes in comes out, and what is no JSON does not go in."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import jsontext

any_text = st.text(st.characters())  # lone surrogates included
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)


def whole(value: object) -> object:
    """Two lone surrogates side by side are one character once they were written down."""
    return json.loads(json.dumps(value))


@given(values)
def test_what_goes_in_comes_out(value: object) -> None:
    """Every JSON value survives, text of every kind included."""
    assert jsontext.decode(jsontext.encode(value)) == whole(value)


@given(values)
def test_the_text_can_always_be_stored(value: object) -> None:
    """UTF-8 without NUL and on one line: every database and every log takes it."""
    text = jsontext.encode(value)

    assert text.encode()
    assert not set(text) & {"\x00", "\n", "\r"}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_has_no_word_for_are_refused(number: float) -> None:
    """No other language could read them."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        jsontext.encode({"number": number})


@pytest.mark.parametrize("value", [datetime(2026, 5, 4, tzinfo=UTC), {1, 2}, b"bytes", object()])
def test_objects_are_refused(value: object) -> None:
    """Nothing is guessed: who wants a date stored writes it as text."""
    with pytest.raises(TypeError, match="not JSON serializable"):
        jsontext.encode({"value": value})


def test_text_stays_readable() -> None:
    """Whoever looks with SQL sees umlauts and four-byte characters, not their numbers."""
    assert jsontext.encode({"näme": "💥"}) == '{"näme":"💥"}'


@pytest.mark.parametrize(
    ("text", "encoded"), [("a\x00b", r'"a\u0000b"'), ("\ud800 é", r'"\ud800 \u00e9"'), ("\n", r'"\n"')]
)
def test_what_utf8_cannot_hold_is_escaped(text: str, encoded: str) -> None:
    """NUL and line ends always, everything where a lone surrogate is among it."""
    assert jsontext.encode(text) == encoded


def test_the_text_is_compact() -> None:
    """No blanks: payloads are counted in bytes."""
    assert jsontext.encode({"a": [1, 2], "b": None}) == '{"a":[1,2],"b":null}'
