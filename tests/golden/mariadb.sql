-- version
SELECT version_num FROM mayfly_version;

-- enqueue
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority) VALUES (%(type)s, %(payload)s, %(lane)s, %(max_attempts)s, %(priority)s);

-- enqueue with a key
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, unique_key) VALUES (%(type)s, %(payload)s, %(lane)s, %(max_attempts)s, %(priority)s, %(unique_key)s) ON DUPLICATE KEY UPDATE unique_key = IF(mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6))), NULL, unique_key), id = IF(LAST_INSERT_ID(id + CASE WHEN mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6))) THEN 2305843009213693952 WHEN FALSE THEN 0 ELSE 4611686018427387904 END), id, id);

-- enqueue with a key that is held
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, unique_key) VALUES (%(type)s, %(payload)s, %(lane)s, %(max_attempts)s, %(priority)s, %(unique_key)s) ON DUPLICATE KEY UPDATE unique_key = IF(mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6))), NULL, unique_key), id = IF(LAST_INSERT_ID(id + CASE WHEN mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6))) THEN 2305843009213693952 WHEN FALSE THEN 0 ELSE 4611686018427387904 END), id, id);

-- replace a pending job
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, unique_key) VALUES (%(type)s, %(payload)s, %(lane)s, %(max_attempts)s, %(priority)s, %(unique_key)s) ON DUPLICATE KEY UPDATE type = IF(mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT (mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6)))), VALUES(type), type), payload = IF(mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT (mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6)))), VALUES(payload), payload), lane = IF(mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT (mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6)))), VALUES(lane), lane), max_attempts = IF(mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT (mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6)))), VALUES(max_attempts), max_attempts), priority = IF(mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT (mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6)))), VALUES(priority), priority), run_at = IF(mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT (mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6)))), (UTC_TIMESTAMP(6)), run_at), group_key = IF(mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT (mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6)))), NULL, group_key), expires_at = IF(mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT (mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6)))), NULL, expires_at), unique_key = IF(mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6))), NULL, unique_key), id = IF(LAST_INSERT_ID(id + CASE WHEN mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6))) THEN 2305843009213693952 WHEN mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT (mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6)))) THEN 0 ELSE 4611686018427387904 END), id, id);

-- enqueue two
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority) VALUES (%s, %s, %s, %s, %s), …;

-- enqueue two with keys
INSERT IGNORE INTO mayfly_jobs (type, payload, lane, max_attempts, priority, unique_key) VALUES (%s, %s, %s, %s, %s, %s), …;
SELECT unique_key FROM mayfly_jobs WHERE live_key IN (%(key_0)s) AND unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time') AND mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(%(now)s, (UTC_TIMESTAMP(6))) LOCK IN SHARE MODE;

-- count two lanes
SELECT lane, status, priority, MIN(run_at) FROM mayfly_jobs FORCE INDEX (mayfly_jobs_claim) GROUP BY lane, status, priority;
SELECT 0, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane_0)s AND status = 'pending' AND priority = 1 AND run_at <= %(now)s ORDER BY run_at, id LIMIT 1001) AS counted_0 UNION ALL SELECT 1, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane_1)s AND status = 'pending' AND priority = 1 AND run_at <= %(now)s ORDER BY run_at, id LIMIT 1001) AS counted_1;

-- claim
SELECT 0, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 0 AND run_at >= %(since_0)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_0 UNION ALL SELECT 1, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 1 AND run_at >= %(since_1)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_1 UNION ALL SELECT 2, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 2 AND run_at >= %(since_2)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_2;
BEGIN;
SELECT id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key, suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%%' THEN 2 ELSE 0 END FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = %(priority)s AND run_at >= %(since)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT %(size)s FOR UPDATE SKIP LOCKED;
UPDATE mayfly_jobs SET status = 'processing', worker_id = %(worker_id)s, locked_at = %(now)s, lease_until = %(lease_until)s, started_at = NULL, attempts = attempts + 1, claims = claims + 1 WHERE id IN (…);

-- claim from a cursor
SELECT 0, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 0 AND run_at >= %(since_0)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_0 UNION ALL SELECT 1, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 1 AND run_at >= %(since_1)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_1 UNION ALL SELECT 2, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 2 AND run_at >= %(since_2)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_2;
BEGIN;
SELECT id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key, suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%%' THEN 2 ELSE 0 END FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = %(priority)s AND run_at >= %(since)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT %(size)s FOR UPDATE SKIP LOCKED;
UPDATE mayfly_jobs SET status = 'processing', worker_id = %(worker_id)s, locked_at = %(now)s, lease_until = %(lease_until)s, started_at = NULL, attempts = attempts + 1, claims = claims + 1 WHERE id IN (…);

-- claim an assigned job first
SELECT 0, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 0 AND run_at >= %(since_0)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_0 UNION ALL SELECT 1, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 1 AND run_at >= %(since_1)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_1 UNION ALL SELECT 2, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 2 AND run_at >= %(since_2)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_2;
BEGIN;
SELECT id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key, suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%%' THEN 2 ELSE 0 END FROM mayfly_jobs WHERE id = %(id)s AND lane = %(lane)s AND status = 'pending' AND run_at <= %(now)s FOR UPDATE SKIP LOCKED;
UPDATE mayfly_jobs SET status = 'processing', worker_id = %(worker_id)s, locked_at = %(now)s, lease_until = %(lease_until)s, started_at = NULL, attempts = attempts + 1, claims = claims + 1 WHERE id IN (…);

-- find interrupted jobs
SELECT 0, run_at, id FROM (SELECT id, run_at, interruptions FROM mayfly_jobs WHERE lane = %(lane_0)s AND status = 'pending' AND priority = 0 AND run_at <= %(now)s ORDER BY run_at, id LIMIT 1000) AS due_0_0 WHERE interruptions > 0 UNION ALL SELECT 0, run_at, id FROM (SELECT id, run_at, interruptions FROM mayfly_jobs WHERE lane = %(lane_0)s AND status = 'pending' AND priority = 1 AND run_at <= %(now)s ORDER BY run_at, id LIMIT 1000) AS due_0_1 WHERE interruptions > 0 UNION ALL SELECT 0, run_at, id FROM (SELECT id, run_at, interruptions FROM mayfly_jobs WHERE lane = %(lane_0)s AND status = 'pending' AND priority = 2 AND run_at <= %(now)s ORDER BY run_at, id LIMIT 1000) AS due_0_2 WHERE interruptions > 0;

-- check for due jobs
SELECT 0, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 0 AND run_at >= %(since_0)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_0 UNION ALL SELECT 1, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 1 AND run_at >= %(since_1)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_1 UNION ALL SELECT 2, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 2 AND run_at >= %(since_2)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_2;

-- claim a single job
UPDATE mayfly_jobs SET status = 'processing', worker_id = %(worker_id)s, locked_at = %(now)s, lease_until = %(lease_until)s, started_at = NULL, attempts = attempts + 1, claims = claims + 1 WHERE id = %(id)s AND lane = %(lane)s AND status = 'pending' AND run_at <= %(now)s AND suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%%' THEN 2 ELSE 0 END = 0;
SELECT id, type, payload, attempts - 1, max_attempts, claims - 1, crashes, interruptions, run_at, group_key, suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%%' THEN 2 ELSE 0 END FROM mayfly_jobs WHERE id = %(id)s AND worker_id = %(worker_id)s AND locked_at = %(now)s;

-- groups of jobs
SELECT lane, status, priority, MIN(run_at) FROM mayfly_jobs FORCE INDEX (mayfly_jobs_claim) GROUP BY lane, status, priority;

-- enter a lane
BEGIN;
SELECT holder FROM mayfly_locks WHERE name = 'plan' FOR UPDATE;
UPDATE mayfly_runners SET lane = %(lane)s, earlier_lanes = %(earlier_lanes)s WHERE worker_id = %(worker_id)s AND finished_at IS NULL AND NOT EXISTS (SELECT 1 FROM (SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL AND lane = %(lane)s LIMIT 2) AS there WHERE there.worker_id <> %(worker_id)s);

-- jobs of a runner
BEGIN;
SELECT worker_id, lane, suspect, stalled, forgiven, releases, unique_key, id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key FROM mayfly_jobs FORCE INDEX (mayfly_jobs_claim) WHERE lane IN (%(lane_0)s) AND status = 'processing' AND worker_id IN (%(owner_0)s);

-- expired jobs
BEGIN;
SELECT worker_id, lane, suspect, stalled, forgiven, releases, unique_key, id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key FROM mayfly_jobs FORCE INDEX (mayfly_jobs_claim) WHERE lane IN (%(lane)s) AND status = 'processing' AND lease_until <= %(now)s;

-- settle
BEGIN;
UPDATE mayfly_jobs SET status = 'done', lease_until = NULL, finished_at = %(finished_at)s, duration_ms = %(duration_ms)s, started_at = %(started_at)s WHERE id IN (…) AND worker_id = %(owner)s AND claims = %(token)s AND status = 'processing';
UPDATE mayfly_jobs SET status = 'pending', lease_until = NULL, worker_id = NULL, locked_at = NULL, releases = 0, duration_ms = %(duration_ms)s, started_at = %(started_at)s, last_error = %(last_error)s WHERE id = %(id)s AND worker_id = %(owner)s AND claims = %(token)s AND status = 'processing';
UPDATE mayfly_jobs SET status = 'pending', lease_until = NULL, worker_id = NULL, locked_at = NULL, attempts = attempts - 1, duration_ms = %(duration_ms)s, started_at = %(started_at)s, waiting_for = %(waiting_for)s WHERE id = %(id)s AND worker_id = %(owner)s AND claims = %(token)s AND status = 'processing';
INSERT INTO mayfly_attempts (job_id, attempt, worker_id, outcome, error, fingerprint, finished_at, duration_ms) VALUES (%(job_id)s, %(attempt)s, %(worker_id)s, %(outcome)s, %(error)s, %(fingerprint)s, %(finished_at)s, %(duration_ms)s);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s, %(lane)s, %(type)s, %(outcome)s, %(worker_id)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);

-- open a batch
BEGIN;
INSERT IGNORE INTO mayfly_batches (batch_key, on_complete, created_at, sealed_at) VALUES (%(batch_key)s, %(on_complete)s, %(created_at)s, %(sealed_at)s);

-- open a chain
BEGIN;
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, group_key) VALUES (%(type)s, %(payload)s, %(lane)s, %(max_attempts)s, %(priority)s, %(group_key)s);
INSERT INTO mayfly_chains (job_id, previous, rest) VALUES (%(job_id)s, %(previous)s, %(rest)s);

-- seal a batch
BEGIN;
UPDATE mayfly_batches SET sealed_at = %(now)s WHERE batch_key = %(key)s AND sealed_at IS NULL AND completed_at IS NULL;

-- find awaited jobs
SELECT batch_key, 0 FROM (SELECT batch_key FROM mayfly_batches WHERE completed_at IS NULL LIMIT 100) AS batches UNION ALL SELECT NULL, job_id FROM mayfly_chains WHERE job_id IN (…);

-- settle a step
BEGIN;
UPDATE mayfly_jobs SET status = 'done', lease_until = NULL, finished_at = %(finished_at)s, duration_ms = %(duration_ms)s, started_at = %(started_at)s WHERE id = %(id)s AND worker_id = %(owner)s AND claims = %(token)s AND status = 'processing';
SELECT job_id, rest FROM mayfly_chains WHERE job_id IN (…);
DELETE FROM mayfly_chains WHERE job_id IN (…);
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, run_at, group_key, parent_id) VALUES (%(type)s, %(payload)s, %(lane)s, %(max_attempts)s, %(priority)s, %(run_at)s, %(group_key)s, %(parent_id)s);
INSERT INTO mayfly_chains (job_id, previous, rest) VALUES (%(job_id)s, %(previous)s, %(rest)s);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s, %(lane)s, %(type)s, %(outcome)s, %(worker_id)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);
SELECT batch_key FROM mayfly_batches WHERE batch_key IN (%(key_0)s) AND sealed_at IS NOT NULL AND completed_at IS NULL;
SELECT id FROM mayfly_jobs WHERE group_key = %(key)s AND status IN ('pending', 'processing') ORDER BY id DESC LIMIT 1;

-- settle the last job of a batch
BEGIN;
UPDATE mayfly_jobs SET status = 'done', lease_until = NULL, finished_at = %(finished_at)s, duration_ms = %(duration_ms)s, started_at = %(started_at)s WHERE id = %(id)s AND worker_id = %(owner)s AND claims = %(token)s AND status = 'processing';
SELECT job_id, rest FROM mayfly_chains WHERE job_id IN (…);
DELETE FROM mayfly_chains WHERE job_id IN (…);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s, %(lane)s, %(type)s, %(outcome)s, %(worker_id)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);
SELECT batch_key FROM mayfly_batches WHERE batch_key IN (%(key_0)s) AND sealed_at IS NOT NULL AND completed_at IS NULL;
SELECT id FROM mayfly_jobs WHERE group_key = %(key)s AND status IN ('pending', 'processing') ORDER BY id DESC LIMIT 1;
BEGIN;
UPDATE mayfly_batches SET completed_at = %(now)s WHERE batch_key = %(key)s AND sealed_at IS NOT NULL AND completed_at IS NULL;
SELECT status, COUNT(*) FROM mayfly_jobs WHERE group_key = %(key)s GROUP BY status;
SELECT on_complete FROM mayfly_batches WHERE batch_key = %(key)s;
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, run_at) VALUES (%(type)s, %(payload)s, %(lane)s, %(max_attempts)s, %(priority)s, %(run_at)s);

-- complete finished batches
SELECT batch_key FROM mayfly_batches WHERE sealed_at IS NOT NULL AND completed_at IS NULL ORDER BY batch_key LIMIT 1000;

-- plan
BEGIN;
SELECT holder, lease_until, number FROM mayfly_locks WHERE name = 'plan';
UPDATE mayfly_locks SET holder = %(holder)s, lease_until = %(lease_until)s, number = %(number)s WHERE name = 'plan' AND number = %(last_number)s;
BEGIN;
UPDATE mayfly_locks SET holder = NULL, lease_until = NULL WHERE name = 'plan' AND number = %(number)s;

-- open a cycle
BEGIN;
INSERT INTO mayfly_cycles (id, host, schema_version, started_at) VALUES (%(id)s, %(host)s, %(schema_version)s, %(started_at)s) ON DUPLICATE KEY UPDATE host = VALUES(host), schema_version = VALUES(schema_version), started_at = VALUES(started_at);

-- plan a runner
BEGIN;
INSERT INTO mayfly_runners (worker_id, cycle_id, lane, host, machine, pid, pid_started, planned_at, lease_until) VALUES (%(worker_id)s, %(cycle_id)s, %(lane)s, %(host)s, %(machine)s, %(pid)s, %(pid_started)s, %(planned_at)s, %(lease_until)s) ON DUPLICATE KEY UPDATE cycle_id = VALUES(cycle_id), lane = VALUES(lane), host = VALUES(host), machine = VALUES(machine), pid = VALUES(pid), pid_started = VALUES(pid_started), planned_at = VALUES(planned_at), lease_until = VALUES(lease_until);

-- record lanes passed over
BEGIN;
INSERT INTO mayfly_lanes (lane, passed_over) VALUES (%(lane)s, %(passed_over)s) ON DUPLICATE KEY UPDATE passed_over = VALUES(passed_over);

-- lanes
SELECT lane, passed_over, max_workers, set_at, set_by FROM mayfly_lanes;

-- live runners
SELECT worker_id, cycle_id, lane, host, machine, pid, pid_started, lease_until, heartbeat_at IS NOT NULL, launcher, ending, exit_code, mayfly_runners.signal, running, CASE WHEN engine_step = 'watch' THEN cause END FROM mayfly_runners WHERE finished_at IS NULL;

-- live runners by lane
SELECT lane, COUNT(*) FROM mayfly_runners WHERE finished_at IS NULL GROUP BY lane;

-- live runners of a host
SELECT lane, COUNT(*), SUM(CASE WHEN host = %(name)s AND machine = %(machine)s AND launcher IS NULL THEN 1 ELSE 0 END) FROM mayfly_runners WHERE finished_at IS NULL GROUP BY lane;

-- jobs that run, by lane
SELECT lane, running FROM mayfly_runners WHERE finished_at IS NULL;

-- jobs that run, by runner
SELECT worker_id, running FROM mayfly_runners WHERE worker_id IN (%(name_0)s);

-- write figures of live runners
BEGIN;
UPDATE mayfly_runners SET heartbeat_at = %(now)s, running = %(running)s, jobs_done = %(jobs_done)s, jobs_failed = %(jobs_failed)s, average_ms = %(average_ms)s, peak_memory = %(peak_memory)s, cpu_ms = %(cpu_ms)s, uptime_ms = %(uptime_ms)s WHERE worker_id = %(worker_id)s AND heartbeat_at IS NOT NULL AND finished_at IS NULL;

-- renew a heartbeat
UPDATE mayfly_runners SET heartbeat_at = %(now)s WHERE worker_id = %(worker_id)s;

-- close a runner
BEGIN;
UPDATE mayfly_runners SET finished_at = %(now)s, running = NULL, engine_step = NULL, `ending` = CASE worker_id WHEN %(worker_id_0)s THEN %(ending_0)s ELSE `ending` END, `exit_code` = CASE worker_id WHEN %(worker_id_0)s THEN %(exit_code_0)s ELSE `exit_code` END WHERE worker_id IN (%(worker_id_0)s) AND finished_at IS NULL;

-- add up totals
BEGIN;
SELECT worker_id FROM mayfly_runners WHERE cycle_id = %(cycle_id)s AND (finished_at IS NULL OR (ending = 'lost' AND finished_at > %(lost_after)s));
SELECT worker_id, lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE cycle_id = %(cycle_id)s FOR UPDATE;
DELETE FROM mayfly_totals WHERE cycle_id = %(cycle_id)s AND worker_id IN (%(key_0)s);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s, %(lane)s, %(type)s, %(outcome)s, %(worker_id)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);
SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters WHERE (lane = %(lane_0)s AND type = %(type_0)s AND outcome = %(outcome_0)s) ORDER BY lane, type, outcome FOR UPDATE;
INSERT IGNORE INTO mayfly_counters (lane, type, outcome, jobs, durations, waits) VALUES (%(lane)s, %(type)s, %(outcome)s, %(jobs)s, %(durations)s, %(waits)s);
SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters WHERE (lane = %(lane_0)s AND type = %(type_0)s AND outcome = %(outcome_0)s) ORDER BY lane, type, outcome FOR UPDATE;
INSERT INTO mayfly_counters (lane, type, outcome, jobs, durations, waits) VALUES (%(lane)s, %(type)s, %(outcome)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);
SELECT span, begins, outcome, jobs, durations, waits FROM mayfly_history WHERE (span = %(span_0)s AND begins = %(begins_0)s AND outcome = %(outcome_0)s) OR (span = %(span_1)s AND begins = %(begins_1)s AND outcome = %(outcome_1)s) OR (span = %(span_2)s AND begins = %(begins_2)s AND outcome = %(outcome_2)s) OR (span = %(span_3)s AND begins = %(begins_3)s AND outcome = %(outcome_3)s) ORDER BY span, begins, outcome FOR UPDATE;
INSERT IGNORE INTO mayfly_history (span, begins, outcome, jobs, durations, waits) VALUES (%(span)s, %(begins)s, %(outcome)s, %(jobs)s, %(durations)s, %(waits)s);
SELECT span, begins, outcome, jobs, durations, waits FROM mayfly_history WHERE (span = %(span_0)s AND begins = %(begins_0)s AND outcome = %(outcome_0)s) OR (span = %(span_1)s AND begins = %(begins_1)s AND outcome = %(outcome_1)s) OR (span = %(span_2)s AND begins = %(begins_2)s AND outcome = %(outcome_2)s) OR (span = %(span_3)s AND begins = %(begins_3)s AND outcome = %(outcome_3)s) ORDER BY span, begins, outcome FOR UPDATE;
INSERT INTO mayfly_history (span, begins, outcome, jobs, durations, waits) VALUES (%(span)s, %(begins)s, %(outcome)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);

-- close a cycle
BEGIN;
UPDATE mayfly_cycles SET `finished_at` = %(finished_at)s, `exit_code` = %(exit_code)s WHERE id = %(cycle_id)s;

-- record new schedules
SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason FROM mayfly_schedules;
BEGIN;
INSERT IGNORE INTO mayfly_schedules (name, rule, dealt_until) VALUES (%(name)s, %(rule)s, %(dealt_until)s);
SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason FROM mayfly_schedules;

-- fire schedules
SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason FROM mayfly_schedules;
BEGIN;
SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason FROM mayfly_schedules WHERE name IN (%(name_0)s, %(name_1)s, %(name_2)s) ORDER BY name FOR UPDATE;
-- 2 times:
INSERT IGNORE INTO mayfly_jobs (type, payload, lane, max_attempts, priority, run_at, unique_key, group_key) VALUES (%s, %s, %s, %s, %s, %s, %s, %s), …;
INSERT INTO mayfly_schedules (name, rule, dealt_until, last_due_at) VALUES (%(name)s, %(rule)s, %(dealt_until)s, %(last_due_at)s) ON DUPLICATE KEY UPDATE rule = VALUES(rule), dealt_until = VALUES(dealt_until), last_due_at = VALUES(last_due_at);

-- no schedule due
SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason FROM mayfly_schedules;

-- pause a schedule
BEGIN;
INSERT IGNORE INTO mayfly_schedules (name, rule, dealt_until) VALUES (%(name)s, %(rule)s, %(dealt_until)s);
UPDATE mayfly_schedules SET `paused_at` = %(paused_at)s, `paused_until` = %(paused_until)s, `paused_by` = %(paused_by)s, `pause_reason` = %(pause_reason)s WHERE name = %(own_name)s;

-- resume a schedule
BEGIN;
UPDATE mayfly_schedules SET `paused_at` = %(paused_at)s, `paused_until` = %(paused_until)s, `paused_by` = %(paused_by)s, `pause_reason` = %(pause_reason)s, `dealt_until` = %(dealt_until)s WHERE name = %(own_name)s AND paused_at IS NOT NULL;

-- pause a type
BEGIN;
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;
INSERT INTO mayfly_pauses (kind, name, paused_at, paused_until, paused_by, reason) VALUES (%(kind)s, %(name)s, %(paused_at)s, %(paused_until)s, %(paused_by)s, %(reason)s) ON DUPLICATE KEY UPDATE paused_at = VALUES(paused_at), paused_until = VALUES(paused_until), paused_by = VALUES(paused_by), reason = VALUES(reason);

-- load pauses
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;

-- resume a type
BEGIN;
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;
DELETE FROM mayfly_pauses WHERE kind = %(kind)s AND name = %(name)s;

-- resume snoozed jobs
-- 2 times:
SELECT id, run_at FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'pending' AND priority = %(priority)s AND run_at >= %(after)s AND type = %(type)s AND waiting_for LIKE 'type %% is paused%%' ORDER BY run_at, id LIMIT %(size)s;
UPDATE mayfly_jobs SET run_at = %(now)s, waiting_for = NULL WHERE id IN (…) AND status = 'pending' AND type = %(type)s AND waiting_for LIKE 'type %% is paused%%';
-- 2 times:
SELECT id, run_at FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'pending' AND priority = %(priority)s AND run_at >= %(after)s AND type = %(type)s AND waiting_for LIKE 'type %% is paused%%' ORDER BY run_at, id LIMIT %(size)s;

-- cancel two by id
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'pending') OR (status = 'processing' AND cancel_reason IS NULL)) ORDER BY id LIMIT %(size)s;
BEGIN;
SELECT id, status FROM mayfly_jobs WHERE id IN (…) AND status IN ('pending', 'processing') ORDER BY id FOR UPDATE;
UPDATE mayfly_jobs SET status = 'cancelled', finished_at = %(now)s, last_error = %(reason)s, run_at = CASE WHEN run_at > %(now)s THEN %(now)s ELSE run_at END WHERE id IN (…) AND status = 'pending';
UPDATE mayfly_jobs SET cancel_reason = %(reason)s WHERE id IN (…) AND status = 'processing' AND cancel_reason IS NULL;
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'pending') OR (status = 'processing' AND cancel_reason IS NULL)) AND id > %(after_0)s ORDER BY id LIMIT %(size)s;
SELECT batch_key FROM mayfly_batches WHERE sealed_at IS NOT NULL AND completed_at IS NULL ORDER BY batch_key LIMIT 1000;

-- cancel a group
SELECT id, id FROM mayfly_jobs WHERE group_key = %(group_key)s AND ((status = 'pending') OR (status = 'processing' AND cancel_reason IS NULL)) ORDER BY id LIMIT %(size)s;

-- count by a filter
SELECT COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'pending' AND priority = 0 AND type = %(type)s AND created_at < %(created_before)s ORDER BY run_at, id LIMIT %(size)s) AS found;
SELECT COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'pending' AND priority = 1 AND type = %(type)s AND created_at < %(created_before)s ORDER BY run_at, id LIMIT %(size)s) AS found;
SELECT COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'pending' AND priority = 2 AND type = %(type)s AND created_at < %(created_before)s ORDER BY run_at, id LIMIT %(size)s) AS found;

-- read a cancellation request
SELECT cancel_reason FROM mayfly_jobs WHERE id = %(id)s AND worker_id = %(owner)s AND claims = %(token)s;

-- retry
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead') OR (status = 'cancelled') OR (status = 'pending' AND run_at > %(soon)s)) ORDER BY id LIMIT %(size)s;
BEGIN;
SELECT id, status, unique_key, unique_scope, claims FROM mayfly_jobs WHERE id IN (…) AND (status IN ('dead', 'cancelled') OR (status = 'pending' AND run_at > %(soon)s)) ORDER BY id FOR UPDATE;
SELECT unique_key FROM mayfly_jobs WHERE live_key IN (%(key_0)s) AND unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time');
UPDATE mayfly_jobs SET status = 'pending', run_at = %(now)s, attempts = 0, crashes = 0, interruptions = 0, releases = 0, suspect = 0, stalled = 0, worker_id = NULL, locked_at = NULL, lease_until = NULL, started_at = NULL, finished_at = NULL, duration_ms = NULL, cancel_reason = NULL, waiting_for = NULL, unknown_since = NULL, expires_at = CASE WHEN expires_at <= %(now)s THEN NULL ELSE expires_at END WHERE id IN (…) AND status IN ('dead', 'cancelled');
UPDATE mayfly_audit SET jobs = jobs + %(jobs)s WHERE done_at = %(done_at)s AND done_by = %(done_by)s AND verb = %(verb)s AND subject = %(subject)s;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (%(done_at)s, %(done_by)s, %(via)s, %(verb)s, %(subject)s, %(jobs)s, %(reason)s);
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead') OR (status = 'cancelled') OR (status = 'pending' AND run_at > %(soon)s)) AND id > %(after_0)s ORDER BY id LIMIT %(size)s;

-- discard
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead')) ORDER BY id LIMIT %(size)s;
BEGIN;
UPDATE mayfly_jobs SET status = 'cancelled', finished_at = %(now)s, cancel_reason = %(reason)s WHERE id IN (…) AND status = 'dead';
UPDATE mayfly_audit SET jobs = jobs + %(jobs)s WHERE done_at = %(done_at)s AND done_by = %(done_by)s AND verb = %(verb)s AND subject = %(subject)s;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (%(done_at)s, %(done_by)s, %(via)s, %(verb)s, %(subject)s, %(jobs)s, %(reason)s);
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead')) AND id > %(after_0)s ORDER BY id LIMIT %(size)s;

-- delay
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'pending' AND run_at < %(until)s)) ORDER BY id LIMIT %(size)s;
BEGIN;
UPDATE mayfly_jobs SET run_at = %(until)s, waiting_for = %(waiting_for)s WHERE id IN (…) AND status = 'pending' AND run_at < %(until)s;
UPDATE mayfly_audit SET jobs = jobs + %(jobs)s WHERE done_at = %(done_at)s AND done_by = %(done_by)s AND verb = %(verb)s AND subject = %(subject)s;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (%(done_at)s, %(done_by)s, %(via)s, %(verb)s, %(subject)s, %(jobs)s, %(reason)s);
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'pending' AND run_at < %(until)s)) AND id > %(after_0)s ORDER BY id LIMIT %(size)s;

-- retry a pending job
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead') OR (status = 'cancelled') OR (status = 'pending' AND run_at > %(soon)s)) ORDER BY id LIMIT %(size)s;
BEGIN;
SELECT id, status, unique_key, unique_scope, claims FROM mayfly_jobs WHERE id IN (…) AND (status IN ('dead', 'cancelled') OR (status = 'pending' AND run_at > %(soon)s)) ORDER BY id FOR UPDATE;
UPDATE mayfly_jobs SET run_at = %(now)s, waiting_for = NULL WHERE id IN (…) AND status = 'pending';
UPDATE mayfly_audit SET jobs = jobs + %(jobs)s WHERE done_at = %(done_at)s AND done_by = %(done_by)s AND verb = %(verb)s AND subject = %(subject)s;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (%(done_at)s, %(done_by)s, %(via)s, %(verb)s, %(subject)s, %(jobs)s, %(reason)s);
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead') OR (status = 'cancelled') OR (status = 'pending' AND run_at > %(soon)s)) AND id > %(after_0)s ORDER BY id LIMIT %(size)s;

-- find by error
SELECT a.job_id, a.finished_at, a.id FROM mayfly_attempts AS a JOIN mayfly_jobs ON mayfly_jobs.id = a.job_id WHERE a.fingerprint = %(error)s AND NOT EXISTS (SELECT 1 FROM mayfly_attempts AS later WHERE later.job_id = a.job_id AND later.id > a.id AND later.outcome NOT IN ('done', 'sliced', 'released')) AND lane = %(lane)s AND ((status = 'dead')) ORDER BY a.finished_at, a.id LIMIT %(size)s;
SELECT a.job_id, a.finished_at, a.id FROM mayfly_attempts AS a WHERE a.fingerprint = %(error)s ORDER BY a.finished_at DESC, a.id DESC LIMIT 1 OFFSET %(size)s;

-- override a lane
BEGIN;
INSERT INTO mayfly_lanes (lane, max_workers, set_at, set_by) VALUES (%(lane)s, %(max_workers)s, %(set_at)s, %(set_by)s) ON DUPLICATE KEY UPDATE max_workers = VALUES(max_workers), set_at = VALUES(set_at), set_by = VALUES(set_by);
SELECT id FROM mayfly_audit WHERE done_at = %(done_at)s AND done_by = %(done_by)s AND verb = %(verb)s AND subject = %(subject)s;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (%(done_at)s, %(done_by)s, %(via)s, %(verb)s, %(subject)s, %(jobs)s, %(reason)s);

-- pause a lane
BEGIN;
SELECT id FROM mayfly_audit WHERE done_at = %(done_at)s AND done_by = %(done_by)s AND verb = %(verb)s AND subject = %(subject)s;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (%(done_at)s, %(done_by)s, %(via)s, %(verb)s, %(subject)s, %(jobs)s, %(reason)s);
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;
INSERT INTO mayfly_pauses (kind, name, paused_at, paused_until, paused_by, reason) VALUES (%(kind)s, %(name)s, %(paused_at)s, %(paused_until)s, %(paused_by)s, %(reason)s) ON DUPLICATE KEY UPDATE paused_at = VALUES(paused_at), paused_until = VALUES(paused_until), paused_by = VALUES(paused_by), reason = VALUES(reason);

-- forget a host
BEGIN;
SELECT number FROM mayfly_locks WHERE name = 'counted' FOR UPDATE;
UPDATE mayfly_cycles SET forgotten_at = %(now)s WHERE host = %(host)s AND id > %(since)s;
DELETE FROM mayfly_hosts WHERE host = %(host)s;

-- list all jobs
SELECT id, id FROM mayfly_jobs ORDER BY id DESC LIMIT %(size)s;
SELECT id, lane, type, status, priority, run_at, attempts, max_attempts, group_key, created_at, finished_at, waiting_for, SUBSTR(last_error, 1, 200), status, worker_id, locked_at, started_at, progress, unique_key FROM mayfly_jobs WHERE id IN (…);

-- list jobs by status and lane
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'pending' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'pending' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'pending' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT %(size)s;
SELECT id, lane, type, status, priority, run_at, attempts, max_attempts, group_key, created_at, finished_at, waiting_for, SUBSTR(last_error, 1, 200), status, worker_id, locked_at, started_at, progress, unique_key FROM mayfly_jobs WHERE id IN (…);

-- search jobs
SELECT id, id FROM mayfly_jobs WHERE group_key = %(group_key)s ORDER BY id DESC LIMIT 1 OFFSET %(size)s;

-- list jobs by error
SELECT a.job_id, a.finished_at, a.id FROM mayfly_attempts AS a WHERE a.fingerprint = %(error)s ORDER BY a.finished_at DESC, a.id DESC LIMIT 1 OFFSET %(size)s;

-- list dead jobs
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;

-- list hosts
SELECT MAX(id) FROM mayfly_cycles WHERE id >= %(since)s GROUP BY host;

-- list cycles
SELECT mayfly_cycles.id, mayfly_cycles.host, mayfly_cycles.started_at, mayfly_cycles.finished_at, mayfly_cycles.exit_code, mayfly_cycles.pending, mayfly_cycles.planned, mayfly_cycles.spawned, mayfly_cycles.successful, mayfly_cycles.failed, mayfly_cycles.timed_out, mayfly_cycles.rescued, mayfly_cycles.repeated, mayfly_cycles.pruned, mayfly_cycles.duration_ms, mayfly_cycles.note FROM mayfly_cycles ORDER BY id DESC LIMIT %(size)s;

-- list minutes
SELECT mayfly_cycles.id, mayfly_cycles.host, mayfly_cycles.started_at, mayfly_cycles.finished_at, mayfly_cycles.exit_code, mayfly_cycles.pending, mayfly_cycles.planned, mayfly_cycles.spawned, mayfly_cycles.successful, mayfly_cycles.failed, mayfly_cycles.timed_out, mayfly_cycles.rescued, mayfly_cycles.repeated, mayfly_cycles.pruned, mayfly_cycles.duration_ms, mayfly_cycles.note FROM mayfly_cycles WHERE id < %(before)s ORDER BY id DESC LIMIT %(size)s;
SELECT MAX(id) FROM mayfly_cycles WHERE id >= %(since)s GROUP BY host;
SELECT started_at FROM mayfly_cycles WHERE id >= %(before)s AND host = %(host)s ORDER BY id LIMIT 1;

-- read the regularity of cycles
SELECT host, started_at, duration_ms FROM mayfly_cycles WHERE id >= %(since)s ORDER BY id;

-- read the history
SELECT begins, outcome, jobs, CASE WHEN outcome = 'cycle' THEN durations ELSE waits END FROM mayfly_history WHERE span = %(span)s AND begins >= %(since)s UNION ALL SELECT cycle_id, outcome, jobs, waits FROM mayfly_totals WHERE worker_id > '' AND cycle_id >= %(since)s;
SELECT id, duration_ms FROM mayfly_cycles WHERE id > (SELECT number FROM mayfly_locks WHERE name = 'counted') AND id >= %(since)s AND duration_ms IS NOT NULL;

-- sparklines
SELECT lane, cycle_id - cycle_id %% 120000, SUM(jobs) FROM mayfly_totals WHERE cycle_id >= %(since)s AND outcome = 'done' GROUP BY lane, cycle_id - cycle_id %% 120000;

-- list newly dead jobs
SELECT lane, type, SUM(jobs) FROM mayfly_totals WHERE cycle_id >= %(since)s AND outcome = 'dead' GROUP BY lane, type ORDER BY SUM(jobs) DESC, lane, type LIMIT 20;
SELECT j.lane, j.type, j.id, a.message, a.finished_at FROM (SELECT * FROM (SELECT job_id, SUBSTR(error, 1, 200) AS message, finished_at FROM mayfly_attempts WHERE outcome = 'failed' AND finished_at >= %(since)s ORDER BY finished_at DESC LIMIT 200) AS failed UNION ALL SELECT * FROM (SELECT job_id, SUBSTR(error, 1, 200) AS message, finished_at FROM mayfly_attempts WHERE outcome = 'timed out' AND finished_at >= %(since)s ORDER BY finished_at DESC LIMIT 200) AS timed_out UNION ALL SELECT * FROM (SELECT job_id, SUBSTR(error, 1, 200) AS message, finished_at FROM mayfly_attempts WHERE outcome = 'crashed' AND finished_at >= %(since)s ORDER BY finished_at DESC LIMIT 200) AS crashed) AS a JOIN mayfly_jobs AS j ON j.id = a.job_id WHERE j.status = 'dead' ORDER BY a.finished_at DESC;

-- list runners
SELECT mayfly_runners.worker_id, mayfly_runners.cycle_id, mayfly_runners.lane, mayfly_runners.host, mayfly_runners.pid, mayfly_runners.planned_at, mayfly_runners.heartbeat_at, mayfly_runners.lease_until, mayfly_runners.finished_at, mayfly_runners.ending, mayfly_runners.exit_code, mayfly_runners.signal, mayfly_runners.jobs_done, mayfly_runners.jobs_failed, mayfly_runners.average_ms, mayfly_runners.peak_memory, mayfly_runners.cpu_ms, mayfly_runners.uptime_ms, mayfly_runners.launcher, mayfly_runners.external_id, mayfly_runners.log_file, mayfly_runners.cause, mayfly_runners.earlier_lanes, mayfly_runners.running FROM mayfly_runners WHERE finished_at IS NULL ORDER BY worker_id LIMIT %(size)s;
SELECT mayfly_runners.worker_id, mayfly_runners.cycle_id, mayfly_runners.lane, mayfly_runners.host, mayfly_runners.pid, mayfly_runners.planned_at, mayfly_runners.heartbeat_at, mayfly_runners.lease_until, mayfly_runners.finished_at, mayfly_runners.ending, mayfly_runners.exit_code, mayfly_runners.signal, mayfly_runners.jobs_done, mayfly_runners.jobs_failed, mayfly_runners.average_ms, mayfly_runners.peak_memory, mayfly_runners.cpu_ms, mayfly_runners.uptime_ms, mayfly_runners.launcher, mayfly_runners.external_id, mayfly_runners.log_file, mayfly_runners.cause, mayfly_runners.earlier_lanes, mayfly_runners.running FROM mayfly_runners WHERE finished_at IS NOT NULL ORDER BY finished_at DESC, lane DESC, worker_id DESC LIMIT %(size)s;

-- find runners
SELECT mayfly_runners.worker_id, mayfly_runners.cycle_id, mayfly_runners.lane, mayfly_runners.host, mayfly_runners.pid, mayfly_runners.planned_at, mayfly_runners.heartbeat_at, mayfly_runners.lease_until, mayfly_runners.finished_at, mayfly_runners.ending, mayfly_runners.exit_code, mayfly_runners.signal, mayfly_runners.jobs_done, mayfly_runners.jobs_failed, mayfly_runners.average_ms, mayfly_runners.peak_memory, mayfly_runners.cpu_ms, mayfly_runners.uptime_ms, mayfly_runners.launcher, mayfly_runners.external_id, mayfly_runners.log_file, mayfly_runners.cause, mayfly_runners.earlier_lanes, mayfly_runners.running FROM mayfly_runners WHERE worker_id IN (%(name_0)s, %(name_1)s);

-- count statuses
SELECT 0, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane_0)s AND status = 'pending' ORDER BY priority, run_at, id LIMIT 1001) AS query_0 UNION ALL SELECT 1, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane_0)s AND status = 'processing' ORDER BY priority, run_at, id LIMIT 1001) AS query_1 UNION ALL SELECT 2, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane_0)s AND status = 'done' ORDER BY priority, run_at, id LIMIT 1001) AS query_2 UNION ALL SELECT 3, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane_0)s AND status = 'dead' ORDER BY priority, run_at, id LIMIT 1001) AS query_3 UNION ALL SELECT 4, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane_0)s AND status = 'cancelled' ORDER BY priority, run_at, id LIMIT 1001) AS query_4;

-- count a group
SELECT status, COUNT(*) FROM (SELECT status FROM mayfly_jobs WHERE group_key = %(key)s ORDER BY id DESC LIMIT %(size)s) AS newest GROUP BY status;

-- list dead jobs of a lane
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;
SELECT d.*, COALESCE((SELECT fingerprint FROM mayfly_attempts WHERE job_id = d.id ORDER BY id + 0 DESC LIMIT 1), '') FROM (SELECT id, type, finished_at FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT %(size)s) AS d;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;
SELECT id, SUBSTR(last_error, 1, 200) FROM mayfly_jobs WHERE id IN (…);

-- read related jobs
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.status, mayfly_jobs.created_at FROM mayfly_jobs WHERE id = %(id)s ORDER BY id ASC LIMIT %(size)s;
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.status, mayfly_jobs.created_at FROM mayfly_jobs WHERE parent_id = %(id)s ORDER BY id ASC LIMIT %(size)s;
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.status, mayfly_jobs.created_at FROM mayfly_jobs WHERE group_key = %(key)s AND id < %(id)s ORDER BY id DESC LIMIT %(size)s;
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.status, mayfly_jobs.created_at FROM mayfly_jobs WHERE group_key = %(key)s AND id > %(id)s ORDER BY id ASC LIMIT %(size)s;

-- payloads
SELECT id, payload FROM mayfly_jobs WHERE id IN (…);

-- search by a field
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;

-- retry by contents
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 0 AND (LOWER(CAST(payload AS CHAR)) LIKE %(text)s ESCAPE '!' OR LOWER(last_error) LIKE %(text)s ESCAPE '!' OR LOWER(type) LIKE %(text)s ESCAPE '!' OR LOWER(unique_key) LIKE %(text)s ESCAPE '!' OR LOWER(group_key) LIKE %(text)s ESCAPE '!') AND LOWER(CAST(payload AS CHAR)) LIKE %(field_0)s ESCAPE '!' ORDER BY run_at, id LIMIT %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 1 AND (LOWER(CAST(payload AS CHAR)) LIKE %(text)s ESCAPE '!' OR LOWER(last_error) LIKE %(text)s ESCAPE '!' OR LOWER(type) LIKE %(text)s ESCAPE '!' OR LOWER(unique_key) LIKE %(text)s ESCAPE '!' OR LOWER(group_key) LIKE %(text)s ESCAPE '!') AND LOWER(CAST(payload AS CHAR)) LIKE %(field_0)s ESCAPE '!' ORDER BY run_at, id LIMIT %(size)s;
SELECT id, payload FROM mayfly_jobs WHERE id IN (…);
BEGIN;
SELECT id, status, unique_key, unique_scope, claims FROM mayfly_jobs WHERE id IN (…) AND (status IN ('dead', 'cancelled') OR (status = 'pending' AND run_at > %(soon)s)) ORDER BY id FOR UPDATE;
UPDATE mayfly_jobs SET status = 'pending', run_at = %(now)s, attempts = 0, crashes = 0, interruptions = 0, releases = 0, suspect = 0, stalled = 0, worker_id = NULL, locked_at = NULL, lease_until = NULL, started_at = NULL, finished_at = NULL, duration_ms = NULL, cancel_reason = NULL, waiting_for = NULL, unknown_since = NULL, expires_at = CASE WHEN expires_at <= %(now)s THEN NULL ELSE expires_at END WHERE id IN (…) AND status IN ('dead', 'cancelled');
UPDATE mayfly_audit SET jobs = jobs + %(jobs)s WHERE done_at = %(done_at)s AND done_by = %(done_by)s AND verb = %(verb)s AND subject = %(subject)s;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (%(done_at)s, %(done_by)s, %(via)s, %(verb)s, %(subject)s, %(jobs)s, %(reason)s);
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 1 AND run_at >= %(after_0)s AND (run_at > %(after_0)s OR id > %(after_1)s) ORDER BY run_at, id LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 1 AND (LOWER(CAST(payload AS CHAR)) LIKE %(text)s ESCAPE '!' OR LOWER(last_error) LIKE %(text)s ESCAPE '!' OR LOWER(type) LIKE %(text)s ESCAPE '!' OR LOWER(unique_key) LIKE %(text)s ESCAPE '!' OR LOWER(group_key) LIKE %(text)s ESCAPE '!') AND LOWER(CAST(payload AS CHAR)) LIKE %(field_0)s ESCAPE '!' AND run_at >= %(after_0)s AND (run_at > %(after_0)s OR id > %(after_1)s) ORDER BY run_at, id LIMIT %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 2 AND (LOWER(CAST(payload AS CHAR)) LIKE %(text)s ESCAPE '!' OR LOWER(last_error) LIKE %(text)s ESCAPE '!' OR LOWER(type) LIKE %(text)s ESCAPE '!' OR LOWER(unique_key) LIKE %(text)s ESCAPE '!' OR LOWER(group_key) LIKE %(text)s ESCAPE '!') AND LOWER(CAST(payload AS CHAR)) LIKE %(field_0)s ESCAPE '!' ORDER BY run_at, id LIMIT %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'cancelled' AND priority = 0 AND (LOWER(CAST(payload AS CHAR)) LIKE %(text)s ESCAPE '!' OR LOWER(last_error) LIKE %(text)s ESCAPE '!' OR LOWER(type) LIKE %(text)s ESCAPE '!' OR LOWER(unique_key) LIKE %(text)s ESCAPE '!' OR LOWER(group_key) LIKE %(text)s ESCAPE '!') AND LOWER(CAST(payload AS CHAR)) LIKE %(field_0)s ESCAPE '!' ORDER BY run_at, id LIMIT %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'cancelled' AND priority = 1 AND (LOWER(CAST(payload AS CHAR)) LIKE %(text)s ESCAPE '!' OR LOWER(last_error) LIKE %(text)s ESCAPE '!' OR LOWER(type) LIKE %(text)s ESCAPE '!' OR LOWER(unique_key) LIKE %(text)s ESCAPE '!' OR LOWER(group_key) LIKE %(text)s ESCAPE '!') AND LOWER(CAST(payload AS CHAR)) LIKE %(field_0)s ESCAPE '!' ORDER BY run_at, id LIMIT %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'cancelled' AND priority = 2 AND (LOWER(CAST(payload AS CHAR)) LIKE %(text)s ESCAPE '!' OR LOWER(last_error) LIKE %(text)s ESCAPE '!' OR LOWER(type) LIKE %(text)s ESCAPE '!' OR LOWER(unique_key) LIKE %(text)s ESCAPE '!' OR LOWER(group_key) LIKE %(text)s ESCAPE '!') AND LOWER(CAST(payload AS CHAR)) LIKE %(field_0)s ESCAPE '!' ORDER BY run_at, id LIMIT %(size)s;

-- estimate
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET %(size)s;

-- list the audit
SELECT mayfly_audit.id, mayfly_audit.done_at, mayfly_audit.done_by, mayfly_audit.via, mayfly_audit.verb, mayfly_audit.subject, mayfly_audit.jobs, mayfly_audit.reason FROM mayfly_audit ORDER BY id DESC LIMIT %(size)s;

-- acquire limits for the first time
BEGIN;
SELECT limit_key, span, most, used, opens_at FROM mayfly_limits WHERE limit_key IN (%(key_0)s, %(key_1)s) ORDER BY limit_key, span FOR UPDATE;
BEGIN;
-- 2 times:
INSERT IGNORE INTO mayfly_limits (limit_key, span, most, used, opens_at) VALUES (%(limit_key)s, %(span)s, %(most)s, %(used)s, %(opens_at)s);
BEGIN;
SELECT limit_key, span, most, used, opens_at FROM mayfly_limits WHERE limit_key IN (%(key_0)s, %(key_1)s) ORDER BY limit_key, span FOR UPDATE;
SELECT mayfly_slots.limit_key, mayfly_slots.worker_id, mayfly_slots.held, mayfly_slots.lease_until, mayfly_runners.lease_until, mayfly_runners.finished_at FROM mayfly_slots LEFT JOIN mayfly_runners ON mayfly_runners.worker_id = mayfly_slots.worker_id WHERE mayfly_slots.limit_key IN (%(key_0)s);
INSERT INTO mayfly_limits (limit_key, span, most, used, opens_at) VALUES (%(limit_key)s, %(span)s, %(most)s, %(used)s, %(opens_at)s) ON DUPLICATE KEY UPDATE most = VALUES(most), used = VALUES(used), opens_at = VALUES(opens_at);
INSERT INTO mayfly_slots (limit_key, worker_id, held, lease_until) VALUES (%(limit_key)s, %(worker_id)s, %(held)s, %(lease_until)s) ON DUPLICATE KEY UPDATE held = VALUES(held), lease_until = VALUES(lease_until);

-- acquire limits
BEGIN;
SELECT limit_key, span, most, used, opens_at FROM mayfly_limits WHERE limit_key IN (%(key_0)s, %(key_1)s) ORDER BY limit_key, span FOR UPDATE;
SELECT mayfly_slots.limit_key, mayfly_slots.worker_id, mayfly_slots.held, mayfly_slots.lease_until, mayfly_runners.lease_until, mayfly_runners.finished_at FROM mayfly_slots LEFT JOIN mayfly_runners ON mayfly_runners.worker_id = mayfly_slots.worker_id WHERE mayfly_slots.limit_key IN (%(key_0)s);
INSERT INTO mayfly_limits (limit_key, span, most, used, opens_at) VALUES (%(limit_key)s, %(span)s, %(most)s, %(used)s, %(opens_at)s) ON DUPLICATE KEY UPDATE most = VALUES(most), used = VALUES(used), opens_at = VALUES(opens_at);
INSERT INTO mayfly_slots (limit_key, worker_id, held, lease_until) VALUES (%(limit_key)s, %(worker_id)s, %(held)s, %(lease_until)s) ON DUPLICATE KEY UPDATE held = VALUES(held), lease_until = VALUES(lease_until);

-- return a unit
BEGIN;
UPDATE mayfly_limits SET used = used - 1 WHERE limit_key = %(limit_key)s AND span = %(span)s AND opens_at = %(opens_at)s AND used > 0;

-- release limits
BEGIN;
DELETE FROM mayfly_slots WHERE limit_key = %(limit_key)s AND worker_id = %(worker_id)s;

-- list limits
SELECT limit_key, span, most, used, opens_at FROM mayfly_limits ORDER BY limit_key, span;
SELECT mayfly_slots.limit_key, mayfly_slots.worker_id, mayfly_slots.held, mayfly_slots.lease_until, mayfly_runners.lease_until, mayfly_runners.finished_at FROM mayfly_slots LEFT JOIN mayfly_runners ON mayfly_runners.worker_id = mayfly_slots.worker_id;

-- recently dead jobs
SELECT lane, SUM(jobs) FROM mayfly_totals WHERE cycle_id >= %(since)s AND outcome = 'dead' GROUP BY lane;
SELECT COUNT(*), SUM(CASE WHEN finished_at >= %(since)s THEN 1 ELSE 0 END) FROM (SELECT finished_at FROM (SELECT finished_at FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT %(size)s) AS dead_0 UNION ALL SELECT finished_at FROM (SELECT finished_at FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT %(size)s) AS dead_1 UNION ALL SELECT finished_at FROM (SELECT finished_at FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'dead' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT %(size)s) AS dead_2) AS newest;

-- read counters
SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters UNION ALL SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE worker_id > '';
SELECT host, exit_code, last_at, cycles, spawned, successful, timed_out, rescued, repeated, pruned, duration_ms FROM mayfly_hosts UNION ALL SELECT host, COALESCE(exit_code, -1), MAX(started_at), COUNT(*), COALESCE(SUM(spawned), 0), COALESCE(SUM(successful), 0), COALESCE(SUM(timed_out), 0), COALESCE(SUM(rescued), 0), COALESCE(SUM(repeated), 0), COALESCE(SUM(pruned), 0), COALESCE(SUM(duration_ms), 0) FROM mayfly_cycles WHERE id > (SELECT number FROM mayfly_locks WHERE name = 'counted') AND finished_at IS NOT NULL AND forgotten_at IS NULL GROUP BY host, COALESCE(exit_code, -1);

-- count cycles
BEGIN;
SELECT DISTINCT cycle_id FROM mayfly_totals WHERE worker_id > '' AND cycle_id < %(before)s;
SELECT worker_id FROM mayfly_runners WHERE cycle_id = %(cycle_id)s AND (finished_at IS NULL OR (ending = 'lost' AND finished_at > %(lost_after)s));
SELECT worker_id, lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE cycle_id = %(cycle_id)s FOR UPDATE;
DELETE FROM mayfly_totals WHERE cycle_id = %(cycle_id)s AND worker_id IN (%(key_0)s);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s, %(lane)s, %(type)s, %(outcome)s, %(worker_id)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);
SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters WHERE (lane = %(lane_0)s AND type = %(type_0)s AND outcome = %(outcome_0)s) OR (lane = %(lane_1)s AND type = %(type_1)s AND outcome = %(outcome_1)s) OR (lane = %(lane_2)s AND type = %(type_2)s AND outcome = %(outcome_2)s) ORDER BY lane, type, outcome FOR UPDATE;
INSERT IGNORE INTO mayfly_counters (lane, type, outcome, jobs, durations, waits) VALUES (%(lane)s, %(type)s, %(outcome)s, %(jobs)s, %(durations)s, %(waits)s);
SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters WHERE (lane = %(lane_0)s AND type = %(type_0)s AND outcome = %(outcome_0)s) OR (lane = %(lane_1)s AND type = %(type_1)s AND outcome = %(outcome_1)s) OR (lane = %(lane_2)s AND type = %(type_2)s AND outcome = %(outcome_2)s) ORDER BY lane, type, outcome FOR UPDATE;
INSERT INTO mayfly_counters (lane, type, outcome, jobs, durations, waits) VALUES (%(lane)s, %(type)s, %(outcome)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);
SELECT span, begins, outcome, jobs, durations, waits FROM mayfly_history WHERE (span = %(span_0)s AND begins = %(begins_0)s AND outcome = %(outcome_0)s) OR (span = %(span_1)s AND begins = %(begins_1)s AND outcome = %(outcome_1)s) OR (span = %(span_2)s AND begins = %(begins_2)s AND outcome = %(outcome_2)s) OR (span = %(span_3)s AND begins = %(begins_3)s AND outcome = %(outcome_3)s) OR (span = %(span_4)s AND begins = %(begins_4)s AND outcome = %(outcome_4)s) OR (span = %(span_5)s AND begins = %(begins_5)s AND outcome = %(outcome_5)s) OR (span = %(span_6)s AND begins = %(begins_6)s AND outcome = %(outcome_6)s) OR (span = %(span_7)s AND begins = %(begins_7)s AND outcome = %(outcome_7)s) OR (span = %(span_8)s AND begins = %(begins_8)s AND outcome = %(outcome_8)s) OR (span = %(span_9)s AND begins = %(begins_9)s AND outcome = %(outcome_9)s) OR (span = %(span_10)s AND begins = %(begins_10)s AND outcome = %(outcome_10)s) OR (span = %(span_11)s AND begins = %(begins_11)s AND outcome = %(outcome_11)s) ORDER BY span, begins, outcome FOR UPDATE;
INSERT IGNORE INTO mayfly_history (span, begins, outcome, jobs, durations, waits) VALUES (%(span)s, %(begins)s, %(outcome)s, %(jobs)s, %(durations)s, %(waits)s);
SELECT span, begins, outcome, jobs, durations, waits FROM mayfly_history WHERE (span = %(span_0)s AND begins = %(begins_0)s AND outcome = %(outcome_0)s) OR (span = %(span_1)s AND begins = %(begins_1)s AND outcome = %(outcome_1)s) OR (span = %(span_2)s AND begins = %(begins_2)s AND outcome = %(outcome_2)s) OR (span = %(span_3)s AND begins = %(begins_3)s AND outcome = %(outcome_3)s) OR (span = %(span_4)s AND begins = %(begins_4)s AND outcome = %(outcome_4)s) OR (span = %(span_5)s AND begins = %(begins_5)s AND outcome = %(outcome_5)s) OR (span = %(span_6)s AND begins = %(begins_6)s AND outcome = %(outcome_6)s) OR (span = %(span_7)s AND begins = %(begins_7)s AND outcome = %(outcome_7)s) OR (span = %(span_8)s AND begins = %(begins_8)s AND outcome = %(outcome_8)s) OR (span = %(span_9)s AND begins = %(begins_9)s AND outcome = %(outcome_9)s) OR (span = %(span_10)s AND begins = %(begins_10)s AND outcome = %(outcome_10)s) OR (span = %(span_11)s AND begins = %(begins_11)s AND outcome = %(outcome_11)s) ORDER BY span, begins, outcome FOR UPDATE;
INSERT INTO mayfly_history (span, begins, outcome, jobs, durations, waits) VALUES (%(span)s, %(begins)s, %(outcome)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);
BEGIN;
SELECT number FROM mayfly_locks WHERE name = 'counted' FOR UPDATE;
SELECT host, COALESCE(exit_code, -1), MAX(started_at), COUNT(*), COALESCE(SUM(spawned), 0), COALESCE(SUM(successful), 0), COALESCE(SUM(timed_out), 0), COALESCE(SUM(rescued), 0), COALESCE(SUM(repeated), 0), COALESCE(SUM(pruned), 0), COALESCE(SUM(duration_ms), 0) FROM mayfly_cycles WHERE id > %(since)s AND id <= %(until)s AND forgotten_at IS NULL GROUP BY host, COALESCE(exit_code, -1);
INSERT IGNORE INTO mayfly_hosts (host, exit_code, last_at, cycles, spawned, successful, timed_out, rescued, repeated, pruned, duration_ms) VALUES (%(host)s, %(exit_code)s, %(last_at)s, %(cycles)s, %(spawned)s, %(successful)s, %(timed_out)s, %(rescued)s, %(repeated)s, %(pruned)s, %(duration_ms)s);
UPDATE mayfly_hosts SET last_at = %(last_at)s, cycles = cycles + %(cycles)s, spawned = spawned + %(spawned)s, successful = successful + %(successful)s, timed_out = timed_out + %(timed_out)s, rescued = rescued + %(rescued)s, repeated = repeated + %(repeated)s, pruned = pruned + %(pruned)s, duration_ms = duration_ms + %(duration_ms)s WHERE host = %(host)s AND exit_code = %(exit_code)s;
SELECT id, duration_ms FROM mayfly_cycles WHERE id > %(since)s AND id <= %(until)s AND duration_ms IS NOT NULL;
UPDATE mayfly_locks SET number = %(until)s WHERE name = 'counted';
DELETE FROM mayfly_hosts WHERE host IN (SELECT host FROM (SELECT host FROM mayfly_hosts GROUP BY host HAVING MAX(last_at) < %(before)s) AS silent);

-- dead jobs
SELECT j.lane, j.type, a.fingerprint, COUNT(*), MAX(a.finished_at), MAX(j.id) FROM (SELECT * FROM (SELECT job_id, fingerprint, finished_at FROM mayfly_attempts WHERE outcome = 'failed' AND finished_at >= %(since)s ORDER BY finished_at DESC LIMIT 10000) AS failed UNION ALL SELECT * FROM (SELECT job_id, fingerprint, finished_at FROM mayfly_attempts WHERE outcome = 'timed out' AND finished_at >= %(since)s ORDER BY finished_at DESC LIMIT 10000) AS timed_out UNION ALL SELECT * FROM (SELECT job_id, fingerprint, finished_at FROM mayfly_attempts WHERE outcome = 'crashed' AND finished_at >= %(since)s ORDER BY finished_at DESC LIMIT 10000) AS crashed) AS a JOIN mayfly_jobs AS j ON j.id = a.job_id WHERE j.status = 'dead' AND j.finished_at = a.finished_at GROUP BY j.lane, j.type, a.fingerprint;

-- killed runners
SELECT r.lane, r.ending, r.signal, COUNT(*), MAX(r.finished_at), MAX(r.worker_id), MAX(r.cause) FROM mayfly_runners AS r WHERE r.finished_at > %(since)s AND (r.signal IS NOT NULL OR r.ending IN ('crash', 'lost')) GROUP BY r.lane, r.ending, r.signal;

-- send an alert
BEGIN;
SELECT mayfly_alerts.fingerprint, mayfly_alerts.kind, mayfly_alerts.subject, mayfly_alerts.detail, mayfly_alerts.first_at, mayfly_alerts.last_at, mayfly_alerts.times, mayfly_alerts.told_at, mayfly_alerts.told, mayfly_alerts.recovered_at FROM mayfly_alerts;
INSERT IGNORE INTO mayfly_alerts (fingerprint, kind, subject, detail, first_at, last_at, recovered_at, times) VALUES (%(fingerprint)s, %(kind)s, %(subject)s, %(detail)s, %(first_at)s, %(last_at)s, %(recovered_at)s, %(times)s);
DELETE FROM mayfly_alerts WHERE recovered_at < %(before)s;
BEGIN;
UPDATE mayfly_alerts SET telling_until = %(until)s WHERE fingerprint = %(fingerprint)s AND (telling_until IS NULL OR telling_until <= %(now)s) AND recovered_at IS NULL AND (told_at IS NULL OR told_at <= %(again)s);
BEGIN;
UPDATE mayfly_alerts SET `told` = %(told)s, `told_at` = %(told_at)s, `telling_until` = %(telling_until)s WHERE fingerprint = %(fingerprint)s;

-- recover an alert
BEGIN;
SELECT mayfly_alerts.fingerprint, mayfly_alerts.kind, mayfly_alerts.subject, mayfly_alerts.detail, mayfly_alerts.first_at, mayfly_alerts.last_at, mayfly_alerts.times, mayfly_alerts.told_at, mayfly_alerts.told, mayfly_alerts.recovered_at FROM mayfly_alerts;
UPDATE mayfly_alerts SET `kind` = %(kind)s, `subject` = %(subject)s, `detail` = %(detail)s, `first_at` = %(first_at)s, `last_at` = %(last_at)s, `recovered_at` = %(recovered_at)s, `times` = %(times)s WHERE fingerprint = %(fingerprint)s;
DELETE FROM mayfly_alerts WHERE recovered_at < %(before)s;

-- prune
SELECT lane, status, priority, MIN(run_at) FROM mayfly_jobs FORCE INDEX (mayfly_jobs_claim) GROUP BY lane, status, priority;
SELECT id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'done' AND priority = 1 AND run_at < %(before)s AND finished_at < %(before)s ORDER BY run_at, id LIMIT 500;
BEGIN;
DELETE FROM mayfly_chains WHERE job_id IN (%(key_0)s, %(key_1)s);
DELETE FROM mayfly_jobs WHERE id IN (%(key_0)s, %(key_1)s) AND status = 'done';
SELECT id FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'done' AND priority = 1 AND run_at < %(before)s AND finished_at < %(before)s ORDER BY run_at, id LIMIT 500;
SELECT batch_key FROM mayfly_batches WHERE completed_at < %(before)s ORDER BY completed_at LIMIT 500;
SELECT batch_key FROM mayfly_batches WHERE completed_at IS NULL AND sealed_at IS NULL AND created_at < %(before)s LIMIT 500;
SELECT worker_id FROM mayfly_runners WHERE finished_at < %(before)s ORDER BY finished_at LIMIT 500;
SELECT limit_key FROM mayfly_limits WHERE opens_at < %(before)s ORDER BY opens_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'failed' AND finished_at < %(before)s ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'timed out' AND finished_at < %(before)s ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'crashed' AND finished_at < %(before)s ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'sliced' AND finished_at < %(before)s ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'released' AND finished_at < %(before)s ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'done' AND finished_at < %(before)s ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_cycles WHERE started_at < %(before)s ORDER BY started_at LIMIT 500;
SELECT cycle_id FROM mayfly_totals WHERE cycle_id < %(before)s ORDER BY cycle_id LIMIT 500;
BEGIN;
DELETE FROM mayfly_totals WHERE cycle_id IN (%(key_0)s);
SELECT begins FROM mayfly_history WHERE span = %(span)s AND begins < %(before)s ORDER BY begins LIMIT 500;
BEGIN;
DELETE FROM mayfly_history WHERE begins IN (%(key_0)s) AND span = %(span)s;
SELECT begins FROM mayfly_history WHERE span = %(span)s AND begins < %(before)s ORDER BY begins LIMIT 500;
BEGIN;
DELETE FROM mayfly_history WHERE begins IN (%(key_0)s) AND span = %(span)s;
SELECT begins FROM mayfly_history WHERE span = %(span)s AND begins < %(before)s ORDER BY begins LIMIT 500;
BEGIN;
DELETE FROM mayfly_history WHERE begins IN (%(key_0)s) AND span = %(span)s;
SELECT begins FROM mayfly_history WHERE span = %(span)s AND begins < %(before)s ORDER BY begins LIMIT 500;
BEGIN;
DELETE FROM mayfly_history WHERE begins IN (%(key_0)s) AND span = %(span)s;
SELECT id FROM mayfly_audit WHERE done_at < %(before)s ORDER BY done_at LIMIT 500;
SELECT idempotency_key FROM mayfly_requests WHERE created_at < %(before)s ORDER BY created_at LIMIT 500;

-- check for external jobs
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;
SELECT 0, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane_0)s AND status = 'pending' AND priority = 0 AND run_at <= %(now)s ORDER BY run_at, id LIMIT 4) AS counted_0 UNION ALL SELECT 1, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane_1)s AND status = 'pending' AND priority = 1 AND run_at <= %(now)s ORDER BY run_at, id LIMIT 4) AS counted_1 UNION ALL SELECT 2, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = %(lane_2)s AND status = 'pending' AND priority = 2 AND run_at <= %(now)s ORDER BY run_at, id LIMIT 4) AS counted_2;

-- pull
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;
BEGIN;
SELECT 0, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 0 AND run_at >= %(since_0)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_0 UNION ALL SELECT 1, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 1 AND run_at >= %(since_1)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_1 UNION ALL SELECT 2, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = 2 AND run_at >= %(since_2)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT 2) AS due_2;
SELECT id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key, suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%%' THEN 2 ELSE 0 END FROM mayfly_jobs FORCE INDEX FOR ORDER BY (mayfly_jobs_claim) WHERE lane = %(lane)s AND status = 'pending' AND priority = %(priority)s AND run_at >= %(since)s AND run_at <= %(now)s ORDER BY run_at, id LIMIT %(size)s FOR UPDATE SKIP LOCKED;
UPDATE mayfly_jobs SET status = 'processing', worker_id = %(worker_id)s, locked_at = %(now)s, lease_until = %(lease_until)s, started_at = NULL, attempts = attempts + 1, claims = claims + 1 WHERE id IN (…);

-- extend
UPDATE mayfly_jobs SET lease_until = %(lease_until)s WHERE id = %(id)s AND worker_id = %(owner)s AND claims = %(token)s AND status = 'processing';
SELECT cancel_reason FROM mayfly_jobs WHERE id = %(id)s AND worker_id = %(owner)s AND claims = %(token)s;

-- finish an external job
SELECT status, locked_at, lane, suspect, stalled, forgiven, releases, unique_key, id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key FROM mayfly_jobs WHERE id IN (…) AND worker_id = %(owner)s;
SELECT id FROM mayfly_cycles WHERE finished_at IS NOT NULL ORDER BY id DESC LIMIT 1;
BEGIN;
UPDATE mayfly_jobs SET status = 'done', lease_until = NULL, finished_at = %(finished_at)s, duration_ms = %(duration_ms)s, started_at = %(started_at)s WHERE id = %(id)s AND worker_id = %(owner)s AND claims = %(token)s AND status = 'processing';
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s, %(lane)s, %(type)s, %(outcome)s, %(worker_id)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);

-- finish an external job again
SELECT status, locked_at, lane, suspect, stalled, forgiven, releases, unique_key, id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key FROM mayfly_jobs WHERE id IN (…) AND worker_id = %(owner)s;

-- redeliver expired jobs
SELECT worker_id, lane, suspect, stalled, forgiven, releases, unique_key, id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key FROM mayfly_jobs FORCE INDEX (mayfly_jobs_claim) WHERE lane IN (%(lane)s) AND status = 'processing' AND lease_until <= %(now)s;
BEGIN;
UPDATE mayfly_jobs SET status = 'pending', lease_until = NULL, worker_id = NULL, locked_at = NULL, attempts = attempts - 1, releases = 0, crashes = crashes + 1, suspect = 1, last_error = %(last_error)s WHERE id = %(id)s AND worker_id = %(owner)s AND claims = %(token)s AND status = 'processing' AND lease_until <= %(expired_at)s;
INSERT INTO mayfly_attempts (job_id, attempt, worker_id, outcome, error, fingerprint, finished_at, duration_ms) VALUES (%(job_id)s, %(attempt)s, %(worker_id)s, %(outcome)s, %(error)s, %(fingerprint)s, %(finished_at)s, %(duration_ms)s);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s, %(lane)s, %(type)s, %(outcome)s, %(worker_id)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);

-- run a request with an idempotency key
BEGIN;
INSERT IGNORE INTO mayfly_requests (token_name, idempotency_key, body_hash, created_at) VALUES (%(token_name)s, %(idempotency_key)s, %(body_hash)s, %(created_at)s);
UPDATE mayfly_requests SET answer = %(answer)s WHERE token_name = %(token_name)s AND idempotency_key = %(idempotency_key)s;

-- repeat a request
BEGIN;
INSERT IGNORE INTO mayfly_requests (token_name, idempotency_key, body_hash, created_at) VALUES (%(token_name)s, %(idempotency_key)s, %(body_hash)s, %(created_at)s);
SELECT body_hash, answer FROM mayfly_requests WHERE token_name = %(token_name)s AND idempotency_key = %(idempotency_key)s;

-- log out
BEGIN;
DELETE FROM mayfly_logouts WHERE ended_at < %(before)s;
INSERT IGNORE INTO mayfly_logouts (session_id, ended_at) VALUES (%(session_id)s, %(ended_at)s);

-- check for a logout
SELECT 1 FROM mayfly_logouts WHERE session_id = %(id)s;

-- find a token
SELECT mayfly_tokens.name, mayfly_tokens.token_hash, mayfly_tokens.scopes, mayfly_tokens.created_at, mayfly_tokens.created_by, mayfly_tokens.expires_at, mayfly_tokens.revoked_at, mayfly_tokens.last_used_at FROM mayfly_tokens WHERE token_hash = %(token_hash)s;

-- count due rows of a source
SELECT COUNT(*) FROM (SELECT source_row.`id` FROM `posts` AS source_row WHERE source_row.`status` = %(pending_0)s AND source_row.`run_at` <= %(due)s AND NOT EXISTS (SELECT 1 FROM mayfly_jobs WHERE live_key = CONVERT(CONCAT('source:posts:', source_row.`id`) USING utf8mb4) COLLATE utf8mb4_bin AND unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time')) ORDER BY source_row.`run_at`, source_row.`id` LIMIT 11) AS range_0;

-- claim rows
BEGIN;
SELECT source_row.`run_at`, source_row.`id` FROM `posts` AS source_row WHERE source_row.`status` = %(pending_0)s AND source_row.`run_at` <= %(due)s AND NOT EXISTS (SELECT 1 FROM mayfly_jobs WHERE live_key = CONVERT(CONCAT('source:posts:', source_row.`id`) USING utf8mb4) COLLATE utf8mb4_bin AND unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time')) ORDER BY source_row.`run_at`, source_row.`id` LIMIT 100;
SELECT source_row.`run_at`, JSON_OBJECT('title', source_row.`title`), source_row.`id`, source_row.`title` FROM `posts` AS source_row WHERE source_row.`id` IN (2) AND CASE WHEN (source_row.`status` = %(pending_0)s) AND source_row.`run_at` <= %(due)s THEN 1 ELSE 0 END = 1 ORDER BY source_row.`id` FOR UPDATE SKIP LOCKED;
INSERT IGNORE INTO mayfly_jobs (type, payload, lane, max_attempts, priority, run_at, unique_key, status, worker_id, locked_at, lease_until, attempts, claims, row_worker_id) SELECT %(type)s, JSON_OBJECT('title', source_row.`title`), %(lane)s, %(max_attempts)s, 1, %(now)s, CONVERT(CONCAT('source:posts:', source_row.`id`) USING utf8mb4) COLLATE utf8mb4_bin, 'processing', %(worker_id)s, %(now)s, %(lease_until)s, 1, 1, %(worker_id)s FROM `posts` AS source_row WHERE source_row.`id` IN (2) ORDER BY source_row.`id`;
SELECT id, unique_key FROM mayfly_jobs WHERE lane = %(lane)s AND status = 'processing' AND worker_id = %(worker_id)s AND locked_at = %(now)s;
UPDATE `posts` SET `status` = %(new_0)s, `worker_id` = %(new_1)s, `locked_at` = %(new_2)s WHERE `id` IN (2);

-- settle the job of a row
BEGIN;
UPDATE mayfly_jobs SET status = 'done', lease_until = NULL, finished_at = %(finished_at)s, duration_ms = %(duration_ms)s, started_at = %(started_at)s WHERE id = %(id)s AND worker_id = %(owner)s AND claims = %(token)s AND status = 'processing';
UPDATE `posts` SET `status` = %(new_0)s, `published_at` = %(new_1)s, `retry_count` = %(new_2)s, `last_error` = %(new_3)s WHERE `id` IN (3) AND CASE WHEN `status` = %(old_0)s AND `worker_id` = %(old_1)s THEN 1 ELSE 0 END = 1;
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s, %(lane)s, %(type)s, %(outcome)s, %(worker_id)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);
