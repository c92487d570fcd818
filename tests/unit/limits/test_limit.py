"""What may be declared as a limit, and which keys payloads fill it with."""

from typing import Any

import pytest

from mayfly import Job, concurrency, handler, rate
from mayfly.clock import host_now
from mayfly.errors import BadDeclaration, BadPayload, MayflyError
from mayfly.limits.limit import Limit, NoKey, limit_request, strictest
from mayfly.queue.options import JobValidator
from mayfly.registry import declared

VALIDATOR = JobValidator(payload_limit=1 << 16, max_attempts=5, now=host_now)


def test_a_key_is_filled_from_the_payload() -> None:
    """Texts and whole numbers, as often as the template names them."""
    limit = rate("{kind}:{account}/{kind}", 50, per="day")

    assert limit.key_for({"kind": "sender", "account": 42, "rest": None}) == "sender:42/sender"
    assert concurrency("the printer", 1).key_for({}) == "the printer"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "needs the field 'account', which is missing"),
        ({"account": None}, "needs a text or an integer in the field 'account'"),
        ({"account": True}, "needs a text or an integer"),
        ({"account": 1.5}, "needs a text or an integer"),
        ({"account": ["a"]}, "needs a text or an integer"),
        ({"account": ""}, "needs a text or an integer"),
        ({"account": "x" * 200}, "must have 1 to 190 characters, not 205"),
        ({"account": "\x00"}, "has characters that no database holds"),
        ([], "it is no JSON object"),
    ],
)
def test_a_payload_that_fills_no_key_is_told_why(payload: Any, reason: str) -> None:
    """The same words at enqueue and in the row of a job that came by SQL."""
    with pytest.raises(NoKey, match=reason):
        limit_request([concurrency("smtp:{account}", 2)], payload)


def test_enqueue_refuses_what_its_limits_cannot_be_said_of() -> None:
    """Before it is in the table, like any payload that does not fit."""

    @handler("limited", limits=[concurrency("smtp:{account}", 2)])
    def limited(job: Job) -> None: ...

    with pytest.raises(
        BadPayload, match=r"limited is refused: its limit 'smtp:\{account\}' needs the field 'account'"
    ):
        VALIDATOR.validate("limited", {}, declared()["limited"])
    assert VALIDATOR.validate("limited", {"account": 1}, declared()["limited"]).payload == '{"account":1}'


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "2", None, 10**10])
def test_the_number_is_an_integer_of_one_or_more(most: Any) -> None:
    """Nothing else means anything, and the column holds no more."""
    with pytest.raises(BadDeclaration, match="how many must be an integer of 1 or more"):
        concurrency("smtp", most)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("smtp:{account", "braces do not match"),
        ("smtp:account}", "braces do not match"),
        ("smtp:{{account}}", "braces do not match"),
        ("smtp:{}", "must be the name of a field"),
        ("smtp:{account.id}", r"\{account.id\} must be the name of a field"),
        ("smtp:{0}", "must be the name of a field"),
        ("", "must have 1 to 190 characters, not 0"),
        ("x" * 191, "must have 1 to 190 characters, not 191"),
        (7, "the key must be a text"),
    ],
)
def test_a_template_that_no_payload_could_fill_is_refused(template: Any, reason: str) -> None:
    """Where it is declared, and not when the first job comes."""
    with pytest.raises(BadDeclaration, match=reason):
        concurrency(template, 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"per": "fortnight"}, "per must be one of second, minute, hour, day, week, month"),
        ({"per": None}, "per must be one of"),
        ({"per": "day", "tz": "Europe/Berlim"}, "there is no time zone 'Europe/Berlim'"),
        ({"per": "day", "tz": "../etc/passwd"}, "there is no time zone"),
        ({"per": "day", "tz": None}, "there is no time zone None"),
        ({"per": "day", "tz": ""}, "there is no time zone ''"),
    ],
)
def test_an_unknown_window_is_refused(options: dict[str, Any], reason: str) -> None:
    """With what there is."""
    with pytest.raises(BadDeclaration, match=reason):
        rate("sender", 1, **options)


def test_what_is_no_limit_is_refused_with_the_handler() -> None:
    """A single limit may stand alone; anything else is told."""
    single = concurrency("a", 1)

    @handler("alone", limits=single)
    def alone(job: Job) -> None: ...

    assert declared()["alone"].limits == (single,)
    with pytest.raises(MayflyError, match=r"handler for wrong: 'smtp' is no limit; write concurrency"):
        handler("wrong", limits=["smtp"])  # type: ignore[list-item]
    with pytest.raises(MayflyError, match="limits= and takes= take"):
        handler("wrong", takes=7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "fits"),
    [
        ("sender:42", True),
        ("sender:", False),
        ("resender:42", False),
        ("sender:a:b", True),
        ("sender:" + "x" * 200, False),
    ],
)
def test_a_key_fits_the_template_that_could_give_it(key: str, fits: bool) -> None:
    """As a whole, with something in each field, and short enough to be kept."""
    assert Limit("sender:{account}", 1).fits(key) is fits


def test_what_counts_in_the_same_row_counts_once() -> None:
    """At the strictest: two fields of one payload may well have the same value."""
    limits = [
        rate("user:{sender}", 9, per="day"),
        rate("user:{reader}", 5, per="day"),
        concurrency("user:{sender}", 1),
    ]

    wish = limit_request(limits, {"sender": 1, "reader": 1})

    assert [(need.key, need.limit.span, need.limit.most) for need in wish] == [
        ("user:1", "day", 5),
        ("user:1", "at once", 1),
    ]
    assert strictest(wish) == wish
