-- lock_schedules: the schedules of an app, or one of them, to be changed, and what the time is.
-- params: now timestamptz, app text, name text
-- returns: now text, schedule json, job json (null where there is none: one row at least)
-- concurrency: whoever fires a schedule, changes it or pauses it has its row locked, and decides after that: what it saw
--   before may have changed while it waited.
-- locks: schedule rows by app and name, waited for; before any job and any key.
WITH locked AS MATERIALIZED (
    SELECT * FROM /*schema.*/schedule AS schedule
    WHERE app = CAST(:app AS text) AND (CAST(:name AS text) IS NULL OR name = CAST(:name AS text))
    ORDER BY app, name
    FOR NO KEY UPDATE
)
SELECT to_char(/*moment*/statement_timestamp() AT TIME ZONE 'UTC',
               'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS now,
       CASE WHEN schedule.app IS NOT NULL THEN json_build_object(
    'app', schedule.app, 'name', schedule.name, 'origin', schedule.origin, 'definition', schedule.definition,
    'cron', schedule.cron, 'interval_ms', schedule.interval_ms, 'timezone', schedule.timezone,
    'catch_up', schedule.catch_up, 'max_age_ms', schedule.max_age_ms, 'overlap', schedule.overlap,
    'jitter_ms', schedule.jitter_ms, 'next_at', schedule.next_at, 'last_tick_at', schedule.last_tick_at,
    'last_fired_at', schedule.last_fired_at, 'last_chain_id', schedule.last_chain_id, 'paused_at', schedule.paused_at,
    'paused_by', schedule.paused_by, 'pause_reason', schedule.pause_reason, 'retired_at', schedule.retired_at,
    'created_at', schedule.created_at, 'changed_at', schedule.changed_at, 'type_name', schedule.job ->> 'type_name',
    'queue', schedule.job ->> 'queue'
)::text END AS schedule,
       schedule.job::text AS job
FROM (SELECT true) AS always LEFT JOIN locked AS schedule ON true;
