-- enqueue_jobs: insert jobs, in the order given.
-- params: now timestamptz, jobs json, has_given_ids boolean, channel text
-- returns: existing text (JSON array of the given ids that were there before), hints bigint
-- concurrency: inside a write transaction, ours or the caller's; an id that exists already is kept, so a retry after an
--   ambiguous commit adds nothing. channel is PostgreSQL's.
-- locks: the database's write lock.
-- part: existing
SELECT CASE WHEN :has_given_ids THEN (
           SELECT json_group_array(job.id)
           FROM json_each(:jobs) CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(value, '$.id')
       ) ELSE '[]' END AS existing, 0 AS hints;
-- part: created
-- Materialized: each of its columns is taken out of the document once, not wherever it is named below.
WITH sent AS MATERIALIZED (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.type_name') AS type_name,
           json_extract(value, '$.queue') AS queue, ifnull(json_extract(value, '$.priority'), 0) AS priority,
           json_extract(value, '$.input') AS input,
           CASE WHEN json_extract(value, '$.delay_ms') IS NOT NULL
                THEN strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds',
                              json_extract(value, '$.delay_ms') / 1000.0)) || '000Z'
                ELSE ifnull(json_extract(value, '$.scheduled_at'), :now) END AS due,
           json_extract(value, '$.max_attempts') AS max_attempts, json_extract(value, '$.timeout_ms') AS timeout_ms,
           json_extract(value, '$.tenant') AS tenant, json_extract(value, '$.headers') AS headers,
           json_extract(value, '$.more') AS more
    FROM json_each(:jobs)
)
INSERT INTO /*schema.*/job (
    id, chain_id, type_name, chain_type_name, queue, priority, input, created_at, scheduled_at, ready_at,
    max_attempts, timeout_ms, tenant, headers, status, waiting_for, on_blocker_failure, expires_at,
    deduplication_key, deduplication_scope, partition_key, partition_bucket, ordering, concurrency_key, flags,
    is_fair
)
SELECT id, id, type_name, type_name, queue, priority, input, :now, max(:now, due), max(:now, due),
       max_attempts, timeout_ms, tenant, headers,
       iif(json_extract(more, '$.waiting_for') IS NULL, 'pending', 'blocked'),
       ifnull(json_extract(more, '$.waiting_for'), 0), json_extract(more, '$.on_blocker_failure'),
       CASE WHEN json_extract(more, '$.expires_ms') IS NOT NULL
            THEN strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds',
                          json_extract(more, '$.expires_ms') / 1000.0)) || '000Z'
            ELSE json_extract(more, '$.expires_at') END,
       json_extract(more, '$.deduplication_key'), json_extract(more, '$.deduplication_scope'),
       json_extract(more, '$.partition_key'), json_extract(more, '$.partition_bucket'), json_extract(more, '$.ordering'),
       json_extract(more, '$.concurrency_key'), json_extract(more, '$.flags'),
       tenant IS NOT NULL AND queue IN (SELECT known.name FROM /*schema.*/queue AS known WHERE known.fair_by = 'tenant')
FROM sent
WHERE true
ON CONFLICT (id) DO NOTHING;
