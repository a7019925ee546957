-- find_due_schedules: those whose next tick has come, or comes within a while.
-- params: now timestamptz, soon_ms bigint
-- returns: app text, name text, wait_ms bigint (0 or less: due)
-- concurrency: read only; whoever fires one looks again under its lock.
-- locks: none.
SELECT app, name,
       CAST(ceil((julianday(next_at) - julianday(:now)) * 86400000 - 0.5) AS INTEGER) AS wait_ms
FROM /*schema.*/schedule AS schedule
WHERE paused_at IS NULL AND retired_at IS NULL
  AND next_at <= strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :soon_ms / 1000.0)) || '000Z'
ORDER BY next_at, app, name;
