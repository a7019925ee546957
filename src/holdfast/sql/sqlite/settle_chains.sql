-- settle_chains: tell those who wait for chains that these have ended.
-- params: now timestamptz, chains json, patient boolean, ended_here boolean
-- returns: unsettled text, woken_queue text (unsettled is always null: nobody else can have a row locked)
-- concurrency: inside a write transaction. What asked to be cancelled is, and so on along the graph; what waits for
--   nothing more becomes pending. What is cancelled may have held up others of its partition key. Chains that have not ended are passed over; telling again changes nothing. patient is PostgreSQL's,
--   ended_here is PostgreSQL's.
-- locks: the database's write lock.
-- part: failed
WITH RECURSIVE failed (chain_id) AS (
    SELECT job.chain_id FROM json_each(:chains) CROSS JOIN /*schema.*/job AS job ON job.id = value
    WHERE job.is_tail AND job.status IN ('dead_letter', 'cancelled')
    UNION
    SELECT job.chain_id FROM json_each(:chains) CROSS JOIN /*schema.*/job AS job ON job.chain_id = value
    WHERE job.chain_index > 0 AND job.is_tail AND job.status IN ('dead_letter', 'cancelled')
    UNION
    SELECT job.chain_id
    FROM failed
    CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = failed.chain_id
    CROSS JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id
    WHERE NOT job_blocker.is_resolved AND job.status = 'blocked' AND job.on_blocker_failure = 'cancel'
)
SELECT json_group_array(chain_id) AS failed FROM failed;
-- part: left_queues
SELECT json_group_array(DISTINCT job.queue) AS left_queues
FROM json_each(:failed)
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = value
CROSS JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id
WHERE NOT job_blocker.is_resolved AND job.status = 'blocked' AND job.on_blocker_failure = 'cancel'
  AND job.partition_key IS NOT NULL AND (job.held = 0 OR job.limited = 1);
-- part: cancelled
UPDATE /*schema.*/job AS job
SET status = 'cancelled', finished_at = :now,
    last_attempt_error = json_object('type', 'BlockerFailed', 'message',
        'a chain that this job waited for did not complete')
WHERE status = 'blocked' AND on_blocker_failure = 'cancel' AND id IN (
    SELECT job_blocker.job_id
    FROM json_each(:failed) CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = value
    WHERE NOT job_blocker.is_resolved
);
-- part: ended
SELECT json_group_array(json_object('chain_id', chain_id, 'is_success', is_success)) AS ended
FROM (
    SELECT job.chain_id, 1 AS is_success FROM json_each(:chains) CROSS JOIN /*schema.*/job AS job ON job.id = value
    WHERE job.is_tail AND job.status = 'completed'
    UNION ALL
    SELECT job.chain_id, 1 FROM json_each(:chains) CROSS JOIN /*schema.*/job AS job ON job.chain_id = value
    WHERE job.chain_index > 0 AND job.is_tail AND job.status = 'completed'
    UNION ALL
    SELECT value, 0 FROM json_each(:failed)
);
-- part: counted
SELECT json_group_array(json_object('job_id', job_id, 'times', times)) AS counted
FROM (
    SELECT job_blocker.job_id, count(*) AS times
    FROM json_each(:ended) AS ended
    CROSS JOIN /*schema.*/job_blocker AS job_blocker
        ON job_blocker.blocked_by_chain_id = json_extract(ended.value, '$.chain_id')
    CROSS JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id
    WHERE NOT job_blocker.is_resolved
      AND (json_extract(ended.value, '$.is_success') OR job.on_blocker_failure = 'run')
    GROUP BY job_blocker.job_id
);
-- part: resolved
UPDATE /*schema.*/job_blocker AS job_blocker SET is_resolved = 1
FROM json_each(:ended) AS ended
WHERE job_blocker.blocked_by_chain_id = json_extract(ended.value, '$.chain_id') AND NOT job_blocker.is_resolved
  AND (json_extract(ended.value, '$.is_success') OR EXISTS (
      SELECT 1 FROM /*schema.*/job AS job WHERE job.id = job_blocker.job_id AND job.on_blocker_failure = 'run'
  ));
-- part: freed
UPDATE /*schema.*/job AS job
SET waiting_for = waiting_for - times,
    status = iif(status = 'blocked' AND waiting_for = times, 'pending', status),
    ready_at = iif(status = 'blocked' AND waiting_for = times, max(scheduled_at, :now), ready_at)
FROM (
    SELECT json_extract(value, '$.job_id') AS job_id, json_extract(value, '$.times') AS times FROM json_each(:counted)
) AS counted
WHERE job.id = counted.job_id;
-- part: woken
SELECT DISTINCT NULL AS unsettled, job.queue AS woken_queue
FROM json_each(:counted) CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(value, '$.job_id')
WHERE job.status = 'pending'
UNION
SELECT NULL, value FROM json_each(:left_queues);
