-- version
SELECT version_num FROM mayfly_version;

-- enqueue
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority) VALUES (:type, :payload, :lane, :max_attempts, :priority);

-- enqueue with a key
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, unique_key) VALUES (:type, :payload, :lane, :max_attempts, :priority, :unique_key) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time') DO NOTHING RETURNING id;

-- enqueue with a key that is held
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, unique_key) VALUES (:type, :payload, :lane, :max_attempts, :priority, :unique_key) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time') DO NOTHING RETURNING id;
SELECT CASE WHEN mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(:now, (strftime('%Y-%m-%d %H:%M:%f000', 'now'))) THEN -id ELSE id END FROM mayfly_jobs WHERE unique_key = :unique_key AND unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time');

-- replace a pending job
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, unique_key) VALUES (:type, :payload, :lane, :max_attempts, :priority, :unique_key) ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time') DO UPDATE SET type = excluded.type, payload = excluded.payload, lane = excluded.lane, max_attempts = excluded.max_attempts, priority = excluded.priority, run_at = (strftime('%Y-%m-%d %H:%M:%f000', 'now')), group_key = NULL, expires_at = NULL WHERE mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT (mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(:now, (strftime('%Y-%m-%d %H:%M:%f000', 'now')))) RETURNING id;

-- enqueue two
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority) VALUES (?, ?, ?, ?, ?), …;

-- enqueue two with keys
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, unique_key) VALUES (?, ?, ?, ?, ?, ?), … ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time') DO NOTHING;
SELECT unique_key FROM mayfly_jobs WHERE unique_key IN (:key_0) AND unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time') AND mayfly_jobs.unique_scope = 'time' AND mayfly_jobs.unique_until <= COALESCE(:now, (strftime('%Y-%m-%d %H:%M:%f000', 'now')));

-- count two lanes
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 0, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane_0 AND status = 'pending' AND priority = 1 AND run_at <= :now ORDER BY run_at, id LIMIT 1001) AS counted_0 UNION ALL SELECT 1, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane_1 AND status = 'pending' AND priority = 1 AND run_at <= :now ORDER BY run_at, id LIMIT 1001) AS counted_1;

-- claim
SELECT 0, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 AND run_at >= :since_0 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_0 UNION ALL SELECT 1, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 AND run_at >= :since_1 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_1 UNION ALL SELECT 2, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 AND run_at >= :since_2 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_2;
BEGIN IMMEDIATE;
SELECT id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key, suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%' THEN 2 ELSE 0 END FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = :priority AND run_at >= :since AND run_at <= :now ORDER BY run_at, id LIMIT :size;
UPDATE mayfly_jobs SET status = 'processing', worker_id = :worker_id, locked_at = :now, lease_until = :lease_until, started_at = NULL, attempts = attempts + 1, claims = claims + 1 WHERE id IN (…);

-- claim from a cursor
SELECT 0, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 AND run_at >= :since_0 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_0 UNION ALL SELECT 1, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 AND run_at >= :since_1 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_1 UNION ALL SELECT 2, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 AND run_at >= :since_2 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_2;
BEGIN IMMEDIATE;
SELECT id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key, suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%' THEN 2 ELSE 0 END FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = :priority AND run_at >= :since AND run_at <= :now ORDER BY run_at, id LIMIT :size;
UPDATE mayfly_jobs SET status = 'processing', worker_id = :worker_id, locked_at = :now, lease_until = :lease_until, started_at = NULL, attempts = attempts + 1, claims = claims + 1 WHERE id IN (…);

-- claim an assigned job first
SELECT 0, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 AND run_at >= :since_0 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_0 UNION ALL SELECT 1, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 AND run_at >= :since_1 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_1 UNION ALL SELECT 2, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 AND run_at >= :since_2 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_2;
BEGIN IMMEDIATE;
SELECT id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key, suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%' THEN 2 ELSE 0 END FROM mayfly_jobs WHERE id = :id AND lane = :lane AND status = 'pending' AND run_at <= :now;
UPDATE mayfly_jobs SET status = 'processing', worker_id = :worker_id, locked_at = :now, lease_until = :lease_until, started_at = NULL, attempts = attempts + 1, claims = claims + 1 WHERE id IN (…);

-- find interrupted jobs
SELECT 0, run_at, id FROM (SELECT id, run_at, interruptions FROM mayfly_jobs WHERE lane = :lane_0 AND status = 'pending' AND priority = 0 AND run_at <= :now ORDER BY run_at, id LIMIT 1000) AS due_0_0 WHERE interruptions > 0 UNION ALL SELECT 0, run_at, id FROM (SELECT id, run_at, interruptions FROM mayfly_jobs WHERE lane = :lane_0 AND status = 'pending' AND priority = 1 AND run_at <= :now ORDER BY run_at, id LIMIT 1000) AS due_0_1 WHERE interruptions > 0 UNION ALL SELECT 0, run_at, id FROM (SELECT id, run_at, interruptions FROM mayfly_jobs WHERE lane = :lane_0 AND status = 'pending' AND priority = 2 AND run_at <= :now ORDER BY run_at, id LIMIT 1000) AS due_0_2 WHERE interruptions > 0;

-- check for due jobs
SELECT 0, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 AND run_at >= :since_0 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_0 UNION ALL SELECT 1, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 AND run_at >= :since_1 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_1 UNION ALL SELECT 2, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 AND run_at >= :since_2 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_2;

-- claim a single job
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET status = 'processing', worker_id = :worker_id, locked_at = :now, lease_until = :lease_until, started_at = NULL, attempts = attempts + 1, claims = claims + 1 WHERE id = (SELECT id FROM mayfly_jobs WHERE id = :id AND lane = :lane AND status = 'pending' AND run_at <= :now AND suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%' THEN 2 ELSE 0 END = 0) RETURNING id, type, payload, attempts - 1, max_attempts, claims - 1, crashes, interruptions, run_at, group_key, suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%' THEN 2 ELSE 0 END;

-- groups of jobs
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;

-- enter a lane
BEGIN IMMEDIATE;
SELECT holder FROM mayfly_locks WHERE name = 'plan';
UPDATE mayfly_runners SET lane = :lane, earlier_lanes = :earlier_lanes WHERE worker_id = :worker_id AND finished_at IS NULL AND NOT EXISTS (SELECT 1 FROM (SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL AND lane = :lane LIMIT 2) AS there WHERE there.worker_id <> :worker_id);

-- jobs of a runner
BEGIN IMMEDIATE;
SELECT worker_id, lane, suspect, stalled, forgiven, releases, unique_key, id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key FROM mayfly_jobs WHERE lane IN (:lane_0) AND status = 'processing' AND worker_id IN (:owner_0);

-- expired jobs
BEGIN IMMEDIATE;
SELECT worker_id, lane, suspect, stalled, forgiven, releases, unique_key, id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key FROM mayfly_jobs WHERE lane IN (:lane) AND status = 'processing' AND lease_until <= :now;

-- settle
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET status = 'done', lease_until = NULL, finished_at = :finished_at, duration_ms = :duration_ms, started_at = :started_at WHERE id IN (…) AND worker_id = :owner AND claims = :token AND status = 'processing';
UPDATE mayfly_jobs SET status = 'pending', lease_until = NULL, worker_id = NULL, locked_at = NULL, releases = 0, duration_ms = :duration_ms, started_at = :started_at, last_error = :last_error WHERE id = :id AND worker_id = :owner AND claims = :token AND status = 'processing';
UPDATE mayfly_jobs SET status = 'pending', lease_until = NULL, worker_id = NULL, locked_at = NULL, attempts = attempts - 1, duration_ms = :duration_ms, started_at = :started_at, waiting_for = :waiting_for WHERE id = :id AND worker_id = :owner AND claims = :token AND status = 'processing';
INSERT INTO mayfly_attempts (job_id, attempt, worker_id, outcome, error, fingerprint, finished_at, duration_ms) VALUES (:job_id, :attempt, :worker_id, :outcome, :error, :fingerprint, :finished_at, :duration_ms);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (:cycle_id, :lane, :type, :outcome, :worker_id, :jobs, :durations, :waits) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;

-- open a batch
BEGIN IMMEDIATE;
INSERT INTO mayfly_batches (batch_key, on_complete, created_at, sealed_at) VALUES (:batch_key, :on_complete, :created_at, :sealed_at) ON CONFLICT (batch_key) DO NOTHING;

-- open a chain
BEGIN IMMEDIATE;
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, group_key) VALUES (:type, :payload, :lane, :max_attempts, :priority, :group_key);
INSERT INTO mayfly_chains (job_id, previous, rest) VALUES (:job_id, :previous, :rest);

-- seal a batch
BEGIN IMMEDIATE;
UPDATE mayfly_batches SET sealed_at = :now WHERE batch_key = :key AND sealed_at IS NULL AND completed_at IS NULL;

-- find awaited jobs
SELECT batch_key, 0 FROM (SELECT batch_key FROM mayfly_batches WHERE completed_at IS NULL LIMIT 100) AS batches UNION ALL SELECT NULL, job_id FROM mayfly_chains WHERE job_id IN (…);

-- settle a step
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET status = 'done', lease_until = NULL, finished_at = :finished_at, duration_ms = :duration_ms, started_at = :started_at WHERE id = :id AND worker_id = :owner AND claims = :token AND status = 'processing';
SELECT job_id, rest FROM mayfly_chains WHERE job_id IN (…);
DELETE FROM mayfly_chains WHERE job_id IN (…);
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, run_at, group_key, parent_id) VALUES (:type, :payload, :lane, :max_attempts, :priority, :run_at, :group_key, :parent_id);
INSERT INTO mayfly_chains (job_id, previous, rest) VALUES (:job_id, :previous, :rest);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (:cycle_id, :lane, :type, :outcome, :worker_id, :jobs, :durations, :waits) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;
SELECT batch_key FROM mayfly_batches WHERE batch_key IN (:key_0) AND sealed_at IS NOT NULL AND completed_at IS NULL;
SELECT id FROM mayfly_jobs WHERE group_key = :key AND status IN ('pending', 'processing') ORDER BY id DESC LIMIT 1;

-- settle the last job of a batch
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET status = 'done', lease_until = NULL, finished_at = :finished_at, duration_ms = :duration_ms, started_at = :started_at WHERE id = :id AND worker_id = :owner AND claims = :token AND status = 'processing';
SELECT job_id, rest FROM mayfly_chains WHERE job_id IN (…);
DELETE FROM mayfly_chains WHERE job_id IN (…);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (:cycle_id, :lane, :type, :outcome, :worker_id, :jobs, :durations, :waits) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;
SELECT batch_key FROM mayfly_batches WHERE batch_key IN (:key_0) AND sealed_at IS NOT NULL AND completed_at IS NULL;
SELECT id FROM mayfly_jobs WHERE group_key = :key AND status IN ('pending', 'processing') ORDER BY id DESC LIMIT 1;
BEGIN IMMEDIATE;
UPDATE mayfly_batches SET completed_at = :now WHERE batch_key = :key AND sealed_at IS NOT NULL AND completed_at IS NULL;
SELECT status, COUNT(*) FROM mayfly_jobs WHERE group_key = :key GROUP BY status;
SELECT on_complete FROM mayfly_batches WHERE batch_key = :key;
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, run_at) VALUES (:type, :payload, :lane, :max_attempts, :priority, :run_at);

-- complete finished batches
SELECT batch_key FROM mayfly_batches WHERE sealed_at IS NOT NULL AND completed_at IS NULL ORDER BY batch_key LIMIT 1000;

-- plan
BEGIN IMMEDIATE;
SELECT holder, lease_until, number FROM mayfly_locks WHERE name = 'plan';
UPDATE mayfly_locks SET holder = :holder, lease_until = :lease_until, number = :number WHERE name = 'plan' AND number = :last_number;
BEGIN IMMEDIATE;
UPDATE mayfly_locks SET holder = NULL, lease_until = NULL WHERE name = 'plan' AND number = :number;

-- open a cycle
BEGIN IMMEDIATE;
INSERT INTO mayfly_cycles (id, host, schema_version, started_at) VALUES (:id, :host, :schema_version, :started_at) ON CONFLICT (id) DO UPDATE SET host = excluded.host, schema_version = excluded.schema_version, started_at = excluded.started_at;

-- plan a runner
BEGIN IMMEDIATE;
INSERT INTO mayfly_runners (worker_id, cycle_id, lane, host, machine, pid, pid_started, planned_at, lease_until) VALUES (:worker_id, :cycle_id, :lane, :host, :machine, :pid, :pid_started, :planned_at, :lease_until) ON CONFLICT (worker_id) DO UPDATE SET cycle_id = excluded.cycle_id, lane = excluded.lane, host = excluded.host, machine = excluded.machine, pid = excluded.pid, pid_started = excluded.pid_started, planned_at = excluded.planned_at, lease_until = excluded.lease_until;

-- record lanes passed over
BEGIN IMMEDIATE;
INSERT INTO mayfly_lanes (lane, passed_over) VALUES (:lane, :passed_over) ON CONFLICT (lane) DO UPDATE SET passed_over = excluded.passed_over;

-- lanes
SELECT lane, passed_over, max_workers, set_at, set_by FROM mayfly_lanes;

-- live runners
SELECT worker_id, cycle_id, lane, host, machine, pid, pid_started, lease_until, heartbeat_at IS NOT NULL, launcher, ending, exit_code, mayfly_runners.signal, running, CASE WHEN engine_step = 'watch' THEN cause END FROM mayfly_runners WHERE finished_at IS NULL;

-- live runners by lane
SELECT lane, COUNT(*) FROM mayfly_runners WHERE finished_at IS NULL GROUP BY lane;

-- live runners of a host
SELECT lane, COUNT(*), SUM(CASE WHEN host = :name AND machine = :machine AND launcher IS NULL THEN 1 ELSE 0 END) FROM mayfly_runners WHERE finished_at IS NULL GROUP BY lane;

-- jobs that run, by lane
SELECT lane, running FROM mayfly_runners WHERE finished_at IS NULL;

-- jobs that run, by runner
SELECT worker_id, running FROM mayfly_runners WHERE worker_id IN (:name_0);

-- write figures of live runners
BEGIN IMMEDIATE;
UPDATE mayfly_runners SET heartbeat_at = :now, running = :running, jobs_done = :jobs_done, jobs_failed = :jobs_failed, average_ms = :average_ms, peak_memory = :peak_memory, cpu_ms = :cpu_ms, uptime_ms = :uptime_ms WHERE worker_id = :worker_id AND heartbeat_at IS NOT NULL AND finished_at IS NULL;

-- renew a heartbeat
BEGIN IMMEDIATE;
UPDATE mayfly_runners SET heartbeat_at = :now WHERE worker_id = :worker_id;

-- close a runner
BEGIN IMMEDIATE;
UPDATE mayfly_runners SET finished_at = :now, running = NULL, engine_step = NULL, "ending" = CASE worker_id WHEN :worker_id_0 THEN :ending_0 ELSE "ending" END, "exit_code" = CASE worker_id WHEN :worker_id_0 THEN :exit_code_0 ELSE "exit_code" END WHERE worker_id IN (:worker_id_0) AND finished_at IS NULL;

-- add up totals
BEGIN IMMEDIATE;
SELECT worker_id FROM mayfly_runners WHERE cycle_id = :cycle_id AND (finished_at IS NULL OR (ending = 'lost' AND finished_at > :lost_after));
SELECT worker_id, lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE cycle_id = :cycle_id;
DELETE FROM mayfly_totals WHERE cycle_id = :cycle_id AND worker_id IN (:key_0);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (:cycle_id, :lane, :type, :outcome, :worker_id, :jobs, :durations, :waits) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;
SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters WHERE (lane = :lane_0 AND type = :type_0 AND outcome = :outcome_0) ORDER BY lane, type, outcome;
INSERT INTO mayfly_counters (lane, type, outcome, jobs, durations, waits) VALUES (:lane, :type, :outcome, :jobs, :durations, :waits) ON CONFLICT (lane, type, outcome) DO NOTHING;
SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters WHERE (lane = :lane_0 AND type = :type_0 AND outcome = :outcome_0) ORDER BY lane, type, outcome;
INSERT INTO mayfly_counters (lane, type, outcome, jobs, durations, waits) VALUES (:lane, :type, :outcome, :jobs, :durations, :waits) ON CONFLICT (lane, type, outcome) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;
SELECT span, begins, outcome, jobs, durations, waits FROM mayfly_history WHERE (span = :span_0 AND begins = :begins_0 AND outcome = :outcome_0) OR (span = :span_1 AND begins = :begins_1 AND outcome = :outcome_1) OR (span = :span_2 AND begins = :begins_2 AND outcome = :outcome_2) OR (span = :span_3 AND begins = :begins_3 AND outcome = :outcome_3) ORDER BY span, begins, outcome;
INSERT INTO mayfly_history (span, begins, outcome, jobs, durations, waits) VALUES (:span, :begins, :outcome, :jobs, :durations, :waits) ON CONFLICT (span, begins, outcome) DO NOTHING;
SELECT span, begins, outcome, jobs, durations, waits FROM mayfly_history WHERE (span = :span_0 AND begins = :begins_0 AND outcome = :outcome_0) OR (span = :span_1 AND begins = :begins_1 AND outcome = :outcome_1) OR (span = :span_2 AND begins = :begins_2 AND outcome = :outcome_2) OR (span = :span_3 AND begins = :begins_3 AND outcome = :outcome_3) ORDER BY span, begins, outcome;
INSERT INTO mayfly_history (span, begins, outcome, jobs, durations, waits) VALUES (:span, :begins, :outcome, :jobs, :durations, :waits) ON CONFLICT (span, begins, outcome) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;

-- close a cycle
BEGIN IMMEDIATE;
UPDATE mayfly_cycles SET finished_at = :finished_at, exit_code = :exit_code WHERE id = :cycle_id;

-- record new schedules
SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason FROM mayfly_schedules;
BEGIN IMMEDIATE;
INSERT INTO mayfly_schedules (name, rule, dealt_until) VALUES (:name, :rule, :dealt_until) ON CONFLICT (name) DO NOTHING;
SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason FROM mayfly_schedules;

-- fire schedules
SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason FROM mayfly_schedules;
BEGIN IMMEDIATE;
SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason FROM mayfly_schedules WHERE name IN (:name_0, :name_1, :name_2) ORDER BY name;
-- 2 times:
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, run_at, unique_key, group_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?), … ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time') DO NOTHING;
INSERT INTO mayfly_schedules (name, rule, dealt_until, last_due_at) VALUES (:name, :rule, :dealt_until, :last_due_at) ON CONFLICT (name) DO UPDATE SET rule = excluded.rule, dealt_until = excluded.dealt_until, last_due_at = excluded.last_due_at;

-- no schedule due
SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason FROM mayfly_schedules;

-- pause a schedule
BEGIN IMMEDIATE;
INSERT INTO mayfly_schedules (name, rule, dealt_until) VALUES (:name, :rule, :dealt_until) ON CONFLICT (name) DO NOTHING;
UPDATE mayfly_schedules SET paused_at = :paused_at, paused_until = :paused_until, paused_by = :paused_by, pause_reason = :pause_reason WHERE name = :own_name;

-- resume a schedule
BEGIN IMMEDIATE;
UPDATE mayfly_schedules SET paused_at = :paused_at, paused_until = :paused_until, paused_by = :paused_by, pause_reason = :pause_reason, dealt_until = :dealt_until WHERE name = :own_name AND paused_at IS NOT NULL;

-- pause a type
BEGIN IMMEDIATE;
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;
INSERT INTO mayfly_pauses (kind, name, paused_at, paused_until, paused_by, reason) VALUES (:kind, :name, :paused_at, :paused_until, :paused_by, :reason) ON CONFLICT (kind, name) DO UPDATE SET paused_at = excluded.paused_at, paused_until = excluded.paused_until, paused_by = excluded.paused_by, reason = excluded.reason;

-- load pauses
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;

-- resume a type
BEGIN IMMEDIATE;
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;
DELETE FROM mayfly_pauses WHERE kind = :kind AND name = :name;

-- resume snoozed jobs
-- 2 times:
SELECT id, run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = :priority AND run_at >= :after AND type = :type AND waiting_for LIKE 'type % is paused%' ORDER BY run_at, id LIMIT :size;
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET run_at = :now, waiting_for = NULL WHERE id IN (…) AND status = 'pending' AND type = :type AND waiting_for LIKE 'type % is paused%';
-- 2 times:
SELECT id, run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = :priority AND run_at >= :after AND type = :type AND waiting_for LIKE 'type % is paused%' ORDER BY run_at, id LIMIT :size;

-- cancel two by id
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'pending') OR (status = 'processing' AND cancel_reason IS NULL)) ORDER BY id LIMIT :size;
BEGIN IMMEDIATE;
SELECT id, status FROM mayfly_jobs WHERE id IN (…) AND status IN ('pending', 'processing') ORDER BY id;
UPDATE mayfly_jobs SET status = 'cancelled', finished_at = :now, last_error = :reason, run_at = CASE WHEN run_at > :now THEN :now ELSE run_at END WHERE id IN (…) AND status = 'pending';
UPDATE mayfly_jobs SET cancel_reason = :reason WHERE id IN (…) AND status = 'processing' AND cancel_reason IS NULL;
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'pending') OR (status = 'processing' AND cancel_reason IS NULL)) AND id > :after_0 ORDER BY id LIMIT :size;
SELECT batch_key FROM mayfly_batches WHERE sealed_at IS NOT NULL AND completed_at IS NULL ORDER BY batch_key LIMIT 1000;

-- cancel a group
SELECT id, id FROM mayfly_jobs WHERE group_key = :group_key AND ((status = 'pending') OR (status = 'processing' AND cancel_reason IS NULL)) ORDER BY id LIMIT :size;

-- count by a filter
SELECT COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 AND type = :type AND created_at < :created_before ORDER BY run_at, id LIMIT :size) AS found;
SELECT COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 AND type = :type AND created_at < :created_before ORDER BY run_at, id LIMIT :size) AS found;
SELECT COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 AND type = :type AND created_at < :created_before ORDER BY run_at, id LIMIT :size) AS found;

-- read a cancellation request
SELECT cancel_reason FROM mayfly_jobs WHERE id = :id AND worker_id = :owner AND claims = :token;

-- retry
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead') OR (status = 'cancelled') OR (status = 'pending' AND run_at > :soon)) ORDER BY id LIMIT :size;
BEGIN IMMEDIATE;
SELECT id, status, unique_key, unique_scope, claims FROM mayfly_jobs WHERE id IN (…) AND (status IN ('dead', 'cancelled') OR (status = 'pending' AND run_at > :soon)) ORDER BY id;
SELECT unique_key FROM mayfly_jobs WHERE unique_key IN (:key_0) AND unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time');
UPDATE mayfly_jobs SET status = 'pending', run_at = :now, attempts = 0, crashes = 0, interruptions = 0, releases = 0, suspect = 0, stalled = 0, worker_id = NULL, locked_at = NULL, lease_until = NULL, started_at = NULL, finished_at = NULL, duration_ms = NULL, cancel_reason = NULL, waiting_for = NULL, unknown_since = NULL, expires_at = CASE WHEN expires_at <= :now THEN NULL ELSE expires_at END WHERE id IN (…) AND status IN ('dead', 'cancelled');
UPDATE mayfly_audit SET jobs = jobs + :jobs WHERE done_at = :done_at AND done_by = :done_by AND verb = :verb AND subject = :subject;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (:done_at, :done_by, :via, :verb, :subject, :jobs, :reason);
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead') OR (status = 'cancelled') OR (status = 'pending' AND run_at > :soon)) AND id > :after_0 ORDER BY id LIMIT :size;

-- discard
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead')) ORDER BY id LIMIT :size;
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET status = 'cancelled', finished_at = :now, cancel_reason = :reason WHERE id IN (…) AND status = 'dead';
UPDATE mayfly_audit SET jobs = jobs + :jobs WHERE done_at = :done_at AND done_by = :done_by AND verb = :verb AND subject = :subject;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (:done_at, :done_by, :via, :verb, :subject, :jobs, :reason);
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead')) AND id > :after_0 ORDER BY id LIMIT :size;

-- delay
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'pending' AND run_at < :until)) ORDER BY id LIMIT :size;
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET run_at = :until, waiting_for = :waiting_for WHERE id IN (…) AND status = 'pending' AND run_at < :until;
UPDATE mayfly_audit SET jobs = jobs + :jobs WHERE done_at = :done_at AND done_by = :done_by AND verb = :verb AND subject = :subject;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (:done_at, :done_by, :via, :verb, :subject, :jobs, :reason);
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'pending' AND run_at < :until)) AND id > :after_0 ORDER BY id LIMIT :size;

-- retry a pending job
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead') OR (status = 'cancelled') OR (status = 'pending' AND run_at > :soon)) ORDER BY id LIMIT :size;
BEGIN IMMEDIATE;
SELECT id, status, unique_key, unique_scope, claims FROM mayfly_jobs WHERE id IN (…) AND (status IN ('dead', 'cancelled') OR (status = 'pending' AND run_at > :soon)) ORDER BY id;
UPDATE mayfly_jobs SET run_at = :now, waiting_for = NULL WHERE id IN (…) AND status = 'pending';
UPDATE mayfly_audit SET jobs = jobs + :jobs WHERE done_at = :done_at AND done_by = :done_by AND verb = :verb AND subject = :subject;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (:done_at, :done_by, :via, :verb, :subject, :jobs, :reason);
SELECT id, id FROM mayfly_jobs WHERE id IN (…) AND ((status = 'dead') OR (status = 'cancelled') OR (status = 'pending' AND run_at > :soon)) AND id > :after_0 ORDER BY id LIMIT :size;

-- find by error
SELECT a.job_id, a.finished_at, a.id FROM mayfly_attempts AS a JOIN mayfly_jobs ON mayfly_jobs.id = a.job_id WHERE a.fingerprint = :error AND NOT EXISTS (SELECT 1 FROM mayfly_attempts AS later WHERE later.job_id = a.job_id AND later.id > a.id AND later.outcome NOT IN ('done', 'sliced', 'released')) AND lane = :lane AND ((status = 'dead')) ORDER BY a.finished_at, a.id LIMIT :size;
SELECT a.job_id, a.finished_at, a.id FROM mayfly_attempts AS a WHERE a.fingerprint = :error ORDER BY a.finished_at DESC, a.id DESC LIMIT 1 OFFSET :size;

-- override a lane
BEGIN IMMEDIATE;
INSERT INTO mayfly_lanes (lane, max_workers, set_at, set_by) VALUES (:lane, :max_workers, :set_at, :set_by) ON CONFLICT (lane) DO UPDATE SET max_workers = excluded.max_workers, set_at = excluded.set_at, set_by = excluded.set_by;
SELECT id FROM mayfly_audit WHERE done_at = :done_at AND done_by = :done_by AND verb = :verb AND subject = :subject;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (:done_at, :done_by, :via, :verb, :subject, :jobs, :reason);

-- pause a lane
BEGIN IMMEDIATE;
SELECT id FROM mayfly_audit WHERE done_at = :done_at AND done_by = :done_by AND verb = :verb AND subject = :subject;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (:done_at, :done_by, :via, :verb, :subject, :jobs, :reason);
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;
INSERT INTO mayfly_pauses (kind, name, paused_at, paused_until, paused_by, reason) VALUES (:kind, :name, :paused_at, :paused_until, :paused_by, :reason) ON CONFLICT (kind, name) DO UPDATE SET paused_at = excluded.paused_at, paused_until = excluded.paused_until, paused_by = excluded.paused_by, reason = excluded.reason;

-- forget a host
BEGIN IMMEDIATE;
SELECT number FROM mayfly_locks WHERE name = 'counted';
UPDATE mayfly_cycles SET forgotten_at = :now WHERE host = :host AND id > :since;
DELETE FROM mayfly_hosts WHERE host = :host;

-- list all jobs
SELECT id, id FROM mayfly_jobs ORDER BY id DESC LIMIT :size;
SELECT id, lane, type, status, priority, run_at, attempts, max_attempts, group_key, created_at, finished_at, waiting_for, SUBSTR(last_error, 1, 200), status, worker_id, locked_at, started_at, progress, unique_key FROM mayfly_jobs WHERE id IN (…);

-- list jobs by status and lane
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT :size;
SELECT id, lane, type, status, priority, run_at, attempts, max_attempts, group_key, created_at, finished_at, waiting_for, SUBSTR(last_error, 1, 200), status, worker_id, locked_at, started_at, progress, unique_key FROM mayfly_jobs WHERE id IN (…);

-- search jobs
SELECT id, id FROM mayfly_jobs WHERE group_key = :group_key ORDER BY id DESC LIMIT 1 OFFSET :size;

-- list jobs by error
SELECT a.job_id, a.finished_at, a.id FROM mayfly_attempts AS a WHERE a.fingerprint = :error ORDER BY a.finished_at DESC, a.id DESC LIMIT 1 OFFSET :size;

-- list dead jobs
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;

-- list hosts
SELECT MAX(id) FROM mayfly_cycles WHERE id >= :since GROUP BY host;

-- list cycles
SELECT mayfly_cycles.id, mayfly_cycles.host, mayfly_cycles.started_at, mayfly_cycles.finished_at, mayfly_cycles.exit_code, mayfly_cycles.pending, mayfly_cycles.planned, mayfly_cycles.spawned, mayfly_cycles.successful, mayfly_cycles.failed, mayfly_cycles.timed_out, mayfly_cycles.rescued, mayfly_cycles.repeated, mayfly_cycles.pruned, mayfly_cycles.duration_ms, mayfly_cycles.note FROM mayfly_cycles ORDER BY id DESC LIMIT :size;

-- list minutes
SELECT mayfly_cycles.id, mayfly_cycles.host, mayfly_cycles.started_at, mayfly_cycles.finished_at, mayfly_cycles.exit_code, mayfly_cycles.pending, mayfly_cycles.planned, mayfly_cycles.spawned, mayfly_cycles.successful, mayfly_cycles.failed, mayfly_cycles.timed_out, mayfly_cycles.rescued, mayfly_cycles.repeated, mayfly_cycles.pruned, mayfly_cycles.duration_ms, mayfly_cycles.note FROM mayfly_cycles WHERE id < :before ORDER BY id DESC LIMIT :size;
SELECT MAX(id) FROM mayfly_cycles WHERE id >= :since GROUP BY host;
SELECT started_at FROM mayfly_cycles WHERE id >= :before AND host = :host ORDER BY id LIMIT 1;

-- read the regularity of cycles
SELECT host, started_at, duration_ms FROM mayfly_cycles WHERE id >= :since ORDER BY id;

-- read the history
SELECT begins, outcome, jobs, CASE WHEN outcome = 'cycle' THEN durations ELSE waits END FROM mayfly_history WHERE span = :span AND begins >= :since UNION ALL SELECT cycle_id, outcome, jobs, waits FROM mayfly_totals WHERE worker_id > '' AND cycle_id >= :since;
SELECT id, duration_ms FROM mayfly_cycles WHERE id > (SELECT number FROM mayfly_locks WHERE name = 'counted') AND id >= :since AND duration_ms IS NOT NULL;

-- sparklines
SELECT lane, cycle_id - cycle_id % 120000, SUM(jobs) FROM mayfly_totals WHERE cycle_id >= :since AND outcome = 'done' GROUP BY lane, cycle_id - cycle_id % 120000;

-- list newly dead jobs
SELECT lane, type, SUM(jobs) FROM mayfly_totals WHERE cycle_id >= :since AND outcome = 'dead' GROUP BY lane, type ORDER BY SUM(jobs) DESC, lane, type LIMIT 20;
SELECT j.lane, j.type, j.id, a.message, a.finished_at FROM (SELECT * FROM (SELECT job_id, SUBSTR(error, 1, 200) AS message, finished_at FROM mayfly_attempts WHERE outcome = 'failed' AND finished_at >= :since ORDER BY finished_at DESC LIMIT 200) AS failed UNION ALL SELECT * FROM (SELECT job_id, SUBSTR(error, 1, 200) AS message, finished_at FROM mayfly_attempts WHERE outcome = 'timed out' AND finished_at >= :since ORDER BY finished_at DESC LIMIT 200) AS timed_out UNION ALL SELECT * FROM (SELECT job_id, SUBSTR(error, 1, 200) AS message, finished_at FROM mayfly_attempts WHERE outcome = 'crashed' AND finished_at >= :since ORDER BY finished_at DESC LIMIT 200) AS crashed) AS a JOIN mayfly_jobs AS j ON j.id = a.job_id WHERE j.status = 'dead' ORDER BY a.finished_at DESC;

-- list runners
SELECT mayfly_runners.worker_id, mayfly_runners.cycle_id, mayfly_runners.lane, mayfly_runners.host, mayfly_runners.pid, mayfly_runners.planned_at, mayfly_runners.heartbeat_at, mayfly_runners.lease_until, mayfly_runners.finished_at, mayfly_runners.ending, mayfly_runners.exit_code, mayfly_runners.signal, mayfly_runners.jobs_done, mayfly_runners.jobs_failed, mayfly_runners.average_ms, mayfly_runners.peak_memory, mayfly_runners.cpu_ms, mayfly_runners.uptime_ms, mayfly_runners.launcher, mayfly_runners.external_id, mayfly_runners.log_file, mayfly_runners.cause, mayfly_runners.earlier_lanes, mayfly_runners.running FROM mayfly_runners WHERE finished_at IS NULL ORDER BY worker_id LIMIT :size;
SELECT mayfly_runners.worker_id, mayfly_runners.cycle_id, mayfly_runners.lane, mayfly_runners.host, mayfly_runners.pid, mayfly_runners.planned_at, mayfly_runners.heartbeat_at, mayfly_runners.lease_until, mayfly_runners.finished_at, mayfly_runners.ending, mayfly_runners.exit_code, mayfly_runners.signal, mayfly_runners.jobs_done, mayfly_runners.jobs_failed, mayfly_runners.average_ms, mayfly_runners.peak_memory, mayfly_runners.cpu_ms, mayfly_runners.uptime_ms, mayfly_runners.launcher, mayfly_runners.external_id, mayfly_runners.log_file, mayfly_runners.cause, mayfly_runners.earlier_lanes, mayfly_runners.running FROM mayfly_runners WHERE finished_at IS NOT NULL ORDER BY finished_at DESC, lane DESC, worker_id DESC LIMIT :size;

-- find runners
SELECT mayfly_runners.worker_id, mayfly_runners.cycle_id, mayfly_runners.lane, mayfly_runners.host, mayfly_runners.pid, mayfly_runners.planned_at, mayfly_runners.heartbeat_at, mayfly_runners.lease_until, mayfly_runners.finished_at, mayfly_runners.ending, mayfly_runners.exit_code, mayfly_runners.signal, mayfly_runners.jobs_done, mayfly_runners.jobs_failed, mayfly_runners.average_ms, mayfly_runners.peak_memory, mayfly_runners.cpu_ms, mayfly_runners.uptime_ms, mayfly_runners.launcher, mayfly_runners.external_id, mayfly_runners.log_file, mayfly_runners.cause, mayfly_runners.earlier_lanes, mayfly_runners.running FROM mayfly_runners WHERE worker_id IN (:name_0, :name_1);

-- count statuses
SELECT 0, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane_0 AND status = 'pending' ORDER BY priority, run_at, id LIMIT 1001) AS query_0 UNION ALL SELECT 1, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane_0 AND status = 'processing' ORDER BY priority, run_at, id LIMIT 1001) AS query_1 UNION ALL SELECT 2, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane_0 AND status = 'done' ORDER BY priority, run_at, id LIMIT 1001) AS query_2 UNION ALL SELECT 3, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane_0 AND status = 'dead' ORDER BY priority, run_at, id LIMIT 1001) AS query_3 UNION ALL SELECT 4, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane_0 AND status = 'cancelled' ORDER BY priority, run_at, id LIMIT 1001) AS query_4;

-- count a group
SELECT status, COUNT(*) FROM (SELECT status FROM mayfly_jobs WHERE group_key = :key ORDER BY id DESC LIMIT :size) AS newest GROUP BY status;

-- list dead jobs of a lane
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;
SELECT d.*, COALESCE((SELECT fingerprint FROM mayfly_attempts WHERE job_id = d.id ORDER BY id + 0 DESC LIMIT 1), '') FROM (SELECT id, type, finished_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT :size) AS d;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;
SELECT id, SUBSTR(last_error, 1, 200) FROM mayfly_jobs WHERE id IN (…);

-- read related jobs
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.status, mayfly_jobs.created_at FROM mayfly_jobs WHERE id = :id ORDER BY id ASC LIMIT :size;
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.status, mayfly_jobs.created_at FROM mayfly_jobs WHERE parent_id = :id ORDER BY id ASC LIMIT :size;
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.status, mayfly_jobs.created_at FROM mayfly_jobs WHERE group_key = :key AND id < :id ORDER BY id DESC LIMIT :size;
SELECT mayfly_jobs.id, mayfly_jobs.type, mayfly_jobs.status, mayfly_jobs.created_at FROM mayfly_jobs WHERE group_key = :key AND id > :id ORDER BY id ASC LIMIT :size;

-- payloads
SELECT id, payload FROM mayfly_jobs WHERE id IN (…);

-- search by a field
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;

-- retry by contents
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 AND (LOWER(CAST(payload AS TEXT)) LIKE :text ESCAPE '!' OR LOWER(last_error) LIKE :text ESCAPE '!' OR LOWER(type) LIKE :text ESCAPE '!' OR LOWER(unique_key) LIKE :text ESCAPE '!' OR LOWER(group_key) LIKE :text ESCAPE '!') AND LOWER(CAST(payload AS TEXT)) LIKE :field_0 ESCAPE '!' ORDER BY run_at, id LIMIT :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 AND (LOWER(CAST(payload AS TEXT)) LIKE :text ESCAPE '!' OR LOWER(last_error) LIKE :text ESCAPE '!' OR LOWER(type) LIKE :text ESCAPE '!' OR LOWER(unique_key) LIKE :text ESCAPE '!' OR LOWER(group_key) LIKE :text ESCAPE '!') AND LOWER(CAST(payload AS TEXT)) LIKE :field_0 ESCAPE '!' ORDER BY run_at, id LIMIT :size;
SELECT id, payload FROM mayfly_jobs WHERE id IN (…);
BEGIN IMMEDIATE;
SELECT id, status, unique_key, unique_scope, claims FROM mayfly_jobs WHERE id IN (…) AND (status IN ('dead', 'cancelled') OR (status = 'pending' AND run_at > :soon)) ORDER BY id;
UPDATE mayfly_jobs SET status = 'pending', run_at = :now, attempts = 0, crashes = 0, interruptions = 0, releases = 0, suspect = 0, stalled = 0, worker_id = NULL, locked_at = NULL, lease_until = NULL, started_at = NULL, finished_at = NULL, duration_ms = NULL, cancel_reason = NULL, waiting_for = NULL, unknown_since = NULL, expires_at = CASE WHEN expires_at <= :now THEN NULL ELSE expires_at END WHERE id IN (…) AND status IN ('dead', 'cancelled');
UPDATE mayfly_audit SET jobs = jobs + :jobs WHERE done_at = :done_at AND done_by = :done_by AND verb = :verb AND subject = :subject;
INSERT INTO mayfly_audit (done_at, done_by, via, verb, subject, jobs, reason) VALUES (:done_at, :done_by, :via, :verb, :subject, :jobs, :reason);
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 AND run_at >= :after_0 AND (run_at > :after_0 OR id > :after_1) ORDER BY run_at, id LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 AND (LOWER(CAST(payload AS TEXT)) LIKE :text ESCAPE '!' OR LOWER(last_error) LIKE :text ESCAPE '!' OR LOWER(type) LIKE :text ESCAPE '!' OR LOWER(unique_key) LIKE :text ESCAPE '!' OR LOWER(group_key) LIKE :text ESCAPE '!') AND LOWER(CAST(payload AS TEXT)) LIKE :field_0 ESCAPE '!' AND run_at >= :after_0 AND (run_at > :after_0 OR id > :after_1) ORDER BY run_at, id LIMIT :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 AND (LOWER(CAST(payload AS TEXT)) LIKE :text ESCAPE '!' OR LOWER(last_error) LIKE :text ESCAPE '!' OR LOWER(type) LIKE :text ESCAPE '!' OR LOWER(unique_key) LIKE :text ESCAPE '!' OR LOWER(group_key) LIKE :text ESCAPE '!') AND LOWER(CAST(payload AS TEXT)) LIKE :field_0 ESCAPE '!' ORDER BY run_at, id LIMIT :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 AND (LOWER(CAST(payload AS TEXT)) LIKE :text ESCAPE '!' OR LOWER(last_error) LIKE :text ESCAPE '!' OR LOWER(type) LIKE :text ESCAPE '!' OR LOWER(unique_key) LIKE :text ESCAPE '!' OR LOWER(group_key) LIKE :text ESCAPE '!') AND LOWER(CAST(payload AS TEXT)) LIKE :field_0 ESCAPE '!' ORDER BY run_at, id LIMIT :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 AND (LOWER(CAST(payload AS TEXT)) LIKE :text ESCAPE '!' OR LOWER(last_error) LIKE :text ESCAPE '!' OR LOWER(type) LIKE :text ESCAPE '!' OR LOWER(unique_key) LIKE :text ESCAPE '!' OR LOWER(group_key) LIKE :text ESCAPE '!') AND LOWER(CAST(payload AS TEXT)) LIKE :field_0 ESCAPE '!' ORDER BY run_at, id LIMIT :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 AND (LOWER(CAST(payload AS TEXT)) LIKE :text ESCAPE '!' OR LOWER(last_error) LIKE :text ESCAPE '!' OR LOWER(type) LIKE :text ESCAPE '!' OR LOWER(unique_key) LIKE :text ESCAPE '!' OR LOWER(group_key) LIKE :text ESCAPE '!') AND LOWER(CAST(payload AS TEXT)) LIKE :field_0 ESCAPE '!' ORDER BY run_at, id LIMIT :size;

-- estimate
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;
SELECT id, run_at, id FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT 1 OFFSET :size;

-- list the audit
SELECT mayfly_audit.id, mayfly_audit.done_at, mayfly_audit.done_by, mayfly_audit.via, mayfly_audit.verb, mayfly_audit.subject, mayfly_audit.jobs, mayfly_audit.reason FROM mayfly_audit ORDER BY id DESC LIMIT :size;

-- acquire limits for the first time
BEGIN IMMEDIATE;
SELECT limit_key, span, most, used, opens_at FROM mayfly_limits WHERE limit_key IN (:key_0, :key_1) ORDER BY limit_key, span;
BEGIN IMMEDIATE;
-- 2 times:
INSERT INTO mayfly_limits (limit_key, span, most, used, opens_at) VALUES (:limit_key, :span, :most, :used, :opens_at) ON CONFLICT (limit_key, span) DO NOTHING;
BEGIN IMMEDIATE;
SELECT limit_key, span, most, used, opens_at FROM mayfly_limits WHERE limit_key IN (:key_0, :key_1) ORDER BY limit_key, span;
SELECT mayfly_slots.limit_key, mayfly_slots.worker_id, mayfly_slots.held, mayfly_slots.lease_until, mayfly_runners.lease_until, mayfly_runners.finished_at FROM mayfly_slots LEFT JOIN mayfly_runners ON mayfly_runners.worker_id = mayfly_slots.worker_id WHERE mayfly_slots.limit_key IN (:key_0);
INSERT INTO mayfly_limits (limit_key, span, most, used, opens_at) VALUES (:limit_key, :span, :most, :used, :opens_at) ON CONFLICT (limit_key, span) DO UPDATE SET most = excluded.most, used = excluded.used, opens_at = excluded.opens_at;
INSERT INTO mayfly_slots (limit_key, worker_id, held, lease_until) VALUES (:limit_key, :worker_id, :held, :lease_until) ON CONFLICT (limit_key, worker_id) DO UPDATE SET held = excluded.held, lease_until = excluded.lease_until;

-- acquire limits
BEGIN IMMEDIATE;
SELECT limit_key, span, most, used, opens_at FROM mayfly_limits WHERE limit_key IN (:key_0, :key_1) ORDER BY limit_key, span;
SELECT mayfly_slots.limit_key, mayfly_slots.worker_id, mayfly_slots.held, mayfly_slots.lease_until, mayfly_runners.lease_until, mayfly_runners.finished_at FROM mayfly_slots LEFT JOIN mayfly_runners ON mayfly_runners.worker_id = mayfly_slots.worker_id WHERE mayfly_slots.limit_key IN (:key_0);
INSERT INTO mayfly_limits (limit_key, span, most, used, opens_at) VALUES (:limit_key, :span, :most, :used, :opens_at) ON CONFLICT (limit_key, span) DO UPDATE SET most = excluded.most, used = excluded.used, opens_at = excluded.opens_at;
INSERT INTO mayfly_slots (limit_key, worker_id, held, lease_until) VALUES (:limit_key, :worker_id, :held, :lease_until) ON CONFLICT (limit_key, worker_id) DO UPDATE SET held = excluded.held, lease_until = excluded.lease_until;

-- return a unit
BEGIN IMMEDIATE;
UPDATE mayfly_limits SET used = used - 1 WHERE limit_key = :limit_key AND span = :span AND opens_at = :opens_at AND used > 0;

-- release limits
BEGIN IMMEDIATE;
DELETE FROM mayfly_slots WHERE limit_key = :limit_key AND worker_id = :worker_id;

-- list limits
SELECT limit_key, span, most, used, opens_at FROM mayfly_limits ORDER BY limit_key, span;
SELECT mayfly_slots.limit_key, mayfly_slots.worker_id, mayfly_slots.held, mayfly_slots.lease_until, mayfly_runners.lease_until, mayfly_runners.finished_at FROM mayfly_slots LEFT JOIN mayfly_runners ON mayfly_runners.worker_id = mayfly_slots.worker_id;

-- recently dead jobs
SELECT lane, SUM(jobs) FROM mayfly_totals WHERE cycle_id >= :since AND outcome = 'dead' GROUP BY lane;
SELECT COUNT(*), SUM(CASE WHEN finished_at >= :since THEN 1 ELSE 0 END) FROM (SELECT finished_at FROM (SELECT finished_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at DESC, id DESC LIMIT :size) AS dead_0 UNION ALL SELECT finished_at FROM (SELECT finished_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at DESC, id DESC LIMIT :size) AS dead_1 UNION ALL SELECT finished_at FROM (SELECT finished_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at DESC, id DESC LIMIT :size) AS dead_2) AS newest;

-- read counters
SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters UNION ALL SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE worker_id > '';
SELECT host, exit_code, last_at, cycles, spawned, successful, timed_out, rescued, repeated, pruned, duration_ms FROM mayfly_hosts UNION ALL SELECT host, COALESCE(exit_code, -1), MAX(started_at), COUNT(*), COALESCE(SUM(spawned), 0), COALESCE(SUM(successful), 0), COALESCE(SUM(timed_out), 0), COALESCE(SUM(rescued), 0), COALESCE(SUM(repeated), 0), COALESCE(SUM(pruned), 0), COALESCE(SUM(duration_ms), 0) FROM mayfly_cycles WHERE id > (SELECT number FROM mayfly_locks WHERE name = 'counted') AND finished_at IS NOT NULL AND forgotten_at IS NULL GROUP BY host, COALESCE(exit_code, -1);

-- count cycles
BEGIN IMMEDIATE;
SELECT DISTINCT cycle_id FROM mayfly_totals WHERE worker_id > '' AND cycle_id < :before;
SELECT worker_id FROM mayfly_runners WHERE cycle_id = :cycle_id AND (finished_at IS NULL OR (ending = 'lost' AND finished_at > :lost_after));
SELECT worker_id, lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE cycle_id = :cycle_id;
DELETE FROM mayfly_totals WHERE cycle_id = :cycle_id AND worker_id IN (:key_0);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (:cycle_id, :lane, :type, :outcome, :worker_id, :jobs, :durations, :waits) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;
SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters WHERE (lane = :lane_0 AND type = :type_0 AND outcome = :outcome_0) OR (lane = :lane_1 AND type = :type_1 AND outcome = :outcome_1) OR (lane = :lane_2 AND type = :type_2 AND outcome = :outcome_2) ORDER BY lane, type, outcome;
INSERT INTO mayfly_counters (lane, type, outcome, jobs, durations, waits) VALUES (:lane, :type, :outcome, :jobs, :durations, :waits) ON CONFLICT (lane, type, outcome) DO NOTHING;
SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters WHERE (lane = :lane_0 AND type = :type_0 AND outcome = :outcome_0) OR (lane = :lane_1 AND type = :type_1 AND outcome = :outcome_1) OR (lane = :lane_2 AND type = :type_2 AND outcome = :outcome_2) ORDER BY lane, type, outcome;
INSERT INTO mayfly_counters (lane, type, outcome, jobs, durations, waits) VALUES (:lane, :type, :outcome, :jobs, :durations, :waits) ON CONFLICT (lane, type, outcome) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;
SELECT span, begins, outcome, jobs, durations, waits FROM mayfly_history WHERE (span = :span_0 AND begins = :begins_0 AND outcome = :outcome_0) OR (span = :span_1 AND begins = :begins_1 AND outcome = :outcome_1) OR (span = :span_2 AND begins = :begins_2 AND outcome = :outcome_2) OR (span = :span_3 AND begins = :begins_3 AND outcome = :outcome_3) OR (span = :span_4 AND begins = :begins_4 AND outcome = :outcome_4) OR (span = :span_5 AND begins = :begins_5 AND outcome = :outcome_5) OR (span = :span_6 AND begins = :begins_6 AND outcome = :outcome_6) OR (span = :span_7 AND begins = :begins_7 AND outcome = :outcome_7) OR (span = :span_8 AND begins = :begins_8 AND outcome = :outcome_8) OR (span = :span_9 AND begins = :begins_9 AND outcome = :outcome_9) OR (span = :span_10 AND begins = :begins_10 AND outcome = :outcome_10) OR (span = :span_11 AND begins = :begins_11 AND outcome = :outcome_11) ORDER BY span, begins, outcome;
INSERT INTO mayfly_history (span, begins, outcome, jobs, durations, waits) VALUES (:span, :begins, :outcome, :jobs, :durations, :waits) ON CONFLICT (span, begins, outcome) DO NOTHING;
SELECT span, begins, outcome, jobs, durations, waits FROM mayfly_history WHERE (span = :span_0 AND begins = :begins_0 AND outcome = :outcome_0) OR (span = :span_1 AND begins = :begins_1 AND outcome = :outcome_1) OR (span = :span_2 AND begins = :begins_2 AND outcome = :outcome_2) OR (span = :span_3 AND begins = :begins_3 AND outcome = :outcome_3) OR (span = :span_4 AND begins = :begins_4 AND outcome = :outcome_4) OR (span = :span_5 AND begins = :begins_5 AND outcome = :outcome_5) OR (span = :span_6 AND begins = :begins_6 AND outcome = :outcome_6) OR (span = :span_7 AND begins = :begins_7 AND outcome = :outcome_7) OR (span = :span_8 AND begins = :begins_8 AND outcome = :outcome_8) OR (span = :span_9 AND begins = :begins_9 AND outcome = :outcome_9) OR (span = :span_10 AND begins = :begins_10 AND outcome = :outcome_10) OR (span = :span_11 AND begins = :begins_11 AND outcome = :outcome_11) ORDER BY span, begins, outcome;
INSERT INTO mayfly_history (span, begins, outcome, jobs, durations, waits) VALUES (:span, :begins, :outcome, :jobs, :durations, :waits) ON CONFLICT (span, begins, outcome) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;
BEGIN IMMEDIATE;
SELECT number FROM mayfly_locks WHERE name = 'counted';
SELECT host, COALESCE(exit_code, -1), MAX(started_at), COUNT(*), COALESCE(SUM(spawned), 0), COALESCE(SUM(successful), 0), COALESCE(SUM(timed_out), 0), COALESCE(SUM(rescued), 0), COALESCE(SUM(repeated), 0), COALESCE(SUM(pruned), 0), COALESCE(SUM(duration_ms), 0) FROM mayfly_cycles WHERE id > :since AND id <= :until AND forgotten_at IS NULL GROUP BY host, COALESCE(exit_code, -1);
INSERT INTO mayfly_hosts (host, exit_code, last_at, cycles, spawned, successful, timed_out, rescued, repeated, pruned, duration_ms) VALUES (:host, :exit_code, :last_at, :cycles, :spawned, :successful, :timed_out, :rescued, :repeated, :pruned, :duration_ms) ON CONFLICT (host, exit_code) DO NOTHING;
UPDATE mayfly_hosts SET last_at = :last_at, cycles = cycles + :cycles, spawned = spawned + :spawned, successful = successful + :successful, timed_out = timed_out + :timed_out, rescued = rescued + :rescued, repeated = repeated + :repeated, pruned = pruned + :pruned, duration_ms = duration_ms + :duration_ms WHERE host = :host AND exit_code = :exit_code;
SELECT id, duration_ms FROM mayfly_cycles WHERE id > :since AND id <= :until AND duration_ms IS NOT NULL;
UPDATE mayfly_locks SET number = :until WHERE name = 'counted';
DELETE FROM mayfly_hosts WHERE host IN (SELECT host FROM (SELECT host FROM mayfly_hosts GROUP BY host HAVING MAX(last_at) < :before) AS silent);

-- dead jobs
SELECT j.lane, j.type, a.fingerprint, COUNT(*), MAX(a.finished_at), MAX(j.id) FROM (SELECT * FROM (SELECT job_id, fingerprint, finished_at FROM mayfly_attempts WHERE outcome = 'failed' AND finished_at >= :since ORDER BY finished_at DESC LIMIT 10000) AS failed UNION ALL SELECT * FROM (SELECT job_id, fingerprint, finished_at FROM mayfly_attempts WHERE outcome = 'timed out' AND finished_at >= :since ORDER BY finished_at DESC LIMIT 10000) AS timed_out UNION ALL SELECT * FROM (SELECT job_id, fingerprint, finished_at FROM mayfly_attempts WHERE outcome = 'crashed' AND finished_at >= :since ORDER BY finished_at DESC LIMIT 10000) AS crashed) AS a JOIN mayfly_jobs AS j ON j.id = a.job_id WHERE j.status = 'dead' AND j.finished_at = a.finished_at GROUP BY j.lane, j.type, a.fingerprint;

-- killed runners
SELECT r.lane, r.ending, r.signal, COUNT(*), MAX(r.finished_at), MAX(r.worker_id), MAX(r.cause) FROM mayfly_runners AS r WHERE r.finished_at > :since AND (r.signal IS NOT NULL OR r.ending IN ('crash', 'lost')) GROUP BY r.lane, r.ending, r.signal;

-- send an alert
BEGIN IMMEDIATE;
SELECT mayfly_alerts.fingerprint, mayfly_alerts.kind, mayfly_alerts.subject, mayfly_alerts.detail, mayfly_alerts.first_at, mayfly_alerts.last_at, mayfly_alerts.times, mayfly_alerts.told_at, mayfly_alerts.told, mayfly_alerts.recovered_at FROM mayfly_alerts;
INSERT INTO mayfly_alerts (fingerprint, kind, subject, detail, first_at, last_at, recovered_at, times) VALUES (:fingerprint, :kind, :subject, :detail, :first_at, :last_at, :recovered_at, :times) ON CONFLICT (fingerprint) DO NOTHING;
DELETE FROM mayfly_alerts WHERE recovered_at < :before;
BEGIN IMMEDIATE;
UPDATE mayfly_alerts SET telling_until = :until WHERE fingerprint = :fingerprint AND (telling_until IS NULL OR telling_until <= :now) AND recovered_at IS NULL AND (told_at IS NULL OR told_at <= :again);
BEGIN IMMEDIATE;
UPDATE mayfly_alerts SET told = :told, told_at = :told_at, telling_until = :telling_until WHERE fingerprint = :fingerprint;

-- recover an alert
BEGIN IMMEDIATE;
SELECT mayfly_alerts.fingerprint, mayfly_alerts.kind, mayfly_alerts.subject, mayfly_alerts.detail, mayfly_alerts.first_at, mayfly_alerts.last_at, mayfly_alerts.times, mayfly_alerts.told_at, mayfly_alerts.told, mayfly_alerts.recovered_at FROM mayfly_alerts;
UPDATE mayfly_alerts SET kind = :kind, subject = :subject, detail = :detail, first_at = :first_at, last_at = :last_at, recovered_at = :recovered_at, times = :times WHERE fingerprint = :fingerprint;
DELETE FROM mayfly_alerts WHERE recovered_at < :before;

-- prune
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT 'pending', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS pending_0 UNION ALL SELECT 'pending', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS pending_1 UNION ALL SELECT 'pending', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS pending_2 UNION ALL SELECT 'processing', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS processing_0 UNION ALL SELECT 'processing', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS processing_1 UNION ALL SELECT 'processing', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS processing_2 UNION ALL SELECT 'done', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS done_0 UNION ALL SELECT 'done', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS done_1 UNION ALL SELECT 'done', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS done_2 UNION ALL SELECT 'dead', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS dead_0 UNION ALL SELECT 'dead', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS dead_1 UNION ALL SELECT 'dead', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS dead_2 UNION ALL SELECT 'cancelled', 0, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 0 ORDER BY run_at, id LIMIT 1) AS cancelled_0 UNION ALL SELECT 'cancelled', 1, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 1 ORDER BY run_at, id LIMIT 1) AS cancelled_1 UNION ALL SELECT 'cancelled', 2, run_at FROM (SELECT run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'cancelled' AND priority = 2 ORDER BY run_at, id LIMIT 1) AS cancelled_2;
SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane;
SELECT id FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 AND run_at < :before AND finished_at < :before ORDER BY run_at, id LIMIT 500;
BEGIN IMMEDIATE;
DELETE FROM mayfly_chains WHERE job_id IN (:key_0, :key_1);
DELETE FROM mayfly_jobs WHERE id IN (:key_0, :key_1) AND status = 'done';
SELECT id FROM mayfly_jobs WHERE lane = :lane AND status = 'done' AND priority = 1 AND run_at < :before AND finished_at < :before ORDER BY run_at, id LIMIT 500;
SELECT batch_key FROM mayfly_batches WHERE completed_at < :before ORDER BY completed_at LIMIT 500;
SELECT batch_key FROM mayfly_batches WHERE completed_at IS NULL AND sealed_at IS NULL AND created_at < :before LIMIT 500;
SELECT worker_id FROM mayfly_runners WHERE finished_at < :before ORDER BY finished_at LIMIT 500;
SELECT limit_key FROM mayfly_limits WHERE opens_at < :before ORDER BY opens_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'failed' AND finished_at < :before ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'timed out' AND finished_at < :before ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'crashed' AND finished_at < :before ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'sliced' AND finished_at < :before ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'released' AND finished_at < :before ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_attempts WHERE outcome = 'done' AND finished_at < :before ORDER BY finished_at LIMIT 500;
SELECT id FROM mayfly_cycles WHERE started_at < :before ORDER BY started_at LIMIT 500;
SELECT cycle_id FROM mayfly_totals WHERE cycle_id < :before ORDER BY cycle_id LIMIT 500;
BEGIN IMMEDIATE;
DELETE FROM mayfly_totals WHERE cycle_id IN (:key_0);
SELECT begins FROM mayfly_history WHERE span = :span AND begins < :before ORDER BY begins LIMIT 500;
BEGIN IMMEDIATE;
DELETE FROM mayfly_history WHERE begins IN (:key_0) AND span = :span;
SELECT begins FROM mayfly_history WHERE span = :span AND begins < :before ORDER BY begins LIMIT 500;
BEGIN IMMEDIATE;
DELETE FROM mayfly_history WHERE begins IN (:key_0) AND span = :span;
SELECT begins FROM mayfly_history WHERE span = :span AND begins < :before ORDER BY begins LIMIT 500;
BEGIN IMMEDIATE;
DELETE FROM mayfly_history WHERE begins IN (:key_0) AND span = :span;
SELECT begins FROM mayfly_history WHERE span = :span AND begins < :before ORDER BY begins LIMIT 500;
BEGIN IMMEDIATE;
DELETE FROM mayfly_history WHERE begins IN (:key_0) AND span = :span;
SELECT id FROM mayfly_audit WHERE done_at < :before ORDER BY done_at LIMIT 500;
SELECT idempotency_key FROM mayfly_requests WHERE created_at < :before ORDER BY created_at LIMIT 500;

-- check for external jobs
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;
SELECT 0, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane_0 AND status = 'pending' AND priority = 0 AND run_at <= :now ORDER BY run_at, id LIMIT 4) AS counted_0 UNION ALL SELECT 1, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane_1 AND status = 'pending' AND priority = 1 AND run_at <= :now ORDER BY run_at, id LIMIT 4) AS counted_1 UNION ALL SELECT 2, COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane_2 AND status = 'pending' AND priority = 2 AND run_at <= :now ORDER BY run_at, id LIMIT 4) AS counted_2;

-- pull
SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses;
BEGIN IMMEDIATE;
SELECT 0, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 0 AND run_at >= :since_0 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_0 UNION ALL SELECT 1, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 1 AND run_at >= :since_1 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_1 UNION ALL SELECT 2, run_at, id, unique_key IS NULL FROM (SELECT run_at, id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = 2 AND run_at >= :since_2 AND run_at <= :now ORDER BY run_at, id LIMIT 2) AS due_2;
SELECT id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key, suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE 'source:%' THEN 2 ELSE 0 END FROM mayfly_jobs WHERE lane = :lane AND status = 'pending' AND priority = :priority AND run_at >= :since AND run_at <= :now ORDER BY run_at, id LIMIT :size;
UPDATE mayfly_jobs SET status = 'processing', worker_id = :worker_id, locked_at = :now, lease_until = :lease_until, started_at = NULL, attempts = attempts + 1, claims = claims + 1 WHERE id IN (…);

-- extend
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET lease_until = :lease_until WHERE id = :id AND worker_id = :owner AND claims = :token AND status = 'processing';
SELECT cancel_reason FROM mayfly_jobs WHERE id = :id AND worker_id = :owner AND claims = :token;

-- finish an external job
SELECT status, locked_at, lane, suspect, stalled, forgiven, releases, unique_key, id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key FROM mayfly_jobs WHERE id IN (…) AND worker_id = :owner;
SELECT id FROM mayfly_cycles WHERE finished_at IS NOT NULL ORDER BY id DESC LIMIT 1;
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET status = 'done', lease_until = NULL, finished_at = :finished_at, duration_ms = :duration_ms, started_at = :started_at WHERE id = :id AND worker_id = :owner AND claims = :token AND status = 'processing';
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (:cycle_id, :lane, :type, :outcome, :worker_id, :jobs, :durations, :waits) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;

-- finish an external job again
SELECT status, locked_at, lane, suspect, stalled, forgiven, releases, unique_key, id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key FROM mayfly_jobs WHERE id IN (…) AND worker_id = :owner;

-- redeliver expired jobs
SELECT worker_id, lane, suspect, stalled, forgiven, releases, unique_key, id, type, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key FROM mayfly_jobs WHERE lane IN (:lane) AND status = 'processing' AND lease_until <= :now;
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET status = 'pending', lease_until = NULL, worker_id = NULL, locked_at = NULL, attempts = attempts - 1, releases = 0, crashes = crashes + 1, suspect = 1, last_error = :last_error WHERE id = :id AND worker_id = :owner AND claims = :token AND status = 'processing' AND lease_until <= :expired_at;
INSERT INTO mayfly_attempts (job_id, attempt, worker_id, outcome, error, fingerprint, finished_at, duration_ms) VALUES (:job_id, :attempt, :worker_id, :outcome, :error, :fingerprint, :finished_at, :duration_ms);
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (:cycle_id, :lane, :type, :outcome, :worker_id, :jobs, :durations, :waits) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;

-- run a request with an idempotency key
BEGIN IMMEDIATE;
INSERT INTO mayfly_requests (token_name, idempotency_key, body_hash, created_at) VALUES (:token_name, :idempotency_key, :body_hash, :created_at) ON CONFLICT (token_name, idempotency_key) DO NOTHING;
UPDATE mayfly_requests SET answer = :answer WHERE token_name = :token_name AND idempotency_key = :idempotency_key;

-- repeat a request
BEGIN IMMEDIATE;
INSERT INTO mayfly_requests (token_name, idempotency_key, body_hash, created_at) VALUES (:token_name, :idempotency_key, :body_hash, :created_at) ON CONFLICT (token_name, idempotency_key) DO NOTHING;
SELECT body_hash, answer FROM mayfly_requests WHERE token_name = :token_name AND idempotency_key = :idempotency_key;

-- log out
BEGIN IMMEDIATE;
DELETE FROM mayfly_logouts WHERE ended_at < :before;
INSERT INTO mayfly_logouts (session_id, ended_at) VALUES (:session_id, :ended_at) ON CONFLICT (session_id) DO NOTHING;

-- check for a logout
SELECT 1 FROM mayfly_logouts WHERE session_id = :id;

-- find a token
SELECT mayfly_tokens.name, mayfly_tokens.token_hash, mayfly_tokens.scopes, mayfly_tokens.created_at, mayfly_tokens.created_by, mayfly_tokens.expires_at, mayfly_tokens.revoked_at, mayfly_tokens.last_used_at FROM mayfly_tokens WHERE token_hash = :token_hash;

-- count due rows of a source
SELECT COUNT(*) FROM (SELECT source_row."id" FROM "posts" AS source_row WHERE source_row."status" = :pending_0 AND source_row."run_at" <= :due_t AND REPLACE(source_row."run_at", 'T', ' ') <= :due AND NOT EXISTS (SELECT 1 FROM mayfly_jobs WHERE unique_key = 'source:posts:' || CAST(source_row."id" AS TEXT) AND unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time')) ORDER BY source_row."run_at", source_row."id" LIMIT 11) AS range_0;

-- claim rows
BEGIN IMMEDIATE;
SELECT source_row."run_at", source_row."id" FROM "posts" AS source_row WHERE source_row."status" = :pending_0 AND source_row."run_at" <= :due_t AND REPLACE(source_row."run_at", 'T', ' ') <= :due AND NOT EXISTS (SELECT 1 FROM mayfly_jobs WHERE unique_key = 'source:posts:' || CAST(source_row."id" AS TEXT) AND unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time')) ORDER BY source_row."run_at", source_row."id" LIMIT 100;
SELECT source_row."run_at", json_object('title', CASE typeof(source_row."title") WHEN 'blob' THEN hex(source_row."title") ELSE source_row."title" END), source_row."id", source_row."title" FROM "posts" AS source_row WHERE source_row."id" IN (2) AND CASE WHEN (source_row."status" = :pending_0) AND source_row."run_at" <= :due_t AND REPLACE(source_row."run_at", 'T', ' ') <= :due THEN 1 ELSE 0 END = 1 ORDER BY source_row."id";
INSERT INTO mayfly_jobs (type, payload, lane, max_attempts, priority, run_at, unique_key, status, worker_id, locked_at, lease_until, attempts, claims, row_worker_id) SELECT :type, json_object('title', CASE typeof(source_row."title") WHEN 'blob' THEN hex(source_row."title") ELSE source_row."title" END), :lane, :max_attempts, 1, :now, 'source:posts:' || CAST(source_row."id" AS TEXT), 'processing', :worker_id, :now, :lease_until, 1, 1, :worker_id FROM "posts" AS source_row WHERE source_row."id" IN (2) ORDER BY source_row."id" ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND (unique_scope = 'live' AND status IN ('pending', 'processing') OR unique_scope = 'pending' AND status = 'pending' AND claims = 0 OR unique_scope = 'time') DO NOTHING RETURNING id, unique_key;
UPDATE "posts" SET "status" = :new_0, "worker_id" = :new_1, "locked_at" = :new_2 WHERE "id" IN (2);

-- settle the job of a row
BEGIN IMMEDIATE;
UPDATE mayfly_jobs SET status = 'done', lease_until = NULL, finished_at = :finished_at, duration_ms = :duration_ms, started_at = :started_at WHERE id = :id AND worker_id = :owner AND claims = :token AND status = 'processing';
UPDATE "posts" SET "status" = :new_0, "published_at" = :new_1, "retry_count" = :new_2, "last_error" = :new_3 WHERE "id" IN (3) AND CASE WHEN "status" = :old_0 AND "worker_id" = :old_1 THEN 1 ELSE 0 END = 1;
INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) VALUES (:cycle_id, :lane, :type, :outcome, :worker_id, :jobs, :durations, :waits) ON CONFLICT (cycle_id, lane, type, outcome, worker_id) DO UPDATE SET jobs = excluded.jobs, durations = excluded.durations, waits = excluded.waits;
