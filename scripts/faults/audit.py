"""Tables and triggers of the torture test: every change of a job's state, every start and end of a runner's row.

The times are the database's own.
"""

from sqlalchemy import Connection

COLUMNS = (
    "job_id, old_status, new_status, old_claims, new_claims, interrupted, attempts, max_attempts, worker_id, run_at"
)
OLD_NEW = (
    "NEW.id, OLD.status, NEW.status, OLD.claims, NEW.claims, NEW.interruptions - OLD.interruptions, NEW.attempts,"
    " NEW.max_attempts, COALESCE(NEW.worker_id, OLD.worker_id), OLD.run_at"
)
NEW_ONLY = "NEW.id, NULL, NEW.status, 0, NEW.claims, 0, NEW.attempts, NEW.max_attempts, NULL, NEW.run_at"

TABLES = {
    "sqlite": (
        "CREATE TABLE torture_audit (id INTEGER PRIMARY KEY, at TEXT, job_id INTEGER, old_status TEXT,"
        " new_status TEXT, old_claims INTEGER, new_claims INTEGER, interrupted INTEGER, attempts INTEGER,"
        " max_attempts INTEGER, worker_id TEXT, run_at TEXT)",
        "CREATE TABLE torture_runners (id INTEGER PRIMARY KEY, at TEXT, worker_id TEXT, is_open INTEGER)",
        "CREATE TABLE torture_ledger (id INTEGER PRIMARY KEY, job_id INTEGER)",
    ),
    "mariadb": (
        "CREATE TABLE torture_audit (id BIGINT AUTO_INCREMENT PRIMARY KEY, at DATETIME(6), job_id BIGINT,"
        " old_status VARCHAR(20), new_status VARCHAR(20), old_claims INT, new_claims INT, interrupted INT,"
        " attempts INT, max_attempts INT, worker_id VARCHAR(64), run_at DATETIME(6))",
        "CREATE TABLE torture_runners (id BIGINT AUTO_INCREMENT PRIMARY KEY, at DATETIME(6), worker_id VARCHAR(64),"
        " is_open INT)",
        "CREATE TABLE torture_ledger (id BIGINT AUTO_INCREMENT PRIMARY KEY, job_id BIGINT)",
    ),
    "postgres": (
        "CREATE TABLE torture_audit (id BIGSERIAL PRIMARY KEY, at TIMESTAMPTZ, job_id BIGINT, old_status TEXT,"
        " new_status TEXT, old_claims INT, new_claims INT, interrupted INT, attempts INT, max_attempts INT,"
        " worker_id TEXT, run_at TIMESTAMPTZ)",
        "CREATE TABLE torture_runners (id BIGSERIAL PRIMARY KEY, at TIMESTAMPTZ, worker_id TEXT, is_open INT)",
        "CREATE TABLE torture_ledger (id BIGSERIAL PRIMARY KEY, job_id BIGINT)",
    ),
}

CHANGED = "OLD.status <> NEW.status OR OLD.claims <> NEW.claims"

CLOSED = "OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL"
NOW = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    "mariadb": "UTC_TIMESTAMP(6)",
    "postgres": "clock_timestamp()",
}


def install(connection: Connection, engine_name: str) -> None:
    now = NOW[engine_name]
    written = {  # table, event, condition → what the trigger inserts
        ("mayfly_jobs", "INSERT", ""): f"torture_audit (at, {COLUMNS}) VALUES ({now}, {NEW_ONLY})",
        ("mayfly_jobs", "UPDATE", CHANGED): f"torture_audit (at, {COLUMNS}) VALUES ({now}, {OLD_NEW})",
        (
            "mayfly_runners",
            "INSERT",
            "",
        ): f"torture_runners (at, worker_id, is_open) VALUES ({now}, NEW.worker_id, 1)",
        ("mayfly_runners", "UPDATE", CLOSED): (
            f"torture_runners (at, worker_id, is_open) VALUES ({now}, NEW.worker_id, 0)"
        ),
    }
    for statement in TABLES[engine_name]:
        connection.exec_driver_sql(statement)
    for (table, event, condition), insertion in written.items():
        for statement in _trigger(engine_name, table, event, condition, f"INSERT INTO {insertion}"):
            connection.exec_driver_sql(statement)


def _trigger(engine_name: str, table: str, event: str, condition: str, action: str) -> tuple[str, ...]:
    name = f"torture_{event}_{table}".lower()
    head = f"CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW"
    if engine_name == "mariadb":  # has no WHEN
        return (f"{head} BEGIN IF {condition or 'TRUE'} THEN {action}; END IF; END",)
    head += f" WHEN ({condition})" if condition else ""
    if engine_name == "sqlite":
        return (f"{head} BEGIN {action}; END",)
    function = f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {action}; RETURN NULL; END $$"
    return function, f"{head} EXECUTE FUNCTION {name}()"
