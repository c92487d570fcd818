BEGIN;

CREATE TABLE mayfly_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT mayfly_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

CREATE TABLE IF NOT EXISTS mayfly_alerts (
    fingerprint VARCHAR(64) NOT NULL, 
    kind VARCHAR(32) NOT NULL, 
    subject VARCHAR(190) NOT NULL, 
    detail TEXT, 
    first_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    last_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    told_at TIMESTAMP WITH TIME ZONE, 
    recovered_at TIMESTAMP WITH TIME ZONE, 
    times INTEGER DEFAULT 1 NOT NULL, 
    told VARCHAR(10), 
    telling_until TIMESTAMP WITH TIME ZONE, 
    PRIMARY KEY (fingerprint)
);

CREATE TABLE IF NOT EXISTS mayfly_attempts (
    id BIGSERIAL NOT NULL, 
    job_id BIGINT NOT NULL, 
    attempt INTEGER NOT NULL, 
    worker_id VARCHAR(64) NOT NULL, 
    outcome VARCHAR(16) NOT NULL, 
    error TEXT NOT NULL, 
    fingerprint VARCHAR(16) NOT NULL, 
    finished_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    duration_ms BIGINT, 
    PRIMARY KEY (id)
);

CREATE INDEX mayfly_attempts_age ON mayfly_attempts (outcome, finished_at);

CREATE INDEX mayfly_attempts_fingerprint ON mayfly_attempts (fingerprint, finished_at);

CREATE INDEX mayfly_attempts_job ON mayfly_attempts (job_id);

CREATE TABLE IF NOT EXISTS mayfly_audit (
    id BIGSERIAL NOT NULL, 
    done_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    done_by VARCHAR(64) NOT NULL, 
    via VARCHAR(8) NOT NULL, 
    verb VARCHAR(32) NOT NULL, 
    subject TEXT NOT NULL, 
    jobs INTEGER, 
    reason TEXT, 
    PRIMARY KEY (id), 
    CONSTRAINT mayfly_audit_via CHECK (via IN ('terminal', 'http', 'page', 'python'))
);

CREATE INDEX mayfly_audit_age ON mayfly_audit (done_at);

CREATE TABLE IF NOT EXISTS mayfly_batches (
    batch_key VARCHAR(190) NOT NULL, 
    on_complete JSON, 
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    sealed_at TIMESTAMP WITH TIME ZONE, 
    completed_at TIMESTAMP WITH TIME ZONE, 
    abandoned_at TIMESTAMP WITH TIME ZONE, 
    PRIMARY KEY (batch_key)
);

CREATE INDEX mayfly_batches_age ON mayfly_batches (completed_at);

CREATE TABLE IF NOT EXISTS mayfly_chains (
    job_id BIGINT NOT NULL, 
    previous JSON, 
    rest JSON NOT NULL, 
    PRIMARY KEY (job_id)
);

CREATE TABLE IF NOT EXISTS mayfly_counters (
    lane VARCHAR(64) NOT NULL, 
    type VARCHAR(64) NOT NULL, 
    outcome VARCHAR(16) NOT NULL, 
    jobs BIGINT NOT NULL, 
    durations JSON NOT NULL, 
    waits JSON NOT NULL, 
    PRIMARY KEY (lane, type, outcome)
);

CREATE TABLE IF NOT EXISTS mayfly_cycles (
    id BIGINT NOT NULL, 
    host VARCHAR(64) NOT NULL, 
    schema_version VARCHAR(4) DEFAULT '0001' NOT NULL, 
    started_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    finished_at TIMESTAMP WITH TIME ZONE, 
    exit_code INTEGER, 
    pending INTEGER DEFAULT 0 NOT NULL, 
    planned INTEGER DEFAULT 0 NOT NULL, 
    spawned INTEGER DEFAULT 0 NOT NULL, 
    successful INTEGER DEFAULT 0 NOT NULL, 
    failed INTEGER DEFAULT 0 NOT NULL, 
    timed_out INTEGER DEFAULT 0 NOT NULL, 
    rescued INTEGER DEFAULT 0 NOT NULL, 
    repeated INTEGER DEFAULT 0 NOT NULL, 
    pruned INTEGER DEFAULT 0 NOT NULL, 
    duration_ms BIGINT, 
    note TEXT, 
    forgotten_at TIMESTAMP WITH TIME ZONE, 
    PRIMARY KEY (id)
);

CREATE INDEX mayfly_cycles_age ON mayfly_cycles (started_at);

CREATE TABLE IF NOT EXISTS mayfly_history (
    span INTEGER NOT NULL, 
    begins BIGINT NOT NULL, 
    outcome VARCHAR(16) NOT NULL, 
    jobs BIGINT NOT NULL, 
    durations JSON NOT NULL, 
    waits JSON NOT NULL, 
    PRIMARY KEY (span, begins, outcome)
);

CREATE TABLE IF NOT EXISTS mayfly_hosts (
    host VARCHAR(64) NOT NULL, 
    exit_code INTEGER NOT NULL, 
    last_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    cycles BIGINT DEFAULT 0 NOT NULL, 
    spawned BIGINT DEFAULT 0 NOT NULL, 
    successful BIGINT DEFAULT 0 NOT NULL, 
    timed_out BIGINT DEFAULT 0 NOT NULL, 
    rescued BIGINT DEFAULT 0 NOT NULL, 
    repeated BIGINT DEFAULT 0 NOT NULL, 
    pruned BIGINT DEFAULT 0 NOT NULL, 
    duration_ms BIGINT DEFAULT 0 NOT NULL, 
    PRIMARY KEY (host, exit_code)
);

CREATE TABLE IF NOT EXISTS mayfly_jobs (
    id BIGSERIAL NOT NULL, 
    lane VARCHAR(64) DEFAULT 'default' NOT NULL, 
    type VARCHAR(64) NOT NULL, 
    payload JSON NOT NULL, 
    status VARCHAR(10) DEFAULT 'pending' NOT NULL, 
    priority SMALLINT DEFAULT 1 NOT NULL, 
    run_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL, 
    attempts INTEGER DEFAULT 0 NOT NULL, 
    max_attempts INTEGER DEFAULT 5 NOT NULL, 
    crashes INTEGER DEFAULT 0 NOT NULL, 
    interruptions INTEGER DEFAULT 0 NOT NULL, 
    releases INTEGER DEFAULT 0 NOT NULL, 
    suspect SMALLINT DEFAULT 0 NOT NULL, 
    claims INTEGER DEFAULT 0 NOT NULL, 
    worker_id VARCHAR(64), 
    locked_at TIMESTAMP WITH TIME ZONE, 
    lease_until TIMESTAMP WITH TIME ZONE, 
    unique_key VARCHAR(190), 
    group_key VARCHAR(190), 
    checkpoint JSON, 
    progress JSON, 
    result JSON, 
    last_error TEXT, 
    created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL, 
    started_at TIMESTAMP WITH TIME ZONE, 
    finished_at TIMESTAMP WITH TIME ZONE, 
    duration_ms BIGINT, 
    expires_at TIMESTAMP WITH TIME ZONE CHECK (expires_at BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00'), 
    waiting_for VARCHAR(190), 
    unknown_since TIMESTAMP WITH TIME ZONE, 
    cancel_reason TEXT, 
    slices INTEGER DEFAULT 0 NOT NULL, 
    stalled INTEGER DEFAULT 0 NOT NULL, 
    unique_scope VARCHAR(8) DEFAULT 'live' NOT NULL, 
    unique_until TIMESTAMP WITH TIME ZONE CHECK (unique_until BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00'), 
    row_worker_id VARCHAR(64), 
    forgiven INTEGER DEFAULT 0 NOT NULL, 
    trace_context VARCHAR(190), 
    parent_id BIGINT, 
    PRIMARY KEY (id), 
    CONSTRAINT mayfly_jobs_lane CHECK (lane <> ''), 
    CONSTRAINT mayfly_jobs_type CHECK (type <> ''), 
    CONSTRAINT mayfly_jobs_status CHECK (status IN ('pending', 'processing', 'done', 'dead', 'cancelled')), 
    CONSTRAINT mayfly_jobs_priority CHECK (priority IN (0, 1, 2)), 
    CONSTRAINT mayfly_jobs_attempts CHECK (attempts >= 0 AND max_attempts >= 1), 
    CONSTRAINT mayfly_jobs_payload CHECK (claims > 0 OR json_typeof(payload) = 'object'), 
    CONSTRAINT mayfly_jobs_run_at CHECK (run_at BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00')
);

CREATE INDEX mayfly_jobs_claim ON mayfly_jobs (lane, status, priority, run_at, id);

CREATE INDEX mayfly_jobs_group ON mayfly_jobs (group_key, id) WHERE group_key IS NOT NULL;

CREATE INDEX mayfly_jobs_parent ON mayfly_jobs (parent_id, id) WHERE parent_id IS NOT NULL;

CREATE UNIQUE INDEX mayfly_jobs_unique ON mayfly_jobs (unique_key) WHERE unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time');

CREATE TABLE IF NOT EXISTS mayfly_lanes (
    lane VARCHAR(64) NOT NULL, 
    passed_over INTEGER DEFAULT 0 NOT NULL, 
    max_workers INTEGER, 
    set_at TIMESTAMP WITH TIME ZONE, 
    set_by VARCHAR(64), 
    PRIMARY KEY (lane)
);

CREATE TABLE IF NOT EXISTS mayfly_limits (
    limit_key VARCHAR(190) NOT NULL, 
    span VARCHAR(16) NOT NULL, 
    most INTEGER NOT NULL, 
    used INTEGER DEFAULT 0 NOT NULL, 
    opens_at TIMESTAMP WITH TIME ZONE, 
    PRIMARY KEY (limit_key, span)
);

CREATE INDEX mayfly_limits_age ON mayfly_limits (opens_at);

CREATE TABLE IF NOT EXISTS mayfly_locks (
    name VARCHAR(64) NOT NULL, 
    holder VARCHAR(64), 
    lease_until TIMESTAMP WITH TIME ZONE, 
    number BIGINT DEFAULT 0 NOT NULL, 
    PRIMARY KEY (name)
);

CREATE TABLE IF NOT EXISTS mayfly_logouts (
    session_id VARCHAR(64) NOT NULL, 
    ended_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    PRIMARY KEY (session_id)
);

CREATE TABLE IF NOT EXISTS mayfly_pauses (
    kind VARCHAR(8) NOT NULL, 
    name VARCHAR(64) NOT NULL, 
    paused_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    paused_until TIMESTAMP WITH TIME ZONE, 
    paused_by VARCHAR(64), 
    reason TEXT, 
    PRIMARY KEY (kind, name), 
    CONSTRAINT mayfly_pauses_kind CHECK (kind IN ('lane', 'type'))
);

CREATE TABLE IF NOT EXISTS mayfly_requests (
    token_name VARCHAR(64) NOT NULL, 
    idempotency_key VARCHAR(190) NOT NULL, 
    body_hash VARCHAR(64) NOT NULL, 
    answer JSON, 
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    PRIMARY KEY (token_name, idempotency_key)
);

CREATE INDEX mayfly_requests_age ON mayfly_requests (created_at);

CREATE TABLE IF NOT EXISTS mayfly_runners (
    worker_id VARCHAR(64) NOT NULL, 
    cycle_id BIGINT NOT NULL, 
    lane VARCHAR(64) NOT NULL, 
    earlier_lanes JSON, 
    host VARCHAR(64) NOT NULL, 
    machine VARCHAR(64) NOT NULL, 
    pid INTEGER NOT NULL, 
    pid_started BIGINT NOT NULL, 
    planned_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    heartbeat_at TIMESTAMP WITH TIME ZONE, 
    lease_until TIMESTAMP WITH TIME ZONE NOT NULL, 
    finished_at TIMESTAMP WITH TIME ZONE, 
    ending VARCHAR(16), 
    exit_code INTEGER, 
    signal INTEGER, 
    jobs_done INTEGER DEFAULT 0 NOT NULL, 
    jobs_failed INTEGER DEFAULT 0 NOT NULL, 
    average_ms FLOAT, 
    peak_memory BIGINT, 
    cpu_ms BIGINT, 
    uptime_ms BIGINT, 
    running JSON, 
    launcher VARCHAR(64), 
    engine_step VARCHAR(8), 
    external_id VARCHAR(64), 
    start_by TIMESTAMP WITH TIME ZONE, 
    stop_requested_at TIMESTAMP WITH TIME ZONE, 
    log_file TEXT, 
    cause TEXT, 
    output TEXT, 
    PRIMARY KEY (worker_id)
);

CREATE INDEX mayfly_runners_live ON mayfly_runners (finished_at, lane);

CREATE TABLE IF NOT EXISTS mayfly_schedules (
    name VARCHAR(64) NOT NULL, 
    rule TEXT NOT NULL, 
    dealt_until TIMESTAMP WITH TIME ZONE NOT NULL, 
    last_due_at TIMESTAMP WITH TIME ZONE, 
    paused_at TIMESTAMP WITH TIME ZONE, 
    paused_until TIMESTAMP WITH TIME ZONE, 
    paused_by VARCHAR(64), 
    pause_reason TEXT, 
    PRIMARY KEY (name)
);

CREATE TABLE IF NOT EXISTS mayfly_slots (
    limit_key VARCHAR(190) NOT NULL, 
    worker_id VARCHAR(64) NOT NULL, 
    held INTEGER NOT NULL, 
    lease_until TIMESTAMP WITH TIME ZONE NOT NULL, 
    PRIMARY KEY (limit_key, worker_id)
);

CREATE TABLE IF NOT EXISTS mayfly_tokens (
    name VARCHAR(64) NOT NULL, 
    token_hash VARCHAR(64) NOT NULL, 
    scopes VARCHAR(190) NOT NULL, 
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    created_by VARCHAR(64) NOT NULL, 
    expires_at TIMESTAMP WITH TIME ZONE, 
    revoked_at TIMESTAMP WITH TIME ZONE, 
    last_used_at TIMESTAMP WITH TIME ZONE, 
    PRIMARY KEY (name)
);

CREATE UNIQUE INDEX mayfly_tokens_hash ON mayfly_tokens (token_hash);

CREATE TABLE IF NOT EXISTS mayfly_totals (
    cycle_id BIGINT NOT NULL, 
    lane VARCHAR(64) NOT NULL, 
    type VARCHAR(64) NOT NULL, 
    outcome VARCHAR(16) NOT NULL, 
    worker_id VARCHAR(64) NOT NULL, 
    jobs INTEGER NOT NULL, 
    durations JSON NOT NULL, 
    waits JSON NOT NULL, 
    PRIMARY KEY (cycle_id, lane, type, outcome, worker_id)
);

CREATE INDEX mayfly_totals_writer ON mayfly_totals (worker_id, cycle_id);

DELETE FROM mayfly_locks WHERE name = 'plan';

INSERT INTO mayfly_locks (name) VALUES ('plan');

DELETE FROM mayfly_locks WHERE name = 'counted';

INSERT INTO mayfly_locks (name) VALUES ('counted');

INSERT INTO mayfly_version (version_num) VALUES ('0001') RETURNING mayfly_version.version_num;

COMMIT;

