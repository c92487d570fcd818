"""What is stored of an error: text that every database accepts, bounded, and a fingerprint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.queue.outcome import ERROR_LIMIT, Failure, bounded, error_shape, storable

any_text = st.text(st.characters())  # including surrogates and control characters


def called_by_us(error: BaseException) -> BaseException:
    """The error as a runner gets it: raised by the handler that the runner called."""

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
def test_any_text_becomes_storable(text: str) -> None:
    """It has no NUL for PostgreSQL and no lone surrogate for UTF-8."""
    stored = storable(text)

    assert b"\x00" not in stored.encode("utf-8", "strict")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_a_storable_text_is_unchanged(text: str) -> None:
    """Including four-byte characters and control characters."""
    assert storable(text) == text


@pytest.mark.parametrize(
    ("text", "stored"), [("a\x00b", r"a\x00b"), ("\ud800", r"\ud800"), ("💥 è", "💥 è"), ("", "")]
)
def test_characters_that_cannot_be_stored_are_escaped(text: str, stored: str) -> None:
    """So they can still be recognised."""
    assert storable(text) == stored


def test_a_short_text_is_not_cut() -> None:
    """Nothing is removed up to the limit."""
    assert bounded("x" * ERROR_LIMIT) == "x" * ERROR_LIMIT


def test_a_long_text_keeps_its_beginning_and_end() -> None:
    """The message is at the beginning, the failing line at the end; the cut states how much is missing."""
    text = bounded("begin" + "x" * 50_000 + "end")

    assert text.startswith("begin")
    assert text.endswith("end")
    assert "… 34,008 characters omitted …" in text


@given(st.text(max_size=500), st.integers(2, 100))
def test_a_text_never_exceeds_its_limit(text: str, limit: int) -> None:
    """Except for the one line that reports the cut."""
    assert len(bounded(text, limit)) <= limit + 40


# --- errors -----------------------------------------------------------------------------------------------


def test_an_error_is_its_message_and_traceback() -> None:
    """The first line is the message; the traceback does not contain the runner's own frame."""
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
def test_every_error_has_a_message(error: BaseException, message: str) -> None:
    """Also without a text, with one that no database accepts, and with a failing __str__."""
    assert Failure.from_error(called_by_us(error)).message == message


def test_an_error_without_a_traceback_is_its_message() -> None:
    """An error that was never raised has no frames."""
    failure = Failure.from_error(ValueError("boom"))

    assert failure.text == failure.message == "ValueError: boom"


def test_a_huge_error_is_bounded() -> None:
    """A megabyte of message leaves room for the traceback."""
    failure = Failure.from_error(called_by_us(ValueError("x" * 1_000_000)))

    assert len(failure.text) < ERROR_LIMIT + 100
    assert failure.text.rstrip().endswith("raise error")


@given(any_text)
def test_any_error_text_can_be_stored(text: str) -> None:
    """So the row of a failed job can always be written."""
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
        ("took 1.5 s", "took 30 s"),
        ("550 <ann@example.org>: user unknown", "550 <o'neil+x@mail.firma.de>: user unknown"),
        ("{'a@b.c': (550, b'no \\'such\\' user')}", "{'d@e.f': (554, b'full')}"),
        ("can't open 'x y'", "can't open 'it's'"),
        ("the user's file “a” is gone", "the user's file “b c” is gone"),
        ("order 0b9f3c1e-8a52-4c57-9a52-0d6a1a3f9c11 failed", "order FFFFFFFF-8a52-4c57-9a52-0d6a1a3f9c12 failed"),
        ("no space for /var/lib/app/a-1.csv", "no space for ~/b"),
        ("cannot read uploads/2026/a.csv", "cannot read uploads/b.tar"),
        (r"cannot read C:\Users\ann\x.txt", r"cannot read d:\y"),
        ("mx1.example.org refused", "mail.firma.de:25 refused"),
        ("no route to 10.0.0.7", "no route to 192.168.17.250"),
        ("no route to 2001:db8::7", "no route to ::1"),
        ("GET https://api.example.org/v1/users/7?x=1 failed", "GET http://localhost:8080 failed"),
        ("blob 9f86d081 missing", "blob e3b0c44298fc1c149afbf4c8996fb924 missing"),
        ("offset -5 is invalid", "offset 1,000 is invalid"),
        ("at 09:15:00", "at 12:30:45"),
    ],
)
def test_the_same_error_with_other_data_has_the_same_fingerprint(one: str, other: str) -> None:
    """Numbers, addresses, hosts, paths and quoted or hexadecimal text are data."""
    first, second = (Failure.from_error(called_by_us(ValueError(text))) for text in (one, other))

    assert first.fingerprint == second.fingerprint


def test_different_errors_have_different_fingerprints() -> None:
    """The type, the text and the place make the difference."""
    failures = [
        Failure.from_error(called_by_us(ValueError("user 17 not found"))),
        Failure.from_error(called_by_us(KeyError("user 17 not found"))),
        Failure.from_error(called_by_us(ValueError("user 17 not active"))),
        Failure.from_error(called_elsewhere(ValueError("user 17 not found"))),
    ]

    assert len({each.fingerprint for each in failures}) == 4


@pytest.mark.parametrize(
    "text",
    [
        "no such column: users.id",
        "module handlers.mail has no attribute send",
        "and/or is not allowed",
        "the deadbeef feed is empty",
        "can't open the user's file",
        "std::bad_alloc",
    ],
)
def test_words_are_not_data(text: str) -> None:
    """Names in code, words with a slash, an apostrophe or only hexadecimal letters distinguish errors."""
    assert error_shape(text) == text


labels = st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9]", fullmatch=True)
hosts = st.builds("{}.{}".format, labels, st.sampled_from(["example.org", "firma.de", "co.uk", "internal"]))
addresses = st.builds("{}@{}".format, st.from_regex(r"[A-Za-z0-9._%+-]{1,12}", fullmatch=True), hosts)
names = st.from_regex(r"[A-Za-z0-9_.+-]{1,12}", fullmatch=True)
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
hexadecimal = st.from_regex(r"[0-9a-f]{5,40}[0-9]", fullmatch=True)
quoted = st.text(st.characters(exclude_characters="\"'\\", codec="utf-8"), max_size=30).map("'{}'".format)
numbers = st.integers().map(str) | st.floats(allow_nan=False, allow_infinity=False).map(str)
DATA = {
    "addresses": addresses,
    "uuids": st.uuids().map(str),
    "paths": paths,
    "hosts": hosts,
    "ip addresses": st.ip_addresses().map(str),
    "hexadecimal": hexadecimal,
    "quoted": quoted,
    "numbers": numbers,
}


@pytest.mark.parametrize("kind", DATA)
@given(st.data(), st.sampled_from(["550 <{}>: no such user", "cannot open {}", "{} is gone", "({}) failed (x={})"]))
def test_the_shape_of_an_error_has_no_data(kind: str, data: st.DataObject, sentence: str) -> None:
    """Whatever the value is, and wherever it stands."""
    one, other = (data.draw(DATA[kind]) for _ in range(2))

    assert error_shape(sentence.replace("{}", one)) == error_shape(sentence.replace("{}", other))


@given(any_text)
def test_any_text_has_a_shape(text: str) -> None:
    """It is never longer than the text."""
    assert len(error_shape(text)) <= len(text)


def test_fourteen_bounces_are_one_error() -> None:
    """Their addresses, hosts and codes differ."""
    hosts = ("example.org", "mail.firma.de", "a-b.co.uk", "x.example.com", "example.net")
    names = ("ann", "bob.b", "o'neil", "d+x", "e_7", "f", "g", "h", "i", "j", "k", "l", "m", "n")
    bounces = [f"550 5.1.{number} <{name}@{hosts[number % 5]}>: unknown" for number, name in enumerate(names)]

    assert len({Failure.from_reason(each).fingerprint for each in bounces}) == 1


def test_a_fingerprint_fits_its_column() -> None:
    """It has sixteen hexadecimal digits."""
    assert len(bytes.fromhex(Failure.from_reason("crashed").fingerprint)) == 8


def test_only_the_first_line_of_a_reason_makes_its_fingerprint() -> None:
    """The lines below it are data."""
    assert Failure.from_reason("crashed\na").fingerprint == Failure.from_reason("crashed\nb").fingerprint
