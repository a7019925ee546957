-- claim_suspect: take one job whose earlier worker died, to be run alone.
-- params: now timestamptz, worker text, queues json, lease_ms bigint
-- returns: id text, lease_generation bigint, type_name text, input json, attempt smallint, queue text,
--   priority smallint, ready_at timestamptz, seq bigint, timeout_ms bigint, claimed_at timestamptz, crash_count smallint,
--   chain_id text, chain_index integer, chain_type_name text, created_at timestamptz, scheduled_at timestamptz,
--   max_attempts smallint, last_attempt_error json, tenant text, headers json, has_blockers boolean
--   (null stands for: claimed_at not prefetched; crash_count and chain_index 0; chain_id and chain_type_name the job's own;
--   created_at and scheduled_at the same as ready_at; has_blockers no. A value that is nearly always the same costs more to send than to know.)
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
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > coalesce(CAST(:now AS timestamptz), statement_timestamp()))
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
RETURNING id::text, lease_generation, type_name, input, attempt, queue, priority, ready_at, seq, timeout_ms,
    NULL::timestamptz AS claimed_at, nullif(crash_count, 0) AS crash_count, nullif(chain_id, id)::text AS chain_id,
    nullif(chain_index, 0) AS chain_index, nullif(chain_type_name, type_name) AS chain_type_name, nullif(created_at, ready_at) AS created_at,
    nullif(scheduled_at, ready_at) AS scheduled_at, max_attempts, last_attempt_error, tenant, headers,
    CASE WHEN on_blocker_failure IS NOT NULL THEN true END AS has_blockers;
