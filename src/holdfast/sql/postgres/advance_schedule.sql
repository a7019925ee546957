-- advance_schedule: write down how far a schedule has come, and what it enqueued last.
-- params: now timestamptz, app text, name text, next_at timestamptz, last_tick_at timestamptz, last_chain_id text
-- returns: none
-- concurrency: the row is locked by lock_schedules. It commits with the jobs of the ticks, or neither does: so each tick
--   enqueues once, whoever else tries.
-- locks: none that the transaction does not have.
UPDATE /*schema.*/schedule AS schedule
SET next_at = CAST(:next_at AS timestamptz),
    last_tick_at = coalesce(CAST(:last_tick_at AS timestamptz), last_tick_at),
    last_chain_id = coalesce(CAST(CAST(:last_chain_id AS text) AS /*id*/uuid), last_chain_id),
    last_fired_at = CASE WHEN CAST(CAST(:last_chain_id AS text) AS /*id*/uuid) IS NULL THEN last_fired_at
                         ELSE /*moment*/statement_timestamp() END
WHERE app = CAST(:app AS text) AND name = CAST(:name AS text);
