-- register_types: make the worker's job types known to SQL users, the reaper and other services.
-- params: now timestamptz, types json
-- returns: none
-- concurrency: an upsert that writes only what differs, so that a fleet starting at once does not queue up on rows.
-- locks: job_type rows, by name.
INSERT INTO /*schema.*/job_type AS known (name, queue, priority, max_attempts, retry, timeout_ms, expires_ms, keep, registered_at)
SELECT name, queue, priority, max_attempts, retry, timeout_ms, expires_ms, keep,
       /*moment*/statement_timestamp()
FROM json_to_recordset(CAST(CAST(:types AS text) AS json)) AS sent (
    name text, queue text, priority smallint, max_attempts smallint, retry json, timeout_ms bigint,
    expires_ms bigint, keep json
)
ORDER BY name
ON CONFLICT (name) DO UPDATE
SET queue = excluded.queue, priority = excluded.priority, max_attempts = excluded.max_attempts,
    retry = excluded.retry, timeout_ms = excluded.timeout_ms, expires_ms = excluded.expires_ms,
    keep = excluded.keep, registered_at = excluded.registered_at
WHERE (known.queue, known.priority, known.max_attempts, known.retry::text, known.timeout_ms,
       known.expires_ms, known.keep::text)
      IS DISTINCT FROM
      (excluded.queue, excluded.priority, excluded.max_attempts, excluded.retry::text, excluded.timeout_ms,
       excluded.expires_ms, excluded.keep::text);
