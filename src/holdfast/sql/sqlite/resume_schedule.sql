-- resume_schedule: let a schedule that was paused come again, from a tick on.
-- params: app text, name text, next_at timestamptz
-- returns: none
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
UPDATE /*schema.*/schedule AS schedule
SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, next_at = :next_at
WHERE app = :app AND name = :name;
