-- enqueue_jobs: insert jobs, in the order given.
-- params: now timestamptz, jobs json, channel text
-- returns: existing json (the jobs whose id was there before: [{id, status}])
-- concurrency: inside a write transaction, ours or the caller's; an id that exists already is kept, so a retry after an
--   ambiguous commit adds nothing. channel is PostgreSQL's.
-- locks: the database's write lock.
-- part: existing
SELECT ifnull((
    SELECT json_group_array(json_object('id', job.id, 'status', job.status))
    FROM json_each(:jobs) CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(value, '$.id')
), '[]') AS existing;
-- part: created
INSERT INTO /*schema.*/job (
    id, chain_id, type_name, chain_type_name, queue, priority, input, created_at, scheduled_at, ready_at,
    max_attempts, timeout_ms, tenant, headers
)
SELECT id, id, type_name, type_name, queue, priority, input, :now, max(:now, due), max(:now, due),
       max_attempts, timeout_ms, tenant, headers
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.type_name') AS type_name,
           json_extract(value, '$.queue') AS queue, ifnull(json_extract(value, '$.priority'), 0) AS priority,
           json_extract(value, '$.input') AS input,
           CASE WHEN json_extract(value, '$.delay_ms') IS NOT NULL
                THEN strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds',
                              json_extract(value, '$.delay_ms') / 1000.0)) || '000Z'
                ELSE ifnull(json_extract(value, '$.scheduled_at'), :now) END AS due,
           json_extract(value, '$.max_attempts') AS max_attempts, json_extract(value, '$.timeout_ms') AS timeout_ms,
           json_extract(value, '$.tenant') AS tenant, json_extract(value, '$.headers') AS headers
    FROM json_each(:jobs)
)
WHERE true
ON CONFLICT (id) DO NOTHING;
