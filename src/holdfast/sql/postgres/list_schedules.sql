-- list_schedules: the schedules of an app, or of all, or one of them.
-- params: app text, name text
-- returns: schedule json
-- concurrency: read only; null means any.
-- locks: none.
SELECT json_build_object(
    'app', schedule.app, 'name', schedule.name, 'origin', schedule.origin, 'definition', schedule.definition,
    'cron', schedule.cron, 'interval_ms', schedule.interval_ms, 'timezone', schedule.timezone,
    'catch_up', schedule.catch_up, 'max_age_ms', schedule.max_age_ms, 'overlap', schedule.overlap,
    'jitter_ms', schedule.jitter_ms, 'next_at', schedule.next_at, 'last_tick_at', schedule.last_tick_at,
    'last_fired_at', schedule.last_fired_at, 'last_chain_id', schedule.last_chain_id, 'paused_at', schedule.paused_at,
    'paused_by', schedule.paused_by, 'pause_reason', schedule.pause_reason, 'retired_at', schedule.retired_at,
    'created_at', schedule.created_at, 'changed_at', schedule.changed_at, 'type_name', schedule.job ->> 'type_name',
    'queue', schedule.job ->> 'queue'
)::text AS schedule
FROM /*schema.*/schedule AS schedule
WHERE (CAST(:app AS text) IS NULL OR app = CAST(:app AS text))
  AND (CAST(:name AS text) IS NULL OR name = CAST(:name AS text))
ORDER BY app, name;
