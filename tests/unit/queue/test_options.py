"""The door: what a new job looks like, and every refusal with the sentence that says what to do."""

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


def admit(payload: object = MappingProxyType({}), handler: Handler | None = None, /, **options: Any) -> NewJob:
    return VALIDATOR.validate(options.pop("type_name", "mail"), payload, handler, **options)


def refusal(payload: object = MappingProxyType({}), handler: Handler | None = None, /, **options: Any) -> str:
    """What the EnqueueError says."""
    with pytest.raises(EnqueueError) as caught:
        admit(payload, handler, **options)
    return str(caught.value)


# --- what comes in ----------------------------------------------------------------------------------------


def test_a_job_needs_no_more_than_a_type_and_a_payload() -> None:
    """The rest is what is usual; what the database knows best is left to it."""
    new = admit({"to": "a@b"})

    assert new == NewJob("mail", '{"to":"a@b"}', "default", max_attempts=5, priority=1)
    assert new.row.keys() == {"type", "payload", "lane", "priority", "max_attempts"}


def test_everything_about_a_job_can_be_said() -> None:
    """And stands in its row."""
    new = admit({}, lane="post", run_at=NOON, priority=0, unique_key="order-7", group_key="batch-1", max_attempts=9)

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


def test_the_handler_says_what_is_usual() -> None:
    """Its lane and its attempts come before the installation's."""
    new = admit({"to": "a@b"}, Handler("mail", send, lane="post", max_attempts=2))

    assert (new.lane, new.max_attempts) == ("post", 2)


def test_the_caller_has_the_last_word() -> None:
    """What is said of one job holds for it, whatever its handler says."""
    new = admit({"to": "a@b"}, Handler("mail", send, lane="post", max_attempts=2), lane="fast", max_attempts=7)

    assert (new.lane, new.max_attempts) == ("fast", 7)


@pytest.mark.parametrize("payload", [{}, UserDict(a=1), MappingProxyType({"a": 1}), {"a": {"b": [None, 1.5]}}])
def test_any_mapping_is_a_payload(payload: Mapping[str, Any]) -> None:
    """What is kept is its JSON."""
    assert json_text.decode(admit(payload).payload) == dict(payload)


def test_a_payload_is_kept_as_it_came() -> None:
    """Checked against the model, not rewritten by it: defaults belong to the handler of the day it runs."""
    assert admit({"to": "a@b"}, MAIL).payload == '{"to":"a@b"}'


@given(st.dictionaries(st.text(), st.text(), max_size=5))
def test_any_text_may_be_in_a_payload(payload: dict[str, str]) -> None:
    """NUL and four-byte characters included: kept, escaped where a database can't."""
    text = JobValidator(1 << 20, 5, lambda: NOON).validate("mail", payload, None).payload

    assert b"\x00" not in text.encode("utf-8", "strict")


def test_a_time_is_kept_as_utc() -> None:
    """Whatever zone it came in."""
    new = admit(run_at=NOON.astimezone(timezone(timedelta(hours=2))))

    assert (new.run_at, new.run_at and new.run_at.tzinfo) == (NOON, UTC)


@pytest.mark.parametrize("priority", [0, 1, 2])
def test_each_priority_is_taken(priority: int) -> None:
    """High, which is zero, is not mistaken for none given."""
    assert admit(priority=priority).priority == priority


@pytest.mark.parametrize(
    ("name", "longest"), [("lane", 64), ("type_name", 64), ("unique_key", 190), ("group_key", 190)]
)
def test_names_and_keys_may_fill_their_columns(name: str, longest: int) -> None:
    """Counted in characters, also where each takes four bytes."""
    admit(**{name: "💥" * longest})


# --- payloads that are refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(("payload", "kind"), [([1], "list"), ("{}", "str"), (None, "NoneType"), (3, "int")])
def test_a_payload_must_be_an_object(payload: object, kind: str) -> None:
    """Not a list, not a text that happens to hold JSON."""
    assert refusal(payload) == f"The payload of mail is refused: it must be a JSON object, not {kind}."


def circular() -> dict[str, Any]:
    snake: dict[str, Any] = {}
    snake["tail"] = snake
    return snake


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"at": NOON}, "it is no JSON (Object of type datetime is not JSON serializable)"),
        ({"raw": b"x"}, "it is no JSON (Object of type bytes is not JSON serializable)"),
        ({"rate": float("nan")}, "it is no JSON (Out of range float values are not JSON compliant"),
        ({("a", "b"): 1}, "it is no JSON (keys must be str, int, float, bool or None, not tuple)"),
        (circular(), "it is no JSON (Circular reference detected)"),
    ],
)
def test_a_payload_must_be_json(payload: object, reason: str) -> None:
    """The sentence says what in it is not."""
    assert refusal(payload).startswith(f"The payload of mail is refused: {reason}")


def test_a_payload_without_end_is_refused() -> None:
    """Too deep for the encoder is no traceback of a thousand lines."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"in": deep}

    with pytest.raises(BadPayload, match="it is no JSON"):
        admit(deep)


def test_a_payload_may_be_as_large_as_the_limit() -> None:
    """To the byte, counted as UTF-8."""
    brackets = len('{"a":""}')

    assert len(admit({"a": "é" * ((1024 - brackets) // 2)}).payload.encode()) == 1024


def test_a_larger_payload_is_refused() -> None:
    """With its size in bytes, not characters, the limit and what to do."""
    with pytest.raises(PayloadTooLarge) as caught:
        admit({"a": "é" * 600})

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
def test_a_payload_must_fit_its_handler(payload: object, reason: str) -> None:
    """Each field that does not is named, on one line."""
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
def test_no_value_of_a_payload_is_in_the_sentence(payload: object) -> None:
    """It may be a secret, and sentences go to terminals, logs and mails."""
    assert SECRET not in refusal(payload, MAIL)


def test_a_misfit_that_is_not_pydantics_is_told_as_it_is() -> None:
    """A payload that came in by plain SQL may be no JSON at all."""
    with pytest.raises(ValueError, match="Expecting value") as caught:
        json_text.decode("oops")

    assert describe_payload_errors(caught.value) == "Expecting value: line 1 column 1 (char 0)"


# --- fields that are refused ------------------------------------------------------------------------------

NAME_RULE = "must be a text of 1 to 64 characters that every database can hold."
KEY_RULE = "must be a text of 1 to 190 characters that every database can hold."


@pytest.mark.parametrize("given", ["", "   ", "x" * 65, "a\x00b", "a\ud800", 5, b"mail"])
@pytest.mark.parametrize("field", ["type", "lane"])
def test_a_name_must_fit_its_column(field: str, given: object) -> None:
    """Types and lanes: something to read, and nothing that a database or UTF-8 cannot hold."""
    argument = "type_name" if field == "type" else field

    assert refusal(**{argument: given}) == f"{field}={given!r}: {NAME_RULE}"


@pytest.mark.parametrize("given", ["", "a\x00b", "a\ud800", 5])
@pytest.mark.parametrize("field", ["unique_key", "group_key"])
def test_a_key_must_fit_its_column(field: str, given: object) -> None:
    """An empty key would be one that all share by mistake."""
    assert refusal(**{field: given}) == f"{field}={given!r}: {KEY_RULE}"


@pytest.mark.parametrize("field", ["unique_key", "group_key"])
def test_a_long_value_is_not_quoted_in_full(field: str) -> None:
    """A megabyte on the terminal tells no more than its beginning."""
    sentence = refusal(**{field: "k" * 1_000_000})

    assert sentence.endswith(f"…: {KEY_RULE}")
    assert len(sentence) < 250


@pytest.mark.parametrize("given", [0, -1, 1001, 2.5, "3", True])
def test_attempts_are_a_whole_number(given: object) -> None:
    """Zero is not none given: a job that may never be tried is a mistake."""
    assert refusal(max_attempts=given) == f"max_attempts={given!r}: must be an integer, 1–1000."


@pytest.mark.parametrize("given", [-1, 3, "high"])
def test_a_priority_is_one_of_three(given: object) -> None:
    """The claim asks for each of them by its number; another would never be claimed."""
    assert refusal(priority=given) == f"priority={given!r}: must be one of 0, 1, 2."


@pytest.mark.parametrize("given", [datetime(2026, 5, 4, 12, 0), date(2026, 5, 4), "2026-05-04"])  # noqa: DTZ001
def test_a_time_needs_a_zone(given: object) -> None:
    """Whose noon would it be?"""
    assert refusal(run_at=given) == (
        f"run_at={given!r}: must be a datetime with a time zone, e.g. datetime.now(UTC)."
    )


@pytest.mark.parametrize("error", [BadField, BadPayload, PayloadTooLarge])
def test_refusals_are_wrong_usage(error: type[Exception]) -> None:
    """One class to catch, shown without a traceback, exit code 64."""
    assert issubclass(error, EnqueueError)
