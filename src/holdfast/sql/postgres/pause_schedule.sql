-- pause_schedule: let the ticks of a schedule pass.
-- params: now timestamptz, app text, name text, actor text, reason text
-- returns: name text (none if there is no such schedule)
-- concurrency: one that is just being fired is waited for. A schedule that is paused already keeps when that began.
-- locks: one schedule row.
UPDATE /*schema.*/schedule AS schedule
SET paused_at = coalesce(paused_at, /*moment*/statement_timestamp()),
    paused_by = CAST(:actor AS text), pause_reason = CAST(:reason AS text)
WHERE app = CAST(:app AS text) AND name = CAST(:name AS text)
RETURNING name;
