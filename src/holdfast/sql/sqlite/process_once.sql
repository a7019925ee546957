-- process_once: whether a handler does something for the first time, by a key of its own.
-- params: now timestamptz, id text, lease_generation bigint, type_name text, key text, keep_ms bigint
-- returns: outcome text ('first', 'repeated'; else why the job is not the holder's: 'completed', 'cancelled', 'deleted',
--   'lost')
-- concurrency: fenced by (id, lease_generation, running), inside a write transaction. A key older than keep_ms counts as
--   new.
-- locks: the database's write lock.
-- part: expired
DELETE FROM /*schema.*/processed AS processed
WHERE type_name = :type_name AND key = :key
  AND processed_at < strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :keep_ms / 1000.0)) || '000Z';
-- part: earlier
SELECT count(*) AS earlier FROM /*schema.*/processed AS processed WHERE type_name = :type_name AND key = :key;
-- part: first
INSERT INTO /*schema.*/processed (type_name, key, job_id, processed_at)
SELECT :type_name, :key, id, :now
FROM /*schema.*/job AS job
WHERE id = :id AND lease_generation = :lease_generation AND status = 'running' AND :earlier = 0;
-- part: outcome
SELECT ifnull((
    SELECT CASE WHEN status = 'completed' AND completed_by IS NULL THEN 'completed'
                WHEN lease_generation <> :lease_generation THEN 'lost'
                WHEN status = 'running' THEN iif(:earlier = 0, 'first', 'repeated')
                WHEN status IN ('completed', 'cancelled') THEN status
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE id = :id
), 'deleted') AS outcome;
