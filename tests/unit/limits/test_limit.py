"""What can be declared as a limit, and which keys it takes from payloads."""

from collections.abc import Callable
from typing import Any

import pytest

from mayfly import Job, concurrency, handler, rate
from mayfly.clock import host_now
from mayfly.errors import BadDeclaration, BadPayload, MayflyError
from mayfly.limits.limit import MAX_LIMIT, Limit, LimitKey, NoKey, limit_request, strictest
from mayfly.queue.options import JobValidator
from mayfly.registry import declared
from mayfly.schema.tables import KEY_LENGTH

VALIDATOR = JobValidator(payload_limit=1 << 16, max_attempts=5, now=host_now)


def test_a_key_is_filled_from_the_payload() -> None:
    """Strings and integers are inserted wherever the template names them."""
    limit = rate("{kind}:{account}/{kind}", 50, per="day")

    assert limit.key_for({"kind": "sender", "account": 42, "rest": None}) == "sender:42/sender"
    assert concurrency("the printer", 1).key_for({}) == "the printer"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "needs the field 'account', which is missing"),
        ({"account": None}, "needs a string or an integer in the field 'account'"),
        ({"account": True}, "needs a string or an integer"),
        ({"account": 1.5}, "needs a string or an integer"),
        ({"account": ["a"]}, "needs a string or an integer"),
        ({"account": ""}, "needs a string or an integer"),
        ({"account": "x" * 200}, "must have 1 to 190 characters, not 205"),
        ({"account": "\x00"}, "contains NUL or an unpaired surrogate"),
        ([], "it is not a JSON object"),
    ],
)
def test_a_payload_without_a_valid_key_is_refused_with_the_reason(payload: Any, reason: str) -> None:
    """Enqueueing and the row of a job inserted by SQL give the same reason."""
    with pytest.raises(NoKey, match=reason):
        limit_request([concurrency("smtp:{account}", 2)], payload)


def test_enqueue_refuses_a_payload_without_the_key_of_a_limit() -> None:
    """The payload is refused before it is stored, like any other invalid payload."""

    @handler("limited", limits=[concurrency("smtp:{account}", 2)])
    def limited(job: Job) -> None: ...

    with pytest.raises(
        BadPayload, match=r"limited is refused: its limit 'smtp:\{account\}' needs the field 'account'"
    ):
        VALIDATOR.validate("limited", {}, declared()["limited"])
    assert VALIDATOR.validate("limited", {"account": 1}, declared()["limited"]).payload == '{"account":1}'


def test_an_error_of_a_limit_shows_the_call() -> None:
    """As it is written in the handler, so that it can be found."""
    calls: dict[str, Callable[[], Limit]] = {
        "concurrency('a', 0): the maximum must be an integer of 1 or more.": lambda: concurrency("a", 0),
        "concurrency('', 1): the key must have 1 to 190 characters, not 0.": lambda: concurrency("", 1),
        "concurrency(7, 1): the key must be a string such as 'smtp:{account}'.": lambda: concurrency(7, 1),  # type: ignore[arg-type]
        "concurrency('a}', 1): its braces do not match; write 'smtp:{account}'.": lambda: concurrency("a}", 1),
        "concurrency('{0}', 1): {0} must be the name of a field of the payload.": lambda: concurrency("{0}", 1),
        "rate('a', 0, per='day'): the maximum must be an integer of 1 or more.": lambda: rate("a", 0, per="day"),
        "rate('a', 1, per='day'): there is no time zone 'X'; write one such as 'Europe/Berlin'.": (
            lambda: rate("a", 1, per="day", tz="X")
        ),
    }

    for sentence, call in calls.items():
        with pytest.raises(BadDeclaration) as raised:
            call()
        assert str(raised.value) == sentence


def test_the_largest_limit_and_the_longest_key_are_accepted() -> None:
    """Both fit their columns."""
    limit = concurrency("k" * KEY_LENGTH, MAX_LIMIT)

    assert (limit.most, limit.key_for({})) == (MAX_LIMIT, "k" * KEY_LENGTH)


def test_a_rate_keeps_its_zone() -> None:
    """Its days begin at midnight there."""
    assert rate("sender", 50, per="day", tz="Europe/Berlin").zone == "Europe/Berlin"


@pytest.mark.parametrize("order", [(2, 1, 3), (3, 2, 1), (1, 2, 3)])
def test_the_strictest_of_several_limits_counts(order: tuple[int, ...]) -> None:
    """Wherever it stands, each key once."""
    keys = [LimitKey("smtp", Limit("smtp", most)) for most in order]

    assert strictest(keys) == (LimitKey("smtp", Limit("smtp", 1)),)


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "2", None, 10**10])
def test_a_limit_is_a_positive_integer(most: Any) -> None:
    """Other values are refused, and so are numbers that are too large for the column."""
    with pytest.raises(BadDeclaration, match="the maximum must be an integer of 1 or more"):
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
        (7, "the key must be a string"),
    ],
)
def test_an_invalid_template_is_refused(template: Any, reason: str) -> None:
    """The error is raised at declaration, not when the first job runs."""
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
    """The error lists the windows that exist."""
    with pytest.raises(BadDeclaration, match=reason):
        rate("sender", 1, **options)


def test_a_value_that_is_not_a_limit_is_refused() -> None:
    """A single limit needs no list; any other value is an error that names the handler."""
    single = concurrency("a", 1)

    @handler("alone", limits=single)
    def alone(job: Job) -> None: ...

    assert declared()["alone"].limits == (single,)
    with pytest.raises(MayflyError, match=r"handler for wrong: 'smtp' is not a limit; write concurrency"):
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
def test_a_key_matches_the_template_that_can_produce_it(key: str, fits: bool) -> None:
    """The whole key matches, no field is empty, and the key fits its column."""
    assert Limit("sender:{account}", 1).fits(key) is fits


def test_limits_with_the_same_key_count_once() -> None:
    """The strictest one counts: two fields of a payload may have the same value."""
    limits = [
        rate("user:{sender}", 9, per="day"),
        rate("user:{reader}", 5, per="day"),
        concurrency("user:{sender}", 1),
    ]

    request = limit_request(limits, {"sender": 1, "reader": 1})

    assert [(each.key, each.limit.span, each.limit.most) for each in request] == [
        ("user:1", "day", 5),
        ("user:1", "at once", 1),
    ]
    assert strictest(request) == request
