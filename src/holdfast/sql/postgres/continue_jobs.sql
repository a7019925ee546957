-- continue_jobs: finish jobs by the next job of their chains.
-- params: now timestamptz, worker text, jobs json
-- returns: id text, outcome text (only what was not continued: 'locked' = try again alone, 'lost' = not yours any more;
--   'woken' = a queue that got work, and 'unsettled' as in complete_jobs)
-- prepared: yes (as for claim_jobs)
-- concurrency: fenced and skipping locked rows as complete_jobs does; the new job is inserted by the statement that ends
--   the old one, and a chain has one job per place. Continuing again under the same generation is a success.
--   A continuation inherits what belongs to the chain: type, tenant, headers, trace, its place in a partition key, and
--   the mark of those who wait for it.
--   Where somebody has asked to cancel the chain, the next job is born cancelled, and the chain has ended.
-- locks: job rows by id, then the dependants of cancelled chains by id; never waited for.
WITH sent AS MATERIALIZED (
    SELECT id, lease_generation, duration_ms, next
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json))
         AS done (id /*id*/uuid, lease_generation bigint, duration_ms bigint, next json)
),
holding AS MATERIALIZED (
    SELECT job.ctid, sent.duration_ms, sent.next
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.id
    WHERE job.id = ANY (ARRAY(SELECT id FROM sent))
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = sent.lease_generation
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
completed AS (
    UPDATE /*schema.*/job AS job
    SET status = 'completed',
        is_tail = false,
        held = false,
        finished_at = moment,
        completed_by = CAST(:worker AS text),
        duration_ms = coalesce(holding.duration_ms, extract(epoch FROM moment - job.last_attempt_at) * 1000),
        last_attempt_error = NULL,
        leased_by = NULL,
        leased_until = NULL
    FROM holding, (SELECT /*moment*/statement_timestamp() AS moment) AS clock
    WHERE job.ctid = holding.ctid
    RETURNING job.id, job.queue, job.chain_id, job.chain_type_name, job.chain_index, job.tenant, job.headers,
              job.chain_trace_context, job.partition_key, job.partition_bucket, job.partition_seq, job.ordering, job.is_awaited,
              job.concurrency_key, holding.next, moment,
              CASE WHEN CAST(job.cancel_request ->> 'is_chain' AS boolean) THEN job.cancel_request -> 'error' END AS ending
),
continued AS (
    INSERT INTO /*schema.*/job (
        id, chain_id, chain_type_name, chain_index, type_name, queue, priority, input, created_at, scheduled_at, ready_at,
        max_attempts, timeout_ms, tenant, headers, status, waiting_for, on_blocker_failure, expires_at,
        chain_trace_context, partition_key, partition_bucket, partition_seq, ordering, concurrency_key, flags, is_awaited,
        finished_at, last_attempt_error, is_fair
    )
    SELECT new.id, parent.chain_id, parent.chain_type_name, parent.chain_index + 1, new.type_name, new.queue,
           coalesce(new.priority, 0), new.input, moment, due, due, new.max_attempts, new.timeout_ms,
           coalesce(new.tenant, parent.tenant), coalesce(new.headers, parent.headers),
           CASE WHEN ending IS NOT NULL THEN 'cancelled' WHEN more ->> 'waiting_for' IS NULL THEN 'pending' ELSE 'blocked' END,
           coalesce(CAST(more ->> 'waiting_for' AS smallint), 0), more ->> 'on_blocker_failure',
           coalesce(CAST(more ->> 'expires_at' AS timestamptz),
                    moment + CAST(more ->> 'expires_ms' AS bigint) * interval '1 millisecond'),
           parent.chain_trace_context,
           CASE WHEN has_own_key THEN more ->> 'partition_key' ELSE parent.partition_key END,
           CASE WHEN has_own_key THEN CAST(more ->> 'partition_bucket' AS smallint) ELSE parent.partition_bucket END,
           CASE WHEN has_own_key THEN nextval('/*schema.*/partition_place') ELSE parent.partition_seq END,
           CASE WHEN has_own_key THEN more ->> 'ordering' ELSE parent.ordering END,
           more ->> 'concurrency_key',
           CASE WHEN more ->> 'flags' IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(more -> 'flags')) END,
           parent.is_awaited,
           CASE WHEN ending IS NOT NULL THEN moment END, ending,
           coalesce(new.tenant, parent.tenant) IS NOT NULL
           AND new.queue = ANY (ARRAY(SELECT known.name FROM /*schema.*/queue AS known WHERE known.fair_by = 'tenant'))
    FROM completed AS parent,
         LATERAL json_to_record(parent.next) AS new (
             id /*id*/uuid, type_name text, queue text, priority smallint, input json, scheduled_at timestamptz,
             delay_ms bigint, max_attempts smallint, timeout_ms bigint, tenant text, headers json, more json
         ),
         LATERAL (
             SELECT greatest(moment, coalesce(scheduled_at, moment + delay_ms * interval '1 millisecond')) AS due
         ) AS schedule,
         LATERAL (
             SELECT more ->> 'partition_key' IS NOT NULL
                    AND (parent.partition_key IS NULL OR more ->> 'has_own_key' IS NOT NULL) AS has_own_key
         ) AS kept
    RETURNING chain_id, queue, status, finished_at
),
freed AS MATERIALIZED (
    SELECT woken_queue
    FROM (
        SELECT array_agg(parent.queue) AS queues, array_agg(parent.partition_key) AS keys, max(moment) AS moment
        FROM completed AS parent JOIN continued ON continued.chain_id = parent.chain_id
        WHERE parent.partition_key IS NOT NULL
    ) AS left_keys,
         /*schema.*/free_keys(queues, keys, left_keys.moment)
    WHERE queues IS NOT NULL
),
limits AS MATERIALIZED (
    SELECT woken_queue
    FROM (
        SELECT array_agg(queue) AS queues, array_agg(concurrency_key) AS keys, max(moment) AS moment
        FROM completed WHERE concurrency_key IS NOT NULL
    ) AS left_limits,
         /*schema.*/free_limits(queues, keys, left_limits.moment)
    WHERE queues IS NOT NULL
),
settled AS MATERIALIZED (
    SELECT unsettled, woken_queue
    FROM (SELECT array_agg(chain_id) AS ended, max(finished_at) AS moment FROM continued WHERE status = 'cancelled') AS chains,
         /*schema.*/settle_dependants(ended, chains.moment, false)
    WHERE ended IS NOT NULL
)
SELECT sent.id::text, CASE WHEN job.status = 'running' THEN 'locked' ELSE 'lost' END AS outcome
FROM sent LEFT JOIN /*schema.*/job AS job ON job.id = sent.id AND job.lease_generation = sent.lease_generation
WHERE sent.id NOT IN (SELECT id FROM completed)
  AND (job.status IS DISTINCT FROM 'completed' OR job.is_tail)
UNION ALL
SELECT DISTINCT queue, 'woken' FROM continued WHERE status <> 'cancelled'
UNION ALL
SELECT woken_queue, 'woken' FROM freed
UNION ALL
SELECT woken_queue, 'woken' FROM limits
UNION ALL
SELECT coalesce(unsettled::text, woken_queue), CASE WHEN unsettled IS NULL THEN 'woken' ELSE 'unsettled' END FROM settled;
