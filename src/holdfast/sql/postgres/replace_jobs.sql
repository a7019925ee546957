-- replace_jobs: give waiting first jobs of chains a new content, as if they had been enqueued only now.
-- params: now timestamptz, jobs json
-- returns: id text, status text, left_queue text (where the next job of a partition key may be claimed by this, or null)
-- concurrency: the rows are locked by judge_keys, which found them pending or blocked. The place in the order of enqueue
--   stays, and that in its partition key if this stays the same; revision grows.
-- locks: none that the transaction does not have; steps, signals and blockers of the jobs.
WITH sent AS MATERIALIZED (
    SELECT id, type_name, queue, priority, input, scheduled_at, delay_ms, max_attempts, timeout_ms, tenant, headers, more
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS sent (
        id /*id*/uuid, type_name text, queue text, priority smallint, input json, scheduled_at timestamptz,
        delay_ms bigint, max_attempts smallint, timeout_ms bigint, tenant text, headers json, more json
    )
),
without_steps AS (DELETE FROM /*schema.*/job_step WHERE job_id IN (SELECT id FROM sent)),
without_signals AS (DELETE FROM /*schema.*/job_signal WHERE chain_id IN (SELECT id FROM sent)),
without_blockers AS (DELETE FROM /*schema.*/job_blocker WHERE job_id IN (SELECT id FROM sent)),
replaced AS (
    UPDATE /*schema.*/job AS job
    SET queue = sent.queue,
        priority = coalesce(sent.priority, 0),
        input = sent.input,
        scheduled_at = CASE WHEN keeps_schedule AND attempt = 0 THEN job.scheduled_at ELSE due END,
        ready_at = CASE WHEN NOT (keeps_schedule AND attempt = 0) THEN due
                        WHEN status = 'blocked' THEN greatest(job.scheduled_at, moment)
                        ELSE job.ready_at END,
        max_attempts = sent.max_attempts,
        timeout_ms = sent.timeout_ms,
        tenant = sent.tenant,
        headers = sent.headers,
        status = CASE WHEN more ->> 'waiting_for' IS NULL THEN 'pending' ELSE 'blocked' END,
        waiting_for = coalesce(CAST(more ->> 'waiting_for' AS smallint), 0),
        on_blocker_failure = more ->> 'on_blocker_failure',
        expires_at = coalesce(CAST(more ->> 'expires_at' AS timestamptz),
                              moment + CAST(more ->> 'expires_ms' AS bigint) * interval '1 millisecond'),
        deduplication_key = more ->> 'deduplication_key',
        deduplication_scope = more ->> 'deduplication_scope',
        partition_key = more ->> 'partition_key',
        partition_bucket = CAST(more ->> 'partition_bucket' AS smallint),
        partition_seq = CASE WHEN more ->> 'partition_key' IS NULL THEN NULL
                             WHEN job.queue = sent.queue AND job.partition_key = more ->> 'partition_key' THEN partition_seq
                             ELSE nextval('/*schema.*/partition_place') END,
        ordering = more ->> 'ordering',
        held = held AND NOT limited AND more ->> 'waiting_for' IS NULL AND job.queue = sent.queue
               AND job.partition_key IS NOT DISTINCT FROM more ->> 'partition_key'
               AND job.ordering IS NOT DISTINCT FROM more ->> 'ordering',
        limited = false,
        concurrency_key = more ->> 'concurrency_key',
        flags = CASE WHEN more ->> 'flags' IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(more -> 'flags')) END,
        is_fair = sent.tenant IS NOT NULL
                  AND sent.queue = ANY (ARRAY(SELECT known.name FROM /*schema.*/queue AS known WHERE known.fair_by = 'tenant')),
        revision = revision + 1,
        attempt = 0,
        crash_count = 0,
        step = NULL,
        progress = NULL,
        last_attempt_error = NULL,
        last_attempt_at = NULL,
        duration_ms = NULL
    FROM sent,
         LATERAL (
             SELECT old.queue AS old_queue, old.partition_key AS old_key, old.held AND NOT old.limited AS had_others_in_front
             FROM /*schema.*/job AS old WHERE old.id = sent.id
         ) AS before,
         LATERAL (SELECT /*moment*/statement_timestamp() AS moment) AS clock,
         LATERAL (
             SELECT greatest(moment, coalesce(sent.scheduled_at, moment + delay_ms * interval '1 millisecond')) AS due
         ) AS schedule,
         LATERAL (SELECT coalesce(more ->> 'on_conflict', '') = 'replace_keep_schedule' AS keeps_schedule) AS asked
    WHERE job.id = sent.id
    RETURNING job.id, job.status,
        CASE WHEN old_key IS NOT NULL AND NOT had_others_in_front
                  AND (job.queue <> old_queue OR job.partition_key IS DISTINCT FROM old_key) THEN old_queue END AS left_queue
)
SELECT id::text, status, left_queue FROM replaced;
