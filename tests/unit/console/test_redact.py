"""What is not shown."""

from typing import Any

import pytest

from console.web.redact import Redactor, of_payload

FIELDS = ("password", "token", "authorization")


def test_fields_are_masked_at_any_depth() -> None:
    """Whatever their case and whatever they hold; the others stay."""
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
def test_their_values_are_masked_in_texts(text: str, shown: str) -> None:
    """By what the payload holds, and by what stands behind their names; a short one only where it is a word."""
    payload = {"password": "hunter22", "token": [42, "O'Hara"], "n": True}

    assert Redactor(FIELDS, payload).text(text) == shown


@pytest.mark.parametrize("payload", [None, "{", "[" * 100_000, '{"password": ""}', '{"password": true}'])
def test_what_cannot_be_read_or_is_empty_masks_nothing_else(payload: Any) -> None:
    """Not every letter of a text because a password is empty."""
    assert of_payload(FIELDS, payload).text("all is true") == "all is true"


def test_without_fields_nothing_is_masked() -> None:
    """Nor is anything changed."""
    assert Redactor(()).text("password=x") == "password=x"
    assert Redactor(()).value({"password": "x"}) == {"password": "x"}
