-- process_once: whether a handler does something for the first time, by a key of its own.
-- params: now timestamptz, id text, lease_generation bigint, type_names json, key text, keep_ms bigint
-- returns: outcome text ('first', 'repeated'; else why the job is not the holder's: 'completed', 'completed_here',
--   'cancelled', 'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running), inside a write transaction. The key is written under every name
--   of the type, and is new if it was under none: code that knows the type by one of them only finds it there. A key
--   older than keep_ms counts as new; one that was known under another name keeps its age.
-- locks: the database's write lock.
-- part: expired
DELETE FROM /*schema.*/processed AS processed
WHERE type_name IN (SELECT value FROM json_each(:type_names)) AND key = :key
  AND processed_at < strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :keep_ms / 1000.0)) || '000Z';
-- part: known
SELECT json_object('job_id', job_id, 'processed_at', min(processed_at)) AS known
FROM /*schema.*/processed AS processed
WHERE type_name IN (SELECT value FROM json_each(:type_names)) AND key = :key;
-- part: written
INSERT INTO /*schema.*/processed (type_name, key, job_id, processed_at)
SELECT name.value, :key, ifnull(json_extract(:known, '$.job_id'), job.id),
       ifnull(json_extract(:known, '$.processed_at'), :now)
FROM /*schema.*/job AS job CROSS JOIN json_each(:type_names) AS name
WHERE job.id = :id AND lease_generation = :lease_generation AND status = 'running'
ON CONFLICT (type_name, key) DO NOTHING;
-- part: outcome
SELECT ifnull((
    SELECT CASE WHEN status = 'completed' AND completed_by IS NULL THEN 'completed'
                WHEN lease_generation <> :lease_generation THEN 'lost'
                WHEN status = 'running' THEN iif(json_extract(:known, '$.job_id') IS NULL, 'first', 'repeated')
                WHEN status = 'completed' THEN 'completed_here'
                WHEN status = 'cancelled' THEN 'cancelled'
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE id = :id
), 'deleted') AS outcome;
