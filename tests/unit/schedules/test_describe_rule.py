"""Descriptions of cron rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.schedules.cron import describe_rule


def field(first: int, last: int) -> st.SearchStrategy[str]:
    number = st.integers(first, last).map(str)
    pair = st.tuples(st.integers(first, last), st.integers(first, last)).map(lambda two: "{}-{}".format(*sorted(two)))
    step = st.integers(1, last).map(lambda each: f"*/{each}")
    return st.one_of(st.just("*"), number, pair, step, st.lists(number, min_size=2, max_size=4).map(",".join))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/7 * * * *", "every seventh minute of every hour"),
        ("7 */6 * * *", "at minute 7 past every sixth hour"),
        ("5 * * * *", "at minute 5 of every hour"),
        ("0 3 * * 1", "at 03:00 on Monday"),
        ("0 3 * * MON,THU", "at 03:00 on Monday and Thursday"),
        ("30 2 * * 1-5", "at 02:30 on Monday through Friday"),
        ("0 9 * * MON#2", "at 09:00 on the second Monday of the month"),
        ("0 0 L * *", "at 00:00 on the last day of every month"),
        ("0 0 1 * 1", "at 00:00 on the first day of month or on Monday"),
        ("*/15 9-17 * * *", "every 15th minute from 09:00 through 17:59"),
    ],
)
def test_a_rule_is_described_in_words(rule: str, words: str) -> None:
    """The text is cronsim's; if either of two day fields suffices, they are joined by "or"."""
    assert describe_rule(rule) == words


@given(st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)).map(" ".join))
def test_every_rule_has_a_description(rule: str) -> None:
    """Every valid rule has a description of one line."""
    assert describe_rule(rule).strip()
    assert "\n" not in describe_rule(rule)
