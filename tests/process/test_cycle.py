"""One cycle, end to end, in real processes."""

from tests.process.installation import Installation


def test_a_cycle_drains_its_lane(installation: Installation) -> None:
    """23 pending jobs are run by five runners, each job once, and the cycle ends with 0 and says nothing."""
    installation.enqueue("ledger", count=23)

    cycle = installation.dispatch()

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert installation.statuses() == {"done": 23}
    ran = [line.split()[0] for line in (installation.home / "ledger").read_text().splitlines()]
    assert len(ran) == len(set(ran)) == 23
    assert "Calculated worker count: 5 (pending=23, batch=5, max=5)" in installation.log
