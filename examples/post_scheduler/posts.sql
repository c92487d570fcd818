-- Fifty posts that are due now.
INSERT INTO post_details (title, body)
SELECT CONCAT('Post ', seq), 'Hello' FROM seq_1_to_50;

INSERT INTO post_schedule (post_detail_id, run_at)
SELECT id, UTC_TIMESTAMP() - INTERVAL 1 MINUTE FROM post_details;
