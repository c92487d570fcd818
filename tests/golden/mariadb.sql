-- version
SELECT version_num
FROM mayfly_version;

-- enqueue
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts) VALUES (%(lane)s, %(type)s, %(payload)s, %(priority)s, %(max_attempts)s) ON DUPLICATE KEY UPDATE id = last_insert_id(mayfly_jobs.id);

-- enqueue with a key
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts, unique_key) VALUES (%(lane)s, %(type)s, %(payload)s, %(priority)s, %(max_attempts)s, %(unique_key)s) ON DUPLICATE KEY UPDATE id = last_insert_id(mayfly_jobs.id);

-- enqueue with a key that is held
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts, unique_key) VALUES (%(lane)s, %(type)s, %(payload)s, %(priority)s, %(max_attempts)s, %(unique_key)s) ON DUPLICATE KEY UPDATE id = last_insert_id(mayfly_jobs.id);

-- enqueue two
INSERT INTO mayfly_jobs (lane, type, payload, priority, max_attempts) VALUES (%(lane)s, %(type)s, %(payload)s, %(priority)s, %(max_attempts)s);

-- enqueue two with keys
INSERT IGNORE INTO mayfly_jobs (lane, type, payload, priority, max_attempts, unique_key) VALUES (%(lane)s, %(type)s, %(payload)s, %(priority)s, %(max_attempts)s, %(unique_key)s);

-- count two lanes
-- 3 times:
SELECT min(mayfly_jobs.lane) AS min_1
FROM mayfly_jobs
WHERE mayfly_jobs.lane > %(lane_1)s;
SELECT %(param_1)s AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s AND mayfly_jobs.status = %(status_1)s AND mayfly_jobs.priority = %(priority_1)s AND mayfly_jobs.run_at <= %(run_at_1)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_2)s) AS due_0_0 UNION ALL SELECT %(param_3)s AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_2)s AND mayfly_jobs.status = %(status_2)s AND mayfly_jobs.priority = %(priority_2)s AND mayfly_jobs.run_at <= %(run_at_2)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_4)s) AS due_0_1 UNION ALL SELECT %(param_5)s AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_3)s AND mayfly_jobs.status = %(status_3)s AND mayfly_jobs.priority = %(priority_3)s AND mayfly_jobs.run_at <= %(run_at_3)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_6)s) AS due_0_2 UNION ALL SELECT %(param_7)s AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_4)s AND mayfly_jobs.status = %(status_4)s AND mayfly_jobs.priority = %(priority_4)s AND mayfly_jobs.run_at <= %(run_at_4)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_8)s) AS due_1_0 UNION ALL SELECT %(param_9)s AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_5)s AND mayfly_jobs.status = %(status_5)s AND mayfly_jobs.priority = %(priority_5)s AND mayfly_jobs.run_at <= %(run_at_5)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_10)s) AS due_1_1 UNION ALL SELECT %(param_11)s AS lane, count(*) AS pending
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_6)s AND mayfly_jobs.status = %(status_6)s AND mayfly_jobs.priority = %(priority_6)s AND mayfly_jobs.run_at <= %(run_at_6)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_12)s) AS due_1_2;

-- claim
-- 2 times:
SELECT mayfly_jobs.id, mayfly_jobs.suspect, mayfly_jobs.payload, mayfly_jobs.group_key, concat_ws(%(concat_ws_2)s, concat_ws(%(concat_ws_3)s, mayfly_jobs.attempts, mayfly_jobs.max_attempts, mayfly_jobs.claims, mayfly_jobs.crashes, mayfly_jobs.interruptions), mayfly_jobs.run_at, mayfly_jobs.type) AS concat_ws_1
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(in_lane)s AND mayfly_jobs.status = %(status_1)s AND mayfly_jobs.priority = %(of_priority)s AND mayfly_jobs.run_at <= %(now)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(size)s FOR UPDATE SKIP LOCKED;
UPDATE mayfly_jobs SET status=%(status)s, attempts=(mayfly_jobs.attempts + %(attempts_1)s), claims=(mayfly_jobs.claims + %(claims_1)s), worker_id=%(owner)s, locked_at=%(taken_at)s, lease_until=%(until)s, started_at=%(started_at)s WHERE mayfly_jobs.id IN (…);

-- look for more
SELECT anon_1.id
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s AND mayfly_jobs.status = %(status_1)s AND mayfly_jobs.priority = %(priority_1)s AND mayfly_jobs.run_at <= %(run_at_1)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_1)s) AS anon_1 UNION ALL SELECT anon_2.id
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_2)s AND mayfly_jobs.status = %(status_2)s AND mayfly_jobs.priority = %(priority_2)s AND mayfly_jobs.run_at <= %(run_at_2)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_2)s) AS anon_2 UNION ALL SELECT anon_3.id
FROM (SELECT mayfly_jobs.id AS id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_3)s AND mayfly_jobs.status = %(status_3)s AND mayfly_jobs.priority = %(priority_3)s AND mayfly_jobs.run_at <= %(run_at_3)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_3)s) AS anon_3
 LIMIT %(param_4)s;

-- jobs of a runner
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.lane, mayfly_jobs.payload, mayfly_jobs.attempts, mayfly_jobs.max_attempts, mayfly_jobs.claims, mayfly_jobs.crashes, mayfly_jobs.interruptions, mayfly_jobs.suspect, mayfly_jobs.run_at, mayfly_jobs.worker_id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s AND mayfly_jobs.status = %(status_1)s AND mayfly_jobs.worker_id = %(worker_id_1)s;

-- expired jobs
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.lane, mayfly_jobs.payload, mayfly_jobs.attempts, mayfly_jobs.max_attempts, mayfly_jobs.claims, mayfly_jobs.crashes, mayfly_jobs.interruptions, mayfly_jobs.suspect, mayfly_jobs.run_at, mayfly_jobs.worker_id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s AND mayfly_jobs.status = %(status_1)s AND mayfly_jobs.lease_until <= %(lease_until_1)s;

-- settle
UPDATE mayfly_jobs SET status=%(status)s, lease_until=%(lease_until)s, started_at=%(started_at)s, finished_at=%(finished_at)s, duration_ms=%(duration_ms)s WHERE mayfly_jobs.id IN (…) AND mayfly_jobs.worker_id = %(worker_id_1)s AND mayfly_jobs.claims = %(claims_1)s AND mayfly_jobs.status = %(status_1)s;
UPDATE mayfly_jobs SET status=%(status)s, worker_id=%(worker_id)s, locked_at=%(locked_at)s, lease_until=%(lease_until)s, last_error=%(last_error)s, started_at=%(started_at)s, duration_ms=%(duration_ms)s WHERE mayfly_jobs.id IN (…) AND mayfly_jobs.worker_id = %(worker_id_1)s AND mayfly_jobs.claims = %(claims_1)s AND mayfly_jobs.status = %(status_1)s;
UPDATE mayfly_jobs SET status=%(status)s, attempts=(mayfly_jobs.attempts - %(attempts_1)s), worker_id=%(worker_id)s, locked_at=%(locked_at)s, lease_until=%(lease_until)s, started_at=%(started_at)s, duration_ms=%(duration_ms)s WHERE mayfly_jobs.id IN (…) AND mayfly_jobs.worker_id = %(worker_id_1)s AND mayfly_jobs.claims = %(claims_1)s AND mayfly_jobs.status = %(status_1)s;
INSERT INTO mayfly_attempts (job_id, attempt, worker_id, outcome, error, fingerprint, finished_at, duration_ms) VALUES (%(job_id)s, %(attempt)s, %(worker_id)s, %(outcome)s, %(error)s, %(fingerprint)s, %(finished_at)s, %(duration_ms)s);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s, %(lane)s, %(type)s, %(outcome)s, %(worker_id)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);

-- plan
SELECT mayfly_locks.name, mayfly_locks.holder, mayfly_locks.lease_until, mayfly_locks.number
FROM mayfly_locks
WHERE mayfly_locks.name = %(name_1)s;
UPDATE mayfly_locks SET holder=%(holder)s, lease_until=%(lease_until)s, number=%(number)s WHERE mayfly_locks.name = %(name_1)s AND mayfly_locks.number = %(number_1)s;
UPDATE mayfly_locks SET holder=%(holder)s, lease_until=%(lease_until)s WHERE mayfly_locks.name = %(name_1)s AND mayfly_locks.number = %(number_1)s;

-- open a cycle
INSERT INTO mayfly_cycles (id, host, started_at) VALUES (%(id)s, %(host)s, %(started_at)s) ON DUPLICATE KEY UPDATE host = VALUES(host), started_at = VALUES(started_at);

-- plan a runner
INSERT INTO mayfly_runners (worker_id, cycle_id, lane, host, machine, pid, pid_started, planned_at, lease_until) VALUES (%(worker_id)s, %(cycle_id)s, %(lane)s, %(host)s, %(machine)s, %(pid)s, %(pid_started)s, %(planned_at)s, %(lease_until)s) ON DUPLICATE KEY UPDATE cycle_id = VALUES(cycle_id), lane = VALUES(lane), host = VALUES(host), machine = VALUES(machine), pid = VALUES(pid), pid_started = VALUES(pid_started), planned_at = VALUES(planned_at), lease_until = VALUES(lease_until);

-- note lanes
INSERT INTO mayfly_lanes (lane, passed_over) VALUES (%(lane)s, %(passed_over)s) ON DUPLICATE KEY UPDATE passed_over = VALUES(passed_over);

-- lanes passed over
SELECT mayfly_lanes.lane, mayfly_lanes.passed_over
FROM mayfly_lanes;

-- live runners
SELECT mayfly_runners.worker_id, mayfly_runners.cycle_id, mayfly_runners.lane, mayfly_runners.host, mayfly_runners.machine, mayfly_runners.pid, mayfly_runners.pid_started, mayfly_runners.planned_at, mayfly_runners.heartbeat_at, mayfly_runners.lease_until, mayfly_runners.finished_at, mayfly_runners.ending, mayfly_runners.exit_code, mayfly_runners.`signal`, mayfly_runners.jobs_done, mayfly_runners.jobs_failed, mayfly_runners.average_ms, mayfly_runners.peak_memory, mayfly_runners.cpu_ms
FROM mayfly_runners
WHERE mayfly_runners.finished_at IS NULL;

-- live by lane
SELECT mayfly_runners.lane, count(*) AS number
FROM mayfly_runners
WHERE mayfly_runners.finished_at IS NULL GROUP BY mayfly_runners.lane;

-- live on host
SELECT count(*) AS count_1
FROM mayfly_runners
WHERE mayfly_runners.finished_at IS NULL AND mayfly_runners.host = %(host_1)s;

-- beat
UPDATE mayfly_runners SET heartbeat_at=%(heartbeat_at)s WHERE mayfly_runners.worker_id = %(worker_id_1)s;

-- end of a runner
UPDATE mayfly_runners SET finished_at=%(finished_at)s, ending=%(ending)s, exit_code=%(exit_code)s, `signal`=%(signal)s, jobs_done=%(jobs_done)s, jobs_failed=%(jobs_failed)s, average_ms=%(average_ms)s, peak_memory=%(peak_memory)s, cpu_ms=%(cpu_ms)s WHERE mayfly_runners.worker_id = %(worker_id_1)s AND mayfly_runners.finished_at IS NULL;

-- add up
SELECT mayfly_totals.cycle_id, mayfly_totals.lane, mayfly_totals.type, mayfly_totals.outcome, mayfly_totals.worker_id, mayfly_totals.jobs, mayfly_totals.durations, mayfly_totals.waits
FROM mayfly_totals
WHERE mayfly_totals.cycle_id = %(cycle_id_1)s;
DELETE FROM mayfly_totals WHERE mayfly_totals.cycle_id = %(cycle_id_1)s;
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (%(cycle_id)s, %(lane)s, %(type)s, %(outcome)s, %(worker_id)s, %(jobs)s, %(durations)s, %(waits)s) ON DUPLICATE KEY UPDATE jobs = VALUES(jobs), durations = VALUES(durations), waits = VALUES(waits);

-- close a cycle
UPDATE mayfly_cycles SET finished_at=%(finished_at)s, exit_code=%(exit_code)s WHERE mayfly_cycles.id = %(id_1)s;

-- see schedules
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;
INSERT IGNORE INTO mayfly_schedules (name, rule, dealt_until) VALUES (%(name)s, %(rule)s, %(dealt_until)s);
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;

-- fire schedules
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules
WHERE mayfly_schedules.name IN (%(name_1_1)s, %(name_1_2)s, %(name_1_3)s) ORDER BY mayfly_schedules.name FOR UPDATE;
-- 2 times:
INSERT IGNORE INTO mayfly_jobs (lane, type, payload, priority, run_at, max_attempts, unique_key, group_key) VALUES (%(lane)s, %(type)s, %(payload)s, %(priority)s, %(run_at)s, %(max_attempts)s, %(unique_key)s, %(group_key)s);
INSERT INTO mayfly_schedules (name, rule, dealt_until, last_due_at) VALUES (%(name)s, %(rule)s, %(dealt_until)s, %(last_due_at)s) ON DUPLICATE KEY UPDATE rule = VALUES(rule), dealt_until = VALUES(dealt_until), last_due_at = VALUES(last_due_at);

-- no schedule due
SELECT mayfly_schedules.name, mayfly_schedules.rule, mayfly_schedules.dealt_until, mayfly_schedules.last_due_at, mayfly_schedules.paused_at, mayfly_schedules.paused_until, mayfly_schedules.paused_by, mayfly_schedules.pause_reason
FROM mayfly_schedules;

-- pause
INSERT IGNORE INTO mayfly_schedules (name, rule, dealt_until) VALUES (%(name)s, %(rule)s, %(dealt_until)s);
UPDATE mayfly_schedules SET paused_at=%(paused_at)s, paused_until=%(paused_until)s, paused_by=%(paused_by)s, pause_reason=%(pause_reason)s WHERE mayfly_schedules.name = %(name_1)s;

-- resume
UPDATE mayfly_schedules SET dealt_until=%(dealt_until)s, paused_at=%(paused_at)s, paused_until=%(paused_until)s, paused_by=%(paused_by)s, pause_reason=%(pause_reason)s WHERE mayfly_schedules.name = %(name_1)s AND mayfly_schedules.paused_at IS NOT NULL;

-- prune
-- 4 times:
SELECT min(mayfly_jobs.lane) AS min_1
FROM mayfly_jobs
WHERE mayfly_jobs.lane > %(lane_1)s;
-- 2 times:
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s AND mayfly_jobs.status = %(status_1)s AND mayfly_jobs.priority = %(priority_1)s AND mayfly_jobs.run_at < %(run_at_1)s AND mayfly_jobs.finished_at < %(finished_at_1)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_1)s;
DELETE FROM mayfly_jobs WHERE mayfly_jobs.id IN (%(id_1_1)s, %(id_1_2)s) AND mayfly_jobs.status = %(status_1)s;
-- 25 times:
SELECT mayfly_jobs.id
FROM mayfly_jobs
WHERE mayfly_jobs.lane = %(lane_1)s AND mayfly_jobs.status = %(status_1)s AND mayfly_jobs.priority = %(priority_1)s AND mayfly_jobs.run_at < %(run_at_1)s AND mayfly_jobs.finished_at < %(finished_at_1)s ORDER BY mayfly_jobs.run_at, mayfly_jobs.id
 LIMIT %(param_1)s;
SELECT mayfly_runners.worker_id
FROM mayfly_runners
WHERE mayfly_runners.finished_at < %(finished_at_1)s ORDER BY mayfly_runners.finished_at
 LIMIT %(param_1)s;
SELECT mayfly_attempts.id
FROM mayfly_attempts
WHERE mayfly_attempts.finished_at < %(finished_at_1)s ORDER BY mayfly_attempts.finished_at
 LIMIT %(param_1)s;
SELECT mayfly_cycles.id
FROM mayfly_cycles
WHERE mayfly_cycles.started_at < %(started_at_1)s ORDER BY mayfly_cycles.started_at
 LIMIT %(param_1)s;
SELECT mayfly_totals.cycle_id
FROM mayfly_totals
WHERE mayfly_totals.cycle_id < %(cycle_id_1)s ORDER BY mayfly_totals.cycle_id
 LIMIT %(param_1)s;
