"""Tables and triggers of the torture test: every change of a job's state, with the database's own time."""

from sqlalchemy import Connection

COLUMNS = "job_id, old_status, new_status, old_claims, new_claims, interrupted, attempts, max_attempts, run_at"
OLD_NEW = (
    "NEW.id, OLD.status, NEW.status, OLD.claims, NEW.claims, NEW.interruptions - OLD.interruptions, NEW.attempts,"
    " NEW.max_attempts, OLD.run_at"
)
NEW_ONLY = "NEW.id, NULL, NEW.status, 0, NEW.claims, 0, NEW.attempts, NEW.max_attempts, NEW.run_at"

TABLES = {
    "sqlite": (
        "CREATE TABLE torture_audit (id INTEGER PRIMARY KEY, at TEXT, job_id INTEGER, old_status TEXT,"
        " new_status TEXT, old_claims INTEGER, new_claims INTEGER, interrupted INTEGER, attempts INTEGER,"
        " max_attempts INTEGER, run_at TEXT)",
        "CREATE TABLE torture_ledger (job_id INTEGER)",
    ),
    "mariadb": (
        "CREATE TABLE torture_audit (id BIGINT AUTO_INCREMENT PRIMARY KEY, at DATETIME(6), job_id BIGINT,"
        " old_status VARCHAR(20), new_status VARCHAR(20), old_claims INT, new_claims INT, interrupted INT,"
        " attempts INT, max_attempts INT, run_at DATETIME(6))",
        "CREATE TABLE torture_ledger (job_id BIGINT)",
    ),
    "postgres": (
        "CREATE TABLE torture_audit (id BIGSERIAL PRIMARY KEY, at TIMESTAMPTZ, job_id BIGINT, old_status TEXT,"
        " new_status TEXT, old_claims INT, new_claims INT, interrupted INT, attempts INT, max_attempts INT,"
        " run_at TIMESTAMPTZ)",
        "CREATE TABLE torture_ledger (job_id BIGINT)",
    ),
}

CHANGED = "OLD.status <> NEW.status OR OLD.claims <> NEW.claims"

TRIGGERS = {
    "sqlite": (
        f"CREATE TRIGGER torture_insert AFTER INSERT ON mayfly_jobs BEGIN INSERT INTO torture_audit (at, {COLUMNS})"
        f" VALUES (strftime('%Y-%m-%d %H:%M:%f', 'now'), {NEW_ONLY}); END",
        f"CREATE TRIGGER torture_update AFTER UPDATE ON mayfly_jobs WHEN {CHANGED} BEGIN"
        f" INSERT INTO torture_audit (at, {COLUMNS})"
        f" VALUES (strftime('%Y-%m-%d %H:%M:%f', 'now'), {OLD_NEW}); END",
    ),
    "mariadb": (
        f"CREATE TRIGGER torture_insert AFTER INSERT ON mayfly_jobs FOR EACH ROW"
        f" INSERT INTO torture_audit (at, {COLUMNS}) VALUES (UTC_TIMESTAMP(6), {NEW_ONLY})",
        f"CREATE TRIGGER torture_update AFTER UPDATE ON mayfly_jobs FOR EACH ROW BEGIN IF {CHANGED} THEN"
        f" INSERT INTO torture_audit (at, {COLUMNS}) VALUES (UTC_TIMESTAMP(6), {OLD_NEW}); END IF; END",
    ),
    "postgres": (
        "CREATE FUNCTION torture_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" INSERT INTO torture_audit (at, {COLUMNS}) VALUES (clock_timestamp(), {NEW_ONLY}); RETURN NULL; END $$",
        "CREATE FUNCTION torture_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" INSERT INTO torture_audit (at, {COLUMNS}) VALUES (clock_timestamp(), {OLD_NEW}); RETURN NULL; END $$",
        "CREATE TRIGGER torture_insert AFTER INSERT ON mayfly_jobs FOR EACH ROW EXECUTE FUNCTION torture_insert()",
        f"CREATE TRIGGER torture_update AFTER UPDATE ON mayfly_jobs FOR EACH ROW WHEN ({CHANGED})"
        " EXECUTE FUNCTION torture_update()",
    ),
}


def install(connection: Connection, engine_name: str) -> None:
    for statement in (*TABLES[engine_name], *TRIGGERS[engine_name]):
        connection.exec_driver_sql(statement)
