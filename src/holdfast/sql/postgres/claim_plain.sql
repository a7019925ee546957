-- claim_plain: as claim_jobs, where no job has a partition key or a limit, as in most queues; it costs a quarter less for one job.
-- only: postgres
-- params: now timestamptz, worker text, lanes json, lease_ms bigint, prefetch boolean, start_at bigint, drops json
-- returns: id text, lease_generation bigint, type_name text, input json, attempt smallint, queue text,
--   priority smallint, ready_at timestamptz, seq bigint, timeout_ms bigint, claimed_at timestamptz, crash_count smallint,
--   chain_id text, chain_index integer, chain_type_name text, created_at timestamptz, scheduled_at timestamptz,
--   max_attempts smallint, last_attempt_error json, tenant text, headers json, has_blockers boolean, partition_key text,
--   partition_seq bigint, standing text (as claim_jobs; a row without id says: there are others among them, nothing was
--   claimed, ask claim_jobs)
-- prepared: yes (as claim_jobs)
-- concurrency: as claim_jobs, of which it is the part that plain jobs need; for whoever has no taste, and in queues where
--   tenants do not take turns. Without marks (the literal) it neither makes nor changes any, and is shorter still.
-- locks: job rows, in claim order, never waited for.
WITH picked AS MATERIALIZED (
    SELECT candidate.*
    FROM json_to_recordset(CAST(CAST(:lanes AS text) AS json))
         AS lane (queue text, priority smallint, ready_at bigint, seq bigint)
    CROSS JOIN LATERAL (
        SELECT job.ctid,
               job.partition_key IS NOT NULL
               OR job.queue = ANY (ARRAY(
                   SELECT limited.name FROM /*schema.*/queue AS limited
                   WHERE limited.concurrency IS NOT NULL OR limited.rate IS NOT NULL
               ))
               OR job.concurrency_key IS NOT NULL AND job.queue = ANY (ARRAY(
                   SELECT limited.name FROM /*schema.*/queue AS limited
                   WHERE limited.key_concurrency IS NOT NULL OR limited.key_rate IS NOT NULL
               )) AS is_special
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND NOT job.is_fair
          AND job.queue = lane.queue AND job.priority = lane.priority
          AND (job.ready_at, job.seq)
              > (timestamptz '2000-01-01 00:00:00+00' + lane.ready_at * interval '1 microsecond', lane.seq)
          AND job.ready_at <= /*moment*/statement_timestamp()
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp())
        ORDER BY job.ready_at, job.seq
        LIMIT /*limit*/100
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS candidate
    WHERE lane.queue <> ALL (ARRAY(
        SELECT closed.name FROM /*schema.*/queue AS closed
        WHERE closed.paused_at IS NOT NULL
              AND (closed.resume_at IS NULL OR closed.resume_at > /*moment*/statement_timestamp())
    ))
    LIMIT /*limit*/100
),
plain AS (
    UPDATE /*schema.*/job AS job
    SET status = 'running',
        attempt = attempt + 1,
        lease_generation = lease_generation + 1,
        leased_by = CAST(:worker AS text),
        leased_until = /*moment*/statement_timestamp()
                       + CAST(:lease_ms AS bigint) * interval '1 millisecond',
        last_attempt_at = /*moment*/statement_timestamp()
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked WHERE NOT EXISTS (SELECT FROM picked WHERE is_special)))
    RETURNING id::text, lease_generation, type_name, input, attempt, queue, priority, ready_at, seq, timeout_ms,
        CASE WHEN CAST(:prefetch AS boolean) THEN last_attempt_at END AS claimed_at, /*usual*/job
-- with: marks
),
/*marks*/promoted,
marked AS (
    INSERT INTO /*schema.*/prefetch (worker_id, claimed_at)
    SELECT CAST(:worker AS text), /*moment*/statement_timestamp()
    WHERE CAST(:prefetch AS boolean) AND EXISTS (SELECT FROM plain)
    ON CONFLICT DO NOTHING
-- end
)
SELECT * FROM plain
UNION ALL
(
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM picked WHERE is_special LIMIT 1
);
