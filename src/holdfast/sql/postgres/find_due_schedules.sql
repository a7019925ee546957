-- find_due_schedules: those whose next tick has come, or comes within a while.
-- params: now timestamptz, soon_ms bigint
-- returns: app text, name text, wait_ms bigint (0 or less: due)
-- concurrency: read only; whoever fires one looks again under its lock.
-- locks: none.
SELECT app, name, ceil(extract(epoch FROM next_at - moment) * 1000)::bigint AS wait_ms
FROM /*schema.*/schedule AS schedule,
     (SELECT /*moment*/statement_timestamp() AS moment) AS clock
WHERE paused_at IS NULL AND retired_at IS NULL
  AND next_at <= /*moment*/statement_timestamp() + CAST(:soon_ms AS bigint) * interval '1 millisecond'
ORDER BY next_at, app, name;
