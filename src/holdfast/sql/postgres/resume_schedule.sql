-- resume_schedule: let a schedule that was paused come again, from a tick on.
-- params: app text, name text, next_at timestamptz
-- returns: none
-- concurrency: the row is locked by lock_schedules.
-- locks: none that the transaction does not have.
UPDATE /*schema.*/schedule AS schedule
SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, next_at = CAST(:next_at AS timestamptz)
WHERE app = CAST(:app AS text) AND name = CAST(:name AS text);
