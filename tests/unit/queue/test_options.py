"""Validation of new jobs: their defaults, and every refusal with its remedy."""

from collections import UserDict
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from mayfly import json_text
from mayfly.errors import BadField, BadPayload, EnqueueError, PayloadTooLarge
from mayfly.job import Job
from mayfly.queue.insert import NewJob
from mayfly.queue.options import JobValidator, describe_payload_errors
from mayfly.registry import Handler

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
VALIDATOR = JobValidator(payload_limit=1024, max_attempts=5, now=lambda: NOON)
SECRET = "hunter2"


class Letter(BaseModel):
    model_config = ConfigDict(extra="forbid")

    to: str = Field(min_length=3)
    copies: int = Field(default=1, le=9)
    password: str = ""

    @field_validator("to")
    @classmethod
    def _is_address(cls, to: str) -> str:
        if "@" not in to:
            raise ValueError("is no address")
        return to


def send(job: Job, letter: Letter) -> None: ...


MAIL = Handler("mail", send, takes_payload=True, model=Letter)


def new_job(payload: object = MappingProxyType({}), handler: Handler | None = None, /, **options: Any) -> NewJob:
    return VALIDATOR.validate(options.pop("type_name", "mail"), payload, handler, **options)


def refusal(payload: object = MappingProxyType({}), handler: Handler | None = None, /, **options: Any) -> str:
    """The text of the EnqueueError."""
    with pytest.raises(EnqueueError) as caught:
        new_job(payload, handler, **options)
    return str(caught.value)


# --- accepted jobs ----------------------------------------------------------------------------------------


def test_a_job_needs_only_a_type_and_a_payload() -> None:
    """Everything else has its default or is left to the database."""
    new = new_job({"to": "a@b"})

    assert new == NewJob("mail", '{"to":"a@b"}', "default", max_attempts=5, priority=1)
    assert new.row.keys() == {"type", "payload", "lane", "priority", "max_attempts"}


def test_every_option_of_a_job_can_be_set() -> None:
    """Each one is stored in its row."""
    new = new_job({}, lane="post", run_at=NOON, priority=0, unique_key="order-7", group_key="batch-1", max_attempts=9)

    assert new.row == {
        "type": "mail",
        "payload": "{}",
        "lane": "post",
        "priority": 0,
        "max_attempts": 9,
        "run_at": NOON,
        "unique_key": "order-7",
        "group_key": "batch-1",
    }


def test_the_handler_sets_defaults() -> None:
    """Its lane and attempts override those of the installation."""
    new = new_job({"to": "a@b"}, Handler("mail", send, lane="post", max_attempts=2))

    assert (new.lane, new.max_attempts) == ("post", 2)


def test_arguments_of_enqueue_override_the_handler() -> None:
    """They apply to this job only."""
    new = new_job({"to": "a@b"}, Handler("mail", send, lane="post", max_attempts=2), lane="fast", max_attempts=7)

    assert (new.lane, new.max_attempts) == ("fast", 7)


@pytest.mark.parametrize("payload", [{}, UserDict(a=1), MappingProxyType({"a": 1}), {"a": {"b": [None, 1.5]}}])
def test_any_mapping_is_a_payload(payload: Mapping[str, Any]) -> None:
    """It is stored as JSON."""
    assert json_text.decode(new_job(payload).payload) == dict(payload)


def test_a_payload_is_stored_unchanged() -> None:
    """The model checks it but does not rewrite it: defaults are those of the code that runs the job."""
    assert new_job({"to": "a@b"}, MAIL).payload == '{"to":"a@b"}'


@given(st.dictionaries(st.text(), st.text(), max_size=5))
def test_a_payload_can_contain_any_text(payload: dict[str, str]) -> None:
    """NUL and four-byte characters are stored, escaped if the database needs it."""
    text = JobValidator(1 << 20, 5, lambda: NOON).validate("mail", payload, None).payload

    assert b"\x00" not in text.encode("utf-8", "strict")


def test_a_time_is_stored_in_utc() -> None:
    """It can be given in any zone."""
    new = new_job(run_at=NOON.astimezone(timezone(timedelta(hours=2))))

    assert (new.run_at, new.run_at and new.run_at.tzinfo) == (NOON, UTC)


@pytest.mark.parametrize("priority", [0, 1, 2])
def test_each_priority_is_accepted(priority: int) -> None:
    """High, which is zero, is not mistaken for a missing value."""
    assert new_job(priority=priority).priority == priority


@pytest.mark.parametrize(
    ("name", "longest"), [("lane", 64), ("type_name", 64), ("unique_key", 190), ("group_key", 190)]
)
def test_names_and_keys_can_fill_their_columns(name: str, longest: int) -> None:
    """Lengths count characters, also of four bytes."""
    new_job(**{name: "💥" * longest})


# --- refused payloads -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("payload", "kind"), [([1], "list"), ("{}", "str"), (None, "NoneType"), (3, "int")])
def test_a_payload_must_be_an_object(payload: object, kind: str) -> None:
    """A list or a JSON text is refused."""
    assert refusal(payload) == f"The payload of mail is refused: it must be a JSON object, not {kind}."


def circular() -> dict[str, Any]:
    snake: dict[str, Any] = {}
    snake["tail"] = snake
    return snake


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"at": NOON}, "it is not valid JSON (Object of type datetime is not JSON serializable)"),
        ({"raw": b"x"}, "it is not valid JSON (Object of type bytes is not JSON serializable)"),
        ({"rate": float("nan")}, "it is not valid JSON (Out of range float values are not JSON compliant"),
        ({("a", "b"): 1}, "it is not valid JSON (keys must be str, int, float, bool or None, not tuple)"),
        (circular(), "it is not valid JSON (Circular reference detected)"),
    ],
)
def test_a_payload_must_be_json(payload: object, reason: str) -> None:
    """The sentence names the value that is not."""
    assert refusal(payload).startswith(f"The payload of mail is refused: {reason}")


def test_a_payload_that_is_nested_too_deep_is_refused() -> None:
    """The encoder's recursion error is not shown as a long traceback."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"in": deep}

    with pytest.raises(BadPayload, match="it is not valid JSON"):
        new_job(deep)


def test_a_payload_can_be_as_large_as_the_limit() -> None:
    """The limit counts the bytes of its UTF-8."""
    brackets = len('{"a":""}')

    assert len(new_job({"a": "é" * ((1024 - brackets) // 2)}).payload.encode()) == 1024


def test_a_larger_payload_is_refused() -> None:
    """The sentence has its size in bytes, the limit and the remedy."""
    with pytest.raises(PayloadTooLarge) as caught:
        new_job({"a": "é" * 600})

    assert str(caught.value) == (
        "The payload of mail has 1,208 bytes, PAYLOAD_LIMIT allows 1,024. "
        "Store large data elsewhere and enqueue a reference to it."
    )


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "to: Field required"),
        ({"to": 5}, "to: Input should be a valid string"),
        ({"to": "nobody"}, "to: Value error, is no address"),
        ({"to": "a@b", "copies": 10}, "copies: Input should be less than or equal to 9"),
        ({"to": "a@b", "colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"to": "a", "copies": "x"}, "to: String should have at least 3 characters; copies: Input should be a valid"),
    ],
)
def test_a_payload_must_match_the_model_of_its_handler(payload: object, reason: str) -> None:
    """Each invalid field is named, on one line."""
    sentence = refusal(payload, MAIL)

    assert sentence.startswith(f"The payload of mail is refused: {reason}")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    "payload",
    [
        {"to": 5, "password": SECRET},
        {"to": "a@b", "password": [SECRET]},
        {"to": "a@b", "password": {"new": SECRET}},
        {"to": "a@b", "copies": SECRET},
        {"to": SECRET},
        {"password": SECRET, "raw": b"x"},
        {"password": SECRET * 200},
        [SECRET],
    ],
)
def test_no_value_of_a_payload_is_in_the_error(payload: object) -> None:
    """It may be a secret, and errors appear on terminals, in logs and in mails."""
    assert SECRET not in refusal(payload, MAIL)


def test_a_payload_error_without_pydantic_is_shown_unchanged() -> None:
    """A payload inserted by SQL may not even be JSON."""
    with pytest.raises(ValueError, match="Expecting value") as caught:
        json_text.decode("oops")

    assert describe_payload_errors(caught.value) == "Expecting value: line 1 column 1 (char 0)"


# --- refused fields ---------------------------------------------------------------------------------------

NAME_RULE = "must be a string of 1–64 characters without NUL and unpaired surrogates."
KEY_RULE = "must be a string of 1–190 characters without NUL and unpaired surrogates."


@pytest.mark.parametrize("given", ["", "   ", "x" * 65, "a\x00b", "a\ud800", 5, b"mail"])
@pytest.mark.parametrize("field", ["type", "lane"])
def test_a_name_must_fit_its_column(field: str, given: object) -> None:
    """Types and lanes are not empty and contain only characters that every database can store."""
    argument = "type_name" if field == "type" else field

    assert refusal(**{argument: given}) == f"{field}={given!r}: {NAME_RULE}"


@pytest.mark.parametrize("given", ["", "a\x00b", "a\ud800", 5])
@pytest.mark.parametrize("field", ["unique_key", "group_key"])
def test_a_key_must_fit_its_column(field: str, given: object) -> None:
    """An empty key is refused, since unrelated jobs would share it by mistake."""
    assert refusal(**{field: given}) == f"{field}={given!r}: {KEY_RULE}"


@pytest.mark.parametrize("field", ["unique_key", "group_key"])
def test_a_long_value_is_not_quoted_in_full(field: str) -> None:
    """The beginning of a long value is enough."""
    sentence = refusal(**{field: "k" * 1_000_000})

    assert sentence.endswith(f"…: {KEY_RULE}")
    assert len(sentence) < 250


@pytest.mark.parametrize("given", [0, -1, 1001, 2.5, "3", True])
def test_max_attempts_is_a_positive_integer(given: object) -> None:
    """Zero is not mistaken for a missing value."""
    assert refusal(max_attempts=given) == f"max_attempts={given!r}: must be an integer, 1–1000."


@pytest.mark.parametrize("given", [-1, 3, "high"])
def test_a_priority_is_one_of_three(given: object) -> None:
    """The claim queries each of them by its number; a job with another one would never be claimed."""
    assert refusal(priority=given) == f"priority={given!r}: must be one of 0, 1, 2."


@pytest.mark.parametrize("given", [datetime(2026, 5, 4, 12, 0), date(2026, 5, 4), "2026-05-04"])  # noqa: DTZ001
def test_a_time_needs_a_zone(given: object) -> None:
    """A local time without a zone is ambiguous."""
    assert refusal(run_at=given) == (
        f"run_at={given!r}: must be a datetime with a time zone, e.g. datetime.now(UTC)."
    )


@pytest.mark.parametrize("error", [BadField, BadPayload, PayloadTooLarge])
def test_refusals_are_usage_errors(error: type[Exception]) -> None:
    """They share a class, are shown without a traceback, and exit with 64."""
    assert issubclass(error, EnqueueError)
