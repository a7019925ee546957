-- claim_jobs: take up to /*limit*/100 claimable jobs, in the order of the lanes given.
-- params: now timestamptz, worker text, lanes json, lease_ms bigint, prefetch boolean, start_at bigint, drops json, run bigint, room integer, taste json, most bigint
-- returns: id text, lease_generation bigint, type_name text, input json, attempt smallint, queue text,
--   priority smallint, ready_at timestamptz, seq bigint, timeout_ms bigint, claimed_at timestamptz, crash_count smallint,
--   chain_id text, chain_index integer, chain_type_name text, created_at timestamptz, scheduled_at timestamptz,
--   max_attempts smallint, last_attempt_error json, tenant text, headers json, has_blockers boolean, partition_key text,
--   partition_seq bigint, standing text
--   (null stands for: claimed_at not prefetched; crash_count and chain_index 0; chain_id and chain_type_name the job's own;
--   created_at and scheduled_at the same as ready_at; has_blockers no; partition_key, partition_seq and standing no key. A value that is nearly always the same costs more to send than to know.)
-- prepared: yes (parsing and planning it takes longer than claiming a single job)
-- concurrency: SKIP LOCKED hands every claimer other rows; the row lock and the update happen in one statement, so a
--   generation has one holder. A lane is (queue, priority) and the place where this worker's last claim in it ended:
--   the scan starts there and does not walk what was claimed before, even while an old snapshot keeps those rows'
--   dead index entries. The nested loop asks the lanes one after the other and stops at the limit, so later lanes are
--   neither read nor locked. What should have been started by now and was not is left to expire_jobs. The limit is a literal and the update goes by ctid: no other plan comes to mind, with or
--   without statistics (a generic plan with LIMIT $1 costs four fifths of the throughput).
--   Jobs with partition keys are judged by claim_keys, which claims those that may run, with them up to run that come
--   next behind each, no more than room in all, and sets the others aside. standing is 'first' of those of its key, or 'follows' for one that came along behind another.
--   A row without id tells of a lane in which jobs were left: how many were set aside (lease_generation) or passed by
--   (timeout_ms), and the last one's place. A claim that met another one of the same key is refused by job_key_holder_idx,
--   and made again.
--   Jobs whose concurrency keys are limited are judged by admit_jobs, which sets aside what may not start now.
--   Lanes with a tenant are those of jobs that go by tenant; of each no more than most are taken.
--   A paused queue gives out nothing, and a limited one nothing to a worker that has no share of it: see share_queue.
--   What is not to the worker's taste it passes by: jobs with a forbidden flag, and jobs of partition keys that fall into
--   buckets that are not its own (mask), unless they have been due for 10 s.
--   With prefetch, a mark says that the batch is not started yet, unless all of it was set aside; start_at promotes an earlier batch, drops forgets those
--   of which nothing waits any more.
-- locks: job rows, in claim order, never waited for.
WITH lane AS MATERIALIZED (
    SELECT queue, priority, position, seq, tenant, forbidden, mask, EXISTS (
               SELECT FROM /*schema.*/queue AS known
               WHERE known.name = queue AND (known.key_concurrency IS NOT NULL OR known.key_rate IS NOT NULL)
           ) AS has_key_limits
    FROM ROWS FROM (
        json_to_recordset(CAST(CAST(:lanes AS text) AS json))
            AS (queue text, priority smallint, ready_at bigint, seq bigint, tenant text)
    ) WITH ORDINALITY AS asked (queue, priority, ready_at, seq, tenant, place),
         LATERAL (SELECT timestamptz '2000-01-01 00:00:00+00' + ready_at * interval '1 microsecond' AS position) AS converted
    CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT json_array_elements_text(CAST(CAST(:taste AS text) AS json) -> 'forbidden')) AS forbidden,
               CAST(CAST(:taste AS text) AS json) -> 'masks' ->> queue AS mask
    ) AS taste
    WHERE queue <> ALL (ARRAY(
        SELECT closed.name FROM /*schema.*/queue AS closed
        WHERE closed.paused_at IS NOT NULL
              AND (closed.resume_at IS NULL OR closed.resume_at > /*moment*/statement_timestamp())
           OR (closed.concurrency IS NOT NULL OR closed.rate IS NOT NULL) AND NOT EXISTS (
              SELECT FROM /*schema.*/queue_share AS share
              WHERE share.queue = closed.name AND share.worker_id = CAST(:worker AS text)
                AND (closed.concurrency IS NULL OR share.permits > 0) AND (closed.rate IS NULL OR share.burst > 0)
           )
    ))
    ORDER BY place
),
picked AS MATERIALIZED (
    SELECT candidate.*
    FROM lane CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT job.ctid, job.partition_key IS NOT NULL AS is_keyed,
                   CASE WHEN job.concurrency_key IS NOT NULL AND job.partition_key IS NULL AND lane.has_key_limits THEN job.id END AS limit_id
            FROM /*schema.*/job AS job
            WHERE lane.tenant IS NULL AND job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND NOT job.is_fair
              AND job.queue = lane.queue AND job.priority = lane.priority
              AND (job.ready_at, job.seq) > (lane.position, lane.seq)
              AND job.ready_at <= /*moment*/statement_timestamp()
              AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp())
              AND /*taste*/job
            ORDER BY job.ready_at, job.seq
            LIMIT /*limit*/100
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS plain
        UNION ALL
        SELECT * FROM (
            SELECT * FROM (
                SELECT job.ctid, job.partition_key IS NOT NULL AS is_keyed,
                       CASE WHEN job.concurrency_key IS NOT NULL AND job.partition_key IS NULL AND lane.has_key_limits THEN job.id END AS limit_id
                FROM /*schema.*/job AS job
                WHERE lane.tenant IS NOT NULL AND job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair
                  AND job.queue = lane.queue AND job.tenant = lane.tenant AND job.priority = lane.priority
                  AND (job.ready_at, job.seq) > (lane.position, lane.seq)
                  AND job.ready_at <= /*moment*/statement_timestamp()
                  AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp())
                  AND /*taste*/job
                ORDER BY job.ready_at, job.seq
                LIMIT /*limit*/100
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS share LIMIT CAST(:most AS bigint)
        ) AS fair
    ) AS candidate
    LIMIT /*limit*/100
),
admission AS MATERIALIZED (
    SELECT admitted.id, admitted.verdict
    FROM (SELECT array_agg(limit_id) FILTER (WHERE limit_id IS NOT NULL) AS limited FROM picked) AS found,
         LATERAL /*schema.*/admit_jobs(
             limited, /*moment*/statement_timestamp(), CAST(:prefetch AS boolean)
         ) AS admitted
    WHERE limited IS NOT NULL
),
/*marks*/promoted,
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
        CASE WHEN CAST(:prefetch AS boolean) THEN last_attempt_at END AS claimed_at, /*usual*/job
),
keyed AS MATERIALIZED (
    SELECT claimed.*
    FROM (SELECT array_agg(ctid) FILTER (WHERE is_keyed) AS keys, count(*) AS seen FROM picked) AS found,
         LATERAL /*schema.*/claim_keys(
             keys, CAST(:worker AS text), CAST(:lease_ms AS bigint), /*moment*/statement_timestamp(),
             CAST(:room AS integer) - seen::integer + cardinality(keys), CAST(:run AS bigint), CAST(:prefetch AS boolean),
             CAST(:taste AS text)
         ) AS claimed
    WHERE keys IS NOT NULL
),
marked AS (
    INSERT INTO /*schema.*/prefetch (worker_id, claimed_at)
    SELECT CAST(:worker AS text), /*moment*/statement_timestamp()
    WHERE CAST(:prefetch AS boolean)
      AND (EXISTS (SELECT FROM plain) OR EXISTS (SELECT FROM keyed WHERE keyed.id IS NOT NULL))
    ON CONFLICT DO NOTHING
)
SELECT * FROM plain
UNION ALL
SELECT * FROM keyed
UNION ALL
SELECT NULL, count(*) FILTER (WHERE admission.verdict = 'aside'), NULL, NULL, NULL, job.queue, job.priority, max(job.ready_at),
       max(job.seq), count(*) FILTER (WHERE admission.verdict = 'passed'),
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, CASE WHEN job.is_fair THEN job.tenant END, NULL, NULL, NULL, NULL, NULL
FROM admission JOIN /*schema.*/job AS job ON job.id = admission.id
WHERE admission.verdict <> 'admitted'
GROUP BY job.queue, job.priority, CASE WHEN job.is_fair THEN job.tenant END;
