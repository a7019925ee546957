-- complete_jobs: finish jobs with their outputs.
-- params: now timestamptz, worker text, jobs json
-- returns: id text, outcome text (only what was not completed: 'locked' = try again alone, 'lost' = not yours any more;
--   and of the dependants: 'woken' = a queue that got work, 'unsettled' = a chain with a dependant that is locked)
-- prepared: yes (as for claim_jobs)
-- concurrency: fenced by (id, lease_generation, running). Rows that somebody has locked are skipped, so that one of
--   them does not hold up the others. Completing again under the same generation is a success: the answer to the
--   first try may have been lost. Whoever completes it from outside does so under a generation of his own.
--   Of a run of one partition key nothing is completed behind one that had to be skipped.
--   The fence is written as a CASE to keep the planner off the index of running jobs, which it would read as a whole.
--   NOT IN is always a hash: where the statistics say that nearly all jobs are completed, NOT EXISTS becomes a nested
--   loop over the batch (500 jobs: 27 ms instead of 13).
-- locks: job rows by id, then their chains' dependants by id; never waited for.
WITH sent AS MATERIALIZED (
    SELECT id, lease_generation, output, duration_ms, line, place
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json))
         AS done (id /*id*/uuid, lease_generation bigint, output text, duration_ms bigint, line integer, place integer)
),
holding AS MATERIALIZED (
    SELECT job.ctid, sent.output, sent.duration_ms, sent.line, sent.place
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.id
    WHERE job.id = ANY (ARRAY(SELECT id FROM sent))
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = sent.lease_generation
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
skipped AS MATERIALIZED (
    SELECT line, min(place) AS place FROM sent
    WHERE line IS NOT NULL AND (line, place) NOT IN (SELECT line, place FROM holding WHERE line IS NOT NULL)
    GROUP BY line
),
completed AS (
    UPDATE /*schema.*/job AS job
    SET status = 'completed',
        held = false,
        output = CAST(holding.output AS json),
        finished_at = /*moment*/statement_timestamp(),
        completed_by = CAST(:worker AS text),
        duration_ms = coalesce(holding.duration_ms, CAST(extract(epoch FROM
            /*moment*/statement_timestamp() - job.last_attempt_at) * 1000 AS bigint)),
        last_attempt_error = NULL,
        leased_by = NULL,
        leased_until = NULL
    FROM holding
    WHERE job.ctid = holding.ctid
      AND (holding.line IS NULL
           OR NOT EXISTS (SELECT FROM skipped WHERE skipped.line = holding.line AND skipped.place < holding.place))
    RETURNING job.id, job.chain_id, job.queue, job.partition_key, job.concurrency_key
),
freed AS MATERIALIZED (
    SELECT woken_queue
    FROM (
        SELECT array_agg(queue) AS queues, array_agg(partition_key) AS keys FROM completed WHERE partition_key IS NOT NULL
    ) AS left_keys,
         /*schema.*/free_keys(queues, keys, /*moment*/statement_timestamp())
    WHERE queues IS NOT NULL
),
limits AS MATERIALIZED (
    SELECT woken_queue
    FROM (
        SELECT array_agg(queue) AS queues, array_agg(concurrency_key) AS keys FROM completed WHERE concurrency_key IS NOT NULL
    ) AS left_limits,
         /*schema.*/free_limits(queues, keys, /*moment*/statement_timestamp())
    WHERE queues IS NOT NULL
),
settled AS MATERIALIZED (
    SELECT unsettled, woken_queue
    FROM (SELECT array_agg(chain_id) AS ended FROM completed) AS chains,
         /*schema.*/settle_dependants(ended, /*moment*/statement_timestamp(), false)
)
SELECT sent.id::text, CASE WHEN job.status = 'running' THEN 'locked' ELSE 'lost' END AS outcome
FROM sent LEFT JOIN /*schema.*/job AS job ON job.id = sent.id AND job.lease_generation = sent.lease_generation
WHERE sent.id NOT IN (SELECT id FROM completed)
  AND job.status IS DISTINCT FROM 'completed'
UNION ALL
SELECT woken_queue, 'woken' FROM freed
UNION ALL
SELECT woken_queue, 'woken' FROM limits
UNION ALL
SELECT coalesce(unsettled::text, woken_queue), CASE WHEN unsettled IS NULL THEN 'woken' ELSE 'unsettled' END FROM settled;
