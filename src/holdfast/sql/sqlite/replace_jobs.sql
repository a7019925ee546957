-- replace_jobs: give waiting first jobs of chains a new content, as if they had been enqueued only now.
-- params: now timestamptz, jobs json
-- returns: id text, status text, left_queue text (where the next job of a partition key may be claimed by this, or null)
-- concurrency: inside the write transaction of judge_keys, which found them pending or blocked. The place in the order of
--   enqueue stays, and that in its partition key if this stays the same; revision grows.
-- locks: the database's write lock.
-- part: without_steps
DELETE FROM /*schema.*/job_step WHERE job_id IN (SELECT json_extract(value, '$.id') FROM json_each(:jobs));
-- part: without_signals
DELETE FROM /*schema.*/job_signal WHERE chain_id IN (SELECT json_extract(value, '$.id') FROM json_each(:jobs));
-- part: without_blockers
DELETE FROM /*schema.*/job_blocker WHERE job_id IN (SELECT json_extract(value, '$.id') FROM json_each(:jobs));
-- part: before
SELECT json_group_object(job.id, json_object('queue', job.queue, 'partition_key', job.partition_key)) AS before
FROM json_each(:jobs) CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(value, '$.id')
WHERE job.partition_key IS NOT NULL AND (job.held = 0 OR job.limited = 1);
-- part: places
-- New places in partition keys, of which no job ever gets another's: a job that is enqueued has its seq for one.
UPDATE sqlite_sequence SET seq = seq + json_array_length(:jobs)
WHERE name = '/*bare*/job'
  AND EXISTS (SELECT 1 FROM json_each(:jobs) WHERE json_extract(value, '$.more.partition_key') IS NOT NULL);
-- part: replaced
UPDATE /*schema.*/job AS job
SET queue = sent.queue, priority = sent.priority, input = sent.input,
    scheduled_at = iif(keeps_schedule AND attempt = 0, scheduled_at, due),
    ready_at = CASE WHEN NOT (keeps_schedule AND attempt = 0) THEN due
                    WHEN status = 'blocked' THEN max(scheduled_at, :now)
                    ELSE ready_at END,
    max_attempts = sent.max_attempts, timeout_ms = sent.timeout_ms, tenant = sent.tenant, headers = sent.headers,
    status = iif(sent.waiting_for > 0, 'blocked', 'pending'), waiting_for = sent.waiting_for,
    on_blocker_failure = sent.on_blocker_failure, expires_at = sent.expires_at,
    deduplication_key = sent.deduplication_key, deduplication_scope = sent.deduplication_scope,
    partition_seq = CASE WHEN sent.partition_key IS NULL THEN NULL
                         WHEN job.queue = sent.queue AND job.partition_key = sent.partition_key THEN partition_seq
                         ELSE (SELECT seq FROM sqlite_sequence WHERE name = '/*bare*/job') - sent.place END,
    held = held AND NOT limited AND sent.waiting_for = 0 AND job.queue = sent.queue AND job.partition_key IS sent.partition_key
           AND job.ordering IS sent.ordering,
    partition_key = sent.partition_key, partition_bucket = sent.partition_bucket, ordering = sent.ordering,
    limited = 0, concurrency_key = sent.concurrency_key, flags = sent.flags,
    is_fair = sent.tenant IS NOT NULL
              AND sent.queue IN (SELECT known.name FROM /*schema.*/queue AS known WHERE known.fair_by = 'tenant'),
    revision = revision + 1, attempt = 0, crash_count = 0, step = NULL, progress = NULL,
    last_attempt_error = NULL, last_attempt_at = NULL, duration_ms = NULL
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.queue') AS queue,
           json_array_length(:jobs) - 1 - key AS place,
           ifnull(json_extract(value, '$.priority'), 0) AS priority, json_extract(value, '$.input') AS input,
           max(:now, CASE WHEN json_extract(value, '$.delay_ms') IS NOT NULL
                          THEN strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds',
                                        json_extract(value, '$.delay_ms') / 1000.0)) || '000Z'
                          ELSE ifnull(json_extract(value, '$.scheduled_at'), :now) END) AS due,
           json_extract(value, '$.max_attempts') AS max_attempts, json_extract(value, '$.timeout_ms') AS timeout_ms,
           json_extract(value, '$.tenant') AS tenant, json_extract(value, '$.headers') AS headers,
           ifnull(json_extract(value, '$.more.waiting_for'), 0) AS waiting_for,
           json_extract(value, '$.more.on_blocker_failure') AS on_blocker_failure,
           CASE WHEN json_extract(value, '$.more.expires_ms') IS NOT NULL
                THEN strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds',
                              json_extract(value, '$.more.expires_ms') / 1000.0)) || '000Z'
                ELSE json_extract(value, '$.more.expires_at') END AS expires_at,
           json_extract(value, '$.more.deduplication_key') AS deduplication_key,
           json_extract(value, '$.more.deduplication_scope') AS deduplication_scope,
           json_extract(value, '$.more.partition_key') AS partition_key,
           json_extract(value, '$.more.partition_bucket') AS partition_bucket,
           json_extract(value, '$.more.ordering') AS ordering,
           json_extract(value, '$.more.concurrency_key') AS concurrency_key, json_extract(value, '$.more.flags') AS flags,
           ifnull(json_extract(value, '$.more.on_conflict'), '') = 'replace_keep_schedule' AS keeps_schedule
    FROM json_each(:jobs)
) AS sent
WHERE job.id = sent.id;
-- part: outcomes
SELECT job.id, job.status,
       CASE WHEN job.queue <> json_extract(before.value, '$.queue')
                 OR job.partition_key IS NOT json_extract(before.value, '$.partition_key')
            THEN json_extract(before.value, '$.queue') END AS left_queue
FROM json_each(:jobs) AS sent
CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(sent.value, '$.id')
LEFT JOIN json_each(:before) AS before ON before.key = job.id;
