-- version
SELECT version_num
FROM mayfly_version;

-- enqueue
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts) VALUES (?, ?, ?, ?, ?) RETURNING id;

-- enqueue with a key
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts, unique_key) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND status IN ('pending', 'processing') DO NOTHING RETURNING id;

-- enqueue with a key that is held
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts, unique_key) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND status IN ('pending', 'processing') DO NOTHING RETURNING id;
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.unique_key = ? AND unique_key IS NOT NULL AND status IN ('pending', 'processing');

-- enqueue two
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts) VALUES (?, ?, ?, ?, ?), (?, ?, ?, ?, ?) RETURNING id;

-- enqueue two with keys
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts, unique_key) VALUES (?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND status IN ('pending', 'processing') DO NOTHING RETURNING id;

-- count two lanes
-- 3 times:
SELECT min(mayfly_jobs.lane) AS min_1
FROM mayfly_jobs
WHERE mayfly_jobs.lane > ?;
SELECT ? AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at <= ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?) AS due_0_0 UNION ALL SELECT ? AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at <= ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?) AS due_0_1 UNION ALL SELECT ? AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at <= ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?) AS due_0_2 UNION ALL SELECT ? AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at <= ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?) AS due_1_0 UNION ALL SELECT ? AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at <= ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?) AS due_1_1 UNION ALL SELECT ? AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at <= ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?) AS due_1_2;

-- claim
BEGIN IMMEDIATE;
-- 2 times:
SELECT mayfly_jobs.id, mayfly_jobs.suspect, mayfly_jobs.payload, mayfly_jobs.group_key, mayfly_jobs.attempts, mayfly_jobs.max_attempts, mayfly_jobs.claims, mayfly_jobs.crashes, mayfly_jobs.interruptions, mayfly_jobs.run_at AS run_at, mayfly_jobs.type
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at <= ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?;
UPDATE mayfly_jobs SET status=?, attempts=(mayfly_jobs.attempts + ?), claims=(mayfly_jobs.claims + ?), worker_id=?, locked_at=?, lease_until=?, started_at=? WHERE mayfly_jobs.id IN (…);

-- look for more
SELECT anon_1.id
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at <= ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?) AS anon_1 UNION ALL SELECT anon_2.id
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at <= ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?) AS anon_2 UNION ALL SELECT anon_3.id
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at <= ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?) AS anon_3
 LIMIT ? OFFSET ?;

-- jobs of a runner
BEGIN IMMEDIATE;
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.lane, mayfly_jobs.payload, mayfly_jobs.attempts, mayfly_jobs.max_attempts, mayfly_jobs.claims, mayfly_jobs.crashes, mayfly_jobs.interruptions, mayfly_jobs.suspect, mayfly_jobs.run_at, mayfly_jobs.worker_id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.worker_id = ?;

-- expired jobs
BEGIN IMMEDIATE;
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.lane, mayfly_jobs.payload, mayfly_jobs.attempts, mayfly_jobs.max_attempts, mayfly_jobs.claims, mayfly_jobs.crashes, mayfly_jobs.interruptions, mayfly_jobs.suspect, mayfly_jobs.run_at, mayfly_jobs.worker_id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.lease_until <= ?;

-- settle
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET status=?, lease_until=?, started_at=?, finished_at=?, duration_ms=? WHERE mayfly_jobs.id IN (…) AND mayfly_jobs.worker_id = ? AND mayfly_jobs.claims = ? AND mayfly_jobs.status = ?;
UPDATE mayfly_jobs SET status=?, worker_id=?, locked_at=?, lease_until=?, last_error=?, started_at=?, duration_ms=? WHERE mayfly_jobs.id IN (…) AND mayfly_jobs.worker_id = ? AND mayfly_jobs.claims = ? AND mayfly_jobs.status = ?;
UPDATE mayfly_jobs SET status=?, attempts=(mayfly_jobs.attempts - ?), worker_id=?, locked_at=?, lease_until=?, started_at=?, duration_ms=? WHERE mayfly_jobs.id IN (…) AND mayfly_jobs.worker_id = ? AND mayfly_jobs.claims = ? AND mayfly_jobs.status = ?;
INSERT INTO mayfly_attempts (job_id, attempt, worker_id, outcome, error, fingerprint, finished_at, duration_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;

-- plan
BEGIN IMMEDIATE;
SELECT mayfly_locks.name, mayfly_locks.holder, mayfly_locks.lease_until, mayfly_locks.number
FROM mayfly_locks
WHERE mayfly_locks.name = ?;
UPDATE mayfly_locks SET holder=?, lease_until=?, number=? WHERE mayfly_locks.name = ? AND mayfly_locks.number = ?;
BEGIN IMMEDIATE;
UPDATE mayfly_locks SET holder=?, lease_until=? WHERE mayfly_locks.name = ? AND mayfly_locks.number = ?;

-- open a cycle
BEGIN IMMEDIATE;
INSERT INTO mayfly_cycles (id, host, started_at) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET host = excluded.host, started_at = excluded.started_at;

-- plan a runner
BEGIN IMMEDIATE;
INSERT INTO mayfly_runners (worker_id, cycle_id, lane, host, machine, pid, pid_started, planned_at, lease_until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (worker_id) DO UPDATE SET cycle_id = excluded.cycle_id, lane = excluded.lane, host = excluded.host, machine = excluded.machine, pid = excluded.pid, pid_started = excluded.pid_started, planned_at = excluded.planned_at, lease_until = excluded.lease_until;

-- note lanes
BEGIN IMMEDIATE;
INSERT INTO mayfly_lanes (lane, passed_over) VALUES (?, ?) ON CONFLICT (lane) DO UPDATE SET passed_over = excluded.passed_over;

-- lanes passed over
SELECT mayfly_lanes.lane, mayfly_lanes.passed_over
FROM mayfly_lanes;

-- live runners
SELECT mayfly_runners.worker_id, mayfly_runners.cycle_id, mayfly_runners.lane, mayfly_runners.host, mayfly_runners.machine, mayfly_runners.pid, mayfly_runners.pid_started, mayfly_runners.planned_at, mayfly_runners.heartbeat_at, mayfly_runners.lease_until, mayfly_runners.finished_at, mayfly_runners.ending, mayfly_runners.exit_code, mayfly_runners.signal, mayfly_runners.jobs_done, mayfly_runners.jobs_failed, mayfly_runners.average_ms, mayfly_runners.peak_memory, mayfly_runners.cpu_ms
FROM mayfly_runners
WHERE mayfly_runners.finished_at IS NULL;

-- live by lane
SELECT mayfly_runners.lane, count(*) AS number
FROM mayfly_runners
WHERE mayfly_runners.finished_at IS NULL GROUP BY mayfly_runners.lane;

-- live on host
SELECT count(*) AS count_1
FROM mayfly_runners
WHERE mayfly_runners.finished_at IS NULL AND mayfly_runners.host = ?;

-- beat
BEGIN IMMEDIATE;
UPDATE mayfly_runners SET heartbeat_at=? WHERE mayfly_runners.worker_id = ?;

-- end of a runner
BEGIN IMMEDIATE;
UPDATE mayfly_runners SET finished_at=?, ending=?, exit_code=?, signal=?, jobs_done=?, jobs_failed=?, average_ms=?, peak_memory=?, cpu_ms=? WHERE mayfly_runners.worker_id = ? AND mayfly_runners.finished_at IS NULL;

-- add up
BEGIN IMMEDIATE;
SELECT mayfly_totals.cycle_id, mayfly_totals.lane, mayfly_totals.type, mayfly_totals.outcome, mayfly_totals.worker_id, mayfly_totals.jobs, mayfly_totals.durations, mayfly_totals.waits
FROM mayfly_totals
WHERE mayfly_totals.cycle_id = ?;
DELETE FROM mayfly_totals WHERE mayfly_totals.cycle_id = ?;
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;

-- close a cycle
BEGIN IMMEDIATE;
UPDATE mayfly_cycles SET finished_at=?, exit_code=? WHERE mayfly_cycles.id = ?;

-- see schedules
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;
BEGIN IMMEDIATE;
INSERT INTO mayfly_schedules (name, rule, dealt_until) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING;
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;

-- fire schedules
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;
BEGIN IMMEDIATE;
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules
WHERE mayfly_schedules.name IN (?, ?, ?) ORDER BY mayfly_schedules.name;
INSERT INTO mayfly_jobs (lane, type, payload, priority, run_at, max_attempts, unique_key, group_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND status IN ('pending', 'processing') DO NOTHING RETURNING id;
INSERT INTO mayfly_jobs (lane, type, payload, priority, run_at, max_attempts, unique_key, group_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND status IN ('pending', 'processing') DO NOTHING RETURNING id;
INSERT INTO mayfly_schedules (name, rule, dealt_until, last_due_at) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET rule = excluded.rule, dealt_until = excluded.dealt_until, last_due_at = excluded.last_due_at;

-- no schedule due
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;

-- pause
BEGIN IMMEDIATE;
INSERT INTO mayfly_schedules (name, rule, dealt_until) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING;
UPDATE mayfly_schedules SET paused_at=?, paused_until=?, paused_by=?, pause_reason=? WHERE mayfly_schedules.name = ?;

-- resume
BEGIN IMMEDIATE;
UPDATE mayfly_schedules SET dealt_until=?, paused_at=?, paused_until=?, paused_by=?, pause_reason=? WHERE mayfly_schedules.name = ? AND mayfly_schedules.paused_at IS NOT NULL;

-- prune
-- 4 times:
SELECT min(mayfly_jobs.lane) AS min_1
FROM mayfly_jobs
WHERE mayfly_jobs.lane > ?;
-- 2 times:
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at < ? AND mayfly_jobs.finished_at < ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?;
BEGIN IMMEDIATE;
DELETE FROM mayfly_jobs WHERE mayfly_jobs.id IN (?, ?) AND mayfly_jobs.status = ?;
-- 25 times:
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = ? AND mayfly_jobs.status = ? AND mayfly_jobs.priority = ? AND mayfly_jobs.run_at < ? AND mayfly_jobs.finished_at < ? ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT ? OFFSET ?;
SELECT mayfly_runners.worker_id
FROM mayfly_runners
WHERE mayfly_runners.finished_at < ? ORDER BY mayfly_runners.finished_at
 LIMIT ? OFFSET ?;
SELECT mayfly_attempts.id
FROM mayfly_attempts
WHERE mayfly_attempts.finished_at < ? ORDER BY mayfly_attempts.finished_at
 LIMIT ? OFFSET ?;
SELECT mayfly_cycles.id
FROM mayfly_cycles
WHERE mayfly_cycles.started_at < ? ORDER BY mayfly_cycles.started_at
 LIMIT ? OFFSET ?;
SELECT mayfly_totals.cycle_id
FROM mayfly_totals
WHERE mayfly_totals.cycle_id < ? ORDER BY mayfly_totals.cycle_id
 LIMIT ? OFFSET ?;
