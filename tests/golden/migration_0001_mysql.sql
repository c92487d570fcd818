CREATE TABLE mayfly_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT mayfly_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

CREATE TABLE IF NOT EXISTS mayfly_alerts (
    fingerprint VARCHAR(64) NOT NULL, 
    kind VARCHAR(32) NOT NULL, 
    subject VARCHAR(190) NOT NULL, 
    detail MEDIUMTEXT, 
    first_at DATETIME(6) NOT NULL, 
    last_at DATETIME(6) NOT NULL, 
    told_at DATETIME(6), 
    recovered_at DATETIME(6), 
    times INTEGER NOT NULL DEFAULT 1, 
    told VARCHAR(10), 
    telling_until DATETIME(6), 
    PRIMARY KEY (fingerprint)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mayfly_attempts (
    id BIGINT NOT NULL AUTO_INCREMENT, 
    job_id BIGINT NOT NULL, 
    attempt INTEGER NOT NULL, 
    worker_id VARCHAR(64) NOT NULL, 
    outcome VARCHAR(16) NOT NULL, 
    error MEDIUMTEXT NOT NULL, 
    fingerprint VARCHAR(16) NOT NULL, 
    finished_at DATETIME(6) NOT NULL, 
    duration_ms BIGINT, 
    PRIMARY KEY (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX mayfly_attempts_age ON mayfly_attempts (outcome, finished_at);

CREATE INDEX mayfly_attempts_fingerprint ON mayfly_attempts (fingerprint, finished_at);

CREATE INDEX mayfly_attempts_job ON mayfly_attempts (job_id);

CREATE TABLE IF NOT EXISTS mayfly_audit (
    id BIGINT NOT NULL AUTO_INCREMENT, 
    done_at DATETIME(6) NOT NULL, 
    done_by VARCHAR(64) NOT NULL, 
    via VARCHAR(8) NOT NULL, 
    verb VARCHAR(32) NOT NULL, 
    subject MEDIUMTEXT NOT NULL, 
    jobs INTEGER, 
    reason MEDIUMTEXT, 
    PRIMARY KEY (id), 
    CONSTRAINT mayfly_audit_via CHECK (via IN ('terminal', 'http', 'page', 'python'))
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX mayfly_audit_age ON mayfly_audit (done_at);

CREATE TABLE IF NOT EXISTS mayfly_batches (
    batch_key VARCHAR(190) NOT NULL, 
    on_complete LONGTEXT, 
    created_at DATETIME(6) NOT NULL, 
    sealed_at DATETIME(6), 
    completed_at DATETIME(6), 
    abandoned_at DATETIME(6), 
    PRIMARY KEY (batch_key)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX mayfly_batches_age ON mayfly_batches (completed_at);

CREATE TABLE IF NOT EXISTS mayfly_chains (
    job_id BIGINT NOT NULL, 
    previous LONGTEXT, 
    rest LONGTEXT NOT NULL, 
    PRIMARY KEY (job_id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mayfly_counters (
    lane VARCHAR(64) NOT NULL, 
    type VARCHAR(64) NOT NULL, 
    outcome VARCHAR(16) NOT NULL, 
    jobs BIGINT NOT NULL, 
    durations LONGTEXT NOT NULL, 
    waits LONGTEXT NOT NULL, 
    PRIMARY KEY (lane, type, outcome)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mayfly_cycles (
    id BIGINT NOT NULL, 
    host VARCHAR(64) NOT NULL, 
    schema_version VARCHAR(4) NOT NULL DEFAULT '0001', 
    started_at DATETIME(6) NOT NULL, 
    finished_at DATETIME(6), 
    exit_code INTEGER, 
    pending INTEGER NOT NULL DEFAULT 0, 
    planned INTEGER NOT NULL DEFAULT 0, 
    spawned INTEGER NOT NULL DEFAULT 0, 
    successful INTEGER NOT NULL DEFAULT 0, 
    failed INTEGER NOT NULL DEFAULT 0, 
    timed_out INTEGER NOT NULL DEFAULT 0, 
    rescued INTEGER NOT NULL DEFAULT 0, 
    repeated INTEGER NOT NULL DEFAULT 0, 
    pruned INTEGER NOT NULL DEFAULT 0, 
    duration_ms BIGINT, 
    note MEDIUMTEXT, 
    forgotten_at DATETIME(6), 
    PRIMARY KEY (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX mayfly_cycles_age ON mayfly_cycles (started_at);

CREATE TABLE IF NOT EXISTS mayfly_history (
    span INTEGER NOT NULL, 
    begins BIGINT NOT NULL, 
    outcome VARCHAR(16) NOT NULL, 
    jobs BIGINT NOT NULL, 
    durations LONGTEXT NOT NULL, 
    waits LONGTEXT NOT NULL, 
    PRIMARY KEY (span, begins, outcome)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mayfly_hosts (
    host VARCHAR(64) NOT NULL, 
    exit_code INTEGER NOT NULL, 
    last_at DATETIME(6) NOT NULL, 
    cycles BIGINT NOT NULL DEFAULT 0, 
    spawned BIGINT NOT NULL DEFAULT 0, 
    successful BIGINT NOT NULL DEFAULT 0, 
    timed_out BIGINT NOT NULL DEFAULT 0, 
    rescued BIGINT NOT NULL DEFAULT 0, 
    repeated BIGINT NOT NULL DEFAULT 0, 
    pruned BIGINT NOT NULL DEFAULT 0, 
    duration_ms BIGINT NOT NULL DEFAULT 0, 
    PRIMARY KEY (host, exit_code)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mayfly_jobs (
    id BIGINT NOT NULL AUTO_INCREMENT, 
    lane VARCHAR(64) NOT NULL DEFAULT 'default', 
    type VARCHAR(64) NOT NULL, 
    payload LONGTEXT NOT NULL, 
    status VARCHAR(10) NOT NULL DEFAULT 'pending', 
    priority SMALLINT NOT NULL DEFAULT 1, 
    run_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)), 
    attempts INTEGER NOT NULL DEFAULT 0, 
    max_attempts INTEGER NOT NULL DEFAULT 5, 
    crashes INTEGER NOT NULL DEFAULT 0, 
    interruptions INTEGER NOT NULL DEFAULT 0, 
    releases INTEGER NOT NULL DEFAULT 0, 
    suspect SMALLINT NOT NULL DEFAULT 0, 
    claims INTEGER NOT NULL DEFAULT 0, 
    worker_id VARCHAR(64), 
    locked_at DATETIME(6), 
    lease_until DATETIME(6), 
    unique_key VARCHAR(190), 
    group_key VARCHAR(190), 
    checkpoint LONGTEXT, 
    progress LONGTEXT, 
    result LONGTEXT, 
    last_error MEDIUMTEXT, 
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)), 
    started_at DATETIME(6), 
    finished_at DATETIME(6), 
    duration_ms BIGINT, 
    expires_at DATETIME(6) CHECK (expires_at BETWEEN '0001-01-01 00:00:00' AND '9999-12-31 23:59:59.999999'), 
    waiting_for VARCHAR(190), 
    unknown_since DATETIME(6), 
    cancel_reason MEDIUMTEXT, 
    slices INTEGER NOT NULL DEFAULT 0, 
    stalled INTEGER NOT NULL DEFAULT 0, 
    unique_scope VARCHAR(8) NOT NULL DEFAULT 'live', 
    unique_until DATETIME(6) CHECK (unique_until BETWEEN '0001-01-01 00:00:00' AND '9999-12-31 23:59:59.999999'), 
    row_worker_id VARCHAR(64), 
    forgiven INTEGER NOT NULL DEFAULT 0, 
    trace_context VARCHAR(190), 
    parent_id BIGINT, 
    PRIMARY KEY (id), 
    CONSTRAINT mayfly_jobs_lane CHECK (lane <> ''), 
    CONSTRAINT mayfly_jobs_type CHECK (type <> ''), 
    CONSTRAINT mayfly_jobs_status CHECK (status IN ('pending', 'processing', 'done', 'dead', 'cancelled')), 
    CONSTRAINT mayfly_jobs_priority CHECK (priority IN (0, 1, 2)), 
    CONSTRAINT mayfly_jobs_attempts CHECK (attempts >= 0 AND max_attempts >= 1), 
    CONSTRAINT mayfly_jobs_payload CHECK (claims > 0 OR json_valid(payload) AND json_type(payload) = 'OBJECT'), 
    CONSTRAINT mayfly_jobs_run_at CHECK (run_at BETWEEN '0001-01-01 00:00:00' AND '9999-12-31 23:59:59.999999')
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX mayfly_jobs_claim ON mayfly_jobs (lane, status, priority, run_at, id);

CREATE INDEX mayfly_jobs_group ON mayfly_jobs (group_key, id);

CREATE INDEX mayfly_jobs_parent ON mayfly_jobs (parent_id, id);

ALTER TABLE mayfly_jobs ADD COLUMN live_key VARCHAR(190) GENERATED ALWAYS AS (CASE WHEN (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time') THEN unique_key END) STORED;

CREATE UNIQUE INDEX mayfly_jobs_unique ON mayfly_jobs (live_key);

CREATE TABLE IF NOT EXISTS mayfly_lanes (
    lane VARCHAR(64) NOT NULL, 
    passed_over INTEGER NOT NULL DEFAULT 0, 
    max_workers INTEGER, 
    set_at DATETIME(6), 
    set_by VARCHAR(64), 
    PRIMARY KEY (lane)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mayfly_limits (
    limit_key VARCHAR(190) NOT NULL, 
    span VARCHAR(16) NOT NULL, 
    most INTEGER NOT NULL, 
    used INTEGER NOT NULL DEFAULT 0, 
    opens_at DATETIME(6), 
    PRIMARY KEY (limit_key, span)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX mayfly_limits_age ON mayfly_limits (opens_at);

CREATE TABLE IF NOT EXISTS mayfly_locks (
    name VARCHAR(64) NOT NULL, 
    holder VARCHAR(64), 
    lease_until DATETIME(6), 
    number BIGINT NOT NULL DEFAULT 0, 
    PRIMARY KEY (name)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mayfly_logouts (
    session_id VARCHAR(64) NOT NULL, 
    ended_at DATETIME(6) NOT NULL, 
    PRIMARY KEY (session_id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mayfly_pauses (
    kind VARCHAR(8) NOT NULL, 
    name VARCHAR(64) NOT NULL, 
    paused_at DATETIME(6) NOT NULL, 
    paused_until DATETIME(6), 
    paused_by VARCHAR(64), 
    reason MEDIUMTEXT, 
    PRIMARY KEY (kind, name), 
    CONSTRAINT mayfly_pauses_kind CHECK (kind IN ('lane', 'type'))
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mayfly_requests (
    token_name VARCHAR(64) NOT NULL, 
    idempotency_key VARCHAR(190) NOT NULL, 
    body_hash VARCHAR(64) NOT NULL, 
    answer LONGTEXT, 
    created_at DATETIME(6) NOT NULL, 
    PRIMARY KEY (token_name, idempotency_key)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX mayfly_requests_age ON mayfly_requests (created_at);

CREATE TABLE IF NOT EXISTS mayfly_runners (
    worker_id VARCHAR(64) NOT NULL, 
    cycle_id BIGINT NOT NULL, 
    lane VARCHAR(64) NOT NULL, 
    earlier_lanes LONGTEXT, 
    host VARCHAR(64) NOT NULL, 
    machine VARCHAR(64) NOT NULL, 
    pid INTEGER NOT NULL, 
    pid_started BIGINT NOT NULL, 
    planned_at DATETIME(6) NOT NULL, 
    heartbeat_at DATETIME(6), 
    lease_until DATETIME(6) NOT NULL, 
    finished_at DATETIME(6), 
    ending VARCHAR(16), 
    exit_code INTEGER, 
    `signal` INTEGER, 
    jobs_done INTEGER NOT NULL DEFAULT 0, 
    jobs_failed INTEGER NOT NULL DEFAULT 0, 
    average_ms FLOAT, 
    peak_memory BIGINT, 
    cpu_ms BIGINT, 
    uptime_ms BIGINT, 
    running LONGTEXT, 
    launcher VARCHAR(64), 
    engine_step VARCHAR(8), 
    external_id VARCHAR(64), 
    start_by DATETIME(6), 
    stop_requested_at DATETIME(6), 
    log_file MEDIUMTEXT, 
    cause MEDIUMTEXT, 
    output MEDIUMTEXT, 
    PRIMARY KEY (worker_id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX mayfly_runners_live ON mayfly_runners (finished_at, lane);

CREATE TABLE IF NOT EXISTS mayfly_schedules (
    name VARCHAR(64) NOT NULL, 
    rule MEDIUMTEXT NOT NULL, 
    dealt_until DATETIME(6) NOT NULL, 
    last_due_at DATETIME(6), 
    paused_at DATETIME(6), 
    paused_until DATETIME(6), 
    paused_by VARCHAR(64), 
    pause_reason MEDIUMTEXT, 
    PRIMARY KEY (name)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mayfly_slots (
    limit_key VARCHAR(190) NOT NULL, 
    worker_id VARCHAR(64) NOT NULL, 
    held INTEGER NOT NULL, 
    lease_until DATETIME(6) NOT NULL, 
    PRIMARY KEY (limit_key, worker_id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mayfly_tokens (
    name VARCHAR(64) NOT NULL, 
    token_hash VARCHAR(64) NOT NULL, 
    scopes VARCHAR(190) NOT NULL, 
    created_at DATETIME(6) NOT NULL, 
    created_by VARCHAR(64) NOT NULL, 
    expires_at DATETIME(6), 
    revoked_at DATETIME(6), 
    last_used_at DATETIME(6), 
    PRIMARY KEY (name)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE UNIQUE INDEX mayfly_tokens_hash ON mayfly_tokens (token_hash);

CREATE TABLE IF NOT EXISTS mayfly_totals (
    cycle_id BIGINT NOT NULL, 
    lane VARCHAR(64) NOT NULL, 
    type VARCHAR(64) NOT NULL, 
    outcome VARCHAR(16) NOT NULL, 
    worker_id VARCHAR(64) NOT NULL, 
    jobs INTEGER NOT NULL, 
    durations LONGTEXT NOT NULL, 
    waits LONGTEXT NOT NULL, 
    PRIMARY KEY (cycle_id, lane, type, outcome, worker_id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX mayfly_totals_writer ON mayfly_totals (worker_id, cycle_id);

DELETE FROM mayfly_locks WHERE name = 'plan';

INSERT INTO mayfly_locks (name) VALUES ('plan');

DELETE FROM mayfly_locks WHERE name = 'counted';

INSERT INTO mayfly_locks (name) VALUES ('counted');

INSERT INTO mayfly_version (version_num) VALUES ('0001');

