-- common/fragments: what many statements say in the same words, filled in wherever a file says /*name*/.
-- params: now timestamptz, taste json, worker text, start_at bigint, drops json
-- part: moment
-- What a statement takes for the time: the database's, unless a test has a clock.
coalesce(CAST(:now AS timestamptz), statement_timestamp())
-- part: taste
-- Whether a job is to the taste of a worker. Beside the job there are `forbidden` flags and the `mask` of its queue's buckets.
(CAST(:taste AS text) IS NULL
 OR (job.flags IS NULL OR NOT job.flags && forbidden)
    AND (mask IS NULL OR job.partition_bucket IS NULL OR substr(mask, job.partition_bucket + 1, 1) = '1'
         OR job.ready_at <= /*moment*/statement_timestamp() - interval '10 seconds'))
-- part: usual
-- What a claim tells of a plain job behind its claimed_at: null where it is as usual, see claim_jobs.
nullif(job.crash_count, 0) AS crash_count, nullif(job.chain_id, job.id)::text AS chain_id,
nullif(job.chain_index, 0) AS chain_index, nullif(job.chain_type_name, job.type_name) AS chain_type_name,
nullif(job.created_at, job.ready_at) AS created_at, nullif(job.scheduled_at, job.ready_at) AS scheduled_at,
job.max_attempts, job.last_attempt_error, job.tenant, job.headers,
CASE WHEN job.on_blocker_failure IS NOT NULL THEN true END AS has_blockers,
NULL::text AS partition_key, NULL::bigint AS partition_seq, NULL::text AS standing
-- part: marks
-- What a claim does with the marks of earlier batches of its worker: one is started, of some nothing waits any more.
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
)
