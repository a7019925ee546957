-- read_stats: the counts as they were kept last.
-- params: now timestamptz
-- returns: queue text, type_name text, state text, jobs bigint, is_capped boolean, waiting_ms bigint, age_ms bigint
-- concurrency: read only; as many rows as there are queues, types and states.
-- locks: none.
SELECT queue, type_name, state, jobs, is_capped,
       CAST(round((julianday(:now) - julianday(oldest_at)) * 86400000) AS INTEGER) AS waiting_ms,
       CAST(round((julianday(:now) - julianday(counted_at)) * 86400000) AS INTEGER) AS age_ms
FROM /*schema.*/stats AS stats
ORDER BY queue, type_name, state;
