-- claim_suspect: take one job whose earlier worker died, to be run alone.
-- params: now timestamptz, worker text, queues json, lease_ms bigint, taste json, passed json
-- returns: id text, lease_generation bigint, type_name text, input json, attempt smallint, queue text,
--   priority smallint, ready_at timestamptz, seq bigint, timeout_ms bigint, claimed_at timestamptz, crash_count smallint,
--   chain_id text, chain_index integer, chain_type_name text, created_at timestamptz, scheduled_at timestamptz,
--   max_attempts smallint, last_attempt_error json, tenant text, headers json, has_blockers boolean, partition_key text,
--   partition_seq bigint, standing text
--   (null stands for: claimed_at not prefetched; crash_count and chain_index 0; chain_id and chain_type_name the job's own;
--   created_at and scheduled_at the same as ready_at; has_blockers no; partition_key, partition_seq and standing no key. A value that is nearly always the same costs more to send than to know.)
-- concurrency: as claim_jobs; one at a time, so that a job that kills its worker takes no other down with it.
--   A row without id tells, as there, of one that was set aside or passed by; who has got nothing else asks again without those
--   (passed: their seqs), which would hide all others.
-- locks: one job row, never waited for.
WITH picked AS MATERIALIZED (
    SELECT candidate.*
    FROM json_array_elements_text(CAST(CAST(:queues AS text) AS json)) AS asked (queue)
    CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT json_array_elements_text(CAST(CAST(:taste AS text) AS json) -> 'forbidden')) AS forbidden,
               CAST(CAST(:taste AS text) AS json) -> 'masks' ->> asked.queue AS mask
    ) AS taste
    CROSS JOIN LATERAL (
        SELECT job.ctid, job.partition_key IS NOT NULL AS is_keyed,
               CASE WHEN job.concurrency_key IS NOT NULL AND job.partition_key IS NULL AND EXISTS (
                   SELECT FROM /*schema.*/queue AS known
                   WHERE known.name = job.queue AND (known.key_concurrency IS NOT NULL OR known.key_rate IS NOT NULL)
               ) THEN job.id END AS limit_id
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count > 0
          AND job.queue = asked.queue
          AND job.seq <> ALL (ARRAY(SELECT CAST(seq AS bigint) FROM json_array_elements_text(CAST(CAST(:passed AS text) AS json)) AS seen (seq)))
          AND job.ready_at <= /*moment*/statement_timestamp()
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp())
          AND /*taste*/job
        ORDER BY job.ready_at, job.seq
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS candidate
    WHERE asked.queue <> ALL (ARRAY(
        SELECT closed.name FROM /*schema.*/queue AS closed
        WHERE closed.paused_at IS NOT NULL
              AND (closed.resume_at IS NULL OR closed.resume_at > /*moment*/statement_timestamp())
           OR (closed.concurrency IS NOT NULL OR closed.rate IS NOT NULL) AND NOT EXISTS (
              SELECT FROM /*schema.*/queue_share AS share
              WHERE share.queue = closed.name AND share.worker_id = CAST(:worker AS text)
                AND (closed.concurrency IS NULL OR share.permits > 0) AND (closed.rate IS NULL OR share.burst > 0)
           )
    ))
    LIMIT 1
),
admission AS MATERIALIZED (
    SELECT admitted.id, admitted.verdict
    FROM picked, LATERAL /*schema.*/admit_jobs(ARRAY[limit_id], /*moment*/statement_timestamp(), false) AS admitted
    WHERE limit_id IS NOT NULL
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
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM picked
        WHERE NOT is_keyed AND (limit_id IS NULL OR limit_id IN (SELECT id FROM admission WHERE verdict = 'admitted'))
    ))
    RETURNING id::text, lease_generation, type_name, input, attempt, queue, priority, ready_at, seq, timeout_ms,
        NULL::timestamptz AS claimed_at, /*usual*/job
)
SELECT * FROM plain
UNION ALL
SELECT claimed.*
FROM picked,
     LATERAL /*schema.*/claim_keys(
         ARRAY[ctid], CAST(:worker AS text), CAST(:lease_ms AS bigint),
         /*moment*/statement_timestamp(), 1, 0::bigint, false,
         CAST(:taste AS text)
     ) AS claimed
WHERE is_keyed
UNION ALL
SELECT NULL, CASE admission.verdict WHEN 'aside' THEN 1 ELSE 0 END, NULL, NULL, NULL, job.queue, job.priority, job.ready_at, job.seq,
       CASE admission.verdict WHEN 'passed' THEN 1 ELSE 0 END,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, CASE WHEN job.is_fair THEN job.tenant END, NULL, NULL, NULL, NULL, NULL
FROM admission JOIN /*schema.*/job AS job ON job.id = admission.id
WHERE admission.verdict <> 'admitted';
