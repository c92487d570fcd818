"""Masking of secrets."""

from typing import Any

import pytest

from mayfly.monitoring.redact import Redactor, first_line, for_payload

FIELDS = ("password", "token", "authorization")


def test_fields_are_masked_at_any_depth() -> None:
    """In any case and with any value; other fields stay."""
    payload = {"user": "ann", "Password": "x", "a": [{"token": {"b": 1}}, {"token": None}], "passwords": "kept"}

    assert Redactor(FIELDS, payload).value(payload) == {
        "user": "ann", "Password": "•••", "a": [{"token": "•••"}, {"token": "•••"}], "passwords": "kept"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("login failed for hunter22!", "login failed for •••!"),
        ("{'password': 'hunter22'}", "{'password': •••}"),
        ('{"password": "other"}', '{"password": •••}'),
        ("GET /?token=abc&x=1", "GET /?token=•••&x=1"),
        ("Authorization: Bearer eyJ.x.y\nnext", "Authorization: •••\nnext"),
        ('say "hi" there', 'say "hi" there'),
        ("pin 42 of 1420", "pin ••• of 1420"),
        ("tokenizer: bert", "tokenizer: bert"),
        ("O\\'Hara and O'Hara", "••• and •••"),
    ],
)
def test_secret_values_are_masked_in_texts(text: str, shown: str) -> None:
    """The values of the payload, and those after a field name; short values only as whole words."""
    payload = {"password": "hunter22", "token": [42, "O'Hara"], "n": True}

    assert Redactor(FIELDS, payload).text(text) == shown


@pytest.mark.parametrize("payload", [None, "{", "[" * 100_000, '{"password": ""}', '{"password": true}'])
def test_an_unreadable_or_empty_secret_masks_nothing_else(payload: Any) -> None:
    """An empty password must not mask every letter."""
    assert for_payload(FIELDS, payload).text("all is true") == "all is true"


def test_without_fields_nothing_is_masked() -> None:
    """The text stays the same."""
    assert Redactor(()).text("password=x") == "password=x"
    assert Redactor(()).value({"password": "x"}) == {"password": "x"}


def test_the_first_line_of_an_error_is_masked() -> None:
    """Also a secret of several lines, which an error has in one; the traceback is not in it."""
    payload = '{"token": "line one\\nline two", "user": "ann"}'
    error = "ValueError: bad token for ann: line one line two!\n  File ..."

    assert first_line(FIELDS, payload, error) == "ValueError: bad token for ann: •••!"
    assert first_line((), payload, error) == error.partition("\n")[0]
    assert [first_line(FIELDS, each, None) for each in (payload, "{", None)] == ["", "", ""]
