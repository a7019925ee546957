-- read_stats: the counts as they were kept last.
-- params: now timestamptz
-- returns: queue text, type_name text, state text, jobs bigint, is_capped boolean, waiting_ms bigint, age_ms bigint
-- concurrency: read only; as many rows as there are queues, types and states.
-- locks: none.
SELECT queue, type_name, state, jobs, is_capped,
       (extract(epoch FROM moment - oldest_at) * 1000)::bigint AS waiting_ms,
       (extract(epoch FROM moment - counted_at) * 1000)::bigint AS age_ms
FROM /*schema.*/stats AS stats, (SELECT /*moment*/statement_timestamp() AS moment) AS clock
ORDER BY queue, type_name, state;
