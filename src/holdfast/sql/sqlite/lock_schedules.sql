-- lock_schedules: the schedules of an app, or one of them, to be changed, and what the time is.
-- params: now timestamptz, app text, name text
-- returns: now text, schedule json, job json (null where there is none: one row at least)
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
SELECT :now AS now, iif(schedule.app IS NULL, NULL, json_object(
    'app', schedule.app, 'name', schedule.name, 'origin', schedule.origin, 'definition', schedule.definition,
    'cron', schedule.cron, 'interval_ms', schedule.interval_ms, 'timezone', schedule.timezone,
    'catch_up', schedule.catch_up, 'max_age_ms', schedule.max_age_ms, 'overlap', schedule.overlap,
    'jitter_ms', schedule.jitter_ms, 'next_at', schedule.next_at, 'last_tick_at', schedule.last_tick_at,
    'last_fired_at', schedule.last_fired_at, 'last_chain_id', schedule.last_chain_id, 'paused_at', schedule.paused_at,
    'paused_by', schedule.paused_by, 'pause_reason', schedule.pause_reason, 'retired_at', schedule.retired_at,
    'created_at', schedule.created_at, 'changed_at', schedule.changed_at,
    'type_name', json_extract(schedule.job, '$.type_name'), 'queue', json_extract(schedule.job, '$.queue')
)) AS schedule, schedule.job AS job
FROM (SELECT 1) AS always
LEFT JOIN (
    SELECT * FROM /*schema.*/schedule AS known
    WHERE known.app = :app AND (:name IS NULL OR known.name = :name)
) AS schedule ON true
ORDER BY schedule.app, schedule.name;
