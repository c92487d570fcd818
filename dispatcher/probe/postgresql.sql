-- What an idle cycle sends, compiled from the full path's statements. A test compares it with them;
-- UPDATE_GOLDEN=1 scripts/test tests/unit/dispatcher/test_derived.py writes it anew.

-- schema version
0002

-- clock
SELECT clock_timestamp() AS anon_1

-- version
SELECT version_num
FROM mayfly_version

-- lock
SELECT mayfly_locks.name, mayfly_locks.holder, mayfly_locks.lease_until, mayfly_locks.number
FROM mayfly_locks
WHERE mayfly_locks.name = 'plan'::VARCHAR

-- live runners
SELECT mayfly_runners.worker_id, mayfly_runners.cycle_id, mayfly_runners.lane, mayfly_runners.host, mayfly_runners.machine, mayfly_runners.pid, mayfly_runners.pid_started, mayfly_runners.planned_at, mayfly_runners.heartbeat_at, mayfly_runners.lease_until, mayfly_runners.finished_at, mayfly_runners.ending, mayfly_runners.exit_code, mayfly_runners.signal, mayfly_runners.jobs_done, mayfly_runners.jobs_failed, mayfly_runners.average_ms, mayfly_runners.peak_memory, mayfly_runners.cpu_ms
FROM mayfly_runners
WHERE mayfly_runners.finished_at IS NULL
 LIMIT 1::INTEGER

-- passed over
SELECT mayfly_lanes.lane, mayfly_lanes.passed_over
FROM mayfly_lanes

-- next lane
SELECT min(mayfly_jobs.lane) AS min_1
FROM mayfly_jobs
WHERE mayfly_jobs.lane > %(lane)s::VARCHAR

-- due
SELECT %(lane)s::VARCHAR AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'pending'::VARCHAR AND mayfly_jobs.priority = 0::SMALLINT AND mayfly_jobs.run_at <= %(now)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 1::INTEGER) AS due_0_0 UNION ALL SELECT %(lane)s::VARCHAR AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'pending'::VARCHAR AND mayfly_jobs.priority = 1::SMALLINT AND mayfly_jobs.run_at <= %(now)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 1::INTEGER) AS due_0_1 UNION ALL SELECT %(lane)s::VARCHAR AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'pending'::VARCHAR AND mayfly_jobs.priority = 2::SMALLINT AND mayfly_jobs.run_at <= %(now)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 1::INTEGER) AS due_0_2

-- processing
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.lane, mayfly_jobs.payload, mayfly_jobs.attempts, mayfly_jobs.max_attempts, mayfly_jobs.claims, mayfly_jobs.crashes, mayfly_jobs.interruptions, mayfly_jobs.suspect, mayfly_jobs.run_at, mayfly_jobs.worker_id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'processing'::VARCHAR
 LIMIT 1::INTEGER

-- prune lane keep_done_days 1
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'done'::VARCHAR AND mayfly_jobs.priority = 0::SMALLINT AND mayfly_jobs.run_at < %(before)s::TIMESTAMP WITH TIME ZONE AND mayfly_jobs.finished_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 500::INTEGER

-- prune lane keep_done_days 2
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'done'::VARCHAR AND mayfly_jobs.priority = 1::SMALLINT AND mayfly_jobs.run_at < %(before)s::TIMESTAMP WITH TIME ZONE AND mayfly_jobs.finished_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 500::INTEGER

-- prune lane keep_done_days 3
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'done'::VARCHAR AND mayfly_jobs.priority = 2::SMALLINT AND mayfly_jobs.run_at < %(before)s::TIMESTAMP WITH TIME ZONE AND mayfly_jobs.finished_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 500::INTEGER

-- prune lane keep_cancelled_days 1
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'cancelled'::VARCHAR AND mayfly_jobs.priority = 0::SMALLINT AND mayfly_jobs.run_at < %(before)s::TIMESTAMP WITH TIME ZONE AND mayfly_jobs.finished_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 500::INTEGER

-- prune lane keep_cancelled_days 2
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'cancelled'::VARCHAR AND mayfly_jobs.priority = 1::SMALLINT AND mayfly_jobs.run_at < %(before)s::TIMESTAMP WITH TIME ZONE AND mayfly_jobs.finished_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 500::INTEGER

-- prune lane keep_cancelled_days 3
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'cancelled'::VARCHAR AND mayfly_jobs.priority = 2::SMALLINT AND mayfly_jobs.run_at < %(before)s::TIMESTAMP WITH TIME ZONE AND mayfly_jobs.finished_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 500::INTEGER

-- prune lane keep_dead_days 1
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'dead'::VARCHAR AND mayfly_jobs.priority = 0::SMALLINT AND mayfly_jobs.run_at < %(before)s::TIMESTAMP WITH TIME ZONE AND mayfly_jobs.finished_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 500::INTEGER

-- prune lane keep_dead_days 2
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'dead'::VARCHAR AND mayfly_jobs.priority = 1::SMALLINT AND mayfly_jobs.run_at < %(before)s::TIMESTAMP WITH TIME ZONE AND mayfly_jobs.finished_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 500::INTEGER

-- prune lane keep_dead_days 3
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane)s::VARCHAR AND mayfly_jobs.status = 'dead'::VARCHAR AND mayfly_jobs.priority = 2::SMALLINT AND mayfly_jobs.run_at < %(before)s::TIMESTAMP WITH TIME ZONE AND mayfly_jobs.finished_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT 500::INTEGER

-- prune all keep_cycles_days 1
SELECT mayfly_attempts.id
FROM mayfly_attempts
WHERE mayfly_attempts.finished_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_attempts.finished_at
 LIMIT 500::INTEGER

-- prune all keep_cycles_days 2
SELECT mayfly_cycles.id
FROM mayfly_cycles
WHERE mayfly_cycles.started_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_cycles.started_at
 LIMIT 500::INTEGER

-- prune all keep_cycles_days 3
SELECT mayfly_totals.cycle_id
FROM mayfly_totals
WHERE mayfly_totals.cycle_id < %(before_ms)s::BIGINT ORDER BY mayfly_totals.cycle_id
 LIMIT 500::INTEGER

-- prune all keep_runners_days 1
SELECT mayfly_runners.worker_id
FROM mayfly_runners
WHERE mayfly_runners.finished_at < %(before)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_runners.finished_at
 LIMIT 500::INTEGER

-- take
UPDATE mayfly_locks SET holder=%(holder)s::VARCHAR, lease_until=%(lease_until)s::TIMESTAMP WITH TIME ZONE, number=%(number)s::BIGINT WHERE mayfly_locks.name = 'plan'::VARCHAR AND mayfly_locks.number = %(last_number)s::BIGINT

-- release
UPDATE mayfly_locks SET holder=NULL::VARCHAR, lease_until=NULL::TIMESTAMP WITH TIME ZONE WHERE mayfly_locks.name = 'plan'::VARCHAR AND mayfly_locks.number = %(number)s::BIGINT

-- open cycle
INSERT INTO mayfly_cycles (id, host, started_at) VALUES (%(number)s::BIGINT, %(host)s::VARCHAR, %(now)s::TIMESTAMP WITH TIME ZONE) ON CONFLICT (id) DO UPDATE SET host = excluded.host, started_at = excluded.started_at

-- close cycle
UPDATE mayfly_cycles SET finished_at=%(now)s::TIMESTAMP WITH TIME ZONE, exit_code=0::INTEGER, pending=0::INTEGER, planned=0::INTEGER, spawned=0::INTEGER, successful=0::INTEGER, failed=0::INTEGER, timed_out=0::INTEGER, rescued=0::INTEGER, repeated=0::INTEGER, pruned=0::INTEGER, duration_ms=%(duration_ms)s::BIGINT, note=NULL::VARCHAR WHERE mayfly_cycles.id = %(number)s::BIGINT
