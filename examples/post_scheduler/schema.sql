-- The tables of an application that publishes posts at their time. They exist already, and Mayfly changes no column.
CREATE TABLE post_details (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    title VARCHAR(200) NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE post_schedule (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    post_detail_id BIGINT NOT NULL,
    channel VARCHAR(20) NOT NULL DEFAULT 'web',
    run_at DATETIME NOT NULL,
    status ENUM('pending', 'processing', 'published', 'failed') NOT NULL DEFAULT 'pending',
    worker_id VARCHAR(64),
    locked_at DATETIME,
    retry_count INT NOT NULL DEFAULT 0,
    last_error VARCHAR(255),
    published_at DATETIME,
    -- `mayfly sources check` suggests this index.
    KEY post_schedule_due (status, run_at, id)
);

-- Where a post appears. It is written in the transaction that sets its schedule to `published`, so never twice.
CREATE TABLE published_posts (
    post_schedule_id BIGINT NOT NULL,
    title VARCHAR(200) NOT NULL,
    channel VARCHAR(20) NOT NULL
);
