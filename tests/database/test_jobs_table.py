"""The jobs table is public: its defaults complete a plain INSERT, and its checks refuse rows that cannot be run."""

from datetime import timedelta

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from mayfly.db.database import Database
from tests.database.factories import claim_ids, claim_jobs, run_sql
from tests.factories import get_row, insert_row

PLAIN = "INSERT INTO mayfly_jobs (type, payload) VALUES ('noop', '{}')"

# Possible zones of a session, far from UTC and from the server's own.
ZONES = {
    "mariadb": "SET time_zone = '+05:00'",
    "mysql": "SET time_zone = '+05:00'",
    "postgres": "SET TIME ZONE 'Asia/Tokyo'",
    "sqlite": "SELECT 1",  # has no zones
}

REFUSED = {
    "status": "(type, payload, status) VALUES ('noop', '{}', 'waiting')",
    "priority below": "(type, payload, priority) VALUES ('noop', '{}', -1)",
    "priority above": "(type, payload, priority) VALUES ('noop', '{}', 3)",
    "attempts": "(type, payload, attempts) VALUES ('noop', '{}', -1)",
    "max_attempts": "(type, payload, max_attempts) VALUES ('noop', '{}', 0)",
    "empty lane": "(type, payload, lane) VALUES ('noop', '{}', '')",
    "empty type": "(type, payload) VALUES ('', '{}')",
    "no type": "(payload) VALUES ('{}')",
    "no payload": "(type) VALUES ('noop')",
    "payload NULL": "(type, payload) VALUES ('noop', NULL)",
    "payload list": "(type, payload) VALUES ('noop', '[]')",
    "payload text": "(type, payload) VALUES ('noop', '\"text\"')",
    "payload number": "(type, payload) VALUES ('noop', '1')",
    "payload null": "(type, payload) VALUES ('noop', 'null')",
    "payload cut": "(type, payload) VALUES ('noop', '{\"a\"')",
    "payload empty": "(type, payload) VALUES ('noop', '')",
    "key held": "(type, payload, unique_key) VALUES ('noop', '{}', 'held')",
}

UNREADABLE = {
    "mariadb": ["'0000-00-00'", "'2026-02-30'"],
    "mysql": ["'0000-00-00'", "'2026-02-30'"],
    "postgres": ["'-infinity'", "'0044-03-15 BC'", "'20000-01-01'"],
    "sqlite": [
        "0",
        "1777896000",
        "'2026-05-04T12:00:00'",
        "'2026-05-04 12:00:00+02:00'",
        "'2026-05-04 12:00:00Z'",
        "'2026-05-04'",
        "'soon'",
    ],
}
AGO = {
    "mariadb": ["UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE"],
    "mysql": ["UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE"],
    "postgres": ["now() - interval '1 minute'"],
    "sqlite": ["datetime('now', '-1 minute')", "strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 minute')"],
}
AHEAD = {
    "mariadb": ["UTC_TIMESTAMP() + INTERVAL 1 MINUTE"],
    "mysql": ["UTC_TIMESTAMP() + INTERVAL 1 MINUTE"],
    "postgres": ["now() + interval '1 minute'"],
    "sqlite": ["datetime('now', '+1 minute')", "strftime('%Y-%m-%d %H:%M:%f', 'now', '+1 minute')"],
}


def test_a_plain_insert_is_a_complete_job(database: Database, application: Engine) -> None:
    """Type and payload suffice, from any language; a runner claims the job at once."""
    with application.begin() as connection:
        connection.execute(text(PLAIN))

    [job] = claim_jobs(database)
    row = get_row(database, job.id)
    assert (job.type, job.lane, job.payload, job.attempt, job.max_attempts) == ("noop", "default", {}, 1, 5)
    assert (row.priority, row.crashes, row.interruptions, row.suspect, row.claims) == (1, 0, 0, 0, 1)
    assert (row.unique_key, row.group_key, row.result, row.last_error) == (None, None, None, None)


def test_default_times_are_utc_in_every_session(database: Database, application: Engine, engine_name: str) -> None:
    """A job inserted from Tokyo is due now, not nine hours earlier or later."""
    with application.begin() as connection:
        connection.execute(text(ZONES[engine_name]))
        connection.execute(text(PLAIN))

    row = get_row(database, claim_ids(database)[0])
    age = database.clock.now() - row.created_at
    assert timedelta(milliseconds=-2) <= age <= timedelta(seconds=20)
    assert abs(row.run_at - row.created_at) <= timedelta(seconds=1)


def test_a_time_is_read_as_it_was_written(database: Database) -> None:
    """To the microsecond, as an instant: its zone is not stored."""
    given = database.clock.now().replace(microsecond=123456).astimezone()

    job = insert_row(database, run_at=given)

    assert get_row(database, job).run_at == given


def test_a_row_that_cannot_be_run_is_refused(database: Database, application: Engine) -> None:
    """By the table itself, since SQL has no other validation."""
    insert_row(database, unique_key="held")

    with application.connect() as connection:
        refused = [name for name, row in REFUSED.items() if is_refused(connection, f"INSERT INTO mayfly_jobs {row}")]

    assert refused == list(REFUSED)


def test_a_waiting_job_cannot_get_a_payload_that_cannot_be_run(database: Database, application: Engine) -> None:
    """An UPDATE is checked like the INSERT, until the first claim."""
    insert_row(database)

    with application.connect() as connection:
        refused = [each for each in ("[]", "1", "null", '{"a"', "") if is_refused(connection, set_payload(each))]

    assert refused == ["[]", "1", "null", '{"a"', ""]


def test_the_payload_of_a_claimed_job_is_not_parsed_again(database: Database, application: Engine) -> None:
    """Every UPDATE evaluates the checks of a table: a large payload would cost more than the rest of its job."""
    insert_row(database)
    claim_jobs(database)

    with application.connect() as connection:
        assert not is_refused(connection, set_payload("[]"))


def test_a_time_that_cannot_be_read_or_compared_is_refused(
    database: Database, application: Engine, engine_name: str
) -> None:
    """One such row at the head of a lane would stop every runner of the lane."""
    with application.connect() as connection:
        refused = [time for time in UNREADABLE[engine_name] if is_refused(connection, at(time))]

    assert refused == UNREADABLE[engine_name]


def test_a_time_can_be_written_by_functions_of_the_database(
    database: Database, application: Engine, engine_name: str
) -> None:
    """The usual functions for "in a minute" and "a minute ago" work."""
    with application.begin() as connection:
        for time in (*AGO[engine_name], *AHEAD[engine_name]):
            connection.execute(text(at(time)))

    assert len(claim_ids(database)) == len(AGO[engine_name])


def test_names_are_case_sensitive(database: Database) -> None:
    """Lanes, types and keys on every database."""
    small = insert_row(database, lane="mail", unique_key="key")

    insert_row(database, lane="Mail", unique_key="KEY")

    assert claim_ids(database, lane="mail") == [small]


def test_an_id_is_never_reused(database: Database) -> None:
    """Not even the highest one, after its row was deleted."""
    job = insert_row(database)
    run_sql(database, "DELETE FROM mayfly_jobs")

    following = insert_row(database)

    assert following > job


def at(time: str) -> str:
    return f"INSERT INTO mayfly_jobs (type, payload, run_at) VALUES ('noop', '{{}}', {time})".replace(":", r"\:")


def set_payload(stored: str) -> str:
    return f"UPDATE mayfly_jobs SET payload = '{stored}'"


def is_refused(connection: Connection, statement: str) -> bool:
    try:
        connection.execute(text(statement))
    except DBAPIError:
        connection.rollback()
        return True
    connection.rollback()
    return False
