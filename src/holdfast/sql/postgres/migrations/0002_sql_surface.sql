-- 0002_sql_surface: views for people and programs that speak SQL.
-- locks: creates new objects only; nothing of the application is touched.
-- deploy order: migrate first, then start code 0.1.0.
-- oldest code: 0.1.0
-- part: jobs
-- Every job; `state` says more than `status` about one that is pending.
CREATE VIEW /*schema.*/jobs AS
SELECT id, seq, chain_id, chain_index, is_tail, type_name, queue, priority, status,
       CASE WHEN status <> 'pending' THEN status
            WHEN held THEN 'held'
            WHEN ready_at > statement_timestamp() AND attempt = 0 THEN 'scheduled'
            WHEN attempt > 0 THEN 'retrying'
            ELSE 'pending' END AS state,
       attempt, max_attempts, crash_count, input, output, last_attempt_error, created_at, scheduled_at, ready_at, expires_at,
       last_attempt_at, finished_at, duration_ms, timeout_ms, leased_by, leased_until, lease_generation, completed_by,
       cancel_requested_at, waiting_for, on_blocker_failure, deduplication_key, deduplication_scope, revision,
       partition_key, ordering, concurrency_key, flags, tenant, headers, step, progress
FROM /*schema.*/job;
-- part: chains
-- Every chain; status, output and error are those of its last job.
CREATE VIEW /*schema.*/chains AS
SELECT tail.chain_id AS id, first.seq, tail.chain_type_name AS type_name, tail.status, tail.output, tail.last_attempt_error,
       tail.id AS tail_id, tail.type_name AS tail_type_name, tail.chain_index + 1 AS length, tail.tenant,
       first.created_at, tail.finished_at
FROM /*schema.*/job AS tail
JOIN /*schema.*/job AS first ON first.id = tail.chain_id
WHERE tail.is_tail;
-- part: queue_stats
-- What is unfinished or dead in each queue. Finished history is not counted, and not read.
CREATE VIEW /*schema.*/queue_stats AS
SELECT queue,
       count(*) FILTER (WHERE what = 'ready' AND due) AS ready,
       count(*) FILTER (WHERE what = 'ready' AND NOT due) AS scheduled,
       count(*) FILTER (WHERE what = 'held') AS held,
       count(*) FILTER (WHERE what = 'blocked') AS blocked,
       count(*) FILTER (WHERE what = 'running') AS running,
       count(*) FILTER (WHERE what = 'dead_letter') AS dead_letters,
       max(CASE WHEN what = 'ready' AND due THEN extract(epoch FROM statement_timestamp() - ready_at)::float8 END) AS oldest_ready_seconds
FROM (
    SELECT queue, 'ready' AS what, ready_at, ready_at <= statement_timestamp() AS due FROM /*schema.*/job AS job
    WHERE status = 'pending' AND NOT held AND crash_count = 0 AND NOT is_fair
    UNION ALL
    SELECT queue, 'ready', ready_at, ready_at <= statement_timestamp() FROM /*schema.*/job AS job
    WHERE status = 'pending' AND NOT held AND crash_count = 0 AND is_fair
    UNION ALL
    SELECT queue, 'ready', ready_at, ready_at <= statement_timestamp() FROM /*schema.*/job AS job
    WHERE status = 'pending' AND NOT held AND crash_count > 0
    UNION ALL
    SELECT queue, 'held', ready_at, ready_at <= statement_timestamp() FROM /*schema.*/job AS job WHERE status = 'pending' AND held
    UNION ALL
    SELECT queue, 'blocked', ready_at, false FROM /*schema.*/job AS job WHERE status = 'blocked'
    UNION ALL
    SELECT queue, 'running', ready_at, false FROM /*schema.*/job AS job WHERE status = 'running'
    UNION ALL
    SELECT queue, 'dead_letter', ready_at, false FROM /*schema.*/job AS job WHERE status = 'dead_letter'
) AS counted
GROUP BY queue;
-- part: partition_keys
-- Keys with unfinished jobs: how many, which one runs and where, and which one waits first and in which state. A worker may
-- have a run of a key in hand; of these the first runs.
CREATE VIEW /*schema.*/partition_keys AS
SELECT key.queue, key.partition_key, key.unfinished, key.held, key.in_hand, running.id AS running_job_id, running.leased_by,
       waiting.id AS waiting_job_id,
       CASE WHEN coalesce(waiting.status, '') <> 'pending' THEN waiting.status
            WHEN waiting.held THEN 'held'
            WHEN waiting.ready_at > statement_timestamp() AND waiting.attempt = 0 THEN 'scheduled'
            WHEN waiting.attempt > 0 THEN 'retrying'
            ELSE 'pending' END AS waiting_state,
       waiting.ready_at AS waiting_ready_at, key.oldest_created_at
FROM (
    SELECT queue, partition_key, count(*) AS unfinished,
           count(*) FILTER (WHERE status = 'pending' AND held) AS held,
           count(*) FILTER (WHERE status = 'running') AS in_hand,
           min(created_at) AS oldest_created_at
    FROM (
        -- Of each of the three there is an index.
        SELECT queue, partition_key, status, held, created_at FROM /*schema.*/job AS job
        WHERE partition_key IS NOT NULL AND status IN ('blocked', 'pending')
        UNION ALL
        SELECT queue, partition_key, status, held, created_at FROM /*schema.*/job AS job
        WHERE partition_key IS NOT NULL AND status = 'running' AND NOT held
        UNION ALL
        SELECT queue, partition_key, 'running', held, created_at FROM /*schema.*/job AS job
        WHERE partition_key IS NOT NULL AND leased_by IS NOT NULL AND held
    ) AS job
    GROUP BY queue, partition_key
) AS key
LEFT JOIN /*schema.*/job AS running ON running.id = (
    SELECT first.id FROM (
        (
            SELECT job.id, job.partition_seq FROM /*schema.*/job AS job
            WHERE job.queue = key.queue AND job.partition_key = key.partition_key AND job.leased_by IS NOT NULL AND job.held
            ORDER BY job.partition_seq LIMIT 1
        )
        UNION ALL
        SELECT job.id, job.partition_seq FROM /*schema.*/job AS job
        WHERE job.queue = key.queue AND job.partition_key = key.partition_key AND job.status = 'running' AND NOT job.held
    ) AS first
    ORDER BY first.partition_seq LIMIT 1
)
LEFT JOIN /*schema.*/job AS waiting ON waiting.id = (
    SELECT first.id FROM /*schema.*/job AS first
    WHERE first.queue = key.queue AND first.partition_key = key.partition_key
      AND first.status IN ('blocked', 'pending')
    ORDER BY first.partition_seq LIMIT 1
);
-- part: stuck_jobs
-- Jobs that do not move by themselves, or have not for long: a reaper, a sweep or a person has to do something.
CREATE VIEW /*schema.*/stuck_jobs AS
SELECT job.id, job.chain_id, job.type_name, job.queue, job.status, job.attempt, job.leased_by, job.leased_until,
       CASE WHEN worker.id IS NULL OR worker.status = 'dead' THEN 'its worker is gone' ELSE 'its lease has run out' END AS reason,
       extract(epoch FROM statement_timestamp() - coalesce(worker.last_seen_at, job.last_attempt_at))::float8 AS seconds
FROM /*schema.*/job AS job
LEFT JOIN /*schema.*/worker AS worker ON worker.id = job.leased_by
WHERE job.status = 'running'
  AND (worker.id IS NULL OR worker.status = 'dead' OR job.leased_until < statement_timestamp())
UNION ALL
SELECT job.id, job.chain_id, job.type_name, job.queue, job.status, job.attempt, NULL, NULL,
       'it waits for a chain that is gone', extract(epoch FROM statement_timestamp() - job.created_at)::float8
FROM /*schema.*/job AS job
WHERE job.status = 'blocked' AND EXISTS (
    SELECT 1 FROM /*schema.*/job_blocker AS job_blocker
    WHERE job_blocker.job_id = job.id AND NOT job_blocker.is_resolved
      AND NOT EXISTS (SELECT 1 FROM /*schema.*/job AS blocker WHERE blocker.id = job_blocker.blocked_by_chain_id)
)
UNION ALL
SELECT job.id, job.chain_id, job.type_name, job.queue, job.status, job.attempt, NULL, NULL,
       'no worker serves its queue', extract(epoch FROM statement_timestamp() - job.ready_at)::float8
FROM /*schema.*/job AS job
WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND NOT job.is_fair AND job.ready_at <= statement_timestamp()
  AND job.queue NOT IN (
      SELECT queue.value FROM /*schema.*/worker AS worker, json_array_elements_text(worker.queues) AS queue (value)
      WHERE worker.status <> 'dead'
  )
UNION ALL
SELECT job.id, job.chain_id, job.type_name, job.queue, job.status, job.attempt, NULL, NULL,
       'no worker serves its queue', extract(epoch FROM statement_timestamp() - job.ready_at)::float8
FROM /*schema.*/job AS job
WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair AND job.ready_at <= statement_timestamp()
  AND job.queue NOT IN (
      SELECT queue.value FROM /*schema.*/worker AS worker, json_array_elements_text(worker.queues) AS queue (value)
      WHERE worker.status <> 'dead'
  );
-- part: dead_letters
-- Grouped by what went wrong, with a sample: the latest.
CREATE VIEW /*schema.*/dead_letters AS
SELECT type_name, queue, error_type, count(*) AS jobs, min(finished_at) AS first_finished_at,
       max(finished_at) AS last_finished_at, max(CASE WHEN place = 1 THEN id END) AS sample_job_id,
       max(CASE WHEN place = 1 THEN message END) AS sample_message
FROM (
    SELECT id::text AS id, type_name, queue, last_attempt_error ->> 'type' AS error_type, last_attempt_error ->> 'message' AS message, finished_at,
           row_number() OVER (PARTITION BY type_name, queue, last_attempt_error ->> 'type' ORDER BY finished_at DESC, seq DESC) AS place
    FROM /*schema.*/job AS job
    WHERE status = 'dead_letter'
) AS dead
GROUP BY type_name, queue, error_type;
