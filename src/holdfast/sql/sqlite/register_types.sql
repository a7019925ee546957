-- register_types: make the worker's job types known to SQL users, the reaper and other services.
-- params: now timestamptz, types json
-- returns: none
-- concurrency: one writer at a time.
-- locks: the database's write lock.
INSERT INTO /*schema.*/job_type AS known (name, queue, priority, max_attempts, retry, timeout_ms, expires_ms, keep, registered_at)
SELECT json_extract(value, '$.name'), json_extract(value, '$.queue'), json_extract(value, '$.priority'),
       json_extract(value, '$.max_attempts'), json_extract(value, '$.retry'), json_extract(value, '$.timeout_ms'),
       json_extract(value, '$.expires_ms'), json_extract(value, '$.keep'), :now
FROM json_each(:types)
WHERE true
ON CONFLICT (name) DO UPDATE
SET queue = excluded.queue, priority = excluded.priority, max_attempts = excluded.max_attempts,
    retry = excluded.retry, timeout_ms = excluded.timeout_ms, expires_ms = excluded.expires_ms,
    keep = excluded.keep, registered_at = excluded.registered_at
WHERE (known.queue, known.priority, known.max_attempts, known.retry, ifnull(known.timeout_ms, -1),
       ifnull(known.expires_ms, -1), ifnull(known.keep, ''))
      <> (excluded.queue, excluded.priority, excluded.max_attempts, excluded.retry, ifnull(excluded.timeout_ms, -1),
          ifnull(excluded.expires_ms, -1), ifnull(excluded.keep, ''));
