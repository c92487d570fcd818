"""A month of a small shop with Mayfly, as rows: for the browser tests and the screenshots."""

from datetime import timedelta
from pathlib import Path
from random import Random

from sqlalchemy import Connection

from mayfly.db.database import Database
from mayfly.stats.history import Sample, add_to_history, charted
from tests.browser.sample.history import assign_running_jobs, insert_history
from tests.browser.sample.jobs import insert_jobs
from tests.browser.sample.manual_actions import insert_manual_actions
from tests.browser.sample.newsletters import SOURCE, insert_newsletters
from tests.browser.sample.schedules import SCHEDULE, insert_past
from tests.sqlalchemy_engines import run

DAY = timedelta(days=1)

SETTINGS = {
    "HANDLERS": "tests.browser.sample.shop",
    "LANES__MAIL__MAX_WORKERS": "8",
    "LANES__MAIL__LATENCY_TARGET": "2m",
    "LANES__PAYMENTS__RANK": "1",
    "LANES__PAYMENTS__LATENCY_TARGET": "1m",
    "LANES__REPORTS__POOL": "heavy",
    "LANES__IMPORTS__POOL": "heavy",
    "LANES__IMAGES__EXTERNAL": "true",
    "POOLS__HEAVY": "3",
}


def write_files(home: Path) -> None:
    """What its console reads when it starts."""
    (home / "cron.d").mkdir()
    (home / "cron.d" / "schedule").write_text(SCHEDULE)
    (home / "mayfly.toml").write_text(SOURCE)


def fill(database: Database, past: timedelta = DAY, seed: int = 7) -> None:
    """As if it had run for `past`; always the same except for the clock."""
    now = database.clock.now()

    def write(connection: Connection) -> list[Sample]:
        rng = Random(seed)
        deaths = insert_jobs(connection, now, rng)
        samples = insert_history(connection, now, past, deaths, rng)
        assign_running_jobs(connection)
        insert_manual_actions(connection, now)
        insert_past(connection, now)
        insert_newsletters(connection, now)
        return samples

    samples = run(database, write)
    database.run(lambda connection: add_to_history(connection, samples, charted(now)))
