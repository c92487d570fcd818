"""Text on a terminal: in columns, and never a command to it."""

import io

import pytest

from mayfly.format import has_colour, one_line, painted, plain, table


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("as it is – äöü 漢", "as it is – äöü 漢"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\x07\x00", "a\\rb\\x07\\x00"),
        ("‮evil", "\\u202eevil"),
    ],
)
def test_control_characters_are_shown_not_obeyed(given: str, shown: str) -> None:
    """Escapes, their one-byte form, returns, and what turns the direction of writing round."""
    assert plain(given) == shown


def test_a_cell_is_one_line_of_a_width() -> None:
    assert (one_line("a\n  b\tc"), one_line("abcdef", 4)) == ("a b c", "abc…")


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    """And nothing stands behind the last."""
    assert table([("id", "status", ""), ("1", "pending", "x"), ("100", "done", "")]) == (
        "id   status\n1    pending  x\n100  done"
    )


def test_a_pipe_gets_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does anybody who says NO_COLOR."""
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert not has_colour(io.StringIO())
    assert (painted("a", "31", wanted=False), painted("a", "31", wanted=True)) == ("a", "\x1b[31ma\x1b[0m")
