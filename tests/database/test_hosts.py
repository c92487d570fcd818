"""Known hosts: those with a cycle in the last day, unless an operator has forgotten them."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from mayfly.admin.auth import Actor, list_audit
from mayfly.admin.fleet import Gap, forget_host, list_cycles, list_hosts, list_minutes
from mayfly.admin.health import read_status
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.errors import UnknownName
from mayfly.fleet.cycles import close_cycle, open_cycle
from mayfly.stats.history import SETTLED, count_cycles, read_cycles
from tests.unit.settings.factories import settings_in

ANN = Actor("ann", "terminal")
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def insert_cycle(database: Database, host: str, at: datetime) -> None:
    database.run(lambda connection: open_cycle(connection, milliseconds(at), host, at))
    database.run(lambda connection: close_cycle(connection, milliseconds(at), {"exit_code": 0}, at))


def known(database: Database) -> list[str]:
    now = database.clock.now()
    return [each.host for each in database.read(lambda connection: list_hosts(connection, now))]


def counted(database: Database) -> dict[str, int]:
    """Cycles by host, as the metrics have them."""
    return {each.host: each.cycles for each in database.read(read_cycles)}


@pytest.fixture
def removed(database: Database) -> datetime:
    """A host that runs cycles, and one that was removed an hour ago."""
    now = database.clock.now()
    insert_cycle(database, "gone", now - HOUR - MINUTE)
    insert_cycle(database, "gone", now - HOUR)
    insert_cycle(database, "here", now - timedelta(seconds=1))
    return now


def test_a_host_is_forgotten_after_a_silent_day(database: Database) -> None:
    """It is neither listed nor a problem."""
    now = database.clock.now()
    insert_cycle(database, "gone", now - 25 * HOUR)
    insert_cycle(database, "silent", now - 23 * HOUR)

    assert known(database) == ["silent"]


@pytest.mark.usefixtures("removed")
def test_a_forgotten_host_is_no_problem(database: Database, tmp_path: Path) -> None:
    """Status, /health and alerts report the same problems."""
    settings = settings_in(tmp_path)

    def problems() -> list[str]:
        now = database.clock.now()
        return [each.subject for each in database.read(lambda c: read_status(c, settings, now)).problems]

    before = problems()
    forget_host(database, "gone", ANN)

    assert (before, problems(), known(database)) == (["gone"], [], ["here"])


def test_the_cycles_of_a_forgotten_host_stay_in_the_lists(database: Database, removed: datetime) -> None:
    """But the minutes since its last cycle are no gap."""
    forget_host(database, "gone", ANN)

    assert [each.host for each in database.read(list_cycles)] == ["here", "gone", "gone"]
    rows = database.read(lambda connection: list_minutes(connection, removed)).rows
    assert [each for each in rows if isinstance(each, Gap)] == []


def test_a_forgotten_host_is_known_again_with_its_next_cycle(database: Database, removed: datetime) -> None:
    """A host that was forgotten by mistake is back within a minute, and counts from there."""
    forget_host(database, "gone", ANN)

    insert_cycle(database, "gone", removed + MINUTE)

    assert known(database) == ["gone", "here"]
    assert counted(database) == {"gone": 1, "here": 1}


@pytest.mark.parametrize("settled", [False, True])
def test_a_forgotten_host_leaves_the_metrics(database: Database, removed: datetime, settled: bool) -> None:
    """Whether or not its cycles were added up before; they are not counted later either."""
    if settled:
        database.run(lambda connection: count_cycles(connection, removed))
    before = counted(database)

    forget_host(database, "gone", ANN)
    now = counted(database)
    database.run(lambda connection: count_cycles(connection, removed + 2 * SETTLED))

    assert (before, now, counted(database)) == ({"gone": 2, "here": 1}, {"here": 1}, {"here": 1})


@pytest.mark.usefixtures("removed")
def test_forgetting_a_host_is_in_the_audit(database: Database) -> None:
    """With the user and the name."""
    forget_host(database, "gone", ANN)

    [entry] = database.read(list_audit)
    assert (entry.done_by, entry.via, entry.verb, entry.subject) == ("ann", "terminal", "forget host", "gone")


@pytest.mark.usefixtures("removed")
def test_an_unknown_host_is_refused(database: Database) -> None:
    """With the most similar name, and without an entry in the audit."""
    with pytest.raises(UnknownName) as refused:
        forget_host(database, "gnoe", ANN)

    assert str(refused.value) == "There is no host 'gnoe' with a cycle in the last day. Did you mean 'gone'?"
    assert database.read(list_audit) == []
