"""What is kept of an error: text that every database can hold, bounded, and a fingerprint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.queue.failure import ERROR_LIMIT, Failure, bounded, storable

any_text = st.text(st.characters())  # surrogates and control characters included


def called_by_us(error: BaseException) -> BaseException:
    """The error as a runner meets it: the handler raised it, and the runner called the handler."""

    def handle() -> None:
        raise error

    return _caught(handle)


def called_elsewhere(error: BaseException) -> BaseException:
    def handle_something_else() -> None:
        raise error

    return _caught(handle_something_else)


def _caught(function: object) -> BaseException:
    assert callable(function)
    try:
        function()
    except BaseException as caught:
        return caught
    raise AssertionError("the function did not raise")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this works")


# --- text that can be stored ------------------------------------------------------------------------------


@given(any_text)
def test_everything_becomes_storable(text: str) -> None:
    """No NUL for PostgreSQL, no lone surrogate for UTF-8, whatever comes in."""
    stored = storable(text)

    assert b"\x00" not in stored.encode("utf-8", "strict")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_what_can_be_stored_stays_as_it_is(text: str) -> None:
    """Four-byte characters and control characters included."""
    assert storable(text) == text


@pytest.mark.parametrize(
    ("text", "stored"), [("a\x00b", r"a\x00b"), ("\ud800", r"\ud800"), ("💥 è", "💥 è"), ("", "")]
)
def test_what_cannot_be_stored_is_shown_as_an_escape(text: str, stored: str) -> None:
    """Kept, and still to be recognised."""
    assert storable(text) == stored


def test_a_short_text_is_not_cut() -> None:
    """Up to the limit nothing is left out."""
    assert bounded("x" * ERROR_LIMIT) == "x" * ERROR_LIMIT


def test_a_long_text_keeps_both_its_ends() -> None:
    """What it was stands at the beginning, where it happened at the end; the cut says how much is gone."""
    text = bounded("begin" + "x" * 50_000 + "end")

    assert text.startswith("begin")
    assert text.endswith("end")
    assert "… 34,008 characters omitted …" in text


@given(st.text(max_size=500), st.integers(2, 100))
def test_the_bound_holds(text: str, limit: int) -> None:
    """A text grows no longer than its limit and the one line that tells of the cut."""
    assert len(bounded(text, limit)) <= limit + 40


# --- errors -----------------------------------------------------------------------------------------------


def test_an_error_is_one_line_and_its_traceback() -> None:
    """The message is the first line of the text; below it stands where it was raised, without our own frame."""
    failure = Failure.from_error(called_by_us(ValueError("no\nsuch\n  user")))

    assert failure.message == "ValueError: no such user"
    assert failure.text.splitlines()[0] == failure.message
    assert "in handle\n" in failure.text
    assert "_caught" not in failure.text


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError(), "KeyError"),
        (SystemExit(3), "SystemExit: 3"),
        (RuntimeError("bad \x00 and \udc80"), r"RuntimeError: bad \x00 and \udc80"),
        (Unspeakable(), "Unspeakable: (its text cannot be shown)"),
    ],
)
def test_every_error_has_a_line(error: BaseException, message: str) -> None:
    """Without a text, with one that no database takes, and even where its __str__ fails."""
    assert Failure.from_error(called_by_us(error)).message == message


def test_an_error_without_a_traceback_is_its_line() -> None:
    """One that was never raised has no frames to show."""
    failure = Failure.from_error(ValueError("boom"))

    assert failure.text == failure.message == "ValueError: boom"


def test_a_huge_error_is_bounded() -> None:
    """A megabyte of message leaves room for where it happened."""
    failure = Failure.from_error(called_by_us(ValueError("x" * 1_000_000)))

    assert len(failure.text) < ERROR_LIMIT + 100
    assert failure.text.rstrip().endswith("raise error")


@given(any_text)
def test_any_error_text_can_be_stored(text: str) -> None:
    """Whatever a handler raises, the job's row can be written."""
    failure = Failure.from_error(called_by_us(ValueError(text)))

    assert storable(failure.text) == failure.text
    assert "\n" not in failure.message


@given(any_text)
def test_any_reason_can_be_stored(text: str) -> None:
    """The reasons of Dead and Cancel come from handlers too."""
    failure = Failure.from_reason(text)

    assert storable(failure.text) == failure.text
    assert failure.text.startswith(failure.message)


# --- fingerprints -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user 17 not found", "user 4711 not found"),
        ("no file '/tmp/a b'", "no file '/var/c'"),
        ('bad key "x"', 'bad key "yz"'),
        ("<object at 0x7f3a>", "<object at 0xDEAD12>"),
        ("took 1.5 s", "took 30.25 s"),
    ],
)
def test_the_same_error_on_other_data_has_the_same_fingerprint(one: str, other: str) -> None:
    """Numbers, addresses and quoted values are data."""
    first, second = (Failure.from_error(called_by_us(ValueError(text))) for text in (one, other))

    assert first.fingerprint == second.fingerprint


def test_other_errors_have_other_fingerprints() -> None:
    """Another type, another text or another place is another error."""
    failures = [
        Failure.from_error(called_by_us(ValueError("user 17 not found"))),
        Failure.from_error(called_by_us(KeyError("user 17 not found"))),
        Failure.from_error(called_by_us(ValueError("user 17 not active"))),
        Failure.from_error(called_elsewhere(ValueError("user 17 not found"))),
    ]

    assert len({each.fingerprint for each in failures}) == 4


def test_a_fingerprint_fits_its_column() -> None:
    """Sixteen hexadecimal digits."""
    assert len(bytes.fromhex(Failure.from_reason("crashed").fingerprint)) == 8


def test_only_the_first_line_of_a_reason_is_its_fingerprint() -> None:
    """What stands below it is data."""
    assert Failure.from_reason("crashed\na").fingerprint == Failure.from_reason("crashed\nb").fingerprint
