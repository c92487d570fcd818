"""What is said around the figures: a busy machine, the time it takes, the lines there are."""

from scripts.benchmark.engines import ENGINES
from scripts.benchmark.environment import environment, warning
from scripts.benchmark.progress import duration
from scripts.benchmark.registry import LINES, steps


def test_a_busy_machine_is_worth_a_sentence() -> None:
    """More than half a process a core is not idle."""
    assert warning(1.0, 2) is None
    assert warning(1.1, 2) == "The machine is busy (load 1.1 on 2 cores): the figures will show that, too."


def test_the_environment_is_recorded() -> None:
    """Enough to tell two machines and two versions apart."""
    facts = environment()

    assert {"mayfly", "python", "libraries", "kernel", "cpu", "cores", "memory_gb", "load_at_start"} == set(facts)
    assert {"SQLAlchemy", "PyMySQL", "psycopg"} == set(facts["libraries"])


def test_durations_are_for_people() -> None:
    """Nobody wants seconds of an hour."""
    assert [duration(each) for each in (3, 44, 119, 125, 3000)] == ["10 s", "40 s", "120 s", "2 min", "50 min"]


def test_lines_come_in_the_order_of_the_report() -> None:
    """However they were asked for; without a choice, all on every database."""
    chosen = steps(("memory", "drain"), ("sqlite",))

    assert [(each.name, each.engine) for each in chosen] == [("drain", "sqlite"), ("memory", "sqlite")]
    assert len(steps((), ())) == len(LINES) * len(ENGINES)


def test_less_takes_less_time() -> None:
    """The estimate follows scale and times, unless a line has only one size."""
    drain, idle = LINES["drain"], LINES["idle"]

    assert drain.estimate("sqlite", 0.1, 3) < drain.estimate("sqlite", 1, 1) < drain.estimate("sqlite", 1, 3)
    assert idle.estimate("sqlite", 0.1, 3) == idle.estimate("sqlite", 1, 3)
