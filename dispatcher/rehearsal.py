"""Say once, to no effect, what every runner says first: what is compiled before the forks need not be after them."""

from sqlalchemy import Connection

from mayfly.engine import Database
from mayfly.fleet.place import this_process
from mayfly.fleet.runners import take_over
from mayfly.jobs.claim import Claimant, claim, take
from mayfly.schema import JOBS

NOBODY = ""  # no runner's name, no lane's
NO_JOB = 0


def rehearse(database: Database) -> None:
    """The engine keeps what it has compiled, and forked runners have the engine."""
    now = database.clock.now()
    claimant = Claimant(NOBODY, NOBODY, now)

    def speak(connection: Connection) -> None:
        take_over(connection, NOBODY, this_process(), now)
        claim(connection, JOBS, claimant, 0, now)
        take(connection, JOBS, [NO_JOB], claimant, now)

    database.run(speak)
