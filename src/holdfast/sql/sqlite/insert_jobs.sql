-- insert_jobs: insert new jobs that have none of the rarer options, in the order given.
-- params: now timestamptz, jobs json, queues json, channel text
-- returns: hints bigint
-- concurrency: inside a write transaction, ours or the caller's. The ids were made for this try: one that exists is an
--   error. queues is PostgreSQL's, channel is PostgreSQL's.
-- locks: the database's write lock.
-- part: created
INSERT INTO /*schema.*/job (
    id, chain_id, type_name, chain_type_name, queue, priority, input, created_at, scheduled_at, ready_at,
    max_attempts, timeout_ms, headers
)
SELECT id, id, type_name, type_name, queue, priority, input, :now, due, due, max_attempts, timeout_ms, headers
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.type_name') AS type_name,
           json_extract(value, '$.queue') AS queue, ifnull(json_extract(value, '$.priority'), 0) AS priority,
           json_extract(value, '$.input') AS input,
           max(:now, CASE WHEN json_extract(value, '$.delay_ms') IS NOT NULL
                     THEN strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds',
                                   json_extract(value, '$.delay_ms') / 1000.0)) || '000Z'
                     ELSE ifnull(json_extract(value, '$.scheduled_at'), :now) END) AS due,
           json_extract(value, '$.max_attempts') AS max_attempts, json_extract(value, '$.timeout_ms') AS timeout_ms,
           json_extract(value, '$.headers') AS headers
    FROM json_each(:jobs)
    LIMIT -1  -- keeps each column from being taken out of the document wherever it is named above
);
-- part: hints
SELECT 0 AS hints;
