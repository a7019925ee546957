-- write_schedules: create schedules, or give those that exist another definition.
-- params: now timestamptz, schedules json
-- returns: none
-- concurrency: those that exist are locked by lock_schedules. Of two who create the same one, the second waits for the
--   first and writes it again.
-- locks: schedule rows by app and name.
INSERT INTO /*schema.*/schedule (
    app, name, origin, definition, cron, interval_ms, timezone, catch_up, max_age_ms, overlap, jitter_ms, job, next_at,
    created_at, changed_at
)
SELECT app, name, origin, definition, cron, interval_ms, timezone, catch_up, max_age_ms, overlap, jitter_ms, job, next_at,
       /*moment*/statement_timestamp(), /*moment*/statement_timestamp()
FROM json_to_recordset(CAST(CAST(:schedules AS text) AS json)) AS sent (
    app text, name text, origin text, definition text, cron text, interval_ms bigint, timezone text, catch_up text,
    max_age_ms bigint, overlap text, jitter_ms bigint, job json, next_at timestamptz
)
ORDER BY app, name
ON CONFLICT (app, name) DO UPDATE
SET origin = excluded.origin, definition = excluded.definition, cron = excluded.cron, interval_ms = excluded.interval_ms,
    timezone = excluded.timezone, catch_up = excluded.catch_up, max_age_ms = excluded.max_age_ms,
    overlap = excluded.overlap, jitter_ms = excluded.jitter_ms, job = excluded.job, next_at = excluded.next_at,
    retired_at = NULL, changed_at = excluded.changed_at;
