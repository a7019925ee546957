-- continue_jobs: finish jobs by the next job of their chains.
-- params: now timestamptz, worker text, jobs json
-- returns: id text, outcome text (only what was not continued: 'lost' = not yours any more; 'woken' = a queue that got
--   work; and 'unsettled' = a chain with dependants that was cancelled, to be settled in the same transaction)
-- concurrency: fenced by (id, lease_generation, running); the new job is inserted in the transaction that ends the old
--   one, and a chain has one job per place. Continuing again under the same generation is a success.
--   A continuation inherits what belongs to the chain: type, tenant, headers, trace, and its place in a partition key.
--   Where somebody has asked to cancel the chain, the next job is born cancelled, and the chain has ended.
-- locks: the database's write lock.
-- part: holding
SELECT json_group_array(json_set(sent.value, '$.seq', job.seq, '$.ending',
    iif(json_extract(job.cancel_request, '$.is_chain'), json_extract(job.cancel_request, '$.error'), NULL))) AS holding
FROM json_each(:jobs) AS sent
CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(sent.value, '$.id')
WHERE job.lease_generation = json_extract(sent.value, '$.lease_generation') AND job.status = 'running';
-- part: continued
INSERT INTO /*schema.*/job (
    id, chain_id, chain_type_name, chain_index, type_name, queue, priority, input, created_at, scheduled_at, ready_at,
    max_attempts, timeout_ms, tenant, headers, status, waiting_for, on_blocker_failure, expires_at,
    chain_trace_context, partition_key, partition_bucket, partition_seq, ordering, concurrency_key, flags,
    finished_at, last_attempt_error, is_fair
)
SELECT json_extract(next, '$.id'), chain_id, chain_type_name, chain_index + 1, json_extract(next, '$.type_name'),
       json_extract(next, '$.queue'), ifnull(json_extract(next, '$.priority'), 0), json_extract(next, '$.input'),
       :now, due, due, json_extract(next, '$.max_attempts'), json_extract(next, '$.timeout_ms'),
       ifnull(json_extract(next, '$.tenant'), tenant), ifnull(json_extract(next, '$.headers'), headers),
       CASE WHEN ending IS NOT NULL THEN 'cancelled'
            WHEN json_extract(next, '$.more.waiting_for') IS NULL THEN 'pending' ELSE 'blocked' END,
       ifnull(json_extract(next, '$.more.waiting_for'), 0), json_extract(next, '$.more.on_blocker_failure'),
       CASE WHEN json_extract(next, '$.more.expires_ms') IS NOT NULL
            THEN strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds',
                          json_extract(next, '$.more.expires_ms') / 1000.0)) || '000Z'
            ELSE json_extract(next, '$.more.expires_at') END,
       chain_trace_context,
       iif(has_own_key, json_extract(next, '$.more.partition_key'), partition_key),
       iif(has_own_key, json_extract(next, '$.more.partition_bucket'), partition_bucket),
       iif(has_own_key, NULL, partition_seq), iif(has_own_key, json_extract(next, '$.more.ordering'), ordering),
       json_extract(next, '$.more.concurrency_key'), json_extract(next, '$.more.flags'),
       iif(ending IS NULL, NULL, :now), ending,
       ifnull(json_extract(next, '$.tenant'), tenant) IS NOT NULL AND json_extract(next, '$.queue') IN (
           SELECT known.name FROM /*schema.*/queue AS known WHERE known.fair_by = 'tenant'
       )
FROM (
    SELECT job.*, json_extract(held.value, '$.next') AS next, json_extract(held.value, '$.ending') AS ending,
           max(:now, CASE WHEN json_extract(held.value, '$.next.delay_ms') IS NOT NULL
                          THEN strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds',
                                        json_extract(held.value, '$.next.delay_ms') / 1000.0)) || '000Z'
                          ELSE ifnull(json_extract(held.value, '$.next.scheduled_at'), :now) END) AS due,
           json_extract(held.value, '$.next.more.partition_key') IS NOT NULL
           AND (job.partition_key IS NULL OR json_extract(held.value, '$.next.more.has_own_key')) AS has_own_key
    FROM json_each(:holding) AS held CROSS JOIN /*schema.*/job AS job ON job.seq = json_extract(held.value, '$.seq')
);
-- part: completed
UPDATE /*schema.*/job AS job
SET status = 'completed', is_tail = 0, held = 0, finished_at = :now, completed_by = :worker,
    duration_ms = ifnull(held.duration_ms,
        CAST(round((julianday(:now) - julianday(last_attempt_at)) * 86400000) AS INTEGER)),
    last_attempt_error = NULL, leased_by = NULL, leased_until = NULL
FROM (
    SELECT json_extract(value, '$.seq') AS seq, json_extract(value, '$.duration_ms') AS duration_ms
    FROM json_each(:holding)
) AS held
WHERE job.seq = held.seq;
-- part: exceptions
SELECT json_extract(value, '$.id') AS id, 'lost' AS outcome
FROM json_each(:jobs)
WHERE NOT EXISTS (
    SELECT 1 FROM /*schema.*/job AS job
    WHERE job.id = json_extract(value, '$.id') AND job.status = 'completed' AND NOT job.is_tail
      AND job.lease_generation = json_extract(value, '$.lease_generation')
)
UNION ALL
SELECT DISTINCT json_extract(value, '$.next.queue'), 'woken' FROM json_each(:holding)
WHERE json_extract(value, '$.ending') IS NULL
UNION ALL
SELECT DISTINCT job.chain_id, 'unsettled'
FROM json_each(:holding)
CROSS JOIN /*schema.*/job AS job ON job.seq = json_extract(value, '$.seq')
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = job.chain_id
WHERE json_extract(value, '$.ending') IS NOT NULL AND NOT job_blocker.is_resolved;
