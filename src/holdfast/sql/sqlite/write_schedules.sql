-- write_schedules: create schedules, or give those that exist another definition.
-- params: now timestamptz, schedules json
-- returns: none
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
INSERT INTO /*schema.*/schedule (
    app, name, origin, definition, cron, interval_ms, timezone, catch_up, max_age_ms, overlap, jitter_ms, job, next_at,
    created_at, changed_at
)
SELECT json_extract(value, '$.app'), json_extract(value, '$.name'), json_extract(value, '$.origin'),
       json_extract(value, '$.definition'), json_extract(value, '$.cron'), json_extract(value, '$.interval_ms'),
       json_extract(value, '$.timezone'), json_extract(value, '$.catch_up'), json_extract(value, '$.max_age_ms'),
       json_extract(value, '$.overlap'), json_extract(value, '$.jitter_ms'), json_extract(value, '$.job'),
       json_extract(value, '$.next_at'), :now, :now
FROM json_each(:schedules)
WHERE true
ON CONFLICT (app, name) DO UPDATE
SET origin = excluded.origin, definition = excluded.definition, cron = excluded.cron, interval_ms = excluded.interval_ms,
    timezone = excluded.timezone, catch_up = excluded.catch_up, max_age_ms = excluded.max_age_ms,
    overlap = excluded.overlap, jitter_ms = excluded.jitter_ms, job = excluded.job, next_at = excluded.next_at,
    retired_at = NULL, changed_at = excluded.changed_at;
