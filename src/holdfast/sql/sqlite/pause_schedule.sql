-- pause_schedule: let the ticks of a schedule pass.
-- params: now timestamptz, app text, name text, actor text, reason text
-- returns: name text (none if there is no such schedule)
-- concurrency: inside a write transaction. A schedule that is paused already keeps when that began.
-- locks: the database's write lock.
UPDATE /*schema.*/schedule AS schedule
SET paused_at = ifnull(paused_at, :now), paused_by = :actor, pause_reason = :reason
WHERE app = :app AND name = :name
RETURNING name;
