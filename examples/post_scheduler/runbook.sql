-- The questions that operators asked the old cron script's table. Mayfly keeps the answers.

-- How many posts are in which state?
SELECT status, COUNT(*) AS posts FROM post_schedule GROUP BY status ORDER BY status;

-- Which posts are due and not started?
SELECT id, run_at FROM post_schedule WHERE status = 'pending' AND run_at <= UTC_TIMESTAMP() ORDER BY run_at LIMIT 10;

-- Which posts are locked for more than five minutes?
SELECT id, worker_id, locked_at FROM post_schedule
WHERE status = 'processing' AND locked_at < UTC_TIMESTAMP() - INTERVAL 5 MINUTE;

-- Which worker published how many?
SELECT worker_id, COUNT(*) AS posts FROM post_schedule WHERE status = 'published' GROUP BY worker_id ORDER BY worker_id;

-- Which posts failed, and why?
SELECT id, retry_count, last_error FROM post_schedule WHERE status = 'failed' ORDER BY id;
