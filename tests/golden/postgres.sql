-- version
SELECT version_num
FROM mayfly_version;

-- enqueue
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts) VALUES (%(lane)s::VARCHAR, %(type)s::VARCHAR, %(payload)s::JSON, %(priority)s::SMALLINT, %(max_attempts)s::INTEGER) RETURNING mayfly_jobs.id;

-- enqueue with a key
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts, unique_key) VALUES (%(lane)s::VARCHAR, %(type)s::VARCHAR, %(payload)s::JSON, %(priority)s::SMALLINT, %(max_attempts)s::INTEGER, %(unique_key)s::VARCHAR) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND status IN ('pending', 'processing') DO NOTHING RETURNING mayfly_jobs.id;

-- enqueue with a key that is held
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts, unique_key) VALUES (%(lane)s::VARCHAR, %(type)s::VARCHAR, %(payload)s::JSON, %(priority)s::SMALLINT, %(max_attempts)s::INTEGER, %(unique_key)s::VARCHAR) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND status IN ('pending', 'processing') DO NOTHING RETURNING mayfly_jobs.id;
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.unique_key = %(unique_key_1)s::VARCHAR AND unique_key IS NOT NULL AND status IN ('pending', 'processing');

-- enqueue two
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts) VALUES (%(lane__0)s::VARCHAR, %(type__0)s::VARCHAR, %(payload__0)s::JSON, %(priority__0)s::SMALLINT, %(max_attempts__0)s::INTEGER), (%(lane__1)s::VARCHAR, %(type__1)s::VARCHAR, %(payload__1)s::JSON, %(priority__1)s::SMALLINT, %(max_attempts__1)s::INTEGER) RETURNING mayfly_jobs.id;

-- enqueue two with keys
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts, unique_key) VALUES (%(lane__0)s::VARCHAR, %(type__0)s::VARCHAR, %(payload__0)s::JSON, %(priority__0)s::SMALLINT, %(max_attempts__0)s::INTEGER, %(unique_key__0)s::VARCHAR), (%(lane__1)s::VARCHAR, %(type__1)s::VARCHAR, %(payload__1)s::JSON, %(priority__1)s::SMALLINT, %(max_attempts__1)s::INTEGER, %(unique_key__1)s::VARCHAR) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND status IN ('pending', 'processing') DO NOTHING RETURNING mayfly_jobs.id;

-- count two lanes
-- 3 times:
SELECT min(mayfly_jobs.lane) AS min_1
FROM mayfly_jobs
WHERE mayfly_jobs.lane > %(lane_1)s::VARCHAR;
SELECT %(param_1)s::VARCHAR AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s::VARCHAR AND mayfly_jobs.status = %(status_1)s::VARCHAR AND mayfly_jobs.priority = %(priority_1)s::SMALLINT AND mayfly_jobs.run_at <= %(run_at_1)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_2)s::INTEGER) AS due_0_0 UNION ALL SELECT %(param_3)s::VARCHAR AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_2)s::VARCHAR AND mayfly_jobs.status = %(status_2)s::VARCHAR AND mayfly_jobs.priority = %(priority_2)s::SMALLINT AND mayfly_jobs.run_at <= %(run_at_2)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_4)s::INTEGER) AS due_0_1 UNION ALL SELECT %(param_5)s::VARCHAR AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_3)s::VARCHAR AND mayfly_jobs.status = %(status_3)s::VARCHAR AND mayfly_jobs.priority = %(priority_3)s::SMALLINT AND mayfly_jobs.run_at <= %(run_at_3)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_6)s::INTEGER) AS due_0_2 UNION ALL SELECT %(param_7)s::VARCHAR AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_4)s::VARCHAR AND mayfly_jobs.status = %(status_4)s::VARCHAR AND mayfly_jobs.priority = %(priority_4)s::SMALLINT AND mayfly_jobs.run_at <= %(run_at_4)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_8)s::INTEGER) AS due_1_0 UNION ALL SELECT %(param_9)s::VARCHAR AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_5)s::VARCHAR AND mayfly_jobs.status = %(status_5)s::VARCHAR AND mayfly_jobs.priority = %(priority_5)s::SMALLINT AND mayfly_jobs.run_at <= %(run_at_5)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_10)s::INTEGER) AS due_1_1 UNION ALL SELECT %(param_11)s::VARCHAR AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_6)s::VARCHAR AND mayfly_jobs.status = %(status_6)s::VARCHAR AND mayfly_jobs.priority = %(priority_6)s::SMALLINT AND mayfly_jobs.run_at <= %(run_at_6)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_12)s::INTEGER) AS due_1_2;

-- claim
-- 2 times:
SELECT mayfly_jobs.id, mayfly_jobs.suspect, mayfly_jobs.payload, mayfly_jobs.group_key, mayfly_jobs.attempts, mayfly_jobs.max_attempts, mayfly_jobs.claims, mayfly_jobs.crashes, mayfly_jobs.interruptions, mayfly_jobs.run_at AS run_at, mayfly_jobs.type
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(in_lane)s::VARCHAR AND mayfly_jobs.status = %(status_1)s::VARCHAR AND mayfly_jobs.priority = %(of_priority)s::SMALLINT AND mayfly_jobs.run_at <= %(now)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(size)s::INTEGER FOR UPDATE SKIP LOCKED;
UPDATE mayfly_jobs SET status=%(status)s::VARCHAR, attempts=(mayfly_jobs.attempts + %(attempts_1)s::INTEGER), claims=(mayfly_jobs.claims + %(claims_1)s::INTEGER), worker_id=%(owner)s::VARCHAR, locked_at=%(taken_at)s::TIMESTAMP WITH TIME ZONE, lease_until=%(until)s::TIMESTAMP WITH TIME ZONE, started_at=%(started_at)s::TIMESTAMP WITH TIME ZONE WHERE mayfly_jobs.id IN (…);

-- look for more
SELECT anon_1.id
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s::VARCHAR AND mayfly_jobs.status = %(status_1)s::VARCHAR AND mayfly_jobs.priority = %(priority_1)s::SMALLINT AND mayfly_jobs.run_at <= %(run_at_1)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_1)s::INTEGER) AS anon_1 UNION ALL SELECT anon_2.id
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_2)s::VARCHAR AND mayfly_jobs.status = %(status_2)s::VARCHAR AND mayfly_jobs.priority = %(priority_2)s::SMALLINT AND mayfly_jobs.run_at <= %(run_at_2)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_2)s::INTEGER) AS anon_2 UNION ALL SELECT anon_3.id
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_3)s::VARCHAR AND mayfly_jobs.status = %(status_3)s::VARCHAR AND mayfly_jobs.priority = %(priority_3)s::SMALLINT AND mayfly_jobs.run_at <= %(run_at_3)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_3)s::INTEGER) AS anon_3
 LIMIT %(param_4)s::INTEGER;

-- jobs of a runner
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.lane, mayfly_jobs.payload, mayfly_jobs.attempts, mayfly_jobs.max_attempts, mayfly_jobs.claims, mayfly_jobs.crashes, mayfly_jobs.interruptions, mayfly_jobs.suspect, mayfly_jobs.run_at, mayfly_jobs.worker_id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s::VARCHAR AND mayfly_jobs.status = %(status_1)s::VARCHAR AND mayfly_jobs.worker_id = %(worker_id_1)s::VARCHAR;

-- expired jobs
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.lane, mayfly_jobs.payload, mayfly_jobs.attempts, mayfly_jobs.max_attempts, mayfly_jobs.claims, mayfly_jobs.crashes, mayfly_jobs.interruptions, mayfly_jobs.suspect, mayfly_jobs.run_at, mayfly_jobs.worker_id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s::VARCHAR AND mayfly_jobs.status = %(status_1)s::VARCHAR AND mayfly_jobs.lease_until <= %(lease_until_1)s::TIMESTAMP WITH TIME ZONE;

-- settle
UPDATE mayfly_jobs SET status=%(status)s::VARCHAR, lease_until=%(lease_until)s::TIMESTAMP WITH TIME ZONE, started_at=%(started_at)s::TIMESTAMP WITH TIME ZONE, finished_at=%(finished_at)s::TIMESTAMP WITH TIME ZONE, duration_ms=%(duration_ms)s::BIGINT WHERE mayfly_jobs.id IN (…) AND mayfly_jobs.worker_id = %(worker_id_1)s::VARCHAR AND mayfly_jobs.claims = %(claims_1)s::INTEGER AND mayfly_jobs.status = %(status_1)s::VARCHAR;
UPDATE mayfly_jobs SET status=%(status)s::VARCHAR, worker_id=%(worker_id)s::VARCHAR, locked_at=%(locked_at)s::TIMESTAMP WITH TIME ZONE, lease_until=%(lease_until)s::TIMESTAMP WITH TIME ZONE, last_error=%(last_error)s::VARCHAR, started_at=%(started_at)s::TIMESTAMP WITH TIME ZONE, duration_ms=%(duration_ms)s::BIGINT WHERE mayfly_jobs.id IN (…) AND mayfly_jobs.worker_id = %(worker_id_1)s::VARCHAR AND mayfly_jobs.claims = %(claims_1)s::INTEGER AND mayfly_jobs.status = %(status_1)s::VARCHAR;
UPDATE mayfly_jobs SET status=%(status)s::VARCHAR, attempts=(mayfly_jobs.attempts - %(attempts_1)s::INTEGER), worker_id=%(worker_id)s::VARCHAR, locked_at=%(locked_at)s::TIMESTAMP WITH TIME ZONE, lease_until=%(lease_until)s::TIMESTAMP WITH TIME ZONE, started_at=%(started_at)s::TIMESTAMP WITH TIME ZONE, duration_ms=%(duration_ms)s::BIGINT WHERE mayfly_jobs.id IN (…) AND mayfly_jobs.worker_id = %(worker_id_1)s::VARCHAR AND mayfly_jobs.claims = %(claims_1)s::INTEGER AND mayfly_jobs.status = %(status_1)s::VARCHAR;
INSERT INTO mayfly_attempts (job_id, attempt, worker_id, outcome, error, fingerprint, finished_at, duration_ms) VALUES (%(job_id)s::BIGINT, %(attempt)s::INTEGER, %(worker_id)s::VARCHAR, %(outcome)s::VARCHAR, %(error)s::VARCHAR, %(fingerprint)s::VARCHAR, %(finished_at)s::TIMESTAMP WITH TIME ZONE, %(duration_ms)s::BIGINT) RETURNING mayfly_attempts.id;
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s::BIGINT, %(lane)s::VARCHAR, %(type)s::VARCHAR, %(outcome)s::VARCHAR, %(worker_id)s::VARCHAR, %(jobs)s::INTEGER, %(durations)s::JSON, %(waits)s::JSON) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;

-- plan
SELECT mayfly_locks.name, mayfly_locks.holder, mayfly_locks.lease_until, mayfly_locks.number
FROM mayfly_locks
WHERE mayfly_locks.name = %(name_1)s::VARCHAR;
UPDATE mayfly_locks SET holder=%(holder)s::VARCHAR, lease_until=%(lease_until)s::TIMESTAMP WITH TIME ZONE, number=%(number)s::BIGINT WHERE mayfly_locks.name = %(name_1)s::VARCHAR AND mayfly_locks.number = %(number_1)s::BIGINT;
UPDATE mayfly_locks SET holder=%(holder)s::VARCHAR, lease_until=%(lease_until)s::TIMESTAMP WITH TIME ZONE WHERE mayfly_locks.name = %(name_1)s::VARCHAR AND mayfly_locks.number = %(number_1)s::BIGINT;

-- open a cycle
INSERT INTO mayfly_cycles (id, host, started_at) VALUES (%(id)s::BIGINT, %(host)s::VARCHAR, %(started_at)s::TIMESTAMP WITH TIME ZONE) ON CONFLICT (id) DO UPDATE SET host = excluded.host, started_at = excluded.started_at;

-- plan a runner
INSERT INTO mayfly_runners (worker_id, cycle_id, lane, host, machine, pid, pid_started, planned_at, lease_until) VALUES (%(worker_id)s::VARCHAR, %(cycle_id)s::BIGINT, %(lane)s::VARCHAR, %(host)s::VARCHAR, %(machine)s::VARCHAR, %(pid)s::INTEGER, %(pid_started)s::BIGINT, %(planned_at)s::TIMESTAMP WITH TIME ZONE, %(lease_until)s::TIMESTAMP WITH TIME ZONE) ON CONFLICT (worker_id) DO UPDATE SET cycle_id = excluded.cycle_id, lane = excluded.lane, host = excluded.host, machine = excluded.machine, pid = excluded.pid, pid_started = excluded.pid_started, planned_at = excluded.planned_at, lease_until = excluded.lease_until;

-- note lanes
INSERT INTO mayfly_lanes (lane, passed_over) VALUES (%(lane)s::VARCHAR, %(passed_over)s::INTEGER) ON CONFLICT (lane) DO UPDATE SET passed_over = excluded.passed_over;

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
WHERE mayfly_runners.finished_at IS NULL AND mayfly_runners.host = %(host_1)s::VARCHAR;

-- beat
UPDATE mayfly_runners SET heartbeat_at=%(heartbeat_at)s::TIMESTAMP WITH TIME ZONE WHERE mayfly_runners.worker_id = %(worker_id_1)s::VARCHAR;

-- end of a runner
UPDATE mayfly_runners SET finished_at=%(finished_at)s::TIMESTAMP WITH TIME ZONE, ending=%(ending)s::VARCHAR, exit_code=%(exit_code)s::INTEGER, signal=%(signal)s::INTEGER, jobs_done=%(jobs_done)s::INTEGER, jobs_failed=%(jobs_failed)s::INTEGER, average_ms=%(average_ms)s, peak_memory=%(peak_memory)s::BIGINT, cpu_ms=%(cpu_ms)s::BIGINT WHERE mayfly_runners.worker_id = %(worker_id_1)s::VARCHAR AND mayfly_runners.finished_at IS NULL;

-- add up
SELECT mayfly_totals.cycle_id, mayfly_totals.lane, mayfly_totals.type, mayfly_totals.outcome, mayfly_totals.worker_id, mayfly_totals.jobs, mayfly_totals.durations, mayfly_totals.waits
FROM mayfly_totals
WHERE mayfly_totals.cycle_id = %(cycle_id_1)s::BIGINT;
DELETE FROM mayfly_totals WHERE mayfly_totals.cycle_id = %(cycle_id_1)s::BIGINT;
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s::BIGINT, %(lane)s::VARCHAR, %(type)s::VARCHAR, %(outcome)s::VARCHAR, %(worker_id)s::VARCHAR, %(jobs)s::INTEGER, %(durations)s::JSON, %(waits)s::JSON) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;

-- close a cycle
UPDATE mayfly_cycles SET finished_at=%(finished_at)s::TIMESTAMP WITH TIME ZONE, exit_code=%(exit_code)s::INTEGER WHERE mayfly_cycles.id = %(id_1)s::BIGINT;

-- see schedules
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;
INSERT INTO mayfly_schedules (name, rule, dealt_until) VALUES (%(name)s::VARCHAR, %(rule)s::VARCHAR, %(dealt_until)s::TIMESTAMP WITH TIME ZONE) ON CONFLICT (name) DO NOTHING;
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;

-- fire schedules
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules
WHERE mayfly_schedules.name IN (%(name_1_1)s::VARCHAR, %(name_1_2)s::VARCHAR, %(name_1_3)s::VARCHAR) ORDER BY mayfly_schedules.name FOR UPDATE;
INSERT INTO mayfly_jobs (lane, type, payload, priority, run_at, max_attempts, unique_key, group_key) VALUES (%(lane)s::VARCHAR, %(type)s::VARCHAR, %(payload)s::JSON, %(priority)s::SMALLINT, %(run_at)s::TIMESTAMP WITH TIME ZONE, %(max_attempts)s::INTEGER, %(unique_key)s::VARCHAR, %(group_key)s::VARCHAR) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND status IN ('pending', 'processing') DO NOTHING RETURNING mayfly_jobs.id;
INSERT INTO mayfly_jobs (lane, type, payload, priority, run_at, max_attempts, unique_key, group_key) VALUES (%(lane__0)s::VARCHAR, %(type__0)s::VARCHAR, %(payload__0)s::JSON, %(priority__0)s::SMALLINT, %(run_at__0)s::TIMESTAMP WITH TIME ZONE, %(max_attempts__0)s::INTEGER, %(unique_key__0)s::VARCHAR, %(group_key__0)s::VARCHAR), (%(lane__1)s::VARCHAR, %(type__1)s::VARCHAR, %(payload__1)s::JSON, %(priority__1)s::SMALLINT, %(run_at__1)s::TIMESTAMP WITH TIME ZONE, %(max_attempts__1)s::INTEGER, %(unique_key__1)s::VARCHAR, %(group_key__1)s::VARCHAR) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND status IN ('pending', 'processing') DO NOTHING RETURNING mayfly_jobs.id;
INSERT INTO mayfly_schedules (name, rule, dealt_until, last_due_at) VALUES (%(name)s::VARCHAR, %(rule)s::VARCHAR, %(dealt_until)s::TIMESTAMP WITH TIME ZONE, %(last_due_at)s::TIMESTAMP WITH TIME ZONE) ON CONFLICT (name) DO UPDATE SET rule = excluded.rule, dealt_until = excluded.dealt_until, last_due_at = excluded.last_due_at;

-- no schedule due
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;

-- pause
INSERT INTO mayfly_schedules (name, rule, dealt_until) VALUES (%(name)s::VARCHAR, %(rule)s::VARCHAR, %(dealt_until)s::TIMESTAMP WITH TIME ZONE) ON CONFLICT (name) DO NOTHING;
UPDATE mayfly_schedules SET paused_at=%(paused_at)s::TIMESTAMP WITH TIME ZONE, paused_until=%(paused_until)s::TIMESTAMP WITH TIME ZONE, paused_by=%(paused_by)s::VARCHAR, pause_reason=%(pause_reason)s::VARCHAR WHERE mayfly_schedules.name = %(name_1)s::VARCHAR;

-- resume
UPDATE mayfly_schedules SET dealt_until=%(dealt_until)s::TIMESTAMP WITH TIME ZONE, paused_at=%(paused_at)s::TIMESTAMP WITH TIME ZONE, paused_until=%(paused_until)s::TIMESTAMP WITH TIME ZONE, paused_by=%(paused_by)s::VARCHAR, pause_reason=%(pause_reason)s::VARCHAR WHERE mayfly_schedules.name = %(name_1)s::VARCHAR AND mayfly_schedules.paused_at IS NOT NULL;

-- prune
-- 4 times:
SELECT min(mayfly_jobs.lane) AS min_1
FROM mayfly_jobs
WHERE mayfly_jobs.lane > %(lane_1)s::VARCHAR;
-- 2 times:
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s::VARCHAR AND mayfly_jobs.status = %(status_1)s::VARCHAR AND mayfly_jobs.priority = %(priority_1)s::SMALLINT AND mayfly_jobs.run_at < %(run_at_1)s::TIMESTAMP WITH TIME ZONE AND mayfly_jobs.finished_at < %(finished_at_1)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_1)s::INTEGER;
DELETE FROM mayfly_jobs WHERE mayfly_jobs.id IN (%(id_1_1)s::BIGINT, %(id_1_2)s::BIGINT) AND mayfly_jobs.status = %(status_1)s::VARCHAR;
-- 25 times:
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s::VARCHAR AND mayfly_jobs.status = %(status_1)s::VARCHAR AND mayfly_jobs.priority = %(priority_1)s::SMALLINT AND mayfly_jobs.run_at < %(run_at_1)s::TIMESTAMP WITH TIME ZONE AND mayfly_jobs.finished_at < %(finished_at_1)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_1)s::INTEGER;
SELECT mayfly_runners.worker_id
FROM mayfly_runners
WHERE mayfly_runners.finished_at < %(finished_at_1)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_runners.finished_at
 LIMIT %(param_1)s::INTEGER;
SELECT mayfly_attempts.id
FROM mayfly_attempts
WHERE mayfly_attempts.finished_at < %(finished_at_1)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_attempts.finished_at
 LIMIT %(param_1)s::INTEGER;
SELECT mayfly_cycles.id
FROM mayfly_cycles
WHERE mayfly_cycles.started_at < %(started_at_1)s::TIMESTAMP WITH TIME ZONE ORDER BY mayfly_cycles.started_at
 LIMIT %(param_1)s::INTEGER;
SELECT mayfly_totals.cycle_id
FROM mayfly_totals
WHERE mayfly_totals.cycle_id < %(cycle_id_1)s::BIGINT ORDER BY mayfly_totals.cycle_id
 LIMIT %(param_1)s::INTEGER;
