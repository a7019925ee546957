-- claim_jobs: take up to /*limit*/100 claimable jobs, in the order of the lanes given.
-- params: now timestamptz, worker text, lanes json, lease_ms bigint, prefetch boolean, start_at bigint, drops json
-- returns: id text, lease_generation bigint, type_name text, input json, attempt smallint, queue text,
--   priority smallint, ready_at timestamptz, seq bigint, timeout_ms bigint, claimed_at timestamptz, crash_count smallint,
--   chain_id text, chain_index integer, chain_type_name text, created_at timestamptz, scheduled_at timestamptz,
--   max_attempts smallint, last_attempt_error json, tenant text, headers json, has_blockers boolean
--   (null stands for: claimed_at not prefetched; crash_count and chain_index 0; chain_id and chain_type_name the job's own;
--   created_at and scheduled_at the same as ready_at; has_blockers no. A value that is nearly always the same costs more to send than to know.)
-- prepared: yes (parsing and planning it takes longer than claiming a single job)
-- concurrency: SKIP LOCKED hands every claimer other rows; the row lock and the update happen in one statement, so a
--   generation has one holder. A lane is (queue, priority) and the place where this worker's last claim in it ended:
--   the scan starts there and does not walk what was claimed before, even while an old snapshot keeps those rows'
--   dead index entries. The nested loop asks the lanes one after the other and stops at the limit, so later lanes are
--   neither read nor locked. What should have been started by now and was not is left to expire_jobs. The limit is a literal and the update goes by ctid: no other plan comes to mind, with or
--   without statistics (a generic plan with LIMIT $1 costs four fifths of the throughput).
--   With prefetch, a mark says that the batch is not started yet; start_at promotes an earlier batch, drops forgets those
--   of which nothing waits any more.
-- locks: job rows, in claim order, never waited for.
WITH lane AS MATERIALIZED (
    SELECT queue, priority, position, seq
    FROM ROWS FROM (
        json_to_recordset(CAST(CAST(:lanes AS text) AS json))
            AS (queue text, priority smallint, ready_at bigint, seq bigint)
    ) WITH ORDINALITY AS asked (queue, priority, ready_at, seq, place),
         LATERAL (SELECT timestamptz '2000-01-01 00:00:00+00' + ready_at * interval '1 microsecond' AS position) AS converted
    ORDER BY place
),
picked AS MATERIALIZED (
    SELECT candidate.ctid
    FROM lane CROSS JOIN LATERAL (
        SELECT job.ctid
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0
          AND job.queue = lane.queue AND job.priority = lane.priority
          AND (job.ready_at, job.seq) > (lane.position, lane.seq)
          AND job.ready_at <= coalesce(CAST(:now AS timestamptz), statement_timestamp())
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > coalesce(CAST(:now AS timestamptz), statement_timestamp()))
        ORDER BY job.ready_at, job.seq
        LIMIT /*limit*/100
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS candidate
    LIMIT /*limit*/100
),
promoted AS (
    UPDATE /*schema.*/prefetch AS prefetch SET is_promoted = true
    WHERE worker_id = CAST(:worker AS text)
      AND claimed_at = timestamptz '2000-01-01 00:00:00+00' + CAST(:start_at AS bigint) * interval '1 microsecond'
),
dropped AS (
    DELETE FROM /*schema.*/prefetch AS prefetch
    WHERE worker_id = CAST(:worker AS text)
      AND claimed_at = ANY (ARRAY(
          SELECT timestamptz '2000-01-01 00:00:00+00' + CAST(mark AS bigint) * interval '1 microsecond'
          FROM json_array_elements_text(CAST(CAST(:drops AS text) AS json)) AS done (mark)
      ))
),
marked AS (
    INSERT INTO /*schema.*/prefetch (worker_id, claimed_at)
    SELECT CAST(:worker AS text), coalesce(CAST(:now AS timestamptz), statement_timestamp())
    WHERE CAST(:prefetch AS boolean) AND EXISTS (SELECT FROM picked)
    ON CONFLICT DO NOTHING
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
    CASE WHEN CAST(:prefetch AS boolean) THEN last_attempt_at END AS claimed_at, nullif(crash_count, 0) AS crash_count, nullif(chain_id, id)::text AS chain_id,
    nullif(chain_index, 0) AS chain_index, nullif(chain_type_name, type_name) AS chain_type_name, nullif(created_at, ready_at) AS created_at,
    nullif(scheduled_at, ready_at) AS scheduled_at, max_attempts, last_attempt_error, tenant, headers,
    CASE WHEN on_blocker_failure IS NOT NULL THEN true END AS has_blockers;
