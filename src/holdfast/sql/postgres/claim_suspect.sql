-- claim_suspect: take one job whose earlier worker died, to be run alone.
-- params: now timestamptz, worker text, queues json, lease_ms bigint
-- returns: id text, seq bigint, queue text, priority smallint, ready_at timestamptz, last_attempt_at timestamptz,
--   type_name text, input json, attempt smallint, lease_generation bigint, crash_count smallint, timeout_ms bigint,
--   chain_id text, chain_index integer, chain_type_name text, created_at timestamptz, scheduled_at timestamptz,
--   max_attempts smallint, last_attempt_error json, tenant text, headers json
-- concurrency: as claim_jobs; one at a time, so that a job that kills its worker takes no other down with it.
-- locks: one job row, never waited for.
WITH picked AS MATERIALIZED (
    SELECT candidate.ctid
    FROM json_array_elements_text(CAST(CAST(:queues AS text) AS json)) AS asked (queue)
    CROSS JOIN LATERAL (
        SELECT job.ctid
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count > 0
          AND job.queue = asked.queue
          AND job.ready_at <= coalesce(CAST(:now AS timestamptz), statement_timestamp())
        ORDER BY job.ready_at, job.seq
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS candidate
    LIMIT 1
)
UPDATE /*schema.*/job AS job
SET status = 'running',
    attempt = attempt + 1,
    lease_generation = lease_generation + 1,
    leased_by = CAST(:worker AS text),
    leased_until = coalesce(CAST(:now AS timestamptz), statement_timestamp())
                   + CAST(:lease_ms AS bigint) * interval '1 millisecond',
    last_attempt_at = coalesce(CAST(:now AS timestamptz), statement_timestamp())
WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked))
RETURNING id::text, seq, queue, priority, ready_at, last_attempt_at, type_name, input, attempt, lease_generation,
    crash_count, timeout_ms, chain_id::text, chain_index, chain_type_name, created_at, scheduled_at, max_attempts,
    last_attempt_error, tenant, headers;
