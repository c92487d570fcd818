"""What a report says of its figures: medians, spreads, ratios, goals."""

import pytest

from scripts.benchmark.figures import Figure, Goal, alternately, at_least, at_most, shown, with_spread


def test_the_ratio_is_that_of_the_medians() -> None:
    """One slow run of either changes nothing."""
    figure = Figure("x", "jobs/s", ours=(80, 90, 10), yardstick=(100, 400, 95))

    assert (figure.value, figure.ratio) == (80, 0.8)


def test_without_a_yardstick_there_is_no_ratio() -> None:
    """Nor with one that took nothing, such as the server of an embedded database."""
    assert Figure("x", "s", (1,)).ratio is None
    assert Figure("x", "s", (1,), (0,)).ratio is None


@pytest.mark.parametrize(
    ("figure", "reached"),
    [
        (Figure("x", "", (85,), (100,), at_least(0.85)), True),
        (Figure("x", "", (84,), (100,), at_least(0.85)), False),
        (Figure("x", "", (130,), (100,), at_most(1.3)), True),
        (Figure("x", "", (131,), (100,), at_most(1.3)), False),
        (Figure("x", "", (54,), (100,), Goal(at_most=55, of_ratio=False)), True),
        (Figure("x", "", (56,), (1000,), Goal(at_most=55, of_ratio=False)), False),
        (Figure("x", "", (56,), (1000,)), None),
    ],
)
def test_a_goal_is_one_of_the_ratio_or_of_the_figure(figure: Figure, reached: bool | None) -> None:
    """A bound that is just met is reached; where nothing is asked there is no verdict."""
    assert figure.is_reached is reached


def test_runs_take_turns() -> None:
    """Ours, the yardstick's, ours again: a noisy minute hits both."""
    order: list[str] = []

    ours, theirs = alternately(lambda: order.append("ours"), lambda: order.append("theirs"), 3)

    assert order == ["ours", "theirs"] * 3
    assert (len(ours), len(theirs)) == (3, 3)


def test_values_are_shown_with_the_digits_that_matter() -> None:
    """And with their spread, unless there is none."""
    assert [shown(each) for each in (0, 0.12345, 1.5, 99.4, 123.4, 24305.2)] == [
        *("0", "0.123", "1.5", "99.4", "123", "24,305")
    ]
    assert with_spread((3, 1, 2)) == "2 (1–3)"
    assert (with_spread((7,)), with_spread((1, 1)), with_spread(())) == ("7", "1", "")


def test_a_goal_says_its_bound() -> None:
    """As the table shows it."""
    assert [at_least(0.85).text, at_most(1.3).text, Goal(at_least=21_000, of_ratio=False).text] == [
        *("≥ 0.85", "≤ 1.3", "≥ 21,000")
    ]
