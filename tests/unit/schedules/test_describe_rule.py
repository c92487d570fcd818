"""Rules in plain words."""

from datetime import datetime
from itertools import pairwise

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from mayfly.schedules.cron import describe_rule

SOME_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - local times of no place in particular


def field(first: int, last: int) -> st.SearchStrategy[str]:
    number = st.integers(first, last).map(str)
    pair = st.tuples(st.integers(first, last), st.integers(first, last)).map(lambda two: "{}-{}".format(*sorted(two)))
    step = st.integers(1, last).map(lambda each: f"*/{each}")
    return st.one_of(st.just("*"), number, pair, step, st.lists(number, min_size=2, max_size=4).map(",".join))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", "every seventh minute of every hour"),
        ("0 */6 * * *", "every 6 hours"),
        ("7 */6 * * *", "every 6 hours, 7 minutes past"),
        ("5 * * * *", "at minute 5 of every hour"),
        ("0 3 * * 1", "at 03:00 on Mondays"),
        ("0 3 * * MON,THU", "at 03:00 on Mondays and Thursdays"),
        ("30 2 * * 1-5", "at 02:30 on Monday through Friday"),
        ("0 9 * * MON#2", "at 09:00 on the second Monday of the month"),
        ("0 0 L * *", "at 00:00 on the last day of every month"),
        ("0 0 1 * 1", "at 00:00 on the first day of month or on Mondays"),
        ("*/15 9-17 * * *", "every 15th minute from 09:00 through 17:59"),
    ],
)
def test_a_rule_is_said_as_people_say_it(rule: str, words: str) -> None:
    """Regular ones by their interval, others by their times and days."""
    assert describe_rule(rule) == words


@given(st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)).map(" ".join))
def test_every_rule_has_words(rule: str) -> None:
    """Whatever is understood can be said, on one line."""
    assert describe_rule(rule).strip()
    assert "\n" not in describe_rule(rule)


@given(st.integers(2, 59))
def test_every_n_minutes_is_said_only_where_it_is_true(number: int) -> None:
    """Every 7 minutes of each hour are not 7 minutes apart when the hour ends."""
    rule = CronSim(f"*/{number} * * * *", SOME_DAY)
    times = [next(rule) for _ in range(70)]
    apart = {later - earlier for earlier, later in pairwise(times)}

    assert (describe_rule(f"*/{number} * * * *") == f"every {number} minutes") == (len(apart) == 1)
