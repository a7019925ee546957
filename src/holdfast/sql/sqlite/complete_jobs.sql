-- complete_jobs: finish jobs with their outputs.
-- params: now timestamptz, worker text, jobs json
-- returns: id text, outcome text (only what was not completed: 'lost' = not yours any more; 'woken' = a queue that got
--   work; and 'unsettled' = a chain with dependants, to be settled in the same transaction)
-- concurrency: fenced by (id, lease_generation, running). Completing again under the same generation is a success: the
--   answer to the first try may have been lost. Whoever completes it from outside does so under a generation
--   of his own.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET status = 'completed', held = 0, output = sent.output, finished_at = :now, completed_by = :worker,
    duration_ms = ifnull(sent.duration_ms,
        CAST(round((julianday(:now) - julianday(last_attempt_at)) * 86400000) AS INTEGER)),
    last_attempt_error = NULL, leased_by = NULL, leased_until = NULL
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.lease_generation') AS lease_generation,
           json_extract(value, '$.output') AS output, json_extract(value, '$.duration_ms') AS duration_ms
    FROM json_each(:jobs)
) AS sent
WHERE job.id = sent.id AND job.lease_generation = sent.lease_generation AND job.status = 'running';
-- part: exceptions
SELECT json_extract(value, '$.id') AS id, 'lost' AS outcome
FROM json_each(:jobs)
WHERE NOT EXISTS (
    SELECT 1 FROM /*schema.*/job AS job
    WHERE job.id = json_extract(value, '$.id') AND job.status = 'completed'
      AND job.lease_generation = json_extract(value, '$.lease_generation')
)
UNION ALL
SELECT DISTINCT queue, 'woken'
FROM (
    SELECT DISTINCT job.queue, job.partition_key
    FROM json_each(:jobs)
    CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(value, '$.id')
    WHERE job.partition_key IS NOT NULL
) AS left_key
-- Not any job that may be claimed: looking for one where there is none would go through all that wait in the key.
WHERE (
    SELECT first.status = 'pending' AND first.held = 0 FROM /*schema.*/job AS first
    WHERE first.queue = left_key.queue AND first.partition_key = left_key.partition_key
      AND first.status IN ('blocked', 'pending', 'running')
    ORDER BY first.partition_seq LIMIT 1
) OR EXISTS (
    SELECT 1 FROM /*schema.*/job AS serial
    WHERE serial.queue = left_key.queue AND serial.partition_key = left_key.partition_key
      AND serial.held = 0 AND serial.status = 'pending' AND serial.ordering = 'serial'
)
UNION ALL
SELECT DISTINCT job.chain_id, 'unsettled'
FROM json_each(:jobs)
CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(value, '$.id')
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = job.chain_id
WHERE job.status = 'completed' AND NOT job_blocker.is_resolved;
